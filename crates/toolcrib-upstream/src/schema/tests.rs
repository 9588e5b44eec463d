//! Tests with real and hostile schemas.

use std::sync::mpsc;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use toolcrib_wire::{MessageLimits, RawJson};

use super::*;

fn raw(value: &Value) -> RawJson {
    RawJson::from_value(value).unwrap()
}

/// Runs a check with a time limit on a thread with half of a worker thread's stack.
fn check_bounded(name: &str, schema: RawJson, value: RawJson) -> Validity {
    let (done, answer) = mpsc::sync_channel(1);
    let thread = std::thread::Builder::new().stack_size(1024 * 1024).spawn(move || {
        let _ = done.send(SchemaValidator::new().check(&schema, &value));
    });
    let validity = answer.recv_timeout(Duration::from_secs(10));
    let validity = validity.unwrap_or_else(|error| panic!("{name}: {error}"));
    thread.unwrap().join().unwrap();
    validity
}

fn nest(depth: usize, wrap: impl Fn(Value) -> Value, inner: Value) -> Value {
    (0..depth).fold(inner, |value, _| wrap(value))
}

/// Builds definitions that refer to the next one each.
fn chain(length: usize, link: impl Fn(&Value) -> Value, last: Value) -> Value {
    let mut defs = serde_json::Map::new();
    for n in 0..length {
        defs.insert(format!("d{n}"), link(&json!({ "$ref": format!("#/$defs/d{}", n + 1) })));
    }
    defs.insert(format!("d{length}"), last);
    json!({ "$ref": "#/$defs/d0", "$defs": defs })
}

fn object(members: impl Iterator<Item = (String, Value)>) -> Value {
    Value::Object(members.collect())
}

/// Short label of the result.
fn outcome_label(validity: &Validity) -> &'static str {
    match validity {
        Validity::Valid => "valid",
        Validity::Invalid(_) => "invalid",
        Validity::Unchecked(UncheckedReason::SchemaOver { .. }) => "large",
        Validity::Unchecked(UncheckedReason::BadSchema { .. }) => "bad",
        Validity::Unchecked(UncheckedReason::Loop) => "loop",
        Validity::Unchecked(UncheckedReason::ValueOver { .. }) => "large value",
        Validity::Unchecked(UncheckedReason::Number) => "number",
        Validity::Unchecked(UncheckedReason::TooMuchWork) => "work",
    }
}

