//! Tests of the result formats.

use super::*;

const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

fn render(format: ResultFormat, text: &str) -> RenderedResult {
    render_result(&result(text), format, Audience::Other)
}

fn text(format: ResultFormat, of: &str) -> String {
    render(format, of).into_text()
}

fn content(items: &str) -> String {
    format!(r#"{{"content":[{items}]}}"#)
}

#[test]
fn content_blocks_are_flattened_line_by_line() {
    let image = format!(r#"{{"type":"image","data":"{PIXEL}","mimeType":"image/png"}}"#);
    let actual = r#"{"type":"text","text":"a\nb é"}"#;
    let read = r#"{"type":"resource","resource":{"uri":"file:///a","text":"inside"}}"#;
    let blob = r#"{"type":"resource","resource":{"uri":"file:///b","blob":"AAAA"}}"#;
    let three = format!("{actual},{image},{blob}");
    for (row, items, expected) in [
        ("DIS-27", actual, "a\nb é"),
        ("DIS-28", image.as_str(), "[image: image/png, 70 bytes]"),
        ("DIS-29", read, "inside"),
        ("DIS-29", blob, "[resource: file:///b]"),
        ("DIS-30", "", ""),
        ("DIS-30", &three, "a\nb é\n[image: image/png, 70 bytes]\n[resource: file:///b]"),
        ("a link", r#"{"type":"resource_link","uri":"a:b","name":"n"}"#, "[resource: a:b]"),
        (
            "audio",
            r#"{"type":"audio","data":"AAA=","mimeType":"audio/wav"}"#,
            "[audio: audio/wav, 2 bytes]",
        ),
        ("no media type", r#"{"type":"image","data":"AAAA"}"#, "[image: unknown, 3 bytes]"),
        ("unknown", r#"{"type":"new","x":1.0}"#, r#"{"type":"new","x":1.0}"#),
    ] {
        assert_eq!(text(ResultFormat::Flatten, &content(items)), expected, "{row}");
        assert_eq!(text(ResultFormat::Text, &content(items)), expected, "{row}");
    }
}

#[test]
fn dom_15_text_falls_back_to_structured_content() {
    assert_eq!(text(ResultFormat::Text, &content(r#"{"type":"text","text":"done"}"#)), "done");
    let structured = r#"{"content":[],"structuredContent":{"n":1.0}}"#;
    assert_eq!(text(ResultFormat::Text, structured), r#"{"n":1.0}"#);
    assert_eq!(text(ResultFormat::Flatten, structured), "", "DIS-30");
}

#[test]
fn dis_26_failed_tool_is_delivered_with_text_and_is_error() {
    let failed = result(r#"{"content":[{"type":"text","text":"no such file"}],"isError":true}"#);
    for (format, is_error) in [(ResultFormat::Flatten, true), (ResultFormat::Text, true)] {
        let policy = policy(format, ErrorStyle::Result, ErrorMessage::FirstText);
        let delivered = deliver(&facts(), Ok(&failed), &policy, Audience::Other).unwrap();
        assert_eq!(delivered.is_error, is_error);
        assert_eq!(delivered.content, RenderedResult::Text("no such file".to_owned()));
    }
}

#[test]
fn dis_31_blocks_and_raw_format_keep_the_data() {
    let items = format!(r#"[ {{"type":"image","data":"{PIXEL}","mimeType":"image/png"}} ]"#);
    let full = format!(r#"{{"content":{items},"x":1}}"#);
    assert_eq!(text(ResultFormat::Blocks, &full), items);
    assert_eq!(text(ResultFormat::Raw, &full), full);
    assert_eq!(text(ResultFormat::Blocks, "{}"), "[]");
}

#[test]
fn first_json_format_returns_the_first_block() {
    for (row, items, expected) in [
        (
            "MIN-56",
            r#"{"type":"text","text":" {\"a\": 1.0} "}"#,
            RenderedResult::Json(raw(r#"{"a": 1.0}"#)),
        ),
        ("MIN-56", r#"{"type":"text","text":"7"}"#, RenderedResult::Json(raw("7"))),
        ("MIN-56", r#"{"type":"text","text":"hello"}"#, RenderedResult::Text("hello".to_owned())),
        ("MIN-56", "", RenderedResult::Json(raw("null"))),
        (
            "MIN-57",
            r#"{"type":"image","data":"AA==","mimeType":"x/y"},7"#,
            RenderedResult::Json(raw(r#"{"type":"image","data":"AA==","mimeType":"x/y"}"#)),
        ),
    ] {
        assert_eq!(render(ResultFormat::FirstJson, &content(items)), expected, "{row} {items}");
    }
}

#[test]
fn dkr_37_yaml_format_uses_structured_content_or_text() {
    let structured = r#"{"content":[{"type":"text","text":"x"}],"structuredContent":{"b":[1.50,{"c":"d e"}],"a":null}}"#;
    let yaml = "b:\n  - 1.50\n  - c: \"d e\"\na: null\n";
    assert_eq!(text(ResultFormat::Yaml, structured), yaml);
    let delivered = deliver(&facts(), Ok(&result(structured)), &docker(), Audience::McpClient);
    assert_eq!(
        delivered.unwrap().content,
        RenderedResult::Text(yaml.to_owned()),
        "the format does not depend on the path"
    );
    assert_eq!(text(ResultFormat::Yaml, &content(r#"{"type":"text","text":"x"}"#)), "x");
}

#[test]
fn dkr_38_ten_megabyte_result_is_rendered() {
    let long = "é".repeat(5 * 1024 * 1024);
    let big = result(&format!(
        r#"{{"content":[{{"type":"text","text":"{long}"}}],"structuredContent":{{"t":"{long}"}}}}"#
    ));
    assert_eq!(
        render_result(&big, ResultFormat::Text, Audience::Other).into_text().len(),
        long.len()
    );
    let yaml = render_result(&big, ResultFormat::Yaml, Audience::Other).into_text();
    assert_eq!(yaml.len(), long.len() + "t: \"\"\n".len());
}

#[test]
fn auto_format_is_raw_for_mcp_clients_and_text_for_others() {
    let full = result(r#"{ "content":[{"type":"text","text":"hi"}] }"#);
    let to = |audience| render_result(&full, ResultFormat::Auto, audience);
    assert_eq!(to(Audience::McpClient), RenderedResult::Json(full.raw().clone()));
    assert_eq!(to(Audience::Other), RenderedResult::Text("hi".to_owned()));
}

#[test]
fn json_format_is_structured_content_or_blocks() {
    let both = r#"{"content":[],"structuredContent":{"n": 1.0}}"#;
    assert_eq!(text(ResultFormat::Json, both), r#"{"n": 1.0}"#);
    assert_eq!(text(ResultFormat::Json, r#"{"content":[7]}"#), "[7]");
}

fn output(outcome: Result<&CallToolResult, &CallError>) -> String {
    deliver(&facts(), outcome, &minion(), Audience::Other).unwrap().content.into_text()
}

#[test]
fn min_53_every_outcome_is_an_output_object() {
    let head = r#"{"ToolName":"mcp_github_create_issue","Success":"#;
    let tail =
        |kind| format!(r#","mcp":{{"server_name":"github","response_time":1500000000{kind}}}}}"#);
    let kind = |kind| format!(r#","content_type":"{kind}""#);
    for (row, of, middle, kind) in [
        (
            "MIN-58",
            r#"{"content":[{"type":"text","text":"{\"a\":1}"}]}"#,
            r#"true,"Result":{"a":1},"Error":"""#,
            kind("json"),
        ),
        (
            "MIN-58",
            r#"{"content":[{"type":"text","text":"hello"}]}"#,
            r#"true,"Result":"hello","Error":"""#,
            kind("text"),
        ),
        (
            "MIN-58",
            r#"{"content":[{"type":"x"}]}"#,
            r#"true,"Result":{"type":"x"},"Error":"""#,
            kind("binary"),
        ),
        ("MIN-56", r#"{"content":[]}"#, r#"true,"Result":null,"Error":"""#, String::new()),
        (
            "MIN-54",
            r#"{"content":[{"type":"text","text":"bad"}],"isError":true}"#,
            r#"false,"Result":null,"Error":"bad""#,
            kind("text"),
        ),
        (
            "MIN-55",
            r#"{"content":[],"isError":true}"#,
            r#"false,"Result":null,"Error":"Unknown error""#,
            String::new(),
        ),
    ] {
        assert_eq!(output(Ok(&result(of))), format!("{head}{middle}{}", tail(kind)), "{row}");
    }
}

#[test]
fn min_54_every_failure_kind_is_an_output_object() {
    let down = CallError::not_connected("github");
    assert!(
        output(Err(&down))
            .contains(r#""Error":"Server not connected: server `github` is not connected""#)
    );
    for kind in ErrorKind::ALL {
        let error = CallError::new(kind, "it broke").with_cause(std::io::Error::other("pipe"));
        let delivered = deliver(&facts(), Err(&error), &minion(), Audience::Other);
        if matches!(kind, ErrorKind::UnknownTool | ErrorKind::Denied) {
            assert_eq!(delivered.unwrap_err().kind(), kind, "an unknown tool is not executed");
            continue;
        }
        let delivered = delivered.unwrap();
        let text = delivered.content.into_text();
        assert!(delivered.is_error && text.contains(r#""Success":false"#), "MIN-53 {kind}");
        assert!(text.contains(r#""Error":"Tool execution failed: it broke: pipe""#), "{text}");
    }
}
