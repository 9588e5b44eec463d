//! The views of a result.

use super::*;

const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

fn shown(format: ResultFormat, text: &str) -> View {
    view(&result(text), format, Audience::Other)
}

fn text(format: ResultFormat, of: &str) -> String {
    shown(format, of).into_text()
}

fn content(items: &str) -> String {
    format!(r#"{{"content":[{items}]}}"#)
}

#[test]
fn items_are_flattened_one_below_the_other() {
    let image = format!(r#"{{"type":"image","data":"{PIXEL}","mimeType":"image/png"}}"#);
    let said = r#"{"type":"text","text":"a\nb é"}"#;
    let read = r#"{"type":"resource","resource":{"uri":"file:///a","text":"inside"}}"#;
    let blob = r#"{"type":"resource","resource":{"uri":"file:///b","blob":"AAAA"}}"#;
    let three = format!("{said},{image},{blob}");
    for (row, items, expected) in [
        ("DIS-27", said, "a\nb é"),
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
fn dom_15_text_is_what_the_tool_said_and_never_silent_about_data() {
    assert_eq!(text(ResultFormat::Text, &content(r#"{"type":"text","text":"done"}"#)), "done");
    let structured = r#"{"content":[],"structuredContent":{"n":1.0}}"#;
    assert_eq!(text(ResultFormat::Text, structured), r#"{"n":1.0}"#);
    assert_eq!(text(ResultFormat::Flatten, structured), "", "DIS-30");
}

#[test]
fn dis_26_a_failed_tool_is_a_result_with_its_text_and_its_flag() {
    let failed = result(r#"{"content":[{"type":"text","text":"no such file"}],"isError":true}"#);
    for (format, is_error) in [(ResultFormat::Flatten, true), (ResultFormat::Text, true)] {
        let policy = policy(format, ErrorStyle::Result, ErrorMessage::FirstText);
        let handed = deliver(&facts(), Ok(&failed), &policy, Audience::Other).unwrap();
        assert_eq!(handed.is_error, is_error);
        assert_eq!(handed.view, View::Text("no such file".to_owned()));
    }
}

#[test]
fn dis_31_typed_blocks_and_raw_carry_the_data_itself() {
    let items = format!(r#"[ {{"type":"image","data":"{PIXEL}","mimeType":"image/png"}} ]"#);
    let whole = format!(r#"{{"content":{items},"x":1}}"#);
    assert_eq!(text(ResultFormat::Blocks, &whole), items);
    assert_eq!(text(ResultFormat::Raw, &whole), whole);
    assert_eq!(text(ResultFormat::Blocks, "{}"), "[]");
}

#[test]
fn the_first_item_is_the_result() {
    for (row, items, expected) in [
        ("MIN-56", r#"{"type":"text","text":" {\"a\": 1.0} "}"#, View::Json(raw(r#"{"a": 1.0}"#))),
        ("MIN-56", r#"{"type":"text","text":"7"}"#, View::Json(raw("7"))),
        ("MIN-56", r#"{"type":"text","text":"hello"}"#, View::Text("hello".to_owned())),
        ("MIN-56", "", View::Json(raw("null"))),
        (
            "MIN-57",
            r#"{"type":"image","data":"AA==","mimeType":"x/y"},7"#,
            View::Json(raw(r#"{"type":"image","data":"AA==","mimeType":"x/y"}"#)),
        ),
    ] {
        assert_eq!(shown(ResultFormat::FirstJson, &content(items)), expected, "{row} {items}");
    }
}

#[test]
fn dkr_37_structured_content_is_yaml_and_else_the_text() {
    let structured = r#"{"content":[{"type":"text","text":"x"}],"structuredContent":{"b":[1.50,{"c":"d e"}],"a":null}}"#;
    let yaml = "b:\n  - 1.50\n  - c: \"d e\"\na: null\n";
    assert_eq!(text(ResultFormat::Yaml, structured), yaml);
    let handed = deliver(&facts(), Ok(&result(structured)), &docker(), Audience::McpClient);
    assert_eq!(handed.unwrap().view, View::Text(yaml.to_owned()), "the same on another path");
    assert_eq!(text(ResultFormat::Yaml, &content(r#"{"type":"text","text":"x"}"#)), "x");
}

#[test]
fn dkr_38_ten_megabytes_are_a_result_like_any_other() {
    let long = "é".repeat(5 * 1024 * 1024);
    let big = result(&format!(
        r#"{{"content":[{{"type":"text","text":"{long}"}}],"structuredContent":{{"t":"{long}"}}}}"#
    ));
    assert_eq!(view(&big, ResultFormat::Text, Audience::Other).into_text().len(), long.len());
    let yaml = view(&big, ResultFormat::Yaml, Audience::Other).into_text();
    assert_eq!(yaml.len(), long.len() + "t: \"\"\n".len());
}

#[test]
fn auto_is_raw_to_clients_and_text_to_others() {
    let whole = result(r#"{ "content":[{"type":"text","text":"hi"}] }"#);
    let to = |audience| view(&whole, ResultFormat::Auto, audience);
    assert_eq!(to(Audience::McpClient), View::Json(whole.raw().clone()));
    assert_eq!(to(Audience::Other), View::Text("hi".to_owned()));
}

#[test]
fn json_is_the_structured_part_or_the_items() {
    let both = r#"{"content":[],"structuredContent":{"n": 1.0}}"#;
    assert_eq!(text(ResultFormat::Json, both), r#"{"n": 1.0}"#);
    assert_eq!(text(ResultFormat::Json, r#"{"content":[7]}"#), "[7]");
}

fn output(outcome: Result<&CallToolResult, &CallError>) -> String {
    deliver(&facts(), outcome, &minion(), Audience::Other).unwrap().view.into_text()
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
fn min_54_failures_of_every_kind_are_outputs_with_their_words() {
    let down = CallError::not_connected("github");
    assert!(
        output(Err(&down))
            .contains(r#""Error":"Server not connected: server `github` is not connected""#)
    );
    for kind in ErrorKind::ALL {
        let error = CallError::new(kind, "it broke").with_cause(std::io::Error::other("pipe"));
        let handed = deliver(&facts(), Err(&error), &minion(), Audience::Other);
        if matches!(kind, ErrorKind::UnknownTool | ErrorKind::Denied) {
            assert_eq!(handed.unwrap_err().kind(), kind, "an unknown name is no execution");
            continue;
        }
        let handed = handed.unwrap();
        let text = handed.view.into_text();
        assert!(handed.is_error && text.contains(r#""Success":false"#), "MIN-53 {kind}");
        assert!(text.contains(r#""Error":"Tool execution failed: it broke: pipe""#), "{text}");
    }
}
