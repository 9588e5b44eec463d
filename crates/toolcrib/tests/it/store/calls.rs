//! Tests of call records: batches, limits, and writes that never block calls.

use std::time::Instant;

use super::*;

/// Limits with a batch delay so long that only a full queue, a query or the end writes.
fn no_batch_timer() -> StoreLimits {
    StoreLimits { batch: Duration::from_secs(3600), ..StoreLimits::default() }
}

async fn tools(store: &Store) -> Vec<String> {
    let calls = store.calls(None, 1000).await.unwrap();
    calls.into_iter().map(|recorded| recorded.call.tool.to_string()).collect()
}

#[tokio::test]
async fn call_records_are_read_back_newest_first() {
    let store = Store::in_memory(no_batch_timer()).await.unwrap();
    let expected = CallRecord {
        dialog: None,
        server: None,
        ended: "timeout".into(),
        arguments: Some(r#"{"a":1}"#.into()),
        request_id: Some("r1".into()),
        ..call("second")
    };
    store.record(call("first"));
    store.record(expected.clone());
    let recorded = store.calls(None, 10).await.unwrap();
    assert_eq!((recorded[0].number, &recorded[0].call), (2, &expected));
    assert_eq!(recorded[1].call.arguments, None);
    let page = store.calls(Some(2), 10).await.unwrap();
    assert_eq!((page.len(), &*page[0].call.tool), (1, "first"));
}

#[tokio::test]
async fn batched_call_records_are_read_back_unchanged() {
    let store = Store::in_memory(no_batch_timer()).await.unwrap();
    let one = |number: usize| CallRecord {
        dialog: number.is_multiple_of(3).then(|| format!("d{}", number / 40).into()),
        server: (!number.is_multiple_of(5)).then(|| "s".into()),
        ended: if number.is_multiple_of(7) { "timeout".into() } else { "ok".into() },
        arguments: number.is_multiple_of(11).then(|| format!("[{number}]").into()),
        request_id: number.is_multiple_of(13).then(|| format!("r{number}").into()),
        duration: Duration::from_micros((number / 64) as u64),
        ..call(&(number % 33).to_string())
    };
    let expected: Vec<_> = (0..150).map(one).collect();
    expected.iter().cloned().for_each(|call| store.record(call));
    let recorded = store.calls(None, 1000).await.unwrap();
    let recorded: Vec<_> = recorded.into_iter().rev().map(|recorded| recorded.call).collect();
    assert_eq!(recorded, expected);
}

#[test]
fn debug_output_hides_arguments() {
    let call = CallRecord { arguments: Some(r#"{"key":"hunter2"}"#.into()), ..call("t") };
    assert!(!format!("{call:?}").contains("hunter2"));
}

#[tokio::test]
async fn batch_timer_writes_records() {
    let folder = folder();
    let limits = StoreLimits { batch: Duration::from_millis(20), ..StoreLimits::default() };
    let store = Store::open(folder.path(), limits).await.unwrap();
    let reader = open(folder.path()).await;
    for round in 1..=2 {
        store.record(call("t"));
        let deadline = Instant::now() + TIMEOUT;
        while tools(&reader).await.len() < round {
            assert!(Instant::now() < deadline, "not written");
            // The store writes on its own thread with its own clock.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test]
async fn half_full_queue_is_written_immediately() {
    let folder = folder();
    let store =
        Store::open(folder.path(), StoreLimits { max_queued_calls: 100, ..no_batch_timer() })
            .await
            .unwrap();
    let reader = open(folder.path()).await;
    (0..50).for_each(|_| store.record(call("t")));
    let deadline = Instant::now() + TIMEOUT;
    while tools(&reader).await.len() < 50 {
        assert!(Instant::now() < deadline, "not written");
        // The store writes on its own thread with its own clock.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(store.dropped_records(), 0);
}

#[tokio::test]
async fn call_records_are_limited_by_count_and_age() {
    let store = Store::in_memory(StoreLimits { calls: 10, ..no_batch_timer() }).await.unwrap();
    for i in 0..25 {
        store.record(call(&i.to_string()));
        if i % 7 == 0 {
            store.flush().await.unwrap();
        }
    }
    let kept: Vec<_> = (15..25).rev().map(|i| i.to_string()).collect();
    assert_eq!(tools(&store).await, kept);

    let store = Store::in_memory(no_batch_timer()).await.unwrap();
    let days = |n: u64| now() - Duration::from_secs(n * 24 * 3600);
    store.record(CallRecord { started: days(8), ..call("old") });
    store.record(CallRecord { started: days(6), ..call("young") });
    assert_eq!(tools(&store).await, ["young"]);
}

#[tokio::test]
async fn closing_the_store_writes_queued_records() {
    let folder = folder();
    let store = Store::open(folder.path(), no_batch_timer()).await.unwrap();
    (0..3).for_each(|_| store.record(call("t")));
    let store = reopen(store, folder.path()).await;
    assert_eq!(tools(&store).await.len(), 3);
}

#[tokio::test]
async fn close_returns_after_its_timeout() {
    let folder = folder();
    let store = Store::open(folder.path(), no_batch_timer()).await.unwrap();
    let other = rusqlite::Connection::open(folder.path().join("store.db")).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    store.record(call("t"));
    let begin = Instant::now();
    assert!(!store.close(Duration::from_millis(50)).await);
    assert!(begin.elapsed() < Duration::from_secs(4), "close waited for the other connection");
    other.execute_batch("ROLLBACK").unwrap();
    // The writer finishes by itself.
    let reader = open(folder.path()).await;
    let deadline = Instant::now() + TIMEOUT;
    while tools(&reader).await.is_empty() {
        assert!(Instant::now() < deadline, "not written");
        // The store writes on its own thread with its own clock.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn failed_write_is_a_problem_until_it_succeeds() {
    let folder = folder();
    let store = Store::open(folder.path(), no_batch_timer()).await.unwrap();
    let other = rusqlite::Connection::open(folder.path().join("store.db")).unwrap();
    other.execute_batch("ALTER TABLE calls RENAME TO elsewhere").unwrap();
    store.record(call("t"));
    let error = store.flush().await.unwrap_err();
    assert_eq!(error.to_string(), "cannot write call records in the store");
    assert_eq!(problem_codes(&store), ["store.write"]);
    other.execute_batch("ALTER TABLE elsewhere RENAME TO calls").unwrap();
    assert_eq!(tools(&store).await, ["t"], "no record was lost");
    assert!(problem_codes(&store).is_empty());
}
