//! Leases as callers use them: real tasks, a clock that stands still, sessions that are only numbers.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until, timeout};

use super::super::{Leases, Order, Sessions, TakeError};
use super::*;

const SOON: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("it would not start")]
struct WouldNot;

/// Opens sessions after a while, counts them, and fails as often as it is told to.
#[derive(Debug, Default)]
struct Fake {
    opened: AtomicU64,
    open: Mutex<BTreeSet<u64>>,
    most: AtomicUsize,
    fail: AtomicUsize,
    start: Duration,
    stop: Duration,
}

impl Sessions for Fake {
    type Session = u64;
    type Error = WouldNot;

    async fn make(&self, _: Order) -> Result<u64, WouldNot> {
        sleep(self.start).await;
        if self.fail.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok() {
            return Err(WouldNot);
        }
        let session = self.opened.fetch_add(1, SeqCst) + 1;
        let mut open = self.open.lock().unwrap();
        open.insert(session);
        self.most.fetch_max(open.len(), SeqCst);
        Ok(session)
    }

    async fn end(&self, session: u64) {
        sleep(self.stop).await;
        assert!(self.open.lock().unwrap().remove(&session), "{session} was ended twice");
    }
}

struct Scene {
    leases: Leases<u64, WouldNot>,
    fake: Arc<Fake>,
    clerk: JoinSet<()>,
}

impl Scene {
    fn new(terms: Terms, fake: Fake) -> Self {
        let (leases, clerk) = Leases::new("s", terms);
        let fake = Arc::new(fake);
        let mut tasks = JoinSet::new();
        tasks.spawn(clerk.run(fake.clone()));
        Self { leases, fake, clerk: tasks }
    }

    async fn take(
        &self,
        dialog: &str,
    ) -> Result<super::super::Guard<u64, WouldNot>, TakeError<WouldNot>> {
        self.leases.take(&dialog.into(), ERA, sleep(SOON)).await
    }

    fn open(&self) -> Vec<u64> {
        self.fake.open.lock().unwrap().iter().copied().collect()
    }

    /// Lets the clerk do what it has to: with a clock that stands still, time passes only when all wait.
    async fn settled(&self) {
        sleep(Duration::from_millis(1)).await;
    }

    async fn closed(mut self) {
        self.leases.retire();
        timeout(SOON, self.clerk.join_next())
            .await
            .expect("the clerk comes to an end")
            .unwrap()
            .unwrap();
        assert_eq!(self.fake.open.lock().unwrap().len(), 0);
    }
}

fn slow(start: u64, stop: u64) -> Fake {
    Fake { start: Duration::from_secs(start), stop: Duration::from_secs(stop), ..Fake::default() }
}

#[tokio::test(start_paused = true)]
async fn a_dialog_keeps_its_session_from_call_to_call() {
    let scene = Scene::new(per_dialog(0), slow(1, 0));
    let (a, b) = tokio::join!(scene.take("a"), scene.take("b"));
    let (a, b) = (a.unwrap(), b.unwrap());
    assert_ne!(*a, *b);
    let first = *a;
    drop(a);
    assert_eq!(*scene.take("a").await.unwrap(), first);
    drop(b);
    let listed: Vec<_> = scene.leases.leases().iter().map(|l| l.dialog.to_string()).collect();
    assert_eq!(listed, ["a", "b"]);
    assert!(scene.leases.release(&"a".into()));
    assert!(!scene.leases.release(&"a".into()));
    scene.settled().await;
    assert_eq!(scene.open().len(), 1);
    scene.closed().await;
}

#[tokio::test(start_paused = true)]
async fn ten_first_calls_of_a_dialog_open_one_session() {
    let scene = Scene::new(per_dialog(0), slow(1, 0));
    let mut calls = JoinSet::new();
    for _ in 0..10 {
        let leases = scene.leases.clone();
        calls.spawn(async move { *leases.take(&"a".into(), ERA, sleep(SOON)).await.unwrap() });
    }
    let got: BTreeSet<_> = calls.join_all().await.into_iter().collect();
    assert_eq!((got.len(), scene.fake.opened.load(SeqCst)), (1, 1));
    scene.closed().await;
}

#[tokio::test(start_paused = true)]
async fn who_finds_nothing_free_waits_until_the_deadline_and_is_told_that_it_is_a_matter_of_resources()
 {
    let scene = Scene::new(per_dialog(1), Fake::default());
    let held = scene.take("a").await.unwrap();
    let begin = Instant::now();
    let error = scene.take("b").await.unwrap_err();
    assert_eq!((begin.elapsed().as_secs(), error.is_resource()), (SOON.as_secs(), true));
    assert_eq!(error.to_string(), "no session of server `s` became free in time");
    // It has left the queue: what becomes free is not kept for it.
    drop(held);
    scene.leases.release(&"a".into());
    assert!(scene.take("c").await.is_ok());
    scene.closed().await;
}