#[test]
fn dkr_41_no_schema_hangs_or_crashes() {
    let text = json!({ "type": "string" });
    let deep = || nest(90, |inner| json!({ "next": inner }), json!(1));
    let next = || json!({ "properties": { "next": { "$ref": "#" } } });
    let closed = |inner| json!({ "unevaluatedProperties": false, "allOf": [inner] });
    let patterns = |pattern: &str| object((0..128).map(|n| (format!("{pattern}{n}"), json!(true))));
    let long = json!("a".repeat(100_000) + "b");
    // The nested id is the base of its references; the same targets at the root are harmless.
    let mut inner = chain(40, |to| json!({ "allOf": [to, to] }), text.clone());
    inner["id"] = json!("inner");
    let old_id = json!({
        "$schema": "http://json-schema.org/draft-04/schema#", "allOf": [inner],
        "$defs": { "d0": {}, "d1": {} },
    });
    // The meta schema refers back through its dynamic anchor.
    let meta = json!({ "$ref": "https://json-schema.org/draft/2020-12/schema" });
    let disguised = json!({
        "$dynamicAnchor": "meta", "allOf": [meta, meta],
        "$defs": { "a": { "$id": "https://json-schema.org/draft/2020-12/schema" } },
    });
    for (name, schema, value, expected) in [
        ("doubling", chain(40, |to| json!({ "allOf": [to, to] }), text.clone()), json!({}), "work"),
        (
            "any of any",
            chain(40, |to| json!({ "anyOf": [to, to] }), text.clone()),
            json!({}),
            "work",
        ),
        (
            "few of few",
            chain(12, |to| json!({ "oneOf": [to, to] }), text.clone()),
            json!({}),
            "invalid",
        ),
        (
            "doubling by value",
            json!({ "anyOf": [next(), next()], "type": "object" }),
            deep(),
            "work",
        ),
        (
            "closed doubling",
            chain(
                20,
                |to| json!({ "unevaluatedProperties": false, "allOf": [to, to] }),
                text.clone(),
            ),
            json!({ "a": 1 }),
            "work",
        ),
        ("closed in closed", nest(30, closed, json!(true)), json!({ "a": 1 }), "work"),
        ("closed twice", nest(2, closed, json!(true)), json!({ "a": 1 }), "invalid"),
        ("long chain", chain(5_000, Value::clone, text.clone()), json!({}), "work"),
        ("chain", chain(150, Value::clone, text.clone()), json!({}), "invalid"),
        (
            "chain of forms",
            chain(80, |to| json!({ "anyOf": [to] }), text.clone()),
            json!({}),
            "invalid",
        ),
        ("itself", json!({ "$ref": "#" }), json!({}), "loop"),
        (
            "round about",
            json!({ "allOf": [{ "$ref": "#/$defs/a" }], "$defs": { "a": { "not": { "$ref": "#" } } } }),
            json!({}),
            "loop",
        ),
        (
            "round about, anchored",
            json!({ "$anchor": "a", "anyOf": [{ "$ref": "#a" }] }),
            json!({}),
            "loop",
        ),
        (
            "dynamic",
            json!({ "$dynamicAnchor": "a", "anyOf": [{ "$dynamicRef": "#a" }] }),
            json!({}),
            "loop",
        ),
        (
            "deep forms",
            nest(31, |inner| json!({ "oneOf": [inner] }), text.clone()),
            json!({}),
            "invalid",
        ),
        ("too deep", nest(100, |inner| json!({ "not": inner }), json!(true)), json!({}), "large"),
        ("backtracking", json!({ "pattern": "(a+)+$" }), long.clone(), "invalid"),
        ("repeated", json!({ "pattern": "((a{1,100}){1,100}){1,100}" }), long.clone(), "bad"),
        ("wide repeat", json!({ "pattern": "x.{200}y.{200}$" }), long.clone(), "work"),
        ("long pattern", json!({ "pattern": "a".repeat(10_000) }), long, "large"),
        (
            "many patterns",
            json!({ "patternProperties": patterns("^[a-z]{200}x") }),
            json!({ "aa": 1 }),
            "valid",
        ),
        (
            "many large patterns",
            json!({ "patternProperties": patterns("\\p{L}{3}") }),
            json!({ "aa": 1 }),
            "valid",
        ),
        ("broken pattern", json!({ "pattern": "(" }), json!(""), "bad"),
        (
            "wide",
            json!({ "properties": object((0..9_000).map(|n| (format!("p{n}"), text.clone()))) }),
            json!({ "p1": 1 }),
            "invalid",
        ),
        (
            "many forms",
            json!({ "anyOf": (0..2_000).map(|n| json!({ "properties": { "k": { "const": n } }, "required": ["k"] })).collect::<Vec<_>>() }),
            json!({ "k": "x" }),
            "invalid",
        ),
        ("too wide", json!({ "enum": (0..30_000).collect::<Vec<_>>() }), json!(1), "large"),
        (
            "many values",
            json!({ "items": { "enum": (0..10_000).collect::<Vec<_>>() } }),
            json!(vec!["x"; 1_000]),
            "work",
        ),
        (
            "many items",
            json!({ "items": { "properties": { "a": text } } }),
            json!(vec![json!({ "a": "b" }); 100_000]),
            "valid",
        ),
        (
            "too deep a value",
            json!({ "items": { "$ref": "#" } }),
            nest(100, |inner| json!([inner]), json!([])),
            "work",
        ),
        ("elsewhere", json!({ "$ref": "https://example.com/x.json" }), json!(1), "bad"),
        ("a file", json!({ "$ref": "file:///etc/hostname" }), json!(1), "bad"),
        ("nowhere", json!({ "$ref": "#/$defs/none" }), json!(1), "bad"),
        ("within an old id", old_id, json!({}), "work"),
        ("in disguise", disguised, deep(), "bad"),
        ("no schema", json!({ "type": 7 }), json!(1), "bad"),
        ("no schema at all", json!("x"), json!(1), "bad"),
    ] {
        assert_eq!(
            outcome_label(&check_bounded(name, raw(&schema), raw(&value))),
            expected,
            "{name}"
        );
    }
}

