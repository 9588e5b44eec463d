//! A stream ends when the token that it was asked for with is not good any more: what it tells is not for whoever has
//! had that once.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Body as _, Frame, SizeHint};
use tokio::time::sleep;

use super::Front;
use super::headers::Headers;
use super::reply::Reply;
use crate::identity::{Door, bearer};

/// How often is looked whether a token is still good.
const LOOK: Duration = Duration::from_secs(1);

/// Ready when a token has lapsed.
pub(crate) type Lapse = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Front {
    /// Of the token that a request has, if it needs one.
    pub(crate) fn lapse(self: &Arc<Self>, headers: &dyn Headers, door: Door) -> Option<Lapse> {
        let token = bearer(headers).filter(|_| door != Door::Socket)?.to_owned();
        let front = Arc::clone(self);
        Some(Box::pin(async move {
            loop {
                sleep(LOOK).await;
                let config = front.host.config();
                if front.identity.has_lapsed(&config.gateway, &token).await {
                    return;
                }
            }
        }))
    }
}

/// The same answer, which ends with the token where it would have no end by itself.
pub(super) fn bound(front: &Arc<Front>, headers: &dyn Headers, door: Door, reply: Reply) -> Reply {
    if reply.body().size_hint().exact().is_some() {
        return reply;
    }
    match front.lapse(headers, door) {
        Some(lapse) => reply.map(|body| Body::new(Bound { body, lapse })),
        None => reply,
    }
}

struct Bound {
    body: Body,
    lapse: Lapse,
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
