//! What a value's text means, and that it never shows.

use super::*;

#[test]
fn native_text_expands_and_dollars_double() {
    let check = |text: &str, expected: Result<Value, &str>| {
        assert_eq!(
            Value::native(text).map_err(|e| e.split(';').next().unwrap().to_string()),
            expected.map_err(str::to_string),
            "{text}"
        );
    };
    let env = |name: &str| Part::Env { name: name.into(), default: None };
    check("plain", Ok(Value::literal("plain")));
    check("$$HOME costs $5", Ok(Value::literal("$HOME costs $5")));
    check("${A}", Ok(Value::Template(Template(vec![env("A")]))));
    check(
        "x-${A}${B:-b}",
        Ok(Value::Template(Template(vec![
            Part::Text(Hidden::new("x-")),
            env("A"),
            Part::Env { name: "B".into(), default: Some(Hidden::new("b")) },
        ]))),
    );
    check("${input:key}", Ok(Value::Template(Template(vec![Part::Input("key".into())]))));
    check("${A", Err("`${` has no closing `}`"));
    check("${a.b}", Err("`${…}` holds no variable's name"));
}

#[test]
fn a_resolved_template_holds_its_parts_and_names_what_is_missing() {
    let find = |r: &Reference| match r {
        Reference::Env(name) if name == "A" => Some("1".to_string()),
        Reference::Env(name) if name == "EMPTY" => Some(String::new()),
        _ => None,
    };
    let resolved =
        |text: &str| Value::native(text).unwrap().resolve(&find).map(|h| h.reveal().to_string());
    assert_eq!(resolved("x${A}y"), Ok("x1y".into()));
    assert_eq!(resolved("${B:-b}"), Ok("b".into()));
    assert_eq!(resolved("${EMPTY}"), Ok(String::new()));
    assert_eq!(resolved("${EMPTY:-d}"), Ok("d".into()));
    assert_eq!(resolved("${B}"), Err(Reference::Env("B".into())));
}

#[test]
fn no_form_of_a_value_shows_its_text() {
    let canary = "hunter2";
    let values = [
        Value::literal(canary),
        Value::FromEnv { name: "N".into(), prefix: Hidden::new(canary) },
        Value::native(&format!("{canary}${{N:-{canary}}}")).unwrap(),
    ];
    for value in values {
        let shown =
            format!("{value:?} {value} {}", serde_json::to_string(&value.masked()).unwrap());
        assert!(!shown.contains(canary), "{shown}");
    }
}

#[test]
fn what_is_written_reads_back() {
    let values = [
        Value::literal("a $ b $$ ${c}"),
        Value::from_env("N"),
        Value::FromEnv { name: "N".into(), prefix: Hidden::new("Bearer ") },
        Value::native("x-${A}-${B:-d}-${input:i}$$").unwrap(),
        Value::Secret { provider: "vault".into(), path: "kv/app/key".into() },
    ];
    for value in values {
        let json = serde_json::to_string(&value).unwrap();
        let back: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(back, value, "{json}");
    }
}
