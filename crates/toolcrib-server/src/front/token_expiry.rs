//! Ends streams whose token is no longer valid.
//!
//! A stream ends when its token expires or belongs to another agent, and an anonymous stream ends when the host becomes
//! protected. Its connection closes as well, so that clients that only wait for the end of the connection notice.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Body as _, Frame, SizeHint};
use tokio::time::timeout;
use toolcrib_config::model::security::GatewayProtection;

use super::Front;
use super::connection_limit::ExpirySender;
use super::headers::Headers;
use super::response::HttpResponse;
use crate::identity::{EntryPoint, Principal, bearer_token};

/// Interval between token checks without a change notification, because tokens of an issuer expire silently.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Ready when the token has expired.
pub(crate) type TokenExpiry = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Front {
    /// A future that is ready when such a request would be refused: the token has expired or belongs to another agent,
    /// or there is no token and the host became protected. `None` on the owner's socket.
    pub(crate) fn token_expiry(
        self: &Arc<Self>,
        headers: &dyn Headers,
        entry_point: EntryPoint,
        principal: &Principal,
    ) -> Option<TokenExpiry> {
        if entry_point == EntryPoint::OwnerSocket {
            return None;
        }
        let token = bearer_token(headers).map(str::to_owned);
        let (front, principal) = (Arc::clone(self), principal.clone());
        let mut changes = self.permission_changes.subscribe();
        Some(Box::pin(async move {
            loop {
                // The front holds the sender, so this wait cannot fail.
                let _ = timeout(CHECK_INTERVAL, changes.changed()).await;
                let config = front.host.config();
                let is_expired = match &token {
                    Some(token) => front.identity.has_expired(&config, token, &principal).await,
                    None => front.identity.protection(&config) != GatewayProtection::Open,
                };
                if is_expired {
                    return;
                }
            }
        }))
    }
}

/// Ends an unbounded response body when the token expires.
pub(super) fn expire_with_token(
    front: &Arc<Front>,
    headers: &dyn Headers,
    entry_point: EntryPoint,
    principal: &Principal,
    expiry: Option<ExpirySender>,
    response: HttpResponse,
) -> HttpResponse {
    if response.body().size_hint().exact().is_some() {
        return response;
    }
    match front.token_expiry(headers, entry_point, principal) {
        Some(token_expiry) => {
            response.map(|body| Body::new(ExpiringBody { body, token_expiry, expiry }))
        }
        None => response,
    }
}

struct ExpiringBody {
    body: Body,
    token_expiry: TokenExpiry,
    /// Signals the expiry to the connection of the stream.
    expiry: Option<ExpirySender>,
}

impl hyper::body::Body for ExpiringBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.token_expiry.as_mut().poll(cx).is_ready() {
            // Dropping the body stops its producer.
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
