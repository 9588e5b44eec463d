//! A stream ends when the token that it was asked for with is not good any more, or stands for another agent, and an
//! anonymous stream when the host becomes protected. Its connection closes with it: a client that only waits for the
//! end of the connection is told, too.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Body as _, Frame, SizeHint};
use tokio::time::timeout;
use toolcrib_config::model::security::Protection;

use super::Front;
use super::crowd::Expiry;
use super::headers::Headers;
use super::reply::Reply;
use crate::identity::{Door, Principal, bearer};

/// How often a stream checks its token where nothing tells of a change: tokens of an issuer expire by themselves.
const LOOK: Duration = Duration::from_secs(1);

/// Ready when a token has lapsed.
pub(crate) type Lapse = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Front {
    /// Waits until a request like this one would be refused: its token has expired or stands for another agent, or it
    /// has none and the host is protected by now. None on the owner's socket.
    pub(crate) fn lapse(
        self: &Arc<Self>,
        headers: &dyn Headers,
        door: Door,
        who: &Principal,
    ) -> Option<Lapse> {
        if door == Door::Socket {
            return None;
        }
        let token = bearer(headers).map(str::to_owned);
        let (front, who) = (Arc::clone(self), who.clone());
        let mut changes = self.rights.subscribe();
        Some(Box::pin(async move {
            loop {
                // The sender lives as long as the front.
                let _ = timeout(LOOK, changes.changed()).await;
                let config = front.host.config();
                let is_over = match &token {
                    Some(token) => front.identity.has_lapsed(&config, token, &who).await,
                    None => front.identity.protection(&config) != Protection::Open,
                };
                if is_over {
                    return;
                }
            }
        }))
    }
}

/// The same answer, which ends with the token where it would have no end by itself.
pub(super) fn bound(
    front: &Arc<Front>,
    headers: &dyn Headers,
    door: Door,
    who: &Principal,
    expiry: Option<Expiry>,
    reply: Reply,
) -> Reply {
    if reply.body().size_hint().exact().is_some() {
        return reply;
    }
    match front.lapse(headers, door, who) {
        Some(lapse) => reply.map(|body| Body::new(Bound { body, lapse, expiry })),
        None => reply,
    }
}

struct Bound {
    body: Body,
    lapse: Lapse,
    /// Of the connection that the stream is on.
    expiry: Option<Expiry>,
}

impl hyper::body::Body for Bound {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.lapse.as_mut().poll(cx).is_ready() {
            // Whatever makes the rest of it ends with it.
            self.body = Body::empty();
            if let Some(expiry) = &self.expiry {
                expiry.send_replace(true);
            }
        }
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
