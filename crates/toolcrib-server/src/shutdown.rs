//! A shutdown signal: set once, visible at once, and awaitable.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

#[derive(Debug, Default)]
pub(crate) struct Shutdown {
    has_started: AtomicBool,
    notify: Notify,
}

/// Lets one task poll the signal repeatedly. The waker is registered only once, because later polls only read the flag.
pub(crate) struct ShutdownListener<'a> {
    shutdown: &'a Shutdown,
    notify: Pin<Box<Notified<'a>>>,
    is_registered: bool,
}

impl Shutdown {
    pub(crate) fn start(&self) {
        self.has_started.store(true, Ordering::SeqCst);
        self.notify.notify_waiters();
    }

    pub(crate) fn has_started(&self) -> bool {
        self.has_started.load(Ordering::Acquire)
    }

    /// Waits until shutdown has started.
    pub(crate) async fn wait_started(&self) {
        // Created before the check, so that no notification is lost.
        let notify = self.notify.notified();
        if !self.has_started() {
            notify.await;
        }
    }

    pub(crate) fn listener(&self) -> ShutdownListener<'_> {
        ShutdownListener {
            shutdown: self,
            notify: Box::pin(self.notify.notified()),
            is_registered: false,
        }
    }
}

impl ShutdownListener<'_> {
    /// Polls for the signal. Always call this from the same task.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.shutdown.has_started() {
            return Poll::Ready(());
        }
        if self.is_registered {
            return Poll::Pending;
        }
        self.is_registered = true;
        self.notify.as_mut().poll(cx)
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

    const SPURIOUS_WAKES: usize = 3;

    #[tokio::test]
    async fn shutdown_wakes_waiters_and_is_visible_later() {
        let shutdown = Arc::new(Shutdown::default());
        let (mut waiting, polls) = (JoinSet::new(), Arc::new(AtomicUsize::new(0)));
        let (early, counted) = (Arc::clone(&shutdown), Arc::clone(&polls));
        waiting.spawn(async move { early.wait_started().await });
        let early = Arc::clone(&shutdown);
        waiting.spawn(async move {
            let mut listener = early.listener();
            poll_fn(|cx| {
                // Wakes the task for another reason, too.
                if counted.fetch_add(1, Ordering::SeqCst) < SPURIOUS_WAKES {
                    cx.waker().wake_by_ref();
                }
                listener.poll(cx)
            })
            .await;
        });
        for _ in 0..10 {
            yield_now().await;
        }
        assert!(!shutdown.has_started() && waiting.try_join_next().is_none());
        shutdown.start();
        while let Some(ended) = waiting.join_next().await {
            ended.unwrap();
        }
        assert_eq!(polls.load(Ordering::SeqCst), SPURIOUS_WAKES + 2, "one additional wake");
        assert!(shutdown.has_started());
        assert!(shutdown.wait_started().now_or_never().is_some());
        let mut listener = shutdown.listener();
        assert!(poll_fn(|cx| listener.poll(cx)).now_or_never().is_some());
    }
}
