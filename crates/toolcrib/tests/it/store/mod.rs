//! Tests of the store on real files.

mod calls;
mod damage;
mod kill;
mod shared_file;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;
use toolcrib::internal::{CallRecord, ServerOverride, StoredCatalog, Switches};
use toolcrib::{Store, StoreLimits};
use toolcrib_wire::{Era, Framing};

/// Generous, because it only limits a failing test.
const TIMEOUT: Duration = Duration::from_secs(20);

async fn open(folder: &Path) -> Store {
    Store::open(folder, StoreLimits::default()).await.unwrap()
}

/// Closes and reopens the store, like a restart.
async fn reopen(store: Store, folder: &Path) -> Store {
    assert!(store.close(TIMEOUT).await);
    drop(store);
    open(folder).await
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn call(tool: &str) -> CallRecord {
    CallRecord {
        agent: "alice".into(),
        dialog: Some("d".into()),
        server: Some("toolcrib.yaml#s".into()),
        tool: tool.into(),
        started: now(),
        duration: Duration::from_micros(1234),
        ended: "ok".into(),
        arguments: None,
        request_id: None,
    }
}

/// The current time in milliseconds, the file's precision.
fn now() -> SystemTime {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    SystemTime::UNIX_EPOCH + Duration::from_millis(since.as_millis().try_into().unwrap())
}

fn problem_codes(store: &Store) -> Vec<String> {
    store.problems().into_iter().map(|problem| problem.code).collect()
}

#[tokio::test]
async fn switches_of_a_dialog_survive_a_restart() {
    let folder = folder();
    let store = open(folder.path()).await;
    store.set_switch("a", "f#freecad", false).await.unwrap();
    store.set_switch("a", "f#git", false).await.unwrap();
    store.set_switch("a", "f#git", true).await.unwrap();
    store.set_switch("b", "f#git", false).await.unwrap();
    // DIS-34: the part that survives a restart.
    let store = reopen(store, folder.path()).await;
    let switches: Switches = store.switches("a").await.unwrap().into_iter().collect();
    assert!(!switches.is_on("f#freecad") && switches.is_on("f#git") && switches.is_on("f#other"));

    store.forget_dialog("a").await.unwrap();
    assert_eq!(store.switches("a").await.unwrap(), []);
    assert_eq!(store.switches("b").await.unwrap(), [("f#git".to_owned(), false)]);
}

#[tokio::test]
async fn override_keeps_person_and_time_until_cleared() {
    let folder = folder();
    let store = open(folder.path()).await;
    let off = ServerOverride { enabled: false, set_by: "alice".to_owned(), at: now() };
    store.set_override("f#git", off.clone()).await.unwrap();
    let store = reopen(store, folder.path()).await;
    assert_eq!(store.overrides().await.unwrap(), [("f#git".to_owned(), off.clone())].into());
    let on = ServerOverride { enabled: true, ..off };
    store.set_override("f#git", on.clone()).await.unwrap();
    assert_eq!(store.overrides().await.unwrap(), [("f#git".to_owned(), on)].into());
    store.clear_override("f#git").await.unwrap();
    assert!(store.overrides().await.unwrap().is_empty());
}

fn stored_catalog(lists: Option<String>) -> StoredCatalog {
    StoredCatalog {
        era: Some(Era::Legacy),
        framing: Some(Framing::ContentLength),
        lists,
        at: now(),
    }
}

#[tokio::test]
async fn ext_22_catalog_survives_restart_for_the_same_definition() {
    let folder = folder();
    let store = open(folder.path()).await;
    let catalog = stored_catalog(Some(r#"{"tools":[{"name":"é","x":1.0}]}"#.to_owned()));
    store.set_catalog("f#s", "aa", catalog.clone()).await.unwrap();
    let newer = StoredCatalog { era: Some(Era::Modern), framing: None, lists: None, at: now() };
    store.set_catalog("f#s", "bb", newer.clone()).await.unwrap();
    let store = reopen(store, folder.path()).await;
    assert_eq!(store.catalog("f#s", "aa").await.unwrap(), Some(catalog));
    assert_eq!(store.catalog("f#s", "bb").await.unwrap(), Some(newer));
    assert_eq!(store.catalog("f#s", "cc").await.unwrap(), None);
    assert_eq!(store.catalog("f#t", "aa").await.unwrap(), None);
}

#[tokio::test]
async fn catalogs_are_bounded_and_the_oldest_dropped() {
    let limits = StoreLimits { catalog_bytes: 20 << 10, ..StoreLimits::default() };
    let store = Store::in_memory(limits).await.unwrap();
    let begin = now();
    for i in 0..4 {
        let catalog = StoredCatalog {
            at: begin + Duration::from_secs(i),
            ..stored_catalog(Some("x".repeat(7 << 10)))
        };
        store.set_catalog(&i.to_string(), "h", catalog).await.unwrap();
    }
    let mut remaining = Vec::new();
    for i in 0..4 {
        remaining.push(store.catalog(&i.to_string(), "h").await.unwrap().is_some());
    }
    assert_eq!(remaining, [false, false, true, true]);

    // Era and framing are kept even if the lists are too long to store.
    store.set_catalog("long", "h", stored_catalog(Some("x".repeat(21 << 10)))).await.unwrap();
    let long = store.catalog("long", "h").await.unwrap().unwrap();
    assert_eq!((long.lists, long.era), (None, Some(Era::Legacy)));
}

#[tokio::test]
async fn store_files_are_readable_only_by_the_owner() {
    let outer = folder();
    let folder = outer.path().join("state/deep");
    let store = open(&folder).await;
    store.set_switch("a", "s", true).await.unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    let files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= 3, "{files:?}");
    assert!(files.iter().all(|file| mode(file) == 0o600), "{files:?}");

    store.close(TIMEOUT).await;
    fs::set_permissions(folder.join("store.db"), fs::Permissions::from_mode(0o644)).unwrap();
    open(&folder).await;
    assert_eq!(mode(&folder.join("store.db")), 0o600, "wider permissions are corrected");
}

#[tokio::test]
async fn in_memory_store_behaves_like_a_file() {
    let store = Store::in_memory(StoreLimits::default()).await.unwrap();
    store.set_switch("a", "s", false).await.unwrap();
    store.record(call("t"));
    assert_eq!(store.switches("a").await.unwrap(), [("s".to_owned(), false)]);
    assert_eq!(store.calls(None, 10).await.unwrap().len(), 1);
    assert!(store.close(TIMEOUT).await);
    let error = store.switches("a").await.unwrap_err();
    assert_eq!(error.to_string(), "cannot read a dialog's switches: the store is closed");
    assert!(store.close(TIMEOUT).await, "closing twice succeeds");
}

#[tokio::test]
async fn open_error_names_the_folder() {
    let outer = folder();
    let file = outer.path().join("file");
    fs::write(&file, "").unwrap();
    let error = Store::open(&file.join("state"), StoreLimits::default()).await.unwrap_err();
    assert_eq!(error.code(), "store.folder");
    assert!(error.problem().text.contains("file/state"), "{error}");
}
