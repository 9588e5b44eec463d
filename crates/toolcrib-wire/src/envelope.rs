//! Parsed JSON-RPC messages: the members that routing needs, and the rest as bytes.

use std::borrow::Cow;
use std::num::NonZeroU32;

use crate::id::{Id, ProgressToken};
use crate::json::Json;
use crate::parse_error::MalformedMessage;
use crate::raw_json::RawJson;
use crate::rpc_error::RpcError;
use crate::scanner::Span;
use crate::version::Version;

/// Content of one frame.
#[derive(Debug, Clone)]
pub enum Packet {
    /// A single message.
    One(Message),
    /// A batch. Its items are parsed independently.
    Batch(Vec<Result<Message, MalformedMessage>>),
}

/// A parsed JSON-RPC message.
#[derive(Debug, Clone)]
pub enum Message {
    /// A request.
    Request(Request),
    /// A notification.
    Notification(Notification),
    /// A response.
    Response(Response),
}

/// A request: a method with an id.
#[derive(Debug, Clone)]
pub struct Request {
    /// The id of the request.
    pub id: Id,
    /// The method.
    pub method: String,
    /// The params.
    pub params: Body,
}

/// A notification: a method without an id.
#[derive(Debug, Clone)]
pub struct Notification {
    /// The method.
    pub method: String,
    /// The params.
    pub params: Body,
}

/// A response. The id is absent if the peer could not read the request's id.
#[derive(Debug, Clone)]
pub struct Response {
    /// The id of the answered request.
    pub id: Option<Id>,
    pub(crate) body: Body,
    /// Boxed, because errors are rare and large.
    pub(crate) error: Option<Box<RpcError>>,
}

/// The params of a request or notification, or the result of a response, as a range of the message.
#[derive(Debug, Clone)]
pub struct Body {
    pub(crate) message: RawJson,
    pub(crate) spans: MemberSpans,
}

/// Positions of the members that are read or rewritten most. They are found while the message is checked, so a large
/// message is scanned only once.
#[derive(Debug, Clone, Default)]
pub(crate) struct MemberSpans {
    pub(crate) id: Option<PackedSpan>,
    pub(crate) body: Option<PackedSpan>,
    pub(crate) name: Option<PackedSpan>,
    pub(crate) uri: Option<PackedSpan>,
    pub(crate) arguments: Option<PackedSpan>,
    pub(crate) request_state: Option<PackedSpan>,
    pub(crate) result_type: Option<PackedSpan>,
    pub(crate) content: Option<PackedSpan>,
    pub(crate) structured_content: Option<PackedSpan>,
    pub(crate) is_error: Option<PackedSpan>,
    pub(crate) meta: Option<PackedSpan>,
    pub(crate) progress_token: Option<PackedSpan>,
    pub(crate) version: Option<PackedSpan>,
    /// True if the params have other members than these.
    pub(crate) has_more: bool,
}

/// Position of one member. Each message has many and is passed on a dozen times, so positions are 32 bits; longer
/// messages are rejected.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PackedSpan {
    start: u32,
    end: NonZeroU32,
}

impl PackedSpan {
    /// Returns `None` for an empty range at the start of the text, which no value has.
    #[inline]
    pub(crate) fn new(span: Span) -> Option<PackedSpan> {
        let end = NonZeroU32::new(u32::try_from(span.end).ok()?)?;
        Some(PackedSpan { start: u32::try_from(span.start).ok()?, end })
    }

    #[inline]
    pub(crate) fn span(self) -> Span {
        self.start as usize..self.end.get() as usize
    }
}

impl Packet {
    /// Returns the messages one by one, from a single message or a batch.
    pub fn into_messages(self) -> impl Iterator<Item = Result<Message, MalformedMessage>> {
        let (one, batch) = match self {
            Packet::One(message) => (Some(Ok(message)), Vec::new()),
            Packet::Batch(items) => (None, items),
        };
        one.into_iter().chain(batch)
    }
}