#[tokio::test(start_paused = true)]
async fn who_waits_gets_what_becomes_free() {
    let scene = Scene::new(per_dialog(1), slow(0, 1));
    drop(scene.take("a").await.unwrap());
    let leases = scene.leases.clone();
    let free = async {
        sleep(Duration::from_secs(2)).await;
        leases.dialog_ended(&"a".into());
    };
    let (taken, ()) = tokio::join!(scene.take("b"), free);
    assert_eq!((*taken.unwrap(), scene.fake.most.load(SeqCst)), (2, 1));
    scene.closed().await;
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_refuses_at_once() {
    let scene = Scene::new(Terms { queue: 0, ..per_dialog(1) }, Fake::default());
    let _held = scene.take("a").await.unwrap();
    let begin = Instant::now();
    let error = scene.take("b").await.unwrap_err();
    assert_eq!(error, TakeError::Full { server: "s".into() });
    assert_eq!((begin.elapsed(), error.is_resource()), (Duration::ZERO, true));
}

#[tokio::test(start_paused = true)]
async fn a_slow_start_goes_on_without_its_caller_and_serves_the_next() {
    let scene = Scene::new(per_dialog(0), slow(8, 0));
    let error = scene.take("a").await.unwrap_err();
    assert_eq!((&error, error.is_resource()), (&TakeError::Slow { server: "s".into() }, false));
    let begin = Instant::now();
    assert_eq!(*scene.take("a").await.unwrap(), 1);
    assert_eq!(begin.elapsed().as_secs(), 3, "the eight seconds had begun with the first call");
    scene.closed().await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_start_is_told_to_all_who_waited_and_tried_again_by_the_next() {
    let scene = Scene::new(per_dialog(0), Fake { fail: 1.into(), ..slow(1, 0) });
    let (one, two) = tokio::join!(scene.take("a"), scene.take("a"));
    for error in [one.unwrap_err(), two.unwrap_err()] {
        assert_eq!(error, TakeError::Failed { server: "s".into(), cause: WouldNot });
    }
    assert!(scene.take("a").await.is_ok());
    scene.closed().await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_lease_is_closed_by_the_clerk() {
    let scene = Scene::new(Terms { idle: 2 * SOON, ..per_dialog(0) }, Fake::default());
    let mut changes = scene.leases.changes();
    let guard = scene.take("a").await.unwrap();
    sleep(3 * SOON).await;
    assert_eq!(scene.open(), [1], "it is in use");
    drop(guard);
    sleep(2 * SOON - Duration::from_secs(1)).await;
    assert_eq!(scene.open(), [1]);
    changes.mark_unchanged();
    sleep(Duration::from_secs(2)).await;
    assert!(scene.open().is_empty());
    assert_eq!((scene.leases.leases(), changes.has_changed().unwrap()), (vec![], true));
    scene.closed().await;
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_dialog_stops_an_opening() {
    let scene = Scene::new(per_dialog(1), slow(4, 0));
    let leases = scene.leases.clone();
    let end = async {
        sleep(Duration::from_secs(1)).await;
        leases.dialog_ended(&"a".into());
    };
    let (taken, ()) = tokio::join!(scene.take("a"), end);
    assert_eq!(taken.unwrap_err(), TakeError::DialogEnded { server: "s".into() });
    assert!(scene.take("b").await.is_ok(), "its place is free again");
    assert_eq!(scene.fake.opened.load(SeqCst), 1);
    scene.closed().await;
}

#[tokio::test(start_paused = true)]
async fn the_catalogue_session_is_the_first_dialogs() {
    let scene = Scene::new(per_dialog(0), Fake { opened: 1.into(), ..Fake::default() });
    scene.fake.open.lock().unwrap().insert(1);
    scene.leases.offer(1, ERA);
    assert_eq!(*scene.take("a").await.unwrap(), 1);
    assert_eq!(*scene.take("b").await.unwrap(), 2);
    scene.closed().await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_session_is_cleared_away_and_replaced() {
    let scene = Scene::new(per_dialog(1), Fake::default());
    let guard = scene.take("a").await.unwrap();
    scene.leases.lost(guard.instance());
    drop(guard);
    assert_eq!(*scene.take("a").await.unwrap(), 2);
    assert_eq!(scene.open(), [2]);
    scene.closed().await;
}

#[tokio::test(start_paused = true)]
async fn without_its_clerk_nobody_waits() {
    let Scene { leases, mut clerk, .. } = Scene::new(per_dialog(0), slow(60, 0));
    let dialog: Arc<str> = "a".into();
    let (taken, ()) = tokio::join!(leases.take(&dialog, ERA, sleep(SOON)), async {
        sleep(Duration::from_secs(1)).await;
        clerk.abort_all();
    });
    assert_eq!(taken.unwrap_err(), TakeError::BrokenOff { server: "s".into() });
    clerk.join_next().await;
    let late = leases.take(&dialog, ERA, sleep(SOON)).await;
    assert_eq!(late.unwrap_err(), TakeError::Retired { server: "s".into() });
}

#[tokio::test(start_paused = true)]
async fn a_thousand_dialogs_share_thirty_two_places_and_nothing_is_left() {
    let scene = Scene::new(Terms { queue: 2000, ..per_dialog(32) }, slow(1, 1));
    let mut dialogs = JoinSet::new();
    for n in 0..1000 {
        let leases = scene.leases.clone();
        dialogs.spawn(async move {
            let dialog: Arc<str> = format!("d{n}").into();
            let far = Instant::now() + Duration::from_secs(3600);
            let mut sessions = BTreeSet::new();
            for _ in 0..5 {
                sessions.insert(*leases.take(&dialog, ERA, sleep_until(far)).await.unwrap());
            }
            leases.dialog_ended(&dialog);
            sessions
        });
    }
    let mut seen = BTreeSet::new();
    for sessions in dialogs.join_all().await {
        assert_eq!(sessions.len(), 1, "one dialog, one session");
        assert!(sessions.iter().all(|session| seen.insert(*session)), "one session, one dialog");
    }
    assert_eq!((seen.len(), scene.fake.most.load(SeqCst)), (1000, 32));
    scene.closed().await;
}
