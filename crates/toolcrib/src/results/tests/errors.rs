//! Tests of error messages, kinds and styles.

use std::error::Error as _;
use std::time::UNIX_EPOCH;

use super::*;

fn structured(structured: &str) -> String {
    let failed = result(&format!(
        r#"{{"content":[{{"type":"text","text":"from text"}}],"isError":true,"structuredContent":{structured}}}"#
    ));
    error_message(&failed, ErrorMessage::Structured)
}

#[test]
fn structured_error_message_has_code_and_retriable() {
    for (row, payload, expected) in [
        ("DKR-31", r#"{"message":"a","error":"b","detail":"d"}"#, "a"),
        ("DKR-31", r#"{"error":"b","detail":"d"}"#, "b"),
        ("DKR-31", r#"{"error":{"message":"c"},"detail":"d"}"#, "c"),
        ("DKR-31", r#"{"error":{},"detail":"d"}"#, "d"),
        ("DKR-31", r#"{"message":"","error":7,"detail":"d"}"#, "d"),
        (
            "DKR-32",
            r#"{"message":"x","code":"E_TIMEOUT","retryable":"false"}"#,
            "x (code=E_TIMEOUT retriable=false)",
        ),
        ("DKR-32", r#"{"message":"x","errorCode":17}"#, "x (code=17)"),
        ("DKR-32", r#"{"message":"x","statusCode":503,"code":null}"#, "x (code=503)"),
        ("DKR-32", r#"{"error":{"message":"c","code":"IN"},"statusCode":"OUT"}"#, "c (code=OUT)"),
        (
            "DKR-32",
            r#"{"error":{"message":"c","code":"IN","retriable":true}}"#,
            "c (code=IN retriable=true)",
        ),
        ("DKR-33", r#"{"message":"x","retriable":"TRUE"}"#, "x (retriable=true)"),
        ("DKR-33", r#"{"message":"x","retriable":0}"#, "x (retriable=false)"),
        ("DKR-33", r#"{"message":"x","retryable":1}"#, "x (retriable=true)"),
        ("DKR-33", r#"{"message":"x","retriable":true}"#, "x (retriable=true)"),
        ("DKR-33", r#"{"message":"x","retriable":"perhaps"}"#, "x"),
        ("DKR-35", r#"{"other":1}"#, "from text"),
        ("DKR-35", r#"{"code":"E"}"#, "from text (code=E)"),
        ("DKR-35", "[1]", "from text"),
    ] {
        assert_eq!(structured(payload), expected, "{row} {payload}");
    }
}

#[test]
fn dkr_35_36_error_message_falls_back_to_text_then_raw_result() {
    let text = result(
        r#"{"content":[{"type":"text","text":"a"},{"type":"x"},{"type":"text","text":"b"}],"isError":true}"#,
    );
    assert_eq!(error_message(&text, ErrorMessage::Structured), "a\nb");
    let silent = format!(r#"{{"isError":true,"content":[],"x":"{}"}}"#, "é".repeat(5000));
    let actual = error_message(&result(&silent), ErrorMessage::Structured);
    assert_eq!(actual.chars().count(), 2000);
    assert!(silent.starts_with(&actual));
}

#[test]
fn dkr_34_thrown_error_keeps_the_structured_content_as_cause() {
    let part = r#"{"message":"x","retriable":true,"more":[1.0]}"#;
    let failed = result(&format!(r#"{{"content":[],"isError":true,"structuredContent":{part}}}"#));
    let thrown = deliver(&facts(), Ok(&failed), &docker(), Audience::Other).unwrap_err();
    assert_eq!(thrown.to_string(), "x (retriable=true)");
    assert_eq!(thrown.cause_data().unwrap().text(), part);
    assert_eq!((thrown.kind(), thrown.retry()), (ErrorKind::Tool, RetryAdvice::Now));
    assert_eq!((thrown.server(), thrown.tool()), (Some("github"), Some("mcp_github_create_issue")));
}

#[test]
fn error_style_decides_between_result_and_error() {
    let lost = CallError::new(ErrorKind::Connection, "the call was lost")
        .with_cause(std::io::Error::other("broken pipe"));
    let delivered = deliver(&facts(), Err(&lost), &dominds(), Audience::Other).unwrap();
    assert_eq!(
        delivered.content,
        RenderedResult::Text("the call was lost: broken pipe".to_owned())
    );
    assert!(delivered.is_error);
    let thrown = deliver(&facts(), Err(&lost), &docker(), Audience::Other).unwrap_err();
    assert_eq!(thrown.kind(), ErrorKind::Connection);
}

#[test]
fn min_60_tagged_error_names_server_and_cause() {
    let error = CallError::new(ErrorKind::Connection, "failed to connect")
        .with_code("CONNECTION_FAILED")
        .with_server("github")
        .with_tool("create_issue")
        .with_cause(std::io::Error::other("refused"))
        .with_time(UNIX_EPOCH);
    assert_eq!(error.tagged_text(), "[MCP:github] failed to connect: refused");
    assert_eq!(error.to_string(), "failed to connect", "the message never repeats its cause");
    assert_eq!(error.source().unwrap().to_string(), "refused");
    let json = call_report(&facts(), Err(&error), ErrorMessage::FirstText);
    let expected = concat!(
        r#"{"kind":"connection","code":"CONNECTION_FAILED","message":"failed to connect","retry":"now","#,
        r#""cause":"refused","server":"github","tool":"create_issue","time":"1970-01-01T00:00:00.000Z","#,
        r#""timestamp":"1970-01-01T00:00:00.000Z","text":"[MCP:github] failed to connect: refused"}"#
    );
    assert_eq!(json.get("error").unwrap().text(), expected);
}

#[test]
fn every_error_kind_has_name_blame_and_retry_advice() {
    use {Blame as B, ErrorKind as K};
    for (kind, text_form, blame, retry) in [
        (K::UnknownTool, "unknown_tool", B::Caller, RetryAdvice::No),
        (K::Denied, "denied", B::Caller, RetryAdvice::No),
        (K::InvalidArguments, "invalid_arguments", B::Caller, RetryAdvice::No),
        (K::Config, "config", B::Host, RetryAdvice::No),
        (K::Connection, "connection", B::Server, RetryAdvice::Now),
        (K::Authentication, "authentication", B::Host, RetryAdvice::No),
        (K::Timeout, "timeout", B::Server, RetryAdvice::Now),
        (K::Cancelled, "cancelled", B::Caller, RetryAdvice::No),
        (K::Protocol, "protocol", B::Server, RetryAdvice::No),
        (K::Tool, "tool", B::Server, RetryAdvice::No),
        (K::Resource, "resource", B::Host, RetryAdvice::Now),
    ] {
        let error = CallError::new(kind, "x");
        assert_eq!((error.code(), error.blame(), error.retry()), (text_form, blame, retry));
    }
    assert_eq!(CallError::unknown_tool("t").to_string(), "tool not found: t", "MIN-37");
}

#[test]
fn call_report_always_has_the_same_members() {
    let good = result(
        r#"{"content":[{"type":"text","text":"hi"}],"structuredContent":{"n":1.0},"_meta":{"k":1}}"#,
    );
    let expected = concat!(
        r#"{"ok":true,"is_error":false,"text":"hi","content":[{"type":"text","text":"hi"}],"structured":{"n":1.0},"#,
        r#""server":"github","tool":"mcp_github_create_issue","duration_ms":1500,"attempts":2,"repeated":true,"#,
        r#""error":null,"meta":{"k":1}}"#
    );
    assert_eq!(call_report(&facts(), Ok(&good), ErrorMessage::FirstText).text(), expected);
    let failed = result(
        r#"{"content":[{"type":"text","text":"no"}],"isError":true,"structuredContent":{"code":7}}"#,
    );
    let json = call_report(&facts(), Ok(&failed), ErrorMessage::Structured);
    let error = concat!(
        r#"{"kind":"tool","code":"tool","message":"no (code=7)","retry":"no","cause":{"code":7},"#,
        r#""server":"github","tool":"mcp_github_create_issue","text":"[MCP:github] no (code=7)"}"#
    );
    assert_eq!(json.get("error").unwrap().text(), error);
    assert_eq!(
        (json.get("ok").unwrap().text(), json.get("is_error").unwrap().text()),
        ("false", "true")
    );
    let busy = CallError::new(ErrorKind::Resource, "no free instance")
        .with_retry(RetryAdvice::After(Duration::from_secs(3)));
    let json = call_report(&facts(), Err(&busy), ErrorMessage::FirstText);
    for (member, expected) in
        [("ok", "false"), ("is_error", "false"), ("text", "null"), ("content", "null")]
    {
        assert_eq!(json.get(member).unwrap().text(), expected, "{member}");
    }
    assert!(
        json.text().contains(
            r#""retry":"after","cause":null,"text":"no free instance","retry_after_ms":3000"#
        ),
        "{json:?}"
    );
}
