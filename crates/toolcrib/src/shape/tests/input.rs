//! Arguments from words, and what follows from a check.

use super::*;

const SCHEMA: &str = r##"{"type":"object","properties":{
    "name":{"type":"string"}, "count":{"type":"integer"}, "share":{"type":"number"}, "on":{"type":"boolean"},
    "opts":{"type":"object"}, "tags":{"type":"array","items":{"type":"integer"}}, "mixed":{"type":["integer","string"]},
    "maybe":{"anyOf":[{"type":"integer"},{"type":"null"}]}, "ref":{"$ref":"#/$defs/n"}, "free":{}, "loop":{"$ref":"#/properties/loop"},
    "lists":{"type":"array","items":{"$ref":"#/properties/lists"}}
  },"required":["name"],"$defs":{"n":{"type":"number"}}}"##;

#[test]
fn words_become_what_the_schema_asks_for() {
    for (word, expected) in [
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
        // The one value here with a space in it is the object.
        let words = if word.starts_with("opts") { vec![word] } else { word.split(' ').collect() };
        let words = words.into_iter().map(|word| word.split_once('=').unwrap());
        let made = arguments(&raw(SCHEMA), words);
        let made = made.map_or_else(|error| error.to_string(), |raw| raw.text().to_owned());
        assert_eq!(made, expected, "{word}");
    }
}

#[test]
fn min_77_a_missing_argument_is_refused_and_named() {
    let verdict = Checker::new().check(&raw(SCHEMA), &raw("{}"));
    let error = judge_input("github", "create", verdict, Strictness::Strict).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArguments);
    let text = "invalid arguments for `create`: `/name`: expected a value, it is required";
    assert_eq!(error.to_string(), text);
    let handed = deliver(&facts(), Err(&error), &minion(), Audience::Other).unwrap();
    let output = handed.view.into_text();
    assert!(output.contains(r#""Success":false"#) && output.contains("/name"), "{output}");
}

#[test]
fn ext_20_strict_refuses_and_relaxed_goes_on_with_a_problem() {
    let verdict = || Checker::new().check(&raw(SCHEMA), &raw(r#"{"name":7}"#));
    assert!(judge_input("s", "t", verdict(), Strictness::Strict).is_err());
    let problem = judge_input("s", "t", verdict(), Strictness::Relaxed).unwrap().unwrap();
    assert_eq!((problem.code.as_str(), problem.is_error()), ("arguments.invalid", false));
    assert!(problem.text.contains("`/name`: expected string, found number"), "{}", problem.text);
    assert_eq!(judge_input("s", "t", Verdict::Valid, Strictness::Strict).unwrap(), None);
}

#[test]
fn dkr_41_what_cannot_be_checked_goes_on_with_a_problem() {
    let verdict = Checker::new().check(&raw(r##"{"$ref":"#"}"##), &raw("{}"));
    let problem = judge_input("s", "t", verdict, Strictness::Strict).unwrap().unwrap();
    assert_eq!(problem.id, "schema.unchecked:s:t");
    assert_eq!((problem.server.as_deref(), problem.tool.as_deref()), (Some("s"), Some("t")));
    assert!(problem.text.contains("leads back to itself"), "{}", problem.text);
}

#[test]
fn dkr_18_a_result_against_its_schema_is_an_error_that_names_the_tool() {
    let schema = raw(r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#);
    let checker = Checker::new();
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
        let judged = judge_output("crm", "get_user", verdict.clone(), Strictness::Strict);
        let expected =
            strict.map(|what| format!("the result of `get_user` does not fit its schema: {what}"));
        assert_eq!(judged.err().map(|error| error.to_string()), expected, "{of}");
        let passed = judge_output("crm", "get_user", verdict, Strictness::Relaxed).unwrap();
        assert_eq!(passed.is_some(), strict.is_some(), "a problem, and the result passes");
    }
    assert_eq!(check_output(&checker, None, &result("{}")), Verdict::Valid);
}
