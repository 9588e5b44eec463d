//! One message as a peer sent it: the few members that routing needs, and the rest as bytes.

use std::borrow::Cow;
use std::num::NonZeroU32;

use crate::id::{Id, ProgressToken};
use crate::json::Json;
use crate::malformed::Malformed;
use crate::raw::Raw;
use crate::rewrite::Rewrite;
use crate::rpc_error::RpcError;
use crate::scan::Span;
use crate::version::Version;

/// What one frame holds.
#[derive(Debug, Clone)]
pub enum Packet {
    One(Message),
    /// A batch; its items succeed and fail one by one.
    Batch(Vec<Result<Message, Malformed>>),
}

#[derive(Debug, Clone)]
pub enum Message {
    Request(Request),
    Notification(Notification),
    Response(Response),
}

#[derive(Debug, Clone)]
pub struct Request {
    pub id: Id,
    pub method: String,
    pub params: Body,
}

#[derive(Debug, Clone)]
pub struct Notification {
    pub method: String,
    pub params: Body,
}

/// An answer. The id is absent where the peer could not read that of the request.
#[derive(Debug, Clone)]
pub struct Response {
    pub id: Option<Id>,
    pub(crate) body: Body,
    /// Rare and large.
    pub(crate) error: Option<Box<RpcError>>,
}

/// The params of a request or notification, or the result of a response, where it stands in its message.
#[derive(Debug, Clone)]
pub struct Body {
    pub(crate) message: Raw,
    pub(crate) places: Places,
}

/// Where the members stand that are read or rewritten most, found while the message was checked, so
/// that no large message is walked twice.
#[derive(Debug, Clone, Default)]
pub(crate) struct Places {
    pub(crate) id: Option<Place>,
    pub(crate) body: Option<Place>,
    pub(crate) name: Option<Place>,
    pub(crate) uri: Option<Place>,
    pub(crate) arguments: Option<Place>,
    pub(crate) request_state: Option<Place>,
    pub(crate) result_type: Option<Place>,
    pub(crate) content: Option<Place>,
    pub(crate) structured_content: Option<Place>,
    pub(crate) is_error: Option<Place>,
    pub(crate) meta: Option<Place>,
    pub(crate) progress_token: Option<Place>,
    pub(crate) version: Option<Place>,
    /// Whether the params have other members than these.
    pub(crate) has_more: bool,
}

/// Where one of them stands. There are many in each message, which is handed on a dozen times, so they are small: no
/// message is longer than they can tell.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    start: u32,
    end: NonZeroU32,
}

impl Place {
    /// None only for what ends where the text begins, and no value does.
    #[inline]
    pub(crate) fn of(span: Span) -> Option<Place> {
        let end = NonZeroU32::new(u32::try_from(span.end).ok()?)?;
        Some(Place { start: u32::try_from(span.start).ok()?, end })
    }

    #[inline]
    pub(crate) fn span(self) -> Span {
        self.start as usize..self.end.get() as usize
    }
}

impl Packet {
    /// The messages one by one, whether they came alone or in a batch.
    pub fn into_messages(self) -> impl Iterator<Item = Result<Message, Malformed>> {
        let (one, batch) = match self {
            Packet::One(message) => (Some(Ok(message)), Vec::new()),
            Packet::Batch(items) => (None, items),
        };
        one.into_iter().chain(batch)
    }
}

impl Message {
    pub fn raw(&self) -> &Raw {
        match self {
            Message::Request(request) => request.params.message(),
            Message::Notification(notification) => notification.params.message(),
            Message::Response(response) => response.body.message(),
        }
    }
}

impl Request {
    /// Starts a change of some members; every other byte stays.
    pub fn rewrite(&self) -> Rewrite<'_> {
        Rewrite::new(&self.params, "params")
    }
}

impl Notification {
    /// Starts a change of some members; every other byte stays.
    pub fn rewrite(&self) -> Rewrite<'_> {
        Rewrite::new(&self.params, "params")
    }
}

impl Response {
    pub fn answer(&self) -> Result<&Body, &RpcError> {
        match &self.error {
            Some(error) => Err(error),
            None => Ok(&self.body),
        }
    }

    /// The bare result or error.
    pub fn into_answer(self) -> Result<Raw, RpcError> {
        match self.error {
            Some(error) => Err(*error),
            None => Ok(self.body.raw().unwrap_or_else(|| Json::NULL.into())),
        }
    }