impl Message {
    /// Returns the complete message.
    pub fn raw(&self) -> &RawJson {
        match self {
            Message::Request(request) => request.params.message(),
            Message::Notification(notification) => notification.params.message(),
            Message::Response(response) => response.body.message(),
        }
    }
}

impl Request {
    /// Returns the message with another id. All other bytes stay.
    pub fn with_id(&self, id: &Id) -> RawJson {
        self.params.message_with_id(id)
    }
}

impl Response {
    /// Returns the result or the error.
    pub fn result(&self) -> Result<&Body, &RpcError> {
        match &self.error {
            Some(error) => Err(error),
            None => Ok(&self.body),
        }
    }

    /// Returns the result or error without its message.
    pub fn into_result(self) -> Result<RawJson, RpcError> {
        match self.error {
            Some(error) => Err(*error),
            None => Ok(self.body.raw().unwrap_or_else(|| Json::NULL.into())),
        }
    }

    /// Returns the complete message.
    pub fn raw(&self) -> &RawJson {
        self.body.message()
    }

    /// Returns the message with another id. All other bytes stay.
    pub fn with_id(&self, id: &Id) -> RawJson {
        self.body.message_with_id(id)
    }
}

impl Body {
    /// The complete message of this body.
    pub fn message(&self) -> &RawJson {
        &self.message
    }

    fn message_with_id(&self, id: &Id) -> RawJson {
        let mut value = String::new();
        id.write(&mut value);
        let Some(span) = self.spans.id.map(PackedSpan::span) else {
            return self.message.with_new_member("id", Json::from_trusted(&value));
        };
        let text = self.message.text();
        let (before, after) = (&text[..span.start], &text[span.end..]);
        RawJson::from_trusted([before, &value, after].concat())
    }

    /// The body as a value of its own. `params: null` counts as absent.
    pub fn raw(&self) -> Option<RawJson> {
        let body = self.spans.body.map(|span| self.message.slice(span.span()));
        body.filter(|raw| !raw.json().is_null())
    }

