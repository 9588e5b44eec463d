//! Channel for messages that precede a response. The queue is created with the first message, because most responses
//! have none.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;
use tokio::sync::mpsc::{self, Receiver, Sender};
use toolcrib_upstream::conn::peer::Cancellation;
use toolcrib_wire::RawJson;

use super::QUEUE_CAPACITY;

/// Message channel and cancellation of one running request.
#[derive(Clone, Debug)]
pub(super) struct ResponseHandle {
    /// Takes messages that precede the response.
    pub(super) out: ResponseSender,
    /// Cancellation by the client.
    pub(super) cancellation: Cancellation,
}

/// Sending end of the channel. Clones send to the same receiver.
#[derive(Clone, Debug)]
pub(super) enum ResponseSender {
    Queue(Sender<RawJson>),
    Lazy(Arc<LazyQueue>),
}

/// Receiving end of the channel.
#[derive(Debug)]
pub(super) enum ResponseReceiver {
    Queue(Receiver<RawJson>),
    Lazy(Arc<LazyQueue>),
}

/// Error: the receiver was dropped.
#[derive(Debug)]
pub(super) struct ReceiverGone;

/// A queue that is created on first use.
#[derive(Debug, Default)]
pub(super) struct LazyQueue {
    sender: OnceLock<Sender<RawJson>>,
    /// `None` after the receiver has taken it.
    receiver: Mutex<Option<Receiver<RawJson>>>,
    created: AtomicWaker,
}

/// Creates a channel with a lazy queue.
pub(super) fn response_channel() -> (ResponseSender, ResponseReceiver) {
    let lazy = Arc::new(LazyQueue::default());
    (ResponseSender::Lazy(Arc::clone(&lazy)), ResponseReceiver::Lazy(lazy))
}

impl ResponseSender {
    /// Sends a message, waiting for capacity.
    pub(super) async fn send(&self, message: RawJson) -> Result<(), ReceiverGone> {
        self.sender().send(message).await.map_err(|_| ReceiverGone)
    }

    /// Sends a message if the queue has capacity.
    pub(super) fn try_send(&self, message: RawJson) {
        // A slow or disconnected client may miss this message.
        let _ = self.sender().try_send(message);
    }

    fn sender(&self) -> &Sender<RawJson> {
        match self {
            ResponseSender::Queue(sender) => sender,
            ResponseSender::Lazy(lazy) => lazy.sender(),
        }
    }
}

impl From<Sender<RawJson>> for ResponseSender {
    fn from(sender: Sender<RawJson>) -> Self {
        ResponseSender::Queue(sender)
    }
}

impl ResponseReceiver {
    /// The next message; `None` when the channel is closed.
    pub(super) async fn next(&mut self) -> Option<RawJson> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// The next message, if one is queued.
    pub(super) fn try_next(&mut self) -> Option<RawJson> {
        self.queue()?.try_recv().ok()
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<RawJson>> {
        if let ResponseReceiver::Lazy(lazy) = self {
            // Registers the waker before the check, so that a queue created afterwards wakes this task.
            lazy.created.register(cx.waker());
        }
        match self.queue() {
            Some(queue) => queue.poll_recv(cx),
            None => Poll::Pending,
        }
    }

    /// The queue, if it exists.
    fn queue(&mut self) -> Option<&mut Receiver<RawJson>> {
        if let ResponseReceiver::Lazy(lazy) = self {
            *self = ResponseReceiver::Queue(lazy.receiver()?);
        }
        match self {
            ResponseReceiver::Queue(queue) => Some(queue),
            ResponseReceiver::Lazy(_) => None,
        }
    }
}

impl From<Receiver<RawJson>> for ResponseReceiver {
    fn from(queue: Receiver<RawJson>) -> Self {
        ResponseReceiver::Queue(queue)
    }
}

impl LazyQueue {
    fn sender(&self) -> &Sender<RawJson> {
        self.sender.get_or_init(|| {
            let (sender, receiver) = mpsc::channel(QUEUE_CAPACITY);
            *self.receiver.lock().unwrap_or_else(PoisonError::into_inner) = Some(receiver);
            self.created.wake();
            sender
        })
    }

    fn receiver(&self) -> Option<Receiver<RawJson>> {
        self.receiver.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::task::JoinSet;

    use super::*;

    #[tokio::test]
    async fn messages_arrive_in_order_on_a_lazy_queue() {
        let (sender, mut receiver) = response_channel();
        assert!(receiver.next().now_or_never().is_none() && receiver.try_next().is_none());
        for word in ["one", "two", "three"] {
            sender.send(RawJson::string(word)).await.unwrap();
        }
        let messages = [receiver.next().await, receiver.try_next(), receiver.next().await];
        assert_eq!(messages, ["one", "two", "three"].map(|word| Some(RawJson::string(word))));
        assert!(receiver.next().now_or_never().is_none() && receiver.try_next().is_none());
    }

    #[tokio::test]
    async fn waiting_receiver_is_woken_by_the_first_message() {
        let (sender, mut receiver) = response_channel();
        let mut waiting = JoinSet::new();
        waiting.spawn(async move { receiver.next().await });
        tokio::task::yield_now().await;
        sender.send(RawJson::string("word")).await.unwrap();
        assert_eq!(waiting.join_next().await.unwrap().unwrap(), Some(RawJson::string("word")));
    }

    #[tokio::test]
    async fn send_fails_after_the_receiver_is_dropped() {
        let (sender, mut receiver) = response_channel();
        sender.send(RawJson::string("one")).await.unwrap();
        assert!(receiver.next().await.is_some());
        drop(receiver);
        assert!(sender.send(RawJson::string("two")).await.is_err());
    }
}
