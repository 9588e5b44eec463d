//! Tests of several stores on one file, such as a command beside a running host.

use tokio::task::JoinSet;

use super::*;

#[tokio::test]
async fn two_stores_see_each_others_writes() {
    let folder = folder();
    let (host, command) = (open(folder.path()).await, open(folder.path()).await);
    host.set_switch("a", "s", false).await.unwrap();
    assert_eq!(command.switches("a").await.unwrap(), [("s".to_owned(), false)]);
    host.record(call("t"));
    host.flush().await.unwrap();
    assert_eq!(command.calls(None, 10).await.unwrap().len(), 1);
    // A command may also write; no host needs to run.
    let off = ServerOverride { enabled: false, set_by: "owner".to_owned(), at: now() };
    command.set_override("s", off.clone()).await.unwrap();
    assert_eq!(host.overrides().await.unwrap()["s"], off);
}

#[tokio::test]
async fn concurrent_stores_lose_no_writes() {
    let folder = folder();
    let mut writers = JoinSet::new();
    for store in 0..4 {
        let folder = folder.path().to_owned();
        writers.spawn(async move {
            let store_of = open(&folder).await;
            for i in 0..25 {
                store_of.set_switch("a", &format!("{store}-{i}"), true).await.unwrap();
                store_of.record(call("t"));
            }
            assert!(store_of.close(TIMEOUT).await);
            assert!(problem_codes(&store_of).is_empty());
        });
    }
    writers.join_all().await;
    let store = open(folder.path()).await;
    assert_eq!(store.switches("a").await.unwrap().len(), 100);
    assert_eq!(store.calls(None, 1000).await.unwrap().len(), 100);
}

#[tokio::test]
async fn concurrent_callers_all_get_replies() {
    let store = Store::in_memory(StoreLimits::default()).await.unwrap();
    let mut callers = JoinSet::new();
    for i in 0..200 {
        let store = store.clone();
        callers.spawn(async move { store.set_switch("a", &i.to_string(), true).await.unwrap() });
    }
    callers.join_all().await;
    assert_eq!(store.switches("a").await.unwrap().len(), 200);
}

#[tokio::test]
async fn exclusively_locked_file_fails_after_a_timeout() {
    let folder = folder();
    let lock = fs::File::create(folder.path().join("store.lock")).unwrap();
    lock.lock().unwrap();
    let error = Store::open(folder.path(), StoreLimits::default()).await.unwrap_err();
    assert_eq!(error.code(), "store.locked");
}