    /// The body, or an empty object if it is absent.
    pub fn json(&self) -> Json<'_> {
        let body = self.json_at(self.spans.body);
        body.filter(|json| !json.is_null()).unwrap_or(Json::EMPTY)
    }

    /// Returns any member, found by scanning the body.
    pub fn get(&self, key: &str) -> Option<Json<'_>> {
        self.json().get(key)
    }

    /// `params.name`: the requested tool or prompt.
    pub fn name(&self) -> Option<Cow<'_, str>> {
        self.json_at(self.spans.name)?.as_str()
    }

    /// `params.uri`: the requested resource.
    pub fn uri(&self) -> Option<Cow<'_, str>> {
        self.json_at(self.spans.uri)?.as_str()
    }

    /// `params.arguments`: the arguments for the tool or prompt.
    pub fn arguments(&self) -> Option<Json<'_>> {
        self.json_at(self.spans.arguments)
    }

    /// `params.requestState`: the state that a client of the modern era sends back.
    pub fn request_state(&self) -> Option<Cow<'_, str>> {
        self.json_at(self.spans.request_state)?.as_str()
    }

    /// Returns the params without the named members; all other bytes stay. Returns `None` if no member is left.
    /// Params usually have only known members, and those are not scanned.
    pub fn without(&self, names: &[&str]) -> Option<RawJson> {
        let MemberSpans { name, uri, arguments, request_state, meta, .. } = self.spans;
        let known = [
            ("name", name),
            ("uri", uri),
            ("arguments", arguments),
            ("requestState", request_state),
            ("_meta", meta),
        ];
        let is_left =
            |(key, span): &(&str, Option<PackedSpan>)| span.is_some() && !names.contains(key);
        if !self.spans.has_more && !known.iter().any(is_left) {
            return None;
        }
        let left = self.raw()?.with_members(names.iter().map(|name| (*name, None)));
        left.json().members().next().is_some().then_some(left)
    }

    /// Returns `_meta` of the params or result.
    pub fn meta(&self) -> Option<Json<'_>> {
        self.json_at(self.spans.meta)
    }

    /// Returns the progress token in `_meta`.
    pub fn progress_token(&self) -> Option<ProgressToken> {
        Id::read(self.json_at(self.spans.progress_token)?).ok()
    }

    /// The protocol version in a request of the modern era.
    pub fn version(&self) -> Option<Version> {
        let version = self.json_at(self.spans.version)?.as_str()?;
        Some(Version::from(&*version))
    }

    /// `result.resultType` as text.
    pub fn result_type(&self) -> Option<Cow<'_, str>> {
        self.json_at(self.spans.result_type)?.as_str()
    }

    pub(crate) fn json_at(&self, span: Option<PackedSpan>) -> Option<Json<'_>> {
        span.map(|span| Json::from_trusted(&self.message.text()[span.span()]))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::{Id, Message, MessageLimits, Packet, parse};

    /// Returns the message with another id.
    fn with_id(text: &str, id: &Id) -> String {
        let raw = match parse(text, &MessageLimits::default()) {
            Ok(Packet::One(Message::Request(request))) => request.with_id(id),
            Ok(Packet::One(Message::Response(response))) => response.with_id(id),
            other => panic!("{other:?}"),
        };
        raw.text().to_owned()
    }

    #[test]
    fn another_id_leaves_all_other_bytes() {
        for (text, expected) in [
            (
                r#"{ "jsonrpc":"2.0", "id" : 1 , "method":"m", "params":{ "id":1.0 } }"#,
                r#"{ "jsonrpc":"2.0", "id" : "b\"c" , "method":"m", "params":{ "id":1.0 } }"#,
            ),
            (
                r#"{"result":{"id":1},"jsonrpc":"2.0","id":"a\u0062"}"#,
                r#"{"result":{"id":1},"jsonrpc":"2.0","id":"b\"c"}"#,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","data":{"id":1}}}"#,
                r#"{"jsonrpc":"2.0","id":"b\"c","error":{"code":1,"message":"m","data":{"id":1}}}"#,
            ),
            (
                r#"{"jsonrpc":"2.0","error":{"code":1,"message":"m"}}"#,
                r#"{"id":"b\"c","jsonrpc":"2.0","error":{"code":1,"message":"m"}}"#,
            ),
        ] {
            assert_eq!(with_id(text, &Id::from("b\"c")), expected);
        }
    }

    proptest! {
        #[test]
        fn id_is_replaced_wherever_it_stands(
            place in 0..4usize,
            space in "[ \\t\\r\\n]{0,3}",
            value in prop::sample::select(vec!["null", "{\"id\":3}", "{ \"a\\u00e9\" : 1.50e+2}"]),
        ) {
            let message = |id: &str| {
                let mut members = vec![
                    "\"jsonrpc\":\"2.0\"".to_owned(),
                    "\"method\":\"m\"".to_owned(),
                    format!("\"params\":{value}"),
                ];
                members.insert(place, format!("\"id\"{space}:{space}{id}"));
                format!("{{{}{space}}}", members.join(&format!("{space},")))
            };
            prop_assert_eq!(with_id(&message("1"), &Id::from(-77)), message("-77"));
            prop_assert_eq!(with_id(&message("\"x\""), &Id::from("")), message("\"\""));
        }
    }

    #[test]
    fn unknown_params_keep_their_bytes() {
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
            let Ok(Packet::One(Message::Request(request))) = parse(text, &MessageLimits::default())
            else {
                panic!("{params}")
            };
            let found = request.params.without(&known);
            assert_eq!(found.as_ref().map(|it| it.text()), left, "{params}");
        }
    }
}
