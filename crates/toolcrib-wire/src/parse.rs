//! Parses bytes into messages and batches, and recovers ids from malformed messages.

use crate::envelope::{Body, Message, Notification, Packet, Request, Response};
use crate::id::Id;
use crate::json::Json;
use crate::limits::MessageLimits;
use crate::member::Member;
use crate::message_index::{CheckedMessage, MessageIndex};
use crate::outline::Outline;
use crate::parse_error::{MalformedMessage, MessageKind, ParseError};
use crate::raw_json::{RawJson, TextGuard, utf8};
use crate::scan_error::ScanError;
use crate::scanner::{Scanner, Span};

/// Parses one frame: a message or a batch.
pub fn parse(
    bytes: impl Into<Vec<u8>>,
    limits: &MessageLimits,
) -> Result<Packet, MalformedMessage> {
    parse_packet(bytes.into(), limits, None)
}

/// Like [`parse`], and keeps the guard for as long as any part of the text is in use.
pub fn parse_with_guard(
    bytes: impl Into<Vec<u8>>,
    limits: &MessageLimits,
    guard: TextGuard,
) -> Result<Packet, MalformedMessage> {
    parse_packet(bytes.into(), limits, guard)
}

fn parse_packet(
    bytes: Vec<u8>,
    limits: &MessageLimits,
    guard: TextGuard,
) -> Result<Packet, MalformedMessage> {
    let raw = read_text(bytes, limits, guard)?;
    if raw.as_bytes().first() == Some(&b'[') {
        return parse_batch(&raw, limits).map(Packet::Batch);
    }
    parse_message(raw, limits).map(Packet::One)
}

/// Recovers the id of a truncated message, such as one cut at a size limit.
pub fn recover_id(head: &[u8]) -> Option<Id> {
    let valid = head.utf8_chunks().next()?.valid();
    let mut index = MessageIndex::default();
    // The scan fails at the end of the text, but the index keeps its findings.
    let _ = index.scan(valid, &MessageLimits::default());
    index.id(valid)?.ok()
}

/// Checks the encoding and strips surrounding white space.
fn read_text(
    bytes: Vec<u8>,
    limits: &MessageLimits,
    guard: TextGuard,
) -> Result<RawJson, MalformedMessage> {
    let text = utf8(bytes, limits).map_err(|(error, bytes)| malformed_from_bytes(&bytes, error))?;
    let is_content = |byte| !matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    let start = text.bytes().position(is_content).unwrap_or(text.len());
    let end = text.bytes().rposition(is_content).map_or(start, |last| last + 1);
    Ok(RawJson::from_span_with_guard(start..end, text, guard))
}

fn parse_batch(
    raw: &RawJson,
    limits: &MessageLimits,
) -> Result<Vec<Result<Message, MalformedMessage>>, MalformedMessage> {
    let spans = batch_spans(raw.text(), limits).map_err(malformed_batch)?;
    Ok(spans.into_iter().map(|span| parse_message(raw.slice(span), limits)).collect())
}

fn batch_spans(text: &str, limits: &MessageLimits) -> Result<Vec<Span>, ParseError> {
    let mut scanner = Scanner::new(text, limits.depth.saturating_add(1));
    let spans = item_spans(&mut scanner, limits.batch);
    match spans.map_err(|error| scanner.parse_error(error))? {
        None => Err(ParseError::BatchTooLong { limit: limits.batch }),
        Some(spans) if spans.is_empty() => Err(ParseError::EmptyBatch),
        Some(spans) => Ok(spans),
    }
}

/// Returns `None` if the batch has more than `limit` items.
fn item_spans(scanner: &mut Scanner<'_>, limit: usize) -> Result<Option<Vec<Span>>, ScanError> {
    let mut spans = Vec::new();
    let mut first = true;
    scanner.enter_container(b'[')?;
    while scanner.next_item(&mut first)? {
        if spans.len() == limit {
            return Ok(None);
        }
        spans.push(scanner.skip_value()?);
    }
    scanner.expect_end()?;
    Ok(Some(spans))
}

