//! Tests of argument parsing and of schema verdicts.

use super::*;

const SCHEMA: &str = r##"{"type":"object","properties":{
    "name":{"type":"string"}, "count":{"type":"integer"}, "share":{"type":"number"}, "on":{"type":"boolean"},
    "opts":{"type":"object"}, "tags":{"type":"array","items":{"type":"integer"}}, "mixed":{"type":["integer","string"]},
    "maybe":{"anyOf":[{"type":"integer"},{"type":"null"}]}, "ref":{"$ref":"#/$defs/n"}, "free":{}, "loop":{"$ref":"#/properties/loop"},
    "lists":{"type":"array","items":{"$ref":"#/properties/lists"}}
  },"required":["name"],"$defs":{"n":{"type":"number"}}}"##;

#[test]
fn arguments_are_converted_to_their_schema_types() {
    for (text_form, expected) in [
        ("name=7", r#"{"name":"7"}"#),
        ("name=", r#"{"name":""}"#),
        ("count=7", r#"{"count":7}"#),
        ("count=12345678901234567890123", r#"{"count":12345678901234567890123}"#),
        ("count=7.5", "argument `count`: expected integer"),
        ("count=x", "argument `count`: expected integer"),
        ("share=7.50", r#"{"share":7.50}"#),
        ("on=true", r#"{"on":true}"#),
        ("on=yes", "argument `on`: expected boolean"),
        (r#"opts={"a": 1.0}"#, r#"{"opts":{"a":1.0}}"#),
        ("opts=x", "argument `opts`: expected object"),
        ("tags=[1,2]", r#"{"tags":[1,2]}"#),
        ("tags=1 tags=2", r#"{"tags":[1,2]}"#),
        ("tags=x", "argument `tags`: expected integer"),
        ("mixed=7", r#"{"mixed":7}"#),
        ("mixed=x", r#"{"mixed":"x"}"#),
        ("maybe=null", r#"{"maybe":null}"#),
        ("maybe=3", r#"{"maybe":3}"#),
        ("ref=1.50", r#"{"ref":1.50}"#),
        ("free=3", r#"{"free":3}"#),
        ("free=x", r#"{"free":"x"}"#),
        ("other=x", r#"{"other":"x"}"#),
        ("loop=x", r#"{"loop":"x"}"#),
        ("lists=x", "argument `lists`: expected array"),
        ("lists=[[]]", r#"{"lists":[[]]}"#),
        ("name=a name=b", "argument `name` is given twice"),
        ("tags=[1] tags=[2]", "argument `tags` is given twice"),
    ] {
        // Only the object contains a space.
        let words = if text_form.starts_with("opts") {
            vec![text_form]
        } else {
            text_form.split(' ').collect()
        };
        let words = words.into_iter().map(|text_form| text_form.split_once('=').unwrap());
        let made = parse_arguments(&raw(SCHEMA), words);
        let made = made.map_or_else(|error| error.to_string(), |raw| raw.text().to_owned());
        assert_eq!(made, expected, "{text_form}");
    }
}

#[test]
fn min_77_missing_argument_is_refused_by_name() {
    let verdict = SchemaValidator::new().check(&raw(SCHEMA), &raw("{}"));
    let error = apply_input_verdict("github", "create", verdict, Strictness::Strict).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArguments);
    let text = "invalid arguments for `create`: `/name`: expected a value, it is required";
    assert_eq!(error.to_string(), text);
    let delivered = deliver(&facts(), Err(&error), &minion(), Audience::Other).unwrap();
    let output = delivered.content.into_text();
    assert!(output.contains(r#""Success":false"#) && output.contains("/name"), "{output}");
}

#[test]
fn ext_20_strict_refuses_and_relaxed_reports_a_problem() {
    let verdict = || SchemaValidator::new().check(&raw(SCHEMA), &raw(r#"{"name":7}"#));
    assert!(apply_input_verdict("s", "t", verdict(), Strictness::Strict).is_err());
    let problem = apply_input_verdict("s", "t", verdict(), Strictness::Relaxed).unwrap().unwrap();
    assert_eq!((problem.code.as_str(), problem.is_error()), ("arguments.invalid", false));
    assert!(problem.text.contains("`/name`: expected string, found number"), "{}", problem.text);
    assert_eq!(apply_input_verdict("s", "t", Validity::Valid, Strictness::Strict).unwrap(), None);
}

#[test]
fn dkr_41_unchecked_schema_is_a_problem_and_not_a_refusal() {
    let verdict = SchemaValidator::new().check(&raw(r##"{"$ref":"#"}"##), &raw("{}"));
    let problem = apply_input_verdict("s", "t", verdict, Strictness::Strict).unwrap().unwrap();
    assert_eq!(problem.id, "schema.unchecked:s:t");
    assert_eq!((problem.server.as_deref(), problem.tool.as_deref()), (Some("s"), Some("t")));
    assert!(problem.text.contains("refers to itself"), "{}", problem.text);
}

#[test]
fn dkr_18_result_that_violates_its_schema_names_the_tool() {
    let schema = raw(r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#);
    let checker = SchemaValidator::new();
    for (of, strict) in [
        (r#"{"content":[],"structuredContent":{"n":1}}"#, None),
        (
            r#"{"content":[],"structuredContent":{"n":"x"}}"#,
            Some("`/n`: expected integer, found string"),
        ),
        (r#"{"content":[]}"#, Some("`/structuredContent`: expected a value, it is required")),
        (r#"{"content":[],"isError":true}"#, None),
        (r#"{"resultType":"input_required"}"#, None),
    ] {
        let verdict = check_output(&checker, Some(&schema), &result(of));
        let checked = apply_output_verdict("crm", "get_user", verdict.clone(), Strictness::Strict);
        let expected =
            strict.map(|what| format!("the result of `get_user` does not fit its schema: {what}"));
        assert_eq!(checked.err().map(|error| error.to_string()), expected, "{of}");
        let passed = apply_output_verdict("crm", "get_user", verdict, Strictness::Relaxed).unwrap();
        assert_eq!(passed.is_some(), strict.is_some(), "the result passes with a problem");
    }
    assert_eq!(check_output(&checker, None, &result("{}")), Validity::Valid);
}
