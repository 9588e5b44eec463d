//! Axum extractors for principal, query, path and body.

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
use toolcrib_wire::{Json, MessageLimits};

use super::error::{ApiError, ApiErrorKind, BODY_BUDGET_EXCEEDED};
use crate::body_budget::Reservation;
use crate::front::Front;
use crate::front::headers::Headers;
use crate::front::request_body::{self, BodyError};
use crate::identity::Principal;
use crate::message_stream;

/// Limits of a body. In the message to the server the arguments are two levels deep, in the body of a call one level.
/// The lower depth keeps that message within the message limit.
const LIMITS: MessageLimits = MessageLimits {
    depth: message_stream::LIMITS.depth - 1,
    size: usize::MAX,
    ..message_stream::LIMITS
};

/// Maximum depth of the arguments of a call.
pub(super) const ARGUMENTS_DEPTH: usize = LIMITS.depth - 1;

/// Maximum size of a body for endpoints without one.
const MAX_EMPTY_BODY: usize = 1 << 10;
const EMPTY_BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Header that names the dialog.
pub(crate) const DIALOG_HEADER: &str = "toolcrib-dialog";

/// The authenticated principal.
#[derive(Debug)]
pub(crate) struct Authenticated(pub(crate) Principal);

/// The parsed query.
#[derive(Debug)]
pub(crate) struct QueryParams<T>(pub(crate) T);

/// The parsed path parameters.
#[derive(Debug)]
pub(crate) struct PathParams<T>(pub(crate) T);

/// The parsed JSON body, and the reservation of its memory. An empty body counts as an empty object.
#[derive(Debug)]
pub(crate) struct JsonBody<T>(pub(crate) T, pub(crate) Reservation);

/// The dialog that the header names.
#[derive(Debug)]
pub(crate) struct DialogHeader(pub(crate) Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for Authenticated {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let principal = parts.extensions.get::<Principal>().cloned();
        principal.map(Authenticated).ok_or_else(|| {
            ApiError::new(ApiErrorKind::Internal, "identity", "the request has no principal")
        })
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for QueryParams<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let read = Query::try_from_uri(&parts.uri);
        read.map(|Query(query)| QueryParams(query))
            .map_err(|error| ApiError::bad_request(error.body_text()))
    }
}

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for PathParams<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let read = Path::from_request_parts(parts, state).await;
        read.map(|Path(at)| PathParams(at))
            .map_err(|error| ApiError::bad_request(error.body_text()))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for DialogHeader {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        Ok(DialogHeader(parts.headers.text(DIALOG_HEADER).map(str::to_owned)))
    }
}

impl<T: DeserializeOwned> FromRequest<Arc<Front>> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, front: &Arc<Front>) -> Result<Self, ApiError> {
        let limits = front.limits();
        let (head, body) = request.into_parts();
        let principal = head.extensions.get::<Principal>();
        let (may_choose_agent, agent) = principal
            .map_or((false, ""), |principal| (principal.may_choose_agent, &*principal.agent));
        let mut reservation = front.gateway.reservation(may_choose_agent, agent);
        let body = request_body::read_all(body, limits.body, limits.read, &mut reservation).await;
        let body = body.map_err(|bad_body| match bad_body {
            BodyError::TooLarge => {
                let text = format!(
                    "the request body exceeds the limit of {} bytes (gateway.limits.body)",
                    limits.body
                );
                ApiError::new(ApiErrorKind::TooLarge, "request.too_large", text)
            }
            BodyError::TooSlow => {
                let text = format!(
                    "the request body did not arrive within {:?} (gateway.limits.read)",
                    limits.read
                );
                ApiError::new(ApiErrorKind::TooSlow, "request.too_slow", text)
            }
            BodyError::Incomplete => ApiError::bad_request("the request body is incomplete"),
            BodyError::BudgetExceeded => ApiError::new(
                ApiErrorKind::BudgetExceeded,
                BODY_BUDGET_EXCEEDED,
                request_body::BODY_BUDGET_EXCEEDED,
            ),
        })?;
        parse_json(&head.headers, &body).map(|read| JsonBody(read, reservation))
    }
}

/// Parses a body that is declared as JSON and has bounded depth. An empty body counts as an empty object.
fn parse_json<T: DeserializeOwned>(headers: &dyn Headers, body: &[u8]) -> Result<T, ApiError> {
    if !body.is_empty() && !request_body::is_json(headers) {
        let text = "the request body must be JSON (`Content-Type: application/json`)";
        return Err(ApiError::new(ApiErrorKind::MediaType, "request.media_type", text));
    }
    let body: &[u8] = if body.is_empty() { b"{}" } else { body };
    let bad_body = |error: &dyn std::fmt::Display| {
        ApiError::bad_request(format!("cannot read the request body: {error}"))
    };
    let text = str::from_utf8(body).map_err(|error| bad_body(&error))?;
    Json::parse(text, &LIMITS).map_err(|fault| bad_body(&fault))?;
    serde_json::from_str(text).map_err(|error| bad_body(&error))
}

/// Body of an endpoint that takes none: empty, or an empty object.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EmptyObject {}

/// Rejects a body on endpoints that take none.
pub(super) async fn reject_body(request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let (head, body) = request.into_parts();
    let Ok(read) = request_body::read_all(
        body,
        MAX_EMPTY_BODY,
        EMPTY_BODY_TIMEOUT,
        &mut Reservation::default(),
    )
    .await
    else {
        return ApiError::bad_request("this endpoint accepts no request body").into_response();
    };
    match parse_json::<EmptyObject>(&head.headers, &read) {
        Ok(EmptyObject {}) => next.run(Request::from_parts(head, Body::empty())).await,
        Err(error) => error.into_response(),
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
        parse_json(&headers, body.as_bytes()).map_err(|error| error.status.as_u16())
    }

    #[test]
    fn body_is_empty_or_json_of_bounded_depth() {
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