// Inlined, because the message is large and a call would copy it.
#[inline(always)]
fn parse_message(raw: RawJson, limits: &MessageLimits) -> Result<Message, MalformedMessage> {
    let mut index = MessageIndex::default();
    let walked = index.scan(raw.text(), limits);
    let error = match walked.and_then(|()| index.classify(&raw)) {
        Ok(checked) => return Ok(build_message(raw, &index, checked)),
        Err(error) => error,
    };
    Err(malformed(&raw, &index, error))
}

#[cold]
fn malformed(raw: &RawJson, index: &MessageIndex, error: ParseError) -> MalformedMessage {
    let kind = index.kind();
    let id = index.id(raw.text()).and_then(Result::ok);
    let id = id.or_else(|| trailing_id(raw.text(), &error, kind));
    MalformedMessage { error, id, kind }
}

/// Recovers id and kind from bytes that are not UTF-8.
#[cold]
fn malformed_from_bytes(bytes: &[u8], error: ParseError) -> MalformedMessage {
    let mut outline = Outline::default();
    outline.feed(bytes);
    let kind = outline.kind();
    let (_, id) = outline.into_parts();
    MalformedMessage { error, id, kind }
}

fn malformed_batch(error: ParseError) -> MalformedMessage {
    MalformedMessage { error, id: None, kind: MessageKind::Unknown }
}

#[inline]
fn build_message(message: RawJson, index: &MessageIndex, checked: CheckedMessage) -> Message {
    let body = |member| Body { spans: index.member_spans(member), message };
    match checked {
        CheckedMessage::Call { id, method } => {
            let params = body(Member::Params);
            match id {
                Some(id) => Message::Request(Request { id, method, params }),
                None => Message::Notification(Notification { method, params }),
            }
        }
        CheckedMessage::Response { id, error } => {
            let member = if error.is_some() { Member::Error } else { Member::Result };
            let body = body(member);
            Message::Response(Response { id, body, error })
        }
    }
}

