//! Files that are not what they should be: moved aside where they are broken, refused where they are newer.

use super::*;

const GARBAGE: &[u8] =
    b"this is no database, whatever its name says; and it is long enough to look like one";

fn db(folder: &TempDir) -> std::path::PathBuf {
    folder.path().join("store.db")
}

/// Our file, as a version of some other time would leave it.
fn with_version(folder: &TempDir, version: i32) {
    let db = rusqlite::Connection::open(db(folder)).unwrap();
    db.pragma_update(None, "application_id", 0x546f_6f6c).unwrap();
    db.pragma_update(None, "user_version", version).unwrap();
}

#[tokio::test]
async fn a_file_that_is_no_database_is_moved_aside_and_told() {
    let folder = folder();
    fs::write(db(&folder), GARBAGE).unwrap();
    let store = open(folder.path()).await;
    assert_eq!(codes(&store), ["store.damaged"]);
    assert_eq!(fs::read(folder.path().join("store.damaged.db")).unwrap(), GARBAGE);
    store.set_switch("a", "s", false).await.unwrap();
    let store = reopened(store, folder.path()).await;
    assert_eq!(store.switches("a").await.unwrap().len(), 1);
    assert!(codes(&store).is_empty());
}

#[tokio::test]
async fn damage_that_shows_later_is_met_in_the_same_way() {
    let folder = folder();
    let store = open(folder.path()).await;
    store.set_switch("a", "s", false).await.unwrap();
    store.close(LIMIT).await;
    // The first page with the tables' names stays; what is in the tables does not.
    let mut bytes = fs::read(db(&folder)).unwrap();
    assert!(bytes.len() > 2 * 4096);
    bytes[4096..].fill(0x5a);
    fs::write(db(&folder), bytes).unwrap();

    let store = open(folder.path()).await;
    assert!(codes(&store).is_empty(), "nobody has looked yet");
    store.set_switch("b", "s", true).await.unwrap();
    assert_eq!(codes(&store), ["store.damaged"]);
    assert_eq!(store.switches("b").await.unwrap(), [("s".to_owned(), true)]);
    assert_eq!(store.switches("a").await.unwrap(), []);
    let store = reopened(store, folder.path()).await;
    assert_eq!(store.switches("b").await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_file_cut_short_does_not_stop_the_host() {
    let folder = folder();
    let store = open(folder.path()).await;
    store.set_switch("a", "s", false).await.unwrap();
    store.close(LIMIT).await;
    let whole = fs::read(db(&folder)).unwrap();
    for length in [0, 1, 50, 100, 4000, 4096, 5000, whole.len() - 1] {
        fs::write(db(&folder), &whole[..length]).unwrap();
        let store = open(folder.path()).await;
        store.set_switch("b", "s", true).await.unwrap();
        store.record(call("t"));
        assert_eq!(store.calls(None, 10).await.unwrap().len(), 1, "{length}");
        store.close(LIMIT).await;
    }
}

#[tokio::test]
async fn a_database_of_another_program_is_not_written_into() {
    let folder = folder();
    let other = rusqlite::Connection::open(db(&folder)).unwrap();
    other.execute_batch("CREATE TABLE switches (x); INSERT INTO switches VALUES (1)").unwrap();
    drop(other);
    let store = open(folder.path()).await;
    assert_eq!(codes(&store), ["store.damaged"]);
    let aside = rusqlite::Connection::open(folder.path().join("store.damaged.db")).unwrap();
    let kept: i64 = aside.query_row("SELECT x FROM switches", [], |row| row.get(0)).unwrap();
    assert_eq!(kept, 1);
}

#[tokio::test]
async fn a_newer_file_is_refused_and_left_alone() {
    let folder = folder();
    with_version(&folder, 99);
    let before = fs::read(db(&folder)).unwrap();
    let error = Store::open(folder.path(), Limits::default()).await.unwrap_err();
    assert_eq!(error.code(), "store.newer");
    assert!(error.to_string().contains("has version 99, and this program knows versions up to 5"));
    assert!(error.problem().fix.unwrap().contains("newer program"));
    assert!(fs::read(db(&folder)).unwrap() == before);
    assert!(!folder.path().join("store.damaged.db").exists());
}

#[tokio::test]
async fn an_older_file_is_brought_up_to_date_but_not_under_anybodys_hands() {
    let folder = folder();
    with_version(&folder, 0);
    let lock = fs::File::create(folder.path().join("store.lock")).unwrap();
    lock.lock_shared().unwrap();
    let error = Store::open(folder.path(), Limits::default()).await.unwrap_err();
    assert_eq!(error.code(), "store.older");
    drop(lock);
    let store = open(folder.path()).await;
    store.set_switch("a", "s", false).await.unwrap();
    assert!(codes(&store).is_empty());
}

#[tokio::test]
async fn a_damaged_file_that_another_store_uses_is_left_to_it() {
    let folder = folder();
    let store = open(folder.path()).await;
    store.set_switch("a", "s", false).await.unwrap();
    let neighbour = fs::File::open(folder.path().join("store.lock")).unwrap();
    neighbour.lock_shared().unwrap();
    store.close(LIMIT).await;
    fs::write(db(&folder), GARBAGE).unwrap();
    let error = Store::open(folder.path(), Limits::default()).await.unwrap_err();
    assert_eq!(error.code(), "store.damaged");
    assert_eq!(fs::read(db(&folder)).unwrap(), GARBAGE);
    drop(neighbour);
    assert_eq!(codes(&open(folder.path()).await), ["store.damaged"]);
}
