//! What the store keeps: on real files, beside other stores, after damage and after a kill.

mod calls;
mod damage;
mod kill;
mod neighbours;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;
use toolcrib::access::Switches;
use toolcrib::store::{CallRecord, Limits, Override, Remembered, Store};
use toolcrib_wire::{Era, Framing};

/// Generous, because it only bounds a failure.
const LIMIT: Duration = Duration::from_secs(20);

async fn open(folder: &Path) -> Store {
    Store::open(folder, Limits::default()).await.unwrap()
}

/// Closes it and opens it again, as a restart does.
async fn reopened(store: Store, folder: &Path) -> Store {
    assert!(store.close(LIMIT).await);
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

/// To the millisecond, as the file has it.
fn now() -> SystemTime {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    SystemTime::UNIX_EPOCH + Duration::from_millis(since.as_millis().try_into().unwrap())
}

fn codes(store: &Store) -> Vec<String> {
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
    // DIS-34: also the part that a restart leaves.
    let store = reopened(store, folder.path()).await;
    let switches: Switches = store.switches("a").await.unwrap().into_iter().collect();
    assert!(!switches.is_on("f#freecad") && switches.is_on("f#git") && switches.is_on("f#other"));

    store.forget_dialog("a").await.unwrap();
    assert_eq!(store.switches("a").await.unwrap(), []);
    assert_eq!(store.switches("b").await.unwrap(), [("f#git".to_owned(), false)]);
}

#[tokio::test]
async fn an_override_names_who_and_when_until_it_is_cleared() {
    let folder = folder();
    let store = open(folder.path()).await;
    let off = Override { enabled: false, who: "alice".to_owned(), at: now() };
    store.set_override("f#git", off.clone()).await.unwrap();
    let store = reopened(store, folder.path()).await;
    assert_eq!(store.overrides().await.unwrap(), [("f#git".to_owned(), off.clone())].into());
    let on = Override { enabled: true, ..off };
    store.set_override("f#git", on.clone()).await.unwrap();
    assert_eq!(store.overrides().await.unwrap(), [("f#git".to_owned(), on)].into());
    store.clear_override("f#git").await.unwrap();
    assert!(store.overrides().await.unwrap().is_empty());
}

fn remembered(lists: Option<String>) -> Remembered {
    Remembered { era: Some(Era::Legacy), framing: Some(Framing::ContentLength), lists, at: now() }
}

#[tokio::test]
async fn ext_22_a_catalogue_is_there_after_a_restart_for_the_same_definition_only() {
    let folder = folder();
    let store = open(folder.path()).await;
    let what = remembered(Some(r#"{"tools":[{"name":"é","x":1.0}]}"#.to_owned()));
    store.set_catalog("f#s", "aa", what.clone()).await.unwrap();
    let newer = Remembered { era: Some(Era::Modern), framing: None, lists: None, at: now() };
    store.set_catalog("f#s", "bb", newer.clone()).await.unwrap();
    let store = reopened(store, folder.path()).await;
    assert_eq!(store.catalog("f#s", "aa").await.unwrap(), Some(what));
    assert_eq!(store.catalog("f#s", "bb").await.unwrap(), Some(newer));
    assert_eq!(store.catalog("f#s", "cc").await.unwrap(), None);
    assert_eq!(store.catalog("f#t", "aa").await.unwrap(), None);
}

#[tokio::test]
async fn catalogues_are_bounded_and_the_oldest_go_first() {
    let limits = Limits { catalog_bytes: 20 << 10, ..Limits::default() };
    let store = Store::in_memory(limits).await.unwrap();
    let begin = now();
    for i in 0..4 {
        let what = Remembered {
            at: begin + Duration::from_secs(i),
            ..remembered(Some("x".repeat(7 << 10)))
        };
        store.set_catalog(&i.to_string(), "h", what).await.unwrap();
    }
    let mut left = Vec::new();
    for i in 0..4 {
        left.push(store.catalog(&i.to_string(), "h").await.unwrap().is_some());
    }
    assert_eq!(left, [false, false, true, true]);

    // How to speak to a server is known even where its lists are too long to keep.
    store.set_catalog("long", "h", remembered(Some("x".repeat(21 << 10)))).await.unwrap();
    let long = store.catalog("long", "h").await.unwrap().unwrap();
    assert_eq!((long.lists, long.era), (None, Some(Era::Legacy)));
}

#[tokio::test]
async fn nobody_else_can_read_it() {
    let outer = folder();
    let folder = outer.path().join("state/deep");
    let store = open(&folder).await;
    store.set_switch("a", "s", true).await.unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    let files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= 3, "{files:?}");
    assert!(files.iter().all(|file| mode(file) == 0o600), "{files:?}");

    store.close(LIMIT).await;
    fs::set_permissions(folder.join("store.db"), fs::Permissions::from_mode(0o644)).unwrap();
    open(&folder).await;
    assert_eq!(mode(&folder.join("store.db")), 0o600, "also one that somebody has opened up");
}

#[tokio::test]
async fn a_store_in_memory_does_the_same_and_leaves_nothing() {
    let store = Store::in_memory(Limits::default()).await.unwrap();
    store.set_switch("a", "s", false).await.unwrap();
    store.record(call("t"));
    assert_eq!(store.switches("a").await.unwrap(), [("s".to_owned(), false)]);
    assert_eq!(store.calls(None, 10).await.unwrap().len(), 1);
    assert!(store.close(LIMIT).await);
    let error = store.switches("a").await.unwrap_err();
    assert_eq!(error.to_string(), "cannot read a dialog's switches: the store is closed");
    assert!(store.close(LIMIT).await, "closing twice is closing");
}

#[tokio::test]
async fn a_folder_that_cannot_be_is_named() {
    let outer = folder();
    let file = outer.path().join("file");
    fs::write(&file, "").unwrap();
    let error = Store::open(&file.join("state"), Limits::default()).await.unwrap_err();
    assert_eq!(error.code(), "store.folder");
    assert!(error.problem().text.contains("file/state"), "{error}");
}