/// Recovers the id at the end of a response with invalid JSON in its middle: the TypeScript SDK writes the id last.
fn trailing_id(text: &str, error: &ParseError, kind: MessageKind) -> Option<Id> {
    if kind != MessageKind::Response
        || !matches!(error, ParseError::Syntax { .. } | ParseError::TooDeep { .. })
    {
        return None;
    }
    let (_, tail) = text.rsplit_once("\"id\"")?;
    let value = tail.trim_start().strip_prefix(':')?.trim_end().strip_suffix('}')?;
    let value = Json::parse(value, &MessageLimits::default()).ok()?;
    Id::read(value).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::json::JsonKind;
    use crate::version::Version;

    fn parse_one(text: &str) -> Result<Message, MalformedMessage> {
        match parse(text, &MessageLimits::default())? {
            Packet::One(message) => Ok(message),
            Packet::Batch(items) => panic!("a batch of {}", items.len()),
        }
    }

    fn request(text: &str) -> Request {
        match parse_one(text) {
            Ok(Message::Request(request)) => request,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn request_exposes_the_routing_members() {
        let request = request(
            r#" {"method":"tools\/call","params":{"_meta":{"progressToken":"p","io.modelcontextprotocol/protocolVersion":"2026-07-28"},
            "arguments":{"name":"inner","_meta":{}},"n\u0061me":"to\u006fl","uri":"a:b","requestState":"s"},"id":"x","jsonrpc":"2.0"}
            "#,
        );
        assert_eq!((request.id, request.method.as_str()), (Id::from("x"), "tools/call"));
        let params = &request.params;
        assert_eq!(params.name().as_deref(), Some("tool"));
        assert_eq!(params.uri().as_deref(), Some("a:b"));
        assert_eq!(params.progress_token(), Some(Id::from("p")));
        assert_eq!(params.version(), Some(Version::V2026_07_28));
        for arguments in [params.get("arguments"), params.arguments()] {
            assert_eq!(arguments.map(Json::text), Some(r#"{"name":"inner","_meta":{}}"#));
        }
        assert_eq!(params.request_state().as_deref(), Some("s"));
        assert!(params.message().text().ends_with(r#""jsonrpc":"2.0"}"#));
    }

    #[test]
    fn whitespace_and_escapes_do_not_change_the_parsed_request() {
        let plain = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"tool","uri":"a:b","arguments":{},"_meta":{"progressToken":3}}}"#;
        let spaced = plain
            .replace('{', " {\n")
            .replace('}', "\t} ")
            .replace(':', " : ")
            .replace(',', "\r\n, ");
        let spaced = spaced.replace("a : b", "a:b");
        // Escapes the second letter of each key and of the text of each value.
        let escaped = [
            "jsonrpc",
            "id",
            "method",
            "params",
            "name",
            "uri",
            "arguments",
            "_meta",
            "progressToken",
            "2.0",
            "tools",
            "tool\"",
            "a:b",
        ];
        let escaped = escaped.iter().fold(plain.to_owned(), |text, word| {
            let letter = u32::from(word.as_bytes()[1]);
            text.replace(
                &format!("\"{word}"),
                &format!("\"{}\\u{letter:04x}{}", &word[..1], &word[2..]),
            )
        });
        for text in [plain, &spaced, &escaped, &format!("\r\n{plain} \t")] {
            let request = request(text);
            assert_eq!(
                (request.id, request.method.as_str()),
                (Id::from(7), "tools/call"),
                "{text}"
            );
            let params = &request.params;
            assert_eq!(params.name().as_deref(), Some("tool"), "{text}");
            assert_eq!(params.uri().as_deref(), Some("a:b"), "{text}");
            assert_eq!(params.arguments().map(Json::kind), Some(JsonKind::Object), "{text}");
            assert_eq!(params.progress_token(), Some(Id::from(3)), "{text}");
        }
    }

    #[test]
    fn duplicate_id_is_rejected_in_every_spelling() {
        let keys = [r#""id":"#, r#""id" :"#, r#" "id":"#, r#""i\u0064":"#];
        for (first, second) in keys.iter().flat_map(|first| keys.map(|second| (first, second))) {
            let text = format!(r#"{{"jsonrpc":"2.0",{first}1,"method":"m",{second}2}}"#);
            assert_eq!(
                parse_one(&text).unwrap_err().error,
                ParseError::DuplicateMember { member: "id" },
                "{text}"
            );
        }
    }

    #[test]
    fn params_may_be_absent_null_or_without_routing_members() {
        for params in
            ["", r#","params":null"#, r#","params":{}"#, r#","params":{"name":7,"_meta":[]}"#]
        {
            let request = request(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m"{params}}}"#));
            assert_eq!(request.params.name(), None, "{params}");
            assert_eq!(request.params.progress_token(), None, "{params}");
            assert_eq!(request.params.raw().is_some(), params.contains('{'), "{params}");
        }
    }

    #[test]
    fn response_with_a_null_result_or_error_uses_the_other() {
        let error = r#"{"code":-1,"message":"m"}"#;
        for (text, id, answer) in [
            (r#"{"jsonrpc":"2.0","id":1,"result":{"a": 1.0}}"#, Some("1"), r#"{"a": 1.0}"#),
            (r#"{"result":[],"jsonrpc":"2.0","id":"1","error":null}"#, Some("\"1\""), "[]"),
            (r#"{"jsonrpc":"2.0","id":1,"result":null}"#, Some("1"), "null"),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":-1,"message":"m"}}"#,
                Some("1"),
                error,
            ),
            (
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"m","data":[1]}}"#,
                None,
                r#"{"code":-1,"message":"m","data":[1]}"#,
            ),
            (r#"{"jsonrpc":"2.0","error":{"code":-1,"message":"m"}}"#, None, error),
        ] {
            let Ok(Message::Response(response)) = parse_one(text) else { panic!("{text}") };
            assert_eq!(response.id.as_ref().map(Id::to_string).as_deref(), id, "{text}");
            assert_eq!(response.error.is_some(), answer.contains("code"), "{text}");
            let actual = response.into_result().unwrap_or_else(|error| error.to_raw());
            assert_eq!(actual.text(), answer, "{text}");
        }
    }

    #[test]
    fn malformed_message_reports_error_kind_and_id() {
        use MessageKind::{Notification, Request, Response, Unknown};
        for (text, error, kind, id) in [
            ("7", "must be an object, found a number", Unknown, None),
            ("hello", "not JSON at byte 0: expected a value", Unknown, None),
            ("", "not JSON at byte 0: the text ends too early", Unknown, None),
            (r#"{"id":1,"result":{}}"#, "`jsonrpc` is not", Response, Some(1)),
            (r#"{"jsonrpc":"1.0","id":1,"method":"m"}"#, "`jsonrpc` is not", Request, Some(1)),
            (r#"{"jsonrpc":"2.0","id":1}"#, "neither a method", Unknown, Some(1)),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#,
                "both a result and an error",
                Response,
                Some(1),
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"m","result":{}}"#,
                "a method together",
                Unknown,
                Some(1),
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"error":"broken"}"#,
                "`error` is invalid: it is not an object",
                Response,
                Some(1),
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"error":{"code":"x","message":""}}"#,
                "`code` is not an integer",
                Response,
                Some(1),
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"error":{"code":1}}"#,
                "`message` is not a string",
                Response,
                Some(1),
            ),
            (r#"{"jsonrpc":"2.0","result":{}}"#, "a result but no id", Response, None),
            (r#"{"jsonrpc":"2.0","id":null,"result":{}}"#, "a result but no id", Response, None),
            (r#"{"jsonrpc":"2.0","id":1.5,"result":{}}"#, "not an integer", Response, None),
            (
                r#"{"jsonrpc":"2.0","id":99999999999999999999,"method":"m"}"#,
                "does not fit",
                Request,
                None,
            ),
            (r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#, "it is null", Request, None),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
                "`method` must be a string",
                Request,
                Some(1),
            ),
            (
                r#"{"jsonrpc":"2.0","method":"m","params":[1]}"#,
                "`params` must be an object, found an array",
                Notification,
                None,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}"#,
                "`id` is given twice",
                Request,
                None,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"name":"a","n\u0061me":"b"}}"#,
                "`params.name` is given twice",
                Request,
                Some(1),
            ),
            (
                r#"{"jsonrpc":"2.0","method":"m","params":{"uri":"a","uri":"b"},"id":1}"#,
                "`params.uri` is given twice",
                Request,
                Some(1),
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"arguments":{},"arguments":{"a":1}}}"#,
                "`params.arguments` is given twice",
                Request,
                Some(1),
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{},"_meta":{}}}"#,
                "`params._meta` is given twice",
                Request,
                Some(1),
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{"a":tru}}"#,
                "not JSON at byte 38",
                Response,
                Some(1),
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{"a":"#,
                "the text ends too early",
                Response,
                Some(1),
            ),
            (
                r#"{"result":{"a":NaN},"jsonrpc":"2.0","id":5}"#,
                "not JSON at byte 15",
                Response,
                Some(5),
            ),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}} x"#, "text after the end", Response, Some(1)),
        ] {
            let malformed = parse_one(text).unwrap_err();
            let shown = malformed.error.to_string();
            assert!(shown.contains(error), "{text}: {shown}");
            assert_eq!((malformed.kind, malformed.id), (kind, id.map(Id::Number)), "{text}");
        }
    }

    #[test]
    fn limit_errors_name_the_limit_and_keep_the_response_id() {
        let limits = MessageLimits { size: 300, depth: 4, batch: 2 };
        let deep =
            format!(r#"{{"jsonrpc":"2.0","id":1,"result":{}{}}}"#, "[".repeat(9), "]".repeat(9));
        let malformed = parse(deep, &limits).unwrap_err();
        assert_eq!(
            (malformed.error, malformed.id),
            (ParseError::TooDeep { limit: 4 }, Some(Id::from(1)))
        );
        let malformed = parse(vec![b' '; 301], &limits).unwrap_err();
        assert_eq!(malformed.error, ParseError::TooLarge { size: 301, limit: 300 });
        assert_eq!(
            parse("[1,2,3]", &limits).unwrap_err().error,
            ParseError::BatchTooLong { limit: 2 }
        );
        let hostile = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{}"#,
            "{\"_meta\":".repeat(1_000_000)
        );
        assert_eq!(parse_one(&hostile).unwrap_err().error, ParseError::TooDeep { limit: 128 });
        assert_eq!(
            parse(b"{\"a\":\"\xff\"}".to_vec(), &limits).unwrap_err().error,
            ParseError::NotUtf8 { at: 6 }
        );
    }

    #[test]
    fn response_id_is_recovered_from_invalid_utf8() {
        let long = "x".repeat(70_000);
        for text in [
            format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{{\"a\":\"{long}\u{1}\"}}}}"),
            format!("{{\"jsonrpc\":\"2.0\",\"result\":{{\"a\":\"\u{1}{long}\"}},\"id\":7}}"),
        ] {
            // The control character is replaced by a byte that UTF-8 never contains.
            let bytes = text.bytes().map(|byte| if byte == 1 { 0xff } else { byte });
            let malformed =
                parse(bytes.collect::<Vec<u8>>(), &MessageLimits::default()).unwrap_err();
            assert!(matches!(malformed.error, ParseError::NotUtf8 { .. }));
            assert_eq!((malformed.id, malformed.kind), (Some(Id::from(7)), MessageKind::Response));
        }
    }

    #[test]
    fn batch_items_succeed_and_fail_independently() {
        let text = r#"[{"jsonrpc":"2.0","id":1,"result":{}}, 7 ,{"jsonrpc":"2.0","method":"n"}]"#;
        let items: Vec<_> =
            parse(text, &MessageLimits::default()).unwrap().into_messages().collect();
        assert!(
            matches!(&items[0], Ok(Message::Response(response)) if response.id == Some(Id::from(1)))
        );
        assert_eq!(
            items[1].as_ref().unwrap_err().error,
            ParseError::NotAnObject { found: JsonKind::Number }
        );
        assert!(matches!(&items[2], Ok(Message::Notification(n)) if n.method == "n"));
        assert_eq!(
            parse("[]", &MessageLimits::default()).unwrap_err().error,
            ParseError::EmptyBatch
        );
        assert!(matches!(
            parse("[{}", &MessageLimits::default()).unwrap_err().error,
            ParseError::Syntax { .. }
        ));
    }

    #[test]
    fn complete_id_of_a_truncated_message_is_recovered() {
        for (head, id) in [
            (r#"{"jsonrpc":"2.0","id":12,"result":{"te"#, Some(Id::from(12))),
            (r#"{"jsonrpc":"2.0","id":"a","result":{"te"#, Some(Id::from("a"))),
            (r#"{"jsonrpc":"2.0","result":{"id":3,"#, None),
            (r#"{"jsonrpc":"2.0","id":1"#, None),
            ("", None),
        ] {
            assert_eq!(recover_id(head.as_bytes()), id, "{head}");
        }
        assert_eq!(recover_id(b"{\"id\":4,\"result\":\"\xc3"), Some(Id::from(4)));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in any::<Vec<u8>>()) {
            let _ = recover_id(&bytes);
            let _ = parse(bytes, &MessageLimits::default());
        }

        #[test]
        fn truncated_or_altered_messages_never_panic(cut in 0..200usize, place in 0..200usize, byte in any::<u8>()) {
            let text = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"\ud83d\ude00","_meta":{"progressToken":3}},"result":{"_meta":{}},"error":{"code":1}}"#;
            let mut bytes = text.as_bytes()[..cut.min(text.len())].to_vec();
            if let Some(found) = bytes.get_mut(place) {
                *found = byte;
            }
            let _ = recover_id(&bytes);
            let _ = parse(bytes, &MessageLimits::default());
        }
    }
}
