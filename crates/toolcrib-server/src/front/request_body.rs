//! Reads and checks the body of a POST request.

use std::error::Error;
use std::pin::pin;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::StatusCode;
use hyper::body::Body;
use hyper::header::CONTENT_TYPE;
use tokio::time::timeout;
use toolcrib_http::server::ReadError;
use toolcrib_wire::{MalformedMessage, MessageLimits, Packet, TextGuard, parse_with_guard};

use super::headers::Headers;
use super::response::{self, HttpResponse};
use crate::body_budget::{BudgetExceeded, Reservation};
use crate::message_stream::malformed_error;

/// Error text for a request that exceeds the body budget.
pub const BODY_BUDGET_EXCEEDED: &str =
    "the memory for request bodies is used up (gateway.limits.bodies); try again later";

/// Why a body could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyError {
    TooLarge,
    TooSlow,
    /// The body ended early or is malformed.
    Incomplete,
    /// Other bodies use up the memory budget.
    BudgetExceeded,
}

impl From<ReadError> for BodyError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Closed => BodyError::Incomplete,
            ReadError::TimedOut => BodyError::TooSlow,
        }
    }
}

/// Reads and parses a message within `max_time`. The reservation lives as long as any part of the message.
pub async fn read_message<B>(
    headers: &dyn Headers,
    body: B,
    limits: &MessageLimits,
    max_time: Duration,
    mut reservation: Reservation,
) -> Result<Packet, Box<HttpResponse>>
where
    B: Body,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    check_body(headers, 0, limits)?;
    let body = read_all(body, limits.size, max_time, &mut reservation)
        .await
        .map_err(body_error_response)?;
    parse_with_guard(body, limits, reservation.into_held()).map_err(malformed_response)
}

/// Parses a message that was already read.
pub fn parse_message(
    headers: &dyn Headers,
    body: Bytes,
    limits: &MessageLimits,
    guard: TextGuard,
) -> Result<Packet, Box<HttpResponse>> {
    check_body(headers, body.len(), limits)?;
    parse_with_guard(body, limits, guard).map_err(malformed_response)
}

/// Checks content type and length before the body is read.
pub fn check_body(
    headers: &dyn Headers,
    length: usize,
    limits: &MessageLimits,
) -> Result<(), Box<HttpResponse>> {
    if !is_json(headers) {
        return Err(Box::new(response::empty(StatusCode::UNSUPPORTED_MEDIA_TYPE)));
    }
    match length > limits.size {
        true => Err(body_error_response(BodyError::TooLarge)),
        false => Ok(()),
    }
}

/// Returns whether the content type is JSON.
pub(crate) fn is_json(headers: &dyn Headers) -> bool {
    let kind = headers.text(CONTENT_TYPE.as_str()).unwrap_or_default();
    // Compares the usual spelling first, because splitting the value is slow.
    kind == "application/json" || {
        let kind = kind.split(';').next().unwrap_or_default().trim();
        kind.eq_ignore_ascii_case("application/json")
    }
}

/// The response to a request whose body could not be read.
pub fn body_error_response(why: BodyError) -> Box<HttpResponse> {
    Box::new(match why {
        BodyError::TooLarge => response::empty(StatusCode::PAYLOAD_TOO_LARGE),
        BodyError::TooSlow => response::empty(StatusCode::REQUEST_TIMEOUT),
        BodyError::Incomplete => response::empty(StatusCode::BAD_REQUEST),
        BodyError::BudgetExceeded => response::unavailable(BODY_BUDGET_EXCEEDED),
    })
}

/// Reads a whole body of at most `max_size` bytes within `max_time`.
pub async fn read_all<B>(
    body: B,
    max_size: usize,
    max_time: Duration,
    reservation: &mut Reservation,
) -> Result<Bytes, BodyError>
where
    B: Body,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let reading = async {
        let mut body = pin!(Limited::new(body, max_size));
        let mut bytes = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| match error.is::<LengthLimitError>() {
                true => BodyError::TooLarge,
                false => BodyError::Incomplete,
            })?;
            if let Ok(data) = frame.into_data() {
                reservation
                    .resize(bytes.len() + data.remaining())
                    .map_err(|BudgetExceeded| BodyError::BudgetExceeded)?;
                bytes.put(data);
            }
        }
        Ok(bytes.freeze())
    };
    timeout(max_time, reading).await.unwrap_or(Err(BodyError::TooSlow))
}

fn malformed_response(malformed: MalformedMessage) -> Box<HttpResponse> {
    let bad = StatusCode::BAD_REQUEST;
    Box::new(match malformed_error(&malformed) {
        Some(error) => response::json(bad, &error),
        None => response::empty(bad),
    })
}
