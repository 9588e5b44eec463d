//! Bytes to messages, alone or in batches, and what can be made out of those that are none.

use crate::draft::{Draft, Sound};
use crate::envelope::{Body, Message, Notification, Packet, Request, Response};
use crate::id::Id;
use crate::json::Json;
use crate::limits::Limits;
use crate::malformed::{Fault, Malformed, Shape};
use crate::member::Member;
use crate::outline::Outline;
use crate::raw::{Held, Raw, utf8};
use crate::scan::{Scanner, Span};
use crate::wrong::Wrong;

/// Reads one frame: a message, or a batch of them.
pub fn parse(bytes: impl Into<Vec<u8>>, limits: &Limits) -> Result<Packet, Malformed> {
    packet(bytes.into(), limits, None)
}

/// The same, and something is kept for as long as any part of the text.
pub fn parse_holding(
    bytes: impl Into<Vec<u8>>,
    limits: &Limits,
    held: Held,
) -> Result<Packet, Malformed> {
    packet(bytes.into(), limits, held)
}

fn packet(bytes: Vec<u8>, limits: &Limits, held: Held) -> Result<Packet, Malformed> {
    let raw = whole(bytes, limits, held)?;
    if raw.as_bytes().first() == Some(&b'[') {
        return batch(&raw, limits).map(Packet::Batch);
    }
    message(raw, limits).map(Packet::One)
}

/// What can be made out of the id of a message whose end is missing, such as one cut at a size limit.
pub fn recover_id(head: &[u8]) -> Option<Id> {
    let valid = head.utf8_chunks().next()?.valid();
    let mut draft = Draft::default();
    // The walk fails where the text ends; what it saw before stays in the draft.
    let _ = draft.walk(valid, &Limits::default());
    draft.id(valid)?.ok()
}

/// The text without the white space around it.
fn whole(bytes: Vec<u8>, limits: &Limits, held: Held) -> Result<Raw, Malformed> {
    let text = utf8(bytes, limits).map_err(|(fault, bytes)| outlined(&bytes, fault))?;
    let is_content = |byte| !matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    let start = text.bytes().position(is_content).unwrap_or(text.len());
    let end = text.bytes().rposition(is_content).map_or(start, |last| last + 1);
    Ok(Raw::within_held(start..end, text, held))
}

fn batch(raw: &Raw, limits: &Limits) -> Result<Vec<Result<Message, Malformed>>, Malformed> {
    let spans = batch_spans(raw.text(), limits).map_err(unknown)?;
    Ok(spans.into_iter().map(|span| message(raw.slice(span), limits)).collect())
}

fn batch_spans(text: &str, limits: &Limits) -> Result<Vec<Span>, Fault> {
    let mut scanner = Scanner::new(text, limits.depth.saturating_add(1));
    let spans = item_spans(&mut scanner, limits.batch);
    match spans.map_err(|wrong| scanner.fault(wrong))? {
        None => Err(Fault::BatchTooLong { limit: limits.batch }),
        Some(spans) if spans.is_empty() => Err(Fault::EmptyBatch),
        Some(spans) => Ok(spans),
    }
}

/// None if there are more than so many.
fn item_spans(scanner: &mut Scanner<'_>, limit: usize) -> Result<Option<Vec<Span>>, Wrong> {
    let mut spans = Vec::new();
    let mut first = true;
    scanner.enter(b'[')?;
    while scanner.next_item(&mut first)? {
        if spans.len() == limit {
            return Ok(None);
        }
        spans.push(scanner.value()?);
    }
    scanner.end()?;
    Ok(Some(spans))
}

// Inlined, since a message is large and would be copied on its way out.
#[inline(always)]
fn message(raw: Raw, limits: &Limits) -> Result<Message, Malformed> {
    let mut draft = Draft::default();
    let walked = draft.walk(raw.text(), limits);
    let fault = match walked.and_then(|()| draft.check(&raw)) {
        Ok(sound) => return Ok(finish(raw, &draft, sound)),
        Err(fault) => fault,
    };
    Err(malformed(&raw, &draft, fault))
}

#[cold]
fn malformed(raw: &Raw, draft: &Draft, fault: Fault) -> Malformed {
    let shape = draft.shape();
    let id = draft.id(raw.text()).and_then(Result::ok);
    let id = id.or_else(|| trailing_id(raw.text(), &fault, shape));
    Malformed { fault, id, shape }
}

