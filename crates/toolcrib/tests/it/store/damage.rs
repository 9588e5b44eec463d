//! Tests of invalid files: damaged ones are moved aside, newer ones are refused.

use super::*;

const NOT_A_DATABASE: &[u8] =
    b"this is no database, whatever its name says; and it is long enough to look like one";

fn db(folder: &TempDir) -> std::path::PathBuf {
    folder.path().join("store.db")
}

/// Creates a file of the store with another version.
fn with_version(folder: &TempDir, version: i32) {
    let db = rusqlite::Connection::open(db(folder)).unwrap();
    db.pragma_update(None, "application_id", 0x546f_6f6c).unwrap();
    db.pragma_update(None, "user_version", version).unwrap();
}

#[tokio::test]
async fn non_database_file_is_moved_aside_and_reported() {
    let folder = folder();
    fs::write(db(&folder), NOT_A_DATABASE).unwrap();
    let store = open(folder.path()).await;
    assert_eq!(problem_codes(&store), ["store.damaged"]);
    assert_eq!(fs::read(folder.path().join("store.damaged.db")).unwrap(), NOT_A_DATABASE);
    store.set_switch("a", "s", false).await.unwrap();
    let store = reopen(store, folder.path()).await;
    assert_eq!(store.switches("a").await.unwrap().len(), 1);
    assert!(problem_codes(&store).is_empty());
}

#[tokio::test]
async fn damage_found_later_is_handled_the_same_way() {
    let folder = folder();
    let store = open(folder.path()).await;
    store.set_switch("a", "s", false).await.unwrap();
    store.close(TIMEOUT).await;
    // Keeps the first page with the table names and destroys the tables' content.
    let mut bytes = fs::read(db(&folder)).unwrap();
    assert!(bytes.len() > 2 * 4096);
    bytes[4096..].fill(0x5a);
    fs::write(db(&folder), bytes).unwrap();

    let store = open(folder.path()).await;
    assert!(problem_codes(&store).is_empty(), "the damage was not found yet");
    store.set_switch("b", "s", true).await.unwrap();
    assert_eq!(problem_codes(&store), ["store.damaged"]);
    assert_eq!(store.switches("b").await.unwrap(), [("s".to_owned(), true)]);
    assert_eq!(store.switches("a").await.unwrap(), []);
    let store = reopen(store, folder.path()).await;
    assert_eq!(store.switches("b").await.unwrap().len(), 1);
}

#[tokio::test]
async fn truncated_file_does_not_stop_the_store() {
    let folder = folder();
    let store = open(folder.path()).await;
    store.set_switch("a", "s", false).await.unwrap();
    store.close(TIMEOUT).await;
    let whole = fs::read(db(&folder)).unwrap();
    for length in [0, 1, 50, 100, 4000, 4096, 5000, whole.len() - 1] {
        fs::write(db(&folder), &whole[..length]).unwrap();
        let store = open(folder.path()).await;
        store.set_switch("b", "s", true).await.unwrap();
        store.record(call("t"));
        assert_eq!(store.calls(None, 10).await.unwrap().len(), 1, "{length}");
        store.close(TIMEOUT).await;
    }
}

#[tokio::test]
async fn database_of_another_program_is_moved_aside() {
    let folder = folder();
    let other = rusqlite::Connection::open(db(&folder)).unwrap();
    other.execute_batch("CREATE TABLE switches (x); INSERT INTO switches VALUES (1)").unwrap();
    drop(other);
    let store = open(folder.path()).await;
    assert_eq!(problem_codes(&store), ["store.damaged"]);
    let aside = rusqlite::Connection::open(folder.path().join("store.damaged.db")).unwrap();
    let kept: i64 = aside.query_row("SELECT x FROM switches", [], |row| row.get(0)).unwrap();
    assert_eq!(kept, 1);
}

#[tokio::test]
async fn newer_schema_version_is_refused_and_unchanged() {
    let folder = folder();
    with_version(&folder, 99);
    let before = fs::read(db(&folder)).unwrap();
    let error = Store::open(folder.path(), StoreLimits::default()).await.unwrap_err();
    assert_eq!(error.code(), "store.newer");
    assert!(
        error.to_string().contains("has version 99, but this program supports versions up to 5")
    );
    assert!(error.problem().fix.unwrap().contains("newer program"));
    assert!(fs::read(db(&folder)).unwrap() == before);
    assert!(!folder.path().join("store.damaged.db").exists());
}

/// A killed program leaves changes in the write-ahead log, even the version itself.
#[tokio::test]
async fn newer_store_with_a_pending_write_ahead_log_is_refused_and_unchanged() {
    let (source, folder) = (folder(), folder());
    let running = rusqlite::Connection::open(db(&source)).unwrap();
    running.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(())).unwrap();
    running.execute_batch("CREATE TABLE later (x); INSERT INTO later VALUES (7);").unwrap();
    running.pragma_update(None, "application_id", 0x546f_6f6c).unwrap();
    running.pragma_update(None, "user_version", 99).unwrap();
    let files = ["store.db", "store.db-wal"];
    for file in files {
        fs::copy(source.path().join(file), folder.path().join(file)).unwrap();
    }
    let read = || files.map(|file| fs::read(folder.path().join(file)).unwrap());
    let before = read();
    assert!(!before[1].is_empty(), "the log has pending changes");
    for _ in 0..2 {
        let error = Store::open(folder.path(), StoreLimits::default()).await.unwrap_err();
        assert_eq!(error.code(), "store.newer");
        assert!(read() == before);
    }
    drop(running);
}

#[tokio::test]
async fn older_schema_is_migrated_only_with_exclusive_access() {
    let folder = folder();
    with_version(&folder, 0);
    let lock = fs::File::create(folder.path().join("store.lock")).unwrap();
    lock.lock_shared().unwrap();
    let error = Store::open(folder.path(), StoreLimits::default()).await.unwrap_err();
    assert_eq!(error.code(), "store.older");
    drop(lock);
    let store = open(folder.path()).await;
    store.set_switch("a", "s", false).await.unwrap();
    assert!(problem_codes(&store).is_empty());
}

#[tokio::test]
async fn damaged_file_in_use_by_another_store_is_not_replaced() {
    let folder = folder();
    let store = open(folder.path()).await;
    store.set_switch("a", "s", false).await.unwrap();
    let other_store = fs::File::open(folder.path().join("store.lock")).unwrap();
    other_store.lock_shared().unwrap();
    store.close(TIMEOUT).await;
    fs::write(db(&folder), NOT_A_DATABASE).unwrap();
    let error = Store::open(folder.path(), StoreLimits::default()).await.unwrap_err();
    assert_eq!(error.code(), "store.damaged");
    assert_eq!(fs::read(db(&folder)).unwrap(), NOT_A_DATABASE);
    drop(other_store);
    assert_eq!(problem_codes(&open(folder.path()).await), ["store.damaged"]);
}
