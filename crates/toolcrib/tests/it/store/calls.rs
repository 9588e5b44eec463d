//! Records of calls: written in batches, kept within limits, never in anybody's way.

use std::time::Instant;

use super::*;

/// Only a full ring, a question or the end make it write.
fn lazy() -> Limits {
    Limits { batch: Duration::from_secs(3600), ..Limits::default() }
}

async fn tools(store: &Store) -> Vec<String> {
    let calls = store.calls(None, 1000).await.unwrap();
    calls.into_iter().map(|recorded| recorded.call.tool.to_string()).collect()
}

#[tokio::test]
async fn a_record_comes_back_whole_and_the_newest_first() {
    let store = Store::in_memory(lazy()).await.unwrap();
    let asked = CallRecord {
        dialog: None,
        server: None,
        ended: "timeout".into(),
        arguments: Some(r#"{"a":1}"#.into()),
        request_id: Some("r1".into()),
        ..call("second")
    };
    store.record(call("first"));
    store.record(asked.clone());
    let recorded = store.calls(None, 10).await.unwrap();
    assert_eq!((recorded[0].number, &recorded[0].call), (2, &asked));
    assert_eq!(recorded[1].call.arguments, None);
    let page = store.calls(Some(2), 10).await.unwrap();
    assert_eq!((page.len(), &*page[0].call.tool), (1, "first"));
}

#[tokio::test]
async fn each_of_many_comes_back_as_it_was_whatever_was_written_before_it() {
    let store = Store::in_memory(lazy()).await.unwrap();
    let one = |number: usize| CallRecord {
        dialog: number.is_multiple_of(3).then(|| format!("d{}", number / 40).into()),
        server: (!number.is_multiple_of(5)).then(|| "s".into()),
        ended: if number.is_multiple_of(7) { "timeout".into() } else { "ok".into() },
        arguments: number.is_multiple_of(11).then(|| format!("[{number}]").into()),
        request_id: number.is_multiple_of(13).then(|| format!("r{number}").into()),
        duration: Duration::from_micros((number / 64) as u64),
        ..call(&(number % 33).to_string())
    };
    let asked: Vec<_> = (0..150).map(one).collect();
    asked.iter().cloned().for_each(|call| store.record(call));
    let recorded = store.calls(None, 1000).await.unwrap();
    let recorded: Vec<_> = recorded.into_iter().rev().map(|recorded| recorded.call).collect();
    assert_eq!(recorded, asked);
}

#[test]
fn arguments_do_not_show_in_logs() {
    let call = CallRecord { arguments: Some(r#"{"key":"hunter2"}"#.into()), ..call("t") };
    assert!(!format!("{call:?}").contains("hunter2"));
}

#[tokio::test]
async fn records_are_written_by_themselves_after_a_while() {
    let folder = folder();
    let limits = Limits { batch: Duration::from_millis(20), ..Limits::default() };
    let store = Store::open(folder.path(), limits).await.unwrap();
    let reader = open(folder.path()).await;
    for round in 1..=2 {
        store.record(call("t"));
        let deadline = Instant::now() + LIMIT;
        while tools(&reader).await.len() < round {
            assert!(Instant::now() < deadline, "not written");
            // The store writes on a thread and a clock of its own.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test]
async fn half_a_ring_is_written_at_once() {
    let folder = folder();
    let store = Store::open(folder.path(), Limits { ring: 100, ..lazy() }).await.unwrap();
    let reader = open(folder.path()).await;
    (0..50).for_each(|_| store.record(call("t")));
    let deadline = Instant::now() + LIMIT;
    while tools(&reader).await.len() < 50 {
        assert!(Instant::now() < deadline, "not written");
        // The store writes on a thread and a clock of its own.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(store.dropped_records(), 0);
}

#[tokio::test]
async fn only_so_many_are_kept_and_only_so_long() {
    let store = Store::in_memory(Limits { calls: 10, ..lazy() }).await.unwrap();
    for i in 0..25 {
        store.record(call(&i.to_string()));
        if i % 7 == 0 {
            store.flush().await.unwrap();
        }
    }
    let kept: Vec<_> = (15..25).rev().map(|i| i.to_string()).collect();
    assert_eq!(tools(&store).await, kept);

    let store = Store::in_memory(lazy()).await.unwrap();
    let days = |n: u64| now() - Duration::from_secs(n * 24 * 3600);
    store.record(CallRecord { started: days(8), ..call("old") });
    store.record(CallRecord { started: days(6), ..call("young") });
    assert_eq!(tools(&store).await, ["young"]);
}

#[tokio::test]
async fn what_waits_is_written_when_the_store_closes() {
    let folder = folder();
    let store = Store::open(folder.path(), lazy()).await.unwrap();
    (0..3).for_each(|_| store.record(call("t")));
    let store = reopened(store, folder.path()).await;
    assert_eq!(tools(&store).await.len(), 3);
}

#[tokio::test]
async fn closing_waits_no_longer_than_it_is_told_to() {
    let folder = folder();
    let store = Store::open(folder.path(), lazy()).await.unwrap();
    let other = rusqlite::Connection::open(folder.path().join("store.db")).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    store.record(call("t"));
    let begin = Instant::now();
    assert!(!store.close(Duration::from_millis(50)).await);
    assert!(begin.elapsed() < Duration::from_secs(4), "it waited for the other");
    other.execute_batch("ROLLBACK").unwrap();
    // It goes on by itself.
    let reader = open(folder.path()).await;
    let deadline = Instant::now() + LIMIT;
    while tools(&reader).await.is_empty() {
        assert!(Instant::now() < deadline, "not written");
        // The store writes on a thread and a clock of its own.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn what_cannot_be_written_is_a_problem_until_it_can() {
    let folder = folder();
    let store = Store::open(folder.path(), lazy()).await.unwrap();
    let other = rusqlite::Connection::open(folder.path().join("store.db")).unwrap();
    other.execute_batch("ALTER TABLE calls RENAME TO elsewhere").unwrap();
    store.record(call("t"));
    let error = store.flush().await.unwrap_err();
    assert_eq!(error.to_string(), "cannot write records of calls in the store");
    assert_eq!(codes(&store), ["store.write"]);
    other.execute_batch("ALTER TABLE elsewhere RENAME TO calls").unwrap();
    assert_eq!(tools(&store).await, ["t"], "nothing was lost");
    assert!(codes(&store).is_empty());
}