/// What is no text still has an outline.
#[cold]
fn outlined(bytes: &[u8], fault: Fault) -> Malformed {
    let mut outline = Outline::default();
    outline.feed(bytes);
    let shape = outline.shape();
    let (_, id) = outline.into_parts();
    Malformed { fault, id, shape }
}

fn unknown(fault: Fault) -> Malformed {
    Malformed { fault, id: None, shape: Shape::Unknown }
}

#[inline]
fn finish(message: Raw, draft: &Draft, sound: Sound) -> Message {
    let body = |member| Body { places: draft.places(member), message };
    match sound {
        Sound::Call { id, method } => {
            let params = body(Member::Params);
            match id {
                Some(id) => Message::Request(Request { id, method, params }),
                None => Message::Notification(Notification { method, params }),
            }
        }
        Sound::Answer { id, error } => {
            let member = if error.is_some() { Member::Error } else { Member::Result };
            let body = body(member);
            Message::Response(Response { id, body, error })
        }
    }
}

/// The id at the very end of an answer whose middle is not JSON: the TypeScript SDK writes it last.
fn trailing_id(text: &str, fault: &Fault, shape: Shape) -> Option<Id> {
    if shape != Shape::Response || !matches!(fault, Fault::Syntax { .. } | Fault::TooDeep { .. }) {
        return None;
    }
    let (_, tail) = text.rsplit_once("\"id\"")?;
    let value = tail.trim_start().strip_prefix(':')?.trim_end().strip_suffix('}')?;
    let value = Json::parse(value, &Limits::default()).ok()?;
    Id::read(value).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::json::Kind;
    use crate::version::Version;

    fn one(text: &str) -> Result<Message, Malformed> {
        match parse(text, &Limits::default())? {
            Packet::One(message) => Ok(message),
            Packet::Batch(items) => panic!("a batch of {}", items.len()),
        }
    }

    fn request(text: &str) -> Request {
        match one(text) {
            Ok(Message::Request(request)) => request,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_request_shows_what_routing_needs() {
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
    fn however_a_request_is_written_the_same_is_found() {
        let plain = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"tool","uri":"a:b","arguments":{},"_meta":{"progressToken":3}}}"#;
        let spaced = plain
            .replace('{', " {\n")
            .replace('}', "\t} ")
            .replace(':', " : ")
            .replace(',', "\r\n, ");
        let spaced = spaced.replace("a : b", "a:b");
        // The second letter of each key, and of the text of each value.
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
            assert_eq!(params.arguments().map(Json::kind), Some(Kind::Object), "{text}");
            assert_eq!(params.progress_token(), Some(Id::from(3)), "{text}");
        }
    }

    #[test]
    fn a_key_that_is_given_twice_is_found_however_it_is_written() {
        let keys = [r#""id":"#, r#""id" :"#, r#" "id":"#, r#""i\u0064":"#];
        for (first, second) in keys.iter().flat_map(|first| keys.map(|second| (first, second))) {
            let text = format!(r#"{{"jsonrpc":"2.0",{first}1,"method":"m",{second}2}}"#);
            assert_eq!(one(&text).unwrap_err().fault, Fault::Duplicate { member: "id" }, "{text}");
        }
    }

    #[test]
    fn params_may_be_absent_null_or_without_what_routing_looks_for() {
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
    fn answers_are_results_or_errors_and_a_null_beside_one_is_nothing() {
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
            let Ok(Message::Response(response)) = one(text) else { panic!("{text}") };
            assert_eq!(response.id.as_ref().map(Id::to_string).as_deref(), id, "{text}");
            assert_eq!(response.error.is_some(), answer.contains("code"), "{text}");
            let said = response.into_answer().unwrap_or_else(|error| error.to_raw());
            assert_eq!(said.text(), answer, "{text}");
        }
    }

    #[test]
    fn a_malformed_message_tells_what_is_wrong_what_it_was_and_whose() {
        use Shape::{Notification, Request, Response, Unknown};
        for (text, fault, shape, id) in [
            ("7", "must be an object, this is a number", Unknown, None),
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
                "`error` is unusable: it is not an object",
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
            (r#"{"jsonrpc":"2.0","result":{}}"#, "a result without an id", Response, None),
            (
                r#"{"jsonrpc":"2.0","id":null,"result":{}}"#,
                "a result without an id",
                Response,
                None,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1.5,"result":{}}"#,
                "not written as an integer",
                Response,
                None,
            ),
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
                "`params` must be an object, this is an array",
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
            let malformed = one(text).unwrap_err();
            let shown = malformed.fault.to_string();
            assert!(shown.contains(fault), "{text}: {shown}");
            assert_eq!((malformed.shape, malformed.id), (shape, id.map(Id::Number)), "{text}");
        }
    }

    #[test]
    fn limits_are_named_and_a_deep_answer_still_fails_its_own_call() {
        let limits = Limits { size: 300, depth: 4, batch: 2 };
        let deep =
            format!(r#"{{"jsonrpc":"2.0","id":1,"result":{}{}}}"#, "[".repeat(9), "]".repeat(9));
        let malformed = parse(deep, &limits).unwrap_err();
        assert_eq!(
            (malformed.fault, malformed.id),
            (Fault::TooDeep { limit: 4 }, Some(Id::from(1)))
        );
        let malformed = parse(vec![b' '; 301], &limits).unwrap_err();
        assert_eq!(malformed.fault, Fault::TooLarge { size: 301, limit: 300 });
        assert_eq!(parse("[1,2,3]", &limits).unwrap_err().fault, Fault::BatchTooLong { limit: 2 });
        let hostile = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{}"#,
            "{\"_meta\":".repeat(1_000_000)
        );
        assert_eq!(one(&hostile).unwrap_err().fault, Fault::TooDeep { limit: 128 });
        assert_eq!(
            parse(b"{\"a\":\"\xff\"}".to_vec(), &limits).unwrap_err().fault,
            Fault::NotUtf8 { at: 6 }
        );
    }

    #[test]
    fn whose_answer_it_is_can_be_told_although_it_is_no_text() {
        let long = "x".repeat(70_000);
        for text in [
            format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{{\"a\":\"{long}\u{1}\"}}}}"),
            format!("{{\"jsonrpc\":\"2.0\",\"result\":{{\"a\":\"\u{1}{long}\"}},\"id\":7}}"),
        ] {
            // The control character stands for a byte that no text has.
            let bytes = text.bytes().map(|byte| if byte == 1 { 0xff } else { byte });
            let malformed = parse(bytes.collect::<Vec<u8>>(), &Limits::default()).unwrap_err();
            assert!(matches!(malformed.fault, Fault::NotUtf8 { .. }));
            assert_eq!((malformed.id, malformed.shape), (Some(Id::from(7)), Shape::Response));
        }
    }

    #[test]
    fn the_items_of_a_batch_succeed_and_fail_one_by_one() {
        let text = r#"[{"jsonrpc":"2.0","id":1,"result":{}}, 7 ,{"jsonrpc":"2.0","method":"n"}]"#;
        let items: Vec<_> = parse(text, &Limits::default()).unwrap().into_messages().collect();
        assert!(
            matches!(&items[0], Ok(Message::Response(response)) if response.id == Some(Id::from(1)))
        );
        assert_eq!(
            items[1].as_ref().unwrap_err().fault,
            Fault::NotAnObject { found: Kind::Number }
        );
        assert!(matches!(&items[2], Ok(Message::Notification(n)) if n.method == "n"));
        assert_eq!(parse("[]", &Limits::default()).unwrap_err().fault, Fault::EmptyBatch);
        assert!(matches!(
            parse("[{}", &Limits::default()).unwrap_err().fault,
            Fault::Syntax { .. }
        ));
    }

    #[test]
    fn the_id_of_a_message_that_was_cut_off_is_recovered_if_it_had_come() {
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
        fn no_bytes_make_it_panic(bytes in any::<Vec<u8>>()) {
            let _ = recover_id(&bytes);
            let _ = parse(bytes, &Limits::default());
        }

        #[test]
        fn no_message_cut_short_or_altered_makes_it_panic(cut in 0..200usize, place in 0..200usize, byte in any::<u8>()) {
            let text = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"\ud83d\ude00","_meta":{"progressToken":3}},"result":{"_meta":{}},"error":{"code":1}}"#;
            let mut bytes = text.as_bytes()[..cut.min(text.len())].to_vec();
            if let Some(found) = bytes.get_mut(place) {
                *found = byte;
            }
            let _ = recover_id(&bytes);
            let _ = parse(bytes, &Limits::default());
        }
    }
}