    pub fn raw(&self) -> &Raw {
        self.body.message()
    }

    /// Starts a change of some members; every other byte stays.
    pub fn rewrite(&self) -> Rewrite<'_> {
        Rewrite::new(&self.body, if self.error.is_some() { "error" } else { "result" })
    }
}

impl Body {
    /// The whole message that this is the body of.
    pub fn message(&self) -> &Raw {
        &self.message
    }

    /// The value itself; `params: null` counts as none.
    pub fn raw(&self) -> Option<Raw> {
        let body = self.places.body.map(|place| self.message.slice(place.span()));
        body.filter(|raw| !raw.json().is_null())
    }

    /// The value itself, or an empty object where there is none.
    pub fn json(&self) -> Json<'_> {
        let body = self.at(self.places.body);
        body.filter(|json| !json.is_null()).unwrap_or(Json::EMPTY)
    }

    /// Any member, found by walking the body.
    pub fn get(&self, key: &str) -> Option<Json<'_>> {
        self.json().get(key)
    }

    /// `params.name`: the tool or prompt that is meant.
    pub fn name(&self) -> Option<Cow<'_, str>> {
        self.at(self.places.name)?.as_str()
    }

    /// `params.uri`: the resource that is meant.
    pub fn uri(&self) -> Option<Cow<'_, str>> {
        self.at(self.places.uri)?.as_str()
    }

    /// `params.arguments`: what the tool or prompt is given.
    pub fn arguments(&self) -> Option<Json<'_>> {
        self.at(self.places.arguments)
    }

    /// `params.requestState`: what a client of the modern era comes back with.
    pub fn request_state(&self) -> Option<Cow<'_, str>> {
        self.at(self.places.request_state)?.as_str()
    }

    /// The params without the members of these names, and every other byte as it was; none where no member is left.
    /// Mostly none is, and then nothing is walked.
    pub fn without(&self, names: &[&str]) -> Option<Raw> {
        let Places { name, uri, arguments, request_state, meta, .. } = self.places;
        let known = [
            ("name", name),
            ("uri", uri),
            ("arguments", arguments),
            ("requestState", request_state),
            ("_meta", meta),
        ];
        let is_left =
            |(key, place): &(&str, Option<Place>)| place.is_some() && !names.contains(key);
        if !self.places.has_more && !known.iter().any(is_left) {
            return None;
        }
        let left = self.raw()?.with_members(names.iter().map(|name| (*name, None)));
        left.json().members().next().is_some().then_some(left)
    }

    pub fn meta(&self) -> Option<Json<'_>> {
        self.at(self.places.meta)
    }

    pub fn progress_token(&self) -> Option<ProgressToken> {
        Id::read(self.at(self.places.progress_token)?).ok()
    }

    /// The protocol version that a request of the modern era carries.
    pub fn version(&self) -> Option<Version> {
        let version = self.at(self.places.version)?.as_str()?;
        Some(Version::from(&*version))
    }

    /// `result.resultType` as it was written.
    pub fn result_type(&self) -> Option<Cow<'_, str>> {
        self.at(self.places.result_type)?.as_str()
    }

    pub(crate) fn at(&self, place: Option<Place>) -> Option<Json<'_>> {
        place.map(|place| Json::trusted(&self.message.text()[place.span()]))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Limits, Message, Packet, parse};

    #[test]
    fn params_are_left_as_they_were_written_without_those_that_are_known() {
        let known = ["name", "arguments", "_meta", "task"];
        for (params, left) in [
            (r#"{"name":"a","arguments":{"x":1},"_meta":{"y":1}}"#, None),
            (r#"{"name":"a","task":{},"t\u0061sk":1}"#, None),
            ("null", None),
            (
                r#"{"name":"a", "x" : 1.50,"\ud800":[ ],"_meta":{}}"#,
                Some(r#"{"x" : 1.50,"\ud800":[ ]}"#),
            ),
            (r#"{"n\u0061me":"a","uri":"u"}"#, Some(r#"{"uri":"u"}"#)),
        ] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{params}}}"#);
            let Ok(Packet::One(Message::Request(request))) = parse(text, &Limits::default()) else {
                panic!("{params}")
            };
            let found = request.params.without(&known);
            assert_eq!(found.as_ref().map(|it| it.text()), left, "{params}");
        }
    }
}
