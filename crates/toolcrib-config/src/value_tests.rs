//! Tests of parsing, resolving and masking values.

use super::*;

#[test]
fn native_text_parses_references_and_escaped_dollars() {
    let check = |text: &str, expected: Result<Value, &str>| {
        assert_eq!(
            Value::parse_native(text).map_err(|e| e.split(';').next().unwrap().to_string()),
            expected.map_err(str::to_string),
            "{text}"
        );
    };
    let env = |name: &str| TemplatePart::Env { name: name.into(), default: None };
    check("plain", Ok(Value::literal("plain")));
    check("$$HOME costs $5", Ok(Value::literal("$HOME costs $5")));
    check("${A}", Ok(Value::Template(TextTemplate(vec![env("A")]))));
    check(
        "x-${A}${B:-b}",
        Ok(Value::Template(TextTemplate(vec![
            TemplatePart::Text(SecretString::new("x-")),
            env("A"),
            TemplatePart::Env { name: "B".into(), default: Some(SecretString::new("b")) },
        ]))),
    );
    check(
        "${input:key}",
        Ok(Value::Template(TextTemplate(vec![TemplatePart::Input("key".into())]))),
    );
    check("${A", Err("`${` has no closing `}`"));
    check("${a.b}", Err("`${…}` does not contain a variable name"));
}

#[test]
fn resolve_joins_parts_and_reports_missing_references() {
    let find = |r: &Reference| match r {
        Reference::Env(name) if name == "A" => Some("1".to_string()),
        Reference::Env(name) if name == "EMPTY" => Some(String::new()),
        _ => None,
    };
    let resolved = |text: &str| {
        Value::parse_native(text).unwrap().resolve(&find).map(|h| h.reveal().to_string())
    };
    assert_eq!(resolved("x${A}y"), Ok("x1y".into()));
    assert_eq!(resolved("${B:-b}"), Ok("b".into()));
    assert_eq!(resolved("${EMPTY}"), Ok(String::new()));
    assert_eq!(resolved("${EMPTY:-d}"), Ok("d".into()));
    assert_eq!(resolved("${B}"), Err(Reference::Env("B".into())));
}

#[test]
fn debug_display_and_masked_forms_hide_the_text() {
    let canary = "hunter2";
    let values = [
        Value::literal(canary),
        Value::FromEnv { name: "N".into(), prefix: SecretString::new(canary) },
        Value::parse_native(&format!("{canary}${{N:-{canary}}}")).unwrap(),
    ];
    for value in values {
        let shown =
            format!("{value:?} {value} {}", serde_json::to_string(&value.masked()).unwrap());
        assert!(!shown.contains(canary), "{shown}");
    }
}

#[test]
fn serialized_values_read_back() {
    let values = [
        Value::literal("a $ b $$ ${c}"),
        Value::from_env("N"),
        Value::FromEnv { name: "N".into(), prefix: SecretString::new("Bearer ") },
        Value::parse_native("x-${A}-${B:-d}-${input:i}$$").unwrap(),
        Value::Secret { provider: "vault".into(), path: "kv/app/key".into() },
    ];
    for value in values {
        let json = serde_json::to_string(&value).unwrap();
        let back: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(back, value, "{json}");
    }
}
