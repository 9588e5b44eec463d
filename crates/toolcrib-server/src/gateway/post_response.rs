//! Responds to one POST: a single message, or an event stream if other messages precede it.

use std::convert::Infallible;
use std::future::ready;
use std::mem;
use std::pin::Pin;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use hyper::{Response, StatusCode};
use tokio::time::sleep;
use toolcrib_wire::{KEEP_ALIVE, RawJson};

use super::client::ActivityGuard;
use super::response_channel::{ResponseReceiver, response_channel};
use crate::front::response::{self, GatewayResponse, HttpResponse};

/// A silent response becomes a stream after this time, and a silent stream sends a keep-alive as often.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// The final message, and its status if it is the only one.
pub(super) type FinalMessage = (StatusCode, RawJson);

/// A response in progress.
pub(super) struct PendingResponse {
    pub(super) answer: Pin<Box<dyn Future<Output = Option<FinalMessage>> + Send>>,
    /// Messages that precede the final one.
    pub(super) notifications: ResponseReceiver,
    /// True if the client accepts an event stream.
    pub(super) accepts_events: bool,
    pub(super) activity: ActivityGuard,
    /// True if the request continues after a disconnect, because in the legacy era a disconnect is not a cancellation.
    pub(super) continues_detached: bool,
}

impl Drop for PendingResponse {
    fn drop(&mut self) {
        if !self.continues_detached {
            return;
        }
        let mut answer = mem::replace(&mut self.answer, Box::pin(ready(None)));
        let mut notifications = mem::replace(&mut self.notifications, response_channel().1);
        self.activity.continue_detached(async move {
            loop {
                tokio::select! {
                    Some(_) = notifications.next() => {}
                    _ = &mut answer => return,
                }
            }
        });
    }
}

/// Waits for the first message, which decides between a single message and a stream.
pub(super) async fn respond(mut pending: PendingResponse) -> GatewayResponse {
    if !pending.accepts_events {
        return respond_plain(pending).await;
    }
    tokio::select! {
        biased;
        Some(first) = pending.notifications.next() => event_stream(pending, Some(first)).into(),
        answer = &mut pending.answer => {
            pending.continues_detached = false;
            match pending.notifications.try_next() {
                Some(first) => {
                    pending.answer = Box::pin(ready(answer));
                    event_stream(pending, Some(first)).into()
                }
                None => single_message(answer),
            }
        }
        () = sleep(KEEP_ALIVE_INTERVAL) => event_stream(pending, None).into(),
    }
}

/// Drops notifications for clients that accept no event stream.
async fn respond_plain(mut pending: PendingResponse) -> GatewayResponse {
    loop {
        tokio::select! {
            Some(_) = pending.notifications.next() => {}
            answer = &mut pending.answer => {
                pending.continues_detached = false;
                return single_message(answer);
            }
        }
    }
}

fn single_message(answer: Option<FinalMessage>) -> GatewayResponse {
    match answer {
        Some((status, message)) => GatewayResponse::Message(status, message),
        None => response::empty(StatusCode::ACCEPTED).into(),
    }
}

/// Streams messages as they arrive.
fn event_stream(pending: PendingResponse, first: Option<RawJson>) -> HttpResponse {
    let first = first.map(|message| response::message_event(&message));
    let state = (Some(pending), first.unwrap_or_else(|| KEEP_ALIVE.to_vec()));
    let body = stream::unfold(state, |(pending, ready)| async move {
        if !ready.is_empty() {
            return Some((Ok::<_, Infallible>(Bytes::from(ready)), (pending, Vec::new())));
        }
        let mut pending = pending?;
        let (bytes, pending) = tokio::select! {
            biased;
            Some(message) = pending.notifications.next() => (response::message_event(&message), Some(pending)),
            answer = &mut pending.answer => {
                pending.continues_detached = false;
                (final_events(&mut pending.notifications, answer), None)
            }
            () = sleep(KEEP_ALIVE_INTERVAL) => (KEEP_ALIVE.to_vec(), Some(pending)),
        };
        Some((Ok(Bytes::from(bytes)), (pending, Vec::new())))
    });
    response::with_event_headers(Response::new(Body::from_stream(body)))
}

/// Remaining notifications, then the final message.
fn final_events(notifications: &mut ResponseReceiver, answer: Option<FinalMessage>) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(message) = notifications.try_next() {
        bytes.extend(response::message_event(&message));
    }
    if let Some((_, message)) = answer {
        bytes.extend(response::message_event(&message));
    }
    bytes
}
