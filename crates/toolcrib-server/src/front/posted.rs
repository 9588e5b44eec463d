//! A message that was posted: read within its limits, or the reason why it is not taken.

use std::error::Error;
use std::pin::pin;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::StatusCode;
use hyper::body::Body;
use hyper::header::CONTENT_TYPE;
use tokio::time::timeout;
use toolcrib_wire::{Held, Limits, Malformed, Packet, parse_holding};

use super::headers::Headers;
use super::reply::{self, Reply};
use crate::body_budget::{NoRoom, Reservation};
use crate::lines::refusal;

/// What a request is told that finds no room.
pub const NO_ROOM: &str =
    "other requests take all the memory for bodies (gateway.limits.bodies); try again later";

/// Why there is no body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    TooLarge,
    TooSlow,
    /// It ends before its end, or is no body at all.
    Broken,
    /// Bodies of others take all the memory that there is for bodies.
    NoRoom,
}

/// A message, which has to come within some time. Its memory is counted in `held` for as long as any part of it.
pub async fn read<B>(
    headers: &dyn Headers,
    body: B,
    limits: &Limits,
    longest: Duration,
    mut held: Reservation,
) -> Result<Packet, Box<Reply>>
where
    B: Body,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    check(headers, 0, limits)?;
    let body = whole(body, limits.size, longest, &mut held).await.map_err(unread)?;
    parse_holding(body, limits, held.into_held()).map_err(malformed)
}

/// A message that is here already.
pub fn understand(
    headers: &dyn Headers,
    body: Bytes,
    limits: &Limits,
    held: Held,
) -> Result<Packet, Box<Reply>> {
    check(headers, body.len(), limits)?;
    parse_holding(body, limits, held).map_err(malformed)
}

/// Whether a message of some length is taken, before it is read.
pub fn check(headers: &dyn Headers, length: usize, limits: &Limits) -> Result<(), Box<Reply>> {
    if !is_json(headers) {
        return Err(Box::new(reply::empty(StatusCode::UNSUPPORTED_MEDIA_TYPE)));
    }
    match length > limits.size {
        true => Err(unread(Unread::TooLarge)),
        false => Ok(()),
    }
}

/// Whether a body is said to be JSON.
pub(crate) fn is_json(headers: &dyn Headers) -> bool {
    let kind = headers.text(CONTENT_TYPE.as_str()).unwrap_or_default();
    // As nearly everybody writes it; to take words apart is dear.
    kind == "application/json" || {
        let kind = kind.split(';').next().unwrap_or_default().trim();
        kind.eq_ignore_ascii_case("application/json")
    }
}

/// What somebody is told whose message could not be read.
pub fn unread(why: Unread) -> Box<Reply> {
    Box::new(match why {
        Unread::TooLarge => reply::empty(StatusCode::PAYLOAD_TOO_LARGE),
        Unread::TooSlow => reply::empty(StatusCode::REQUEST_TIMEOUT),
        Unread::Broken => reply::empty(StatusCode::BAD_REQUEST),
        Unread::NoRoom => reply::unavailable(NO_ROOM),
    })
}

/// All of a body, up to so many bytes and within some time.
pub async fn whole<B>(
    body: B,
    most: usize,
    longest: Duration,
    held: &mut Reservation,
) -> Result<Bytes, Unread>
where
    B: Body,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let reading = async {
        let mut body = pin!(Limited::new(body, most));
        let mut whole = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| match error.is::<LengthLimitError>() {
                true => Unread::TooLarge,
                false => Unread::Broken,
            })?;
            if let Ok(data) = frame.into_data() {
                held.resize(whole.len() + data.remaining()).map_err(|NoRoom| Unread::NoRoom)?;
                whole.put(data);
            }
        }
        Ok(whole.freeze())
    };
    timeout(longest, reading).await.unwrap_or(Err(Unread::TooSlow))
}

fn malformed(malformed: Malformed) -> Box<Reply> {
    let bad = StatusCode::BAD_REQUEST;
    Box::new(match refusal(&malformed) {
        Some(said) => reply::json(bad, &said),
        None => reply::empty(bad),
    })
}
