//! That something comes to its end: said once, seen at once, and heard by whoever waits for it.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

#[derive(Debug, Default)]
pub(crate) struct Closing {
    has_begun: AtomicBool,
    told: Notify,
}

/// One task that waits for it again and again, between other things. It is noted once: when the task is woken, for
/// whatever reason, it has only to look.
pub(crate) struct Listening<'a> {
    closing: &'a Closing,
    told: Pin<Box<Notified<'a>>>,
    is_noted: bool,
}

impl Closing {
    pub(crate) fn begin(&self) {
        self.has_begun.store(true, Ordering::SeqCst);
        self.told.notify_waiters();
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Acquire)
    }

    /// Waits until it begins.
    pub(crate) async fn begins(&self) {
        // Made before it is looked: what is told from here on is heard.
        let told = self.told.notified();
        if !self.has_begun() {
            told.await;
        }
    }

    pub(crate) fn listening(&self) -> Listening<'_> {
        Listening { closing: self, told: Box::pin(self.told.notified()), is_noted: false }
    }
}

impl Listening<'_> {
    /// Only ever by the same task.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.closing.has_begun() {
            return Poll::Ready(());
        }
        if self.is_noted {
            return Poll::Pending;
        }
        self.is_noted = true;
        self.told.as_mut().poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    use futures_util::FutureExt;
    use tokio::task::{JoinSet, yield_now};

    use super::*;

    const OTHERWISE: usize = 3;

    #[tokio::test]
    async fn whoever_waits_hears_of_it_and_whoever_comes_later_sees_it() {
        let closing = Arc::new(Closing::default());
        let (mut waiting, polls) = (JoinSet::new(), Arc::new(AtomicUsize::new(0)));
        let (early, counted) = (Arc::clone(&closing), Arc::clone(&polls));
        waiting.spawn(async move { early.begins().await });
        let early = Arc::clone(&closing);
        waiting.spawn(async move {
            let mut listening = early.listening();
            poll_fn(|cx| {
                // Woken by something else, too.
                if counted.fetch_add(1, Ordering::SeqCst) < OTHERWISE {
                    cx.waker().wake_by_ref();
                }
                listening.poll(cx)
            })
            .await;
        });
        for _ in 0..10 {
            yield_now().await;
        }
        assert!(!closing.has_begun() && waiting.try_join_next().is_none());
        closing.begin();
        while let Some(ended) = waiting.join_next().await {
            ended.unwrap();
        }
        assert_eq!(polls.load(Ordering::SeqCst), OTHERWISE + 2, "it was woken once for this");
        assert!(closing.has_begun());
        assert!(closing.begins().now_or_never().is_some());
        let mut listening = closing.listening();
        assert!(poll_fn(|cx| listening.poll(cx)).now_or_never().is_some());
    }
}
