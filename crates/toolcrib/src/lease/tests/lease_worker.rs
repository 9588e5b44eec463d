//! Tests of the lease pool and worker with real tasks, a paused clock and numbers as sessions.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until, timeout};

use super::super::{AcquireError, LeasePool, SessionOpener, SessionRequest};
use super::*;

const DEADLINE: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("cannot open")]
struct CannotOpen;

/// Opens sessions after a delay, counts them, and fails a given number of times.
#[derive(Debug, Default)]
struct FakeSessions {
    opened: AtomicU64,
    open: Mutex<BTreeSet<u64>>,
    most: AtomicUsize,
    fail: AtomicUsize,
    start: Duration,
    stop: Duration,
}

impl SessionOpener for FakeSessions {
    type Session = u64;
    type Error = CannotOpen;

    async fn open(&self, _: SessionRequest) -> Result<u64, CannotOpen> {
        sleep(self.start).await;
        if self.fail.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok() {
            return Err(CannotOpen);
        }
        let session = self.opened.fetch_add(1, SeqCst) + 1;
        let mut open = self.open.lock().unwrap();
        open.insert(session);
        self.most.fetch_max(open.len(), SeqCst);
        Ok(session)
    }

    async fn close(&self, session: u64) {
        sleep(self.stop).await;
        assert!(self.open.lock().unwrap().remove(&session), "session {session} was closed twice");
    }
}

struct TestPool {
    pool: LeasePool<u64, CannotOpen>,
    sessions: Arc<FakeSessions>,
    worker: JoinSet<()>,
}

impl TestPool {
    fn new(terms: LeasePolicy, sessions: FakeSessions) -> Self {
        let (pool, worker) = LeasePool::new("s", terms);
        let sessions = Arc::new(sessions);
        let mut tasks = JoinSet::new();
        tasks.spawn(worker.run(sessions.clone()));
        Self { pool, sessions, worker: tasks }
    }

    async fn acquire(
        &self,
        dialog: &str,
    ) -> Result<super::super::LeaseGuard<u64, CannotOpen>, AcquireError<CannotOpen>> {
        self.pool.acquire(&dialog.into(), None, ERA, sleep(DEADLINE)).await
    }

    fn open(&self) -> Vec<u64> {
        self.sessions.open.lock().unwrap().iter().copied().collect()
    }

    /// Lets the worker run: the paused clock advances only when all tasks wait.
    async fn let_worker_run(&self) {
        sleep(Duration::from_millis(1)).await;
    }

    async fn close(mut self) {
        self.pool.retire();
        timeout(DEADLINE, self.worker.join_next())
            .await
            .expect("the worker finishes")
            .unwrap()
            .unwrap();
        assert_eq!(self.sessions.open.lock().unwrap().len(), 0);
    }
}

fn slow(start: u64, stop: u64) -> FakeSessions {
    FakeSessions {
        start: Duration::from_secs(start),
        stop: Duration::from_secs(stop),
        ..FakeSessions::default()
    }
}

#[tokio::test(start_paused = true)]
async fn dialog_keeps_its_session_between_calls() {
    let test = TestPool::new(per_dialog(0), slow(1, 0));
    let (a, b) = tokio::join!(test.acquire("a"), test.acquire("b"));
    let (a, b) = (a.unwrap(), b.unwrap());
    assert_ne!(*a, *b);
    let first = *a;
    drop(a);
    assert_eq!(*test.acquire("a").await.unwrap(), first);
    drop(b);
    let listed: Vec<_> = test.pool.leases().iter().map(|l| l.dialog.to_string()).collect();
    assert_eq!(listed, ["a", "b"]);
    assert!(test.pool.release(&"a".into()));
    assert!(!test.pool.release(&"a".into()));
    test.let_worker_run().await;
    assert_eq!(test.open().len(), 1);
    test.close().await;
}

#[tokio::test(start_paused = true)]
async fn ten_concurrent_first_calls_open_one_session() {
    let test = TestPool::new(per_dialog(0), slow(1, 0));
    let mut calls = JoinSet::new();
    for _ in 0..10 {
        let pool = test.pool.clone();
        calls.spawn(async move {
            *pool.acquire(&"a".into(), None, ERA, sleep(DEADLINE)).await.unwrap()
        });
    }
    let got: BTreeSet<_> = calls.join_all().await.into_iter().collect();
    assert_eq!((got.len(), test.sessions.opened.load(SeqCst)), (1, 1));
    test.close().await;
}

#[tokio::test(start_paused = true)]
async fn acquire_times_out_with_a_resource_error() {
    let test = TestPool::new(per_dialog(1), FakeSessions::default());
    let held = test.acquire("a").await.unwrap();
    let start = Instant::now();
    let error = test.acquire("b").await.unwrap_err();
    assert_eq!(
        (start.elapsed().as_secs(), error.is_resource_exhausted()),
        (DEADLINE.as_secs(), true)
    );
    assert_eq!(error.to_string(), "no session of server `s` became free in time");
    // The caller has left the queue, so the freed session is not reserved for it.
    drop(held);
    test.pool.release(&"a".into());
    assert!(test.acquire("c").await.is_ok());
    test.close().await;
}

#[tokio::test(start_paused = true)]
async fn waiting_caller_gets_the_freed_session() {
    let test = TestPool::new(per_dialog(1), slow(0, 1));
    drop(test.acquire("a").await.unwrap());
    let pool = test.pool.clone();
    let free = async {
        sleep(Duration::from_secs(2)).await;
        pool.end_dialog(&"a".into());
    };
    let (taken, ()) = tokio::join!(test.acquire("b"), free);
    assert_eq!((*taken.unwrap(), test.sessions.most.load(SeqCst)), (2, 1));
    test.close().await;
}

