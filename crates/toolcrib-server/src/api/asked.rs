//! What a request says, read once: who asks and as whom, the query, the path, the body.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::body::Body as _;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use toolcrib_wire::{Json, Limits};

use super::fail::{Fail, Kind, NO_ROOM};
use crate::body_budget::Reservation;
use crate::front::Front;
use crate::front::headers::Headers;
use crate::front::posted::{self, Unread};
use crate::identity::Principal;
use crate::lines;

/// The limits of a body. Arguments stand two levels deep in the message that carries them to a server and one level
/// deep in the body of a call, so that the message is within the limit that holds for messages.
const LIMITS: Limits = Limits { depth: lines::LIMITS.depth - 1, size: usize::MAX, ..lines::LIMITS };

/// The most levels that the arguments of a call may have.
pub(super) const ARGUMENTS_DEPTH: usize = LIMITS.depth - 1;

/// The largest body that is read where none is taken, and how long it may take.
const EMPTY: usize = 1 << 10;
const EMPTY_READ: Duration = Duration::from_secs(10);

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

/// The body, as JSON, and the memory that it takes. Nothing is an empty object.
#[derive(Debug)]
pub(crate) struct Sent<T>(pub(crate) T, pub(crate) Reservation);

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
        let (head, body) = request.into_parts();
        let who = head.extensions.get::<Principal>();
        let (chooses, agent) = who.map_or((false, ""), |who| (who.chooses, &*who.agent));
        let mut held = front.gateway.reservation(chooses, agent);
        let body = posted::whole(body, limits.body, limits.read, &mut held).await;
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
            Unread::NoRoom => Fail::new(Kind::NoRoom, NO_ROOM, posted::NO_ROOM),
        })?;
        parsed(&head.headers, &body).map(|read| Sent(read, held))
    }
}

/// Reads a body: JSON of a bounded depth that is called JSON. An empty body is an empty object.
fn parsed<T: DeserializeOwned>(headers: &dyn Headers, body: &[u8]) -> Result<T, Fail> {
    if !body.is_empty() && !posted::is_json(headers) {
        let text = "the body has to be JSON (`Content-Type: application/json`)";
        return Err(Fail::new(Kind::MediaType, "request.media_type", text));
    }
    let body: &[u8] = if body.is_empty() { b"{}" } else { body };
    let unread =
        |error: &dyn std::fmt::Display| Fail::bad(format!("cannot read the body: {error}"));
    let text = str::from_utf8(body).map_err(|error| unread(&error))?;
    Json::parse(text, &LIMITS).map_err(|fault| unread(&fault))?;
    serde_json::from_str(text).map_err(|error| unread(&error))
}

/// The body of an endpoint that takes none: nothing, or an empty object.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// Refuses a body where an endpoint takes none.
pub(super) async fn bodiless(request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let (head, body) = request.into_parts();
    let Ok(read) = posted::whole(body, EMPTY, EMPTY_READ, &mut Reservation::default()).await else {
        return Fail::bad("this endpoint takes no body").into_response();
    };
    match parsed::<Nothing>(&head.headers, &read) {
        Ok(Nothing {}) => next.run(Request::from_parts(head, Body::empty())).await,
        Err(fail) => fail.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderMap;
    use axum::http::header::CONTENT_TYPE;
    use serde_json::Value;

    use super::*;

    fn read(kind: &str, body: &str) -> Result<Value, u16> {
        let headers: HeaderMap = [(CONTENT_TYPE, kind.parse().unwrap())].into_iter().collect();
        parsed(&headers, body.as_bytes()).map_err(|fail| fail.status.as_u16())
    }

    #[test]
    fn a_body_is_json_of_bounded_depth_or_nothing() {
        let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        for (kind, body, expected) in [
            ("application/json", "{\"a\":1}", Ok(())),
            ("Application/JSON; charset=utf-8", "{}", Ok(())),
            ("text/plain", "{}", Err(415)),
            ("", "{}", Err(415)),
            ("text/plain", "", Ok(())),
            ("application/json", "{", Err(400)),
            ("application/json", &nested(LIMITS.depth), Ok(())),
            ("application/json", &nested(LIMITS.depth + 1), Err(400)),
        ] {
            assert_eq!(read(kind, body).map(drop), expected, "{kind} {body}");
        }
    }
}
