//! A future that goes on at once when something in it wakes it: a connection and the calls on it are one task, so each
//! call wakes its own task several times, and each way through the scheduler would wake another thread to take it over.

use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// It is polled this often in a row; then others have their turn.
const ROUNDS: usize = 8;

const RESTING: u8 = 0;
const POLLED: u8 = 1;
const WOKEN: u8 = 2;

pub(super) struct AtOnce<F> {
    work: Pin<Box<F>>,
    bell: Arc<Bell>,
    /// The bell, as the work is given it.
    waker: Waker,
}

/// Wakes the task, unless the work is just being polled.
#[derive(Debug)]
struct Bell {
    state: AtomicU8,
    task: Mutex<Waker>,
}

impl<F: Future> AtOnce<F> {
    pub(super) fn new(work: F) -> Self {
        let task = Mutex::new(Waker::noop().clone());
        let bell = Arc::new(Bell { state: AtomicU8::new(RESTING), task });
        AtOnce { work: Box::pin(work), waker: Arc::clone(&bell).into(), bell }
    }
}

impl<F: Future> Future for AtOnce<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let AtOnce { work, bell, waker } = &mut *self;
        bell.serve(cx.waker());
        for _ in 0..ROUNDS {
            bell.state.store(POLLED, Ordering::Release);
            let done = work.as_mut().poll(&mut Context::from_waker(waker));
            let woken = bell.state.swap(RESTING, Ordering::AcqRel) == WOKEN;
            if done.is_ready() || !woken {
                return done;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Bell {
    fn serve(&self, task: &Waker) {
        let mut known = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        known.clone_from(task);
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let begun = self.state.compare_exchange(POLLED, WOKEN, Ordering::AcqRel, Ordering::Acquire);
        if begun == Err(RESTING) {
            // A copy, so that nothing is woken under the lock.
            let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).clone();
            task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Counted(AtomicUsize);

    impl Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Polls once; says how often the task was woken by that.
    fn polled(
        at_once: &mut AtOnce<impl Future<Output = ()>>,
        woken: &Arc<Counted>,
    ) -> (bool, usize) {
        let waker = Waker::from(Arc::clone(woken));
        let done = Pin::new(at_once).poll(&mut Context::from_waker(&waker)).is_ready();
        (done, woken.0.swap(0, Ordering::SeqCst))
    }

    #[test]
    fn what_wakes_itself_goes_on_without_its_task_being_woken() {
        let mut rounds = 0;
        let work = std::future::poll_fn(move |cx| {
            rounds += 1;
            cx.waker().wake_by_ref();
            if rounds == 3 { Poll::Ready(()) } else { Poll::Pending }
        });
        assert_eq!(polled(&mut AtOnce::new(work), &Arc::default()), (true, 0));
    }

    #[test]
    fn what_always_wakes_itself_lets_others_have_their_turn() {
        let rounds = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&rounds);
        let work = std::future::poll_fn(move |cx| {
            counted.fetch_add(1, Ordering::SeqCst);
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        assert_eq!(polled(&mut AtOnce::new(work), &Arc::default()), (false, 1));
        assert_eq!(rounds.load(Ordering::SeqCst), ROUNDS);
    }

    #[test]
    fn what_is_woken_later_wakes_the_task_that_polled_last() {
        let kept = Arc::new(Mutex::new(None));
        let keeps = Arc::clone(&kept);
        let mut at_once = AtOnce::new(std::future::poll_fn(move |cx| {
            *keeps.lock().unwrap() = Some(cx.waker().clone());
            Poll::<()>::Pending
        }));
        let (first, last) = (Arc::default(), Arc::default());
        assert_eq!(polled(&mut at_once, &first), (false, 0));
        assert_eq!(polled(&mut at_once, &last), (false, 0));
        kept.lock().unwrap().take().unwrap().wake();
        assert_eq!((first.0.load(Ordering::SeqCst), last.0.load(Ordering::SeqCst)), (0, 1));
    }
}