#[tokio::test(start_paused = true)]
async fn full_queue_refuses_immediately() {
    let test = TestPool::new(LeasePolicy { queue: 0, ..per_dialog(1) }, FakeSessions::default());
    let _held = test.acquire("a").await.unwrap();
    let start = Instant::now();
    let error = test.acquire("b").await.unwrap_err();
    assert_eq!(error, AcquireError::QueueFull { server: "s".into() });
    assert_eq!((start.elapsed(), error.is_resource_exhausted()), (Duration::ZERO, true));
}

#[tokio::test(start_paused = true)]
async fn slow_open_continues_for_the_next_caller() {
    let test = TestPool::new(per_dialog(0), slow(8, 0));
    let error = test.acquire("a").await.unwrap_err();
    assert_eq!(
        (&error, error.is_resource_exhausted()),
        (&AcquireError::OpenTimeout { server: "s".into() }, false)
    );
    let start = Instant::now();
    assert_eq!(*test.acquire("a").await.unwrap(), 1);
    assert_eq!(start.elapsed().as_secs(), 3, "the opening started with the first call");
    test.close().await;
}

#[tokio::test(start_paused = true)]
async fn failed_open_fails_all_waiters_and_the_next_call_retries() {
    let test = TestPool::new(per_dialog(0), FakeSessions { fail: 1.into(), ..slow(1, 0) });
    let (one, two) = tokio::join!(test.acquire("a"), test.acquire("a"));
    for error in [one.unwrap_err(), two.unwrap_err()] {
        assert_eq!(error, AcquireError::Failed { server: "s".into(), cause: CannotOpen });
    }
    assert!(test.acquire("a").await.is_ok());
    test.close().await;
}

#[tokio::test(start_paused = true)]
async fn worker_closes_idle_leases() {
    let test =
        TestPool::new(LeasePolicy { idle: 2 * DEADLINE, ..per_dialog(0) }, FakeSessions::default());
    let mut changes = test.pool.changes();
    let guard = test.acquire("a").await.unwrap();
    sleep(3 * DEADLINE).await;
    assert_eq!(test.open(), [1], "a lease in use is not idle");
    drop(guard);
    sleep(2 * DEADLINE - Duration::from_secs(1)).await;
    assert_eq!(test.open(), [1]);
    changes.mark_unchanged();
    sleep(Duration::from_secs(2)).await;
    assert!(test.open().is_empty());
    assert_eq!((test.pool.leases(), changes.has_changed().unwrap()), (vec![], true));
    test.close().await;
}

#[tokio::test(start_paused = true)]
async fn ending_a_dialog_aborts_its_open() {
    let test = TestPool::new(per_dialog(1), slow(4, 0));
    let pool = test.pool.clone();
    let end = async {
        sleep(Duration::from_secs(1)).await;
        pool.end_dialog(&"a".into());
    };
    let (taken, ()) = tokio::join!(test.acquire("a"), end);
    assert_eq!(taken.unwrap_err(), AcquireError::DialogEnded { server: "s".into() });
    assert!(test.acquire("b").await.is_ok(), "the aborted opening frees its slot");
    assert_eq!(test.sessions.opened.load(SeqCst), 1);
    test.close().await;
}

#[tokio::test(start_paused = true)]
async fn lost_session_is_closed_and_replaced() {
    let test = TestPool::new(per_dialog(1), FakeSessions::default());
    let guard = test.acquire("a").await.unwrap();
    test.pool.mark_lost(guard.session_id());
    drop(guard);
    assert_eq!(*test.acquire("a").await.unwrap(), 2);
    assert_eq!(test.open(), [2]);
    test.close().await;
}

#[tokio::test(start_paused = true)]
async fn dropping_the_worker_fails_all_waiters() {
    let TestPool { pool, mut worker, .. } = TestPool::new(per_dialog(0), slow(60, 0));
    let dialog: Arc<str> = "a".into();
    let (taken, ()) = tokio::join!(pool.acquire(&dialog, None, ERA, sleep(DEADLINE)), async {
        sleep(Duration::from_secs(1)).await;
        worker.abort_all();
    });
    assert_eq!(taken.unwrap_err(), AcquireError::OpenAborted { server: "s".into() });
    worker.join_next().await;
    let late = pool.acquire(&dialog, None, ERA, sleep(DEADLINE)).await;
    assert_eq!(late.unwrap_err(), AcquireError::Retired { server: "s".into() });
}

#[tokio::test(start_paused = true)]
async fn thousand_dialogs_share_32_sessions() {
    let test = TestPool::new(LeasePolicy { queue: 2000, ..per_dialog(32) }, slow(1, 1));
    let mut dialogs = JoinSet::new();
    for n in 0..1000 {
        let pool = test.pool.clone();
        dialogs.spawn(async move {
            let dialog: Arc<str> = format!("d{n}").into();
            let far = Instant::now() + Duration::from_secs(3600);
            let mut sessions = BTreeSet::new();
            for _ in 0..5 {
                sessions.insert(*pool.acquire(&dialog, None, ERA, sleep_until(far)).await.unwrap());
            }
            pool.end_dialog(&dialog);
            sessions
        });
    }
    let mut seen = BTreeSet::new();
    for sessions in dialogs.join_all().await {
        assert_eq!(sessions.len(), 1, "one dialog, one session");
        assert!(sessions.iter().all(|session| seen.insert(*session)), "one session, one dialog");
    }
    assert_eq!((seen.len(), test.sessions.most.load(SeqCst)), (1000, 32));
    test.close().await;
}
