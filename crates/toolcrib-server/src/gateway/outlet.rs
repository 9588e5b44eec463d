//! What a request is answered on: where messages go that come before its answer. Hardly any answer has some, so a queue
//! is made when the first comes.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;
use tokio::sync::mpsc::{self, Receiver, Sender};
use toolcrib_upstream::conn::peer::CallOff;
use toolcrib_wire::Raw;

use super::QUEUE;

/// A request that is being answered, as far as it is not in the request itself.
#[derive(Clone, Debug)]
pub(super) struct Course {
    /// Where what comes before the answer goes.
    pub(super) out: Outlet,
    /// What the client says if it calls it off.
    pub(super) call_off: CallOff,
}

/// One end, for whoever has something to say. Clones say it in the same place.
#[derive(Clone, Debug)]
pub(super) enum Outlet {
    Queue(Sender<Raw>),
    Later(Arc<Later>),
}

/// The other end.
#[derive(Debug)]
pub(super) enum Heard {
    Queue(Receiver<Raw>),
    Later(Arc<Later>),
}

/// Whoever should have heard it has gone.
#[derive(Debug)]
pub(super) struct Gone;

/// A queue that there may be.
#[derive(Debug, Default)]
pub(super) struct Later {
    sender: OnceLock<Sender<Raw>>,
    /// Until it is taken.
    receiver: Mutex<Option<Receiver<Raw>>>,
    made: AtomicWaker,
}

/// Both ends of what may never be used.
pub(super) fn outlet() -> (Outlet, Heard) {
    let later = Arc::new(Later::default());
    (Outlet::Later(Arc::clone(&later)), Heard::Later(later))
}

impl Outlet {
    /// Waits until there is room for it.
    pub(super) async fn send(&self, message: Raw) -> Result<(), Gone> {
        self.sender().send(message).await.map_err(|_| Gone)
    }

    /// Says it if there is room for it now.
    pub(super) fn offer(&self, message: Raw) {
        // Who has gone, or reads nothing, need not hear it.
        let _ = self.sender().try_send(message);
    }

    fn sender(&self) -> &Sender<Raw> {
        match self {
            Outlet::Queue(sender) => sender,
            Outlet::Later(later) => later.sender(),
        }
    }
}

impl From<Sender<Raw>> for Outlet {
    fn from(sender: Sender<Raw>) -> Self {
        Outlet::Queue(sender)
    }
}

impl Heard {
    /// The next message; none where there can be no more.
    pub(super) async fn next(&mut self) -> Option<Raw> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// The next one, if it has come.
    pub(super) fn try_next(&mut self) -> Option<Raw> {
        self.queue()?.try_recv().ok()
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Raw>> {
        if let Heard::Later(later) = self {
            // Before it is looked for: whoever makes it afterwards wakes us.
            later.made.register(cx.waker());
        }
        match self.queue() {
            Some(queue) => queue.poll_recv(cx),
            None => Poll::Pending,
        }
    }

    /// The queue, if there is one by now.
    fn queue(&mut self) -> Option<&mut Receiver<Raw>> {
        if let Heard::Later(later) = self {
            *self = Heard::Queue(later.receiver()?);
        }
        match self {
            Heard::Queue(queue) => Some(queue),
            Heard::Later(_) => None,
        }
    }
}

impl From<Receiver<Raw>> for Heard {
    fn from(queue: Receiver<Raw>) -> Self {
        Heard::Queue(queue)
    }
}

impl Later {
    fn sender(&self) -> &Sender<Raw> {
        self.sender.get_or_init(|| {
            let (sender, receiver) = mpsc::channel(QUEUE);
            *self.receiver.lock().unwrap_or_else(PoisonError::into_inner) = Some(receiver);
            self.made.wake();
            sender
        })
    }

    fn receiver(&self) -> Option<Receiver<Raw>> {
        self.receiver.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::task::JoinSet;

    use super::*;

    #[tokio::test]
    async fn what_is_said_is_heard_in_order_though_nobody_expected_it() {
        let (outlet, mut heard) = outlet();
        assert!(heard.next().now_or_never().is_none() && heard.try_next().is_none());
        for word in ["one", "two", "three"] {
            outlet.send(Raw::string(word)).await.unwrap();
        }
        let words = [heard.next().await, heard.try_next(), heard.next().await];
        assert_eq!(words, ["one", "two", "three"].map(|word| Some(Raw::string(word))));
        assert!(heard.next().now_or_never().is_none() && heard.try_next().is_none());
    }

    #[tokio::test]
    async fn who_waits_already_is_woken_by_the_first_word() {
        let (outlet, mut heard) = outlet();
        let mut waiting = JoinSet::new();
        waiting.spawn(async move { heard.next().await });
        tokio::task::yield_now().await;
        outlet.send(Raw::string("word")).await.unwrap();
        assert_eq!(waiting.join_next().await.unwrap().unwrap(), Some(Raw::string("word")));
    }

    #[tokio::test]
    async fn whoever_has_gone_hears_nothing() {
        let (outlet, mut heard) = outlet();
        outlet.send(Raw::string("one")).await.unwrap();
        assert!(heard.next().await.is_some());
        drop(heard);
        assert!(outlet.send(Raw::string("two")).await.is_err());
    }
}