#[test]
fn dkr_41_texts_over_the_parser_limits_are_refused_first() {
    let limits = MessageLimits { depth: 1_000_000, ..MessageLimits::default() };
    let nested = format!("{}true{}", r#"{"not":"#.repeat(50_000), "}".repeat(50_000));
    let large = format!(r#"{{"description":"{}"}}"#, "x".repeat(10 * 1024 * 1024));
    let number = r#"{"minimum":1e999999999,"multipleOf":1e-999999999}"#.to_owned();
    for (name, schema, expected) in
        [("nested", nested, "bad"), ("ten megabytes", large, "large"), ("number", number, "number")]
    {
        let schema = RawJson::parse(schema, &limits).unwrap();
        assert_eq!(
            outcome_label(&check_bounded(name, schema, raw(&json!({})))),
            expected,
            "{name}"
        );
    }
    let any = raw(&json!({ "minimum": 1 }));
    for (name, value, expected) in [
        ("number", "1e999999999".to_owned(), "number"),
        ("nested", format!("{}{}", "[".repeat(50_000), "]".repeat(50_000)), "large value"),
        ("long", format!("\"{}\"", "x".repeat(9 * 1024 * 1024)), "large value"),
    ] {
        let value = RawJson::parse(value, &limits).unwrap();
        assert_eq!(outcome_label(&check_bounded(name, any.clone(), value)), expected, "{name}");
    }
}

#[test]
fn violations_name_the_pointer_and_the_expectation() {
    let schema = json!({
        "type": "object", "additionalProperties": false, "required": ["a/b"],
        "properties": {
            "a/b": { "type": "string" }, "n": { "type": "integer", "minimum": 3 }, "s": { "enum": ["x", "y"] },
            "list": { "type": "array", "items": { "type": ["string", "null"] }, "maxItems": 2 },
            "p": { "pattern": "^a" }, "form": { "anyOf": [{ "type": "string" }, { "required": ["id"] }] },
        },
    });
    for (value, expected) in [
        (json!({ "a/b": "x", "n": 3, "s": "x", "list": [null], "p": "a" }), &[][..]),
        (json!({}), &["`/a~1b`: expected a value, it is required"]),
        (json!({ "a/b": 1 }), &["`/a~1b`: expected string, found number"]),
        (json!({ "a/b": "", "n": 1 }), &["`/n`: expected at least 3"]),
        (json!({ "a/b": "", "n": 3.5 }), &["`/n`: expected integer, found number"]),
        (json!({ "a/b": "", "s": "secret" }), &[r#"`/s`: expected one of ["x","y"]"#]),
        (
            json!({ "a/b": "", "list": [1, "", ""] }),
            &[
                "`/list`: expected at most 2 items",
                "`/list/0`: expected null or string, found number",
            ],
        ),
        (json!({ "a/b": "", "z": 1 }), &["expected no member `z`"]),
        (json!({ "a/b": "", "p": "secret" }), &["`/p`: expected text that matches `^a`"]),
        (
            json!({ "a/b": "", "form": {} }),
            &[
                "`/form`: expected one of several forms (`/form` string, found object; or `/form` with \"id\")",
            ],
        ),
        (json!([]), &["expected object, found array"]),
    ] {
        let found = match SchemaValidator::new().check(&raw(&schema), &raw(&value)) {
            Validity::Invalid(found) => found.iter().map(ToString::to_string).collect(),
            Validity::Valid => Vec::new(),
            Validity::Unchecked(why) => panic!("{why}"),
        };
        assert_eq!(found, expected, "{value}");
    }
}

#[test]
fn violations_are_capped() {
    let schema = json!({ "items": { "type": "string" } });
    let Validity::Invalid(found) =
        SchemaValidator::new().check(&raw(&schema), &raw(&json!(vec![1; 100])))
    else {
        panic!("invalid");
    };
    assert_eq!(found.len(), MAX_VIOLATIONS);
}

#[test]
fn dom_40_41_42_schema_keywords_are_supported() {
    let draft7 = "http://json-schema.org/draft-07/schema#";
    for (row, schema, good, bad) in [
        ("DOM-40", json!({ "type": ["integer", "null"] }), json!(null), json!("x")),
        (
            "DOM-40",
            json!({ "oneOf": [{ "type": "integer" }, { "minimum": 5 }] }),
            json!(1),
            json!(7),
        ),
        (
            "DOM-40",
            json!({ "allOf": [{ "not": { "const": 1 } }], "default": 3 }),
            json!(2),
            json!(1),
        ),
        (
            "DOM-41",
            json!({ "properties": {}, "patternProperties": { "^x": { "type": "string" } }, "additionalProperties": { "type": "integer" } }),
            json!({ "x": "", "y": 1 }),
            json!({ "y": "" }),
        ),
        (
            "DOM-41",
            json!({ "propertyNames": { "maxLength": 2 } }),
            json!({ "ab": 1 }),
            json!({ "abc": 1 }),
        ),
        (
            "DOM-41",
            json!({ "$schema": draft7, "items": [{ "type": "string" }], "additionalItems": false }),
            json!(["a"]),
            json!(["a", 1]),
        ),
        (
            "DOM-41",
            json!({ "prefixItems": [{ "type": "string" }], "items": false }),
            json!(["a"]),
            json!(["a", 1]),
        ),
        ("DOM-41", json!({ "minItems": 1, "uniqueItems": true }), json!([1, 2]), json!([1, 1])),
        (
            "DOM-42",
            json!({ "minLength": 2, "pattern": "^a", "format": "email", "title": "t" }),
            json!("ab"),
            json!("a"),
        ),
        (
            "DOM-42",
            json!({ "exclusiveMinimum": 0, "multipleOf": 0.1, "maximum": 1 }),
            json!(0.3),
            json!(0),
        ),
        (
            "draft 4",
            json!({ "$schema": "http://json-schema.org/draft-04/schema#", "minimum": 1, "exclusiveMinimum": true }),
            json!(2),
            json!(1),
        ),
        (
            "recursive",
            json!({ "type": "object", "properties": { "next": { "$ref": "#" } } }),
            json!({ "next": { "next": {} } }),
            json!({ "next": { "next": 1 } }),
        ),
        (
            "by id",
            json!({ "$id": "https://a.example/b", "items": { "$ref": "c" }, "$defs": { "c": { "$id": "c", "type": "string" } } }),
            json!(["a"]),
            json!([1]),
        ),
        (
            "dynamic",
            json!({ "$dynamicAnchor": "n", "type": "object", "additionalProperties": { "$dynamicRef": "#n" } }),
            json!({ "a": {} }),
            json!({ "a": 1 }),
        ),
        (
            "closed",
            json!({ "allOf": [{ "properties": { "a": true } }], "unevaluatedProperties": false }),
            json!({ "a": 1 }),
            json!({ "b": 1 }),
        ),
        ("true", json!(true), json!(1), json!(null)),
    ] {
        let checker = SchemaValidator::new();
        let before = raw(&schema);
        assert_eq!(checker.check(&before, &raw(&good)), Validity::Valid, "{row} {schema}");
        let validity = checker.check(&before, &raw(&bad));
        assert!(
            matches!(validity, Validity::Invalid(_)) || row == "true",
            "{row} {schema} {validity:?}"
        );
        assert_eq!(checker.check_schema(&before), Ok(()));
    }
}

/// Builds definitions from random bytes that refer to each other for the same value and its parts.
fn tangled(bytes: &[u8]) -> Value {
    let count = 2 + usize::from(bytes.first().copied().unwrap_or(0)) % 14;
    let mut bytes = bytes.iter().copied().cycle();
    let mut next = || usize::from(bytes.next().unwrap_or(0));
    let mut defs = serde_json::Map::new();
    for own in 0..count {
        let mut def = serde_json::Map::new();
        for _ in 0..1 + next() % 3 {
            let keyword = next() % 17;
            // Mostly forward references, because cycles are rejected early.
            let mut to = || match next() % 8 {
                0 => json!({ "$ref": format!("#/$defs/d{}", next() % count) }),
                _ => json!({ "$ref": format!("#/$defs/d{}", (own + 1 + next() % 2).min(count)) }),
            };
            let (key, value) = match keyword {
                0 | 1 => ("allOf", json!([to(), to()])),
                2 | 3 => ("anyOf", json!([to(), to(), { "type": "string" }])),
                4 => ("oneOf", json!([to(), to()])),
                5 => ("not", to()),
                6 => ("if", to()),
                7 => ("then", to()),
                8 => ("properties", json!({ "next": to() })),
                9 => ("additionalProperties", to()),
                10 => ("items", to()),
                11 => ("contains", to()),
                12 => ("unevaluatedProperties", to()),
                13 => ("unevaluatedItems", json!(false)),
                14 => ("dependentSchemas", json!({ "next": to() })),
                15 => ("patternProperties", json!({ "^n": to(), "t$": to() })),
                _ => ("propertyNames", to()),
            };
            def.insert(key.to_owned(), value);
        }
        defs.insert(format!("d{own}"), Value::Object(def));
    }
    defs.insert(format!("d{count}"), json!({ "maxProperties": 0 }));
    json!({ "$ref": "#/$defs/d0", "$defs": defs })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn dkr_41_random_references_neither_hang_nor_crash(
        bytes in prop::collection::vec(any::<u8>(), 1..200),
        depth in 0_usize..100,
    ) {
        let value = nest(depth / 2, |inner| json!({ "next": [inner], "t": {} }), json!({}));
        let value = nest(depth / 4, |inner| json!({ "next": inner, "t": 1 }), value);
        check_bounded("tangle", raw(&tangled(&bytes)), raw(&value));
    }
}
