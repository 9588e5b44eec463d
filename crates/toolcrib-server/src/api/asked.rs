//! What a request says, read once: who asks and as whom, the query, the path, the body.

use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use super::fail::{Fail, Kind};
use crate::front::Front;
use crate::front::headers::Headers;
use crate::front::posted::{self, Unread};
use crate::identity::Principal;

/// The header that names a dialog.
pub(crate) const DIALOG: &str = "toolcrib-dialog";

/// Who asks.
#[derive(Debug)]
pub(crate) struct Who(pub(crate) Principal);

/// The query.
#[derive(Debug)]
pub(crate) struct Said<T>(pub(crate) T);

/// What the path names.
#[derive(Debug)]
pub(crate) struct At<T>(pub(crate) T);

/// The body, as JSON. Nothing is an empty object.
#[derive(Debug)]
pub(crate) struct Sent<T>(pub(crate) T);

/// The dialog that the header names.
#[derive(Debug)]
pub(crate) struct Header(pub(crate) Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for Who {
    type Rejection = Fail;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Fail> {
        let principal = parts.extensions.get::<Principal>().cloned();
        principal.map(Who).ok_or_else(|| Fail::new(Kind::Internal, "identity", "nobody asks"))
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Said<T> {
    type Rejection = Fail;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Fail> {
        let read = Query::try_from_uri(&parts.uri);
        read.map(|Query(said)| Said(said)).map_err(|error| Fail::bad(error.body_text()))
    }
}

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for At<T> {
    type Rejection = Fail;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Fail> {
        let read = Path::from_request_parts(parts, state).await;
        read.map(|Path(at)| At(at)).map_err(|error| Fail::bad(error.body_text()))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Header {
    type Rejection = Fail;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Fail> {
        Ok(Header(parts.headers.text(DIALOG).map(str::to_owned)))
    }
}

impl<T: DeserializeOwned> FromRequest<Arc<Front>> for Sent<T> {
    type Rejection = Fail;

    async fn from_request(request: Request, front: &Arc<Front>) -> Result<Self, Fail> {
        let limits = front.limits();
        let body = posted::whole(request.into_body(), limits.body, limits.read).await;
        let body = body.map_err(|unread| match unread {
            Unread::TooLarge => {
                let text = format!("the request is over the limit of {} bytes", limits.body);
                Fail::new(Kind::TooLarge, "request.too_large", text)
            }
            Unread::TooSlow => {
                let text = format!("the request took longer than {:?}", limits.read);
                Fail::new(Kind::TooSlow, "request.too_slow", text)
            }
            Unread::Broken => Fail::bad("the body ends before its end"),
        })?;
        let body: &[u8] = if body.is_empty() { b"{}" } else { &body };
        let read = serde_json::from_slice(body);
        read.map(Sent).map_err(|error| Fail::bad(format!("the body cannot be read: {error}")))
    }
}
