//! Property tests: every format renders any result, and the raw format keeps its bytes.

use proptest::prelude::*;
use serde_json::Value;
use toolcrib_config::model::units::Size;

use super::*;

const FORMATS: [ResultFormat; 8] = [
    ResultFormat::Auto,
    ResultFormat::Text,
    ResultFormat::Flatten,
    ResultFormat::Blocks,
    ResultFormat::FirstJson,
    ResultFormat::Yaml,
    ResultFormat::Json,
    ResultFormat::Raw,
];

/// Generates JSON with frequent known members, which may have values of any type.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
        "text|image|audio|resource|resource_link|complete|AAAA|image/png|#/\\$defs/a|object|array|\\{\\}"
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((key(), inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn key() -> impl Strategy<Value = String> {
    let result = "content|structuredContent|isError|_meta|type|text|data|mimeType|resource|uri|message|error|code|retriable|detail";
    let schema = "\\$ref|\\$defs|a|properties|items|allOf|anyOf|oneOf|not|if|then|else|unevaluatedProperties|additionalProperties|pattern|enum|required|\\$id|\\$anchor|\\$dynamicRef|dependentSchemas|propertyNames|contains|prefixItems|minimum|const";
    prop_oneof![
        result.prop_map(String::from),
        schema.prop_map(String::from),
        ".{0,4}".prop_map(String::from)
    ]
}

fn any_result() -> impl Strategy<Value = Value> {
    let members = (any_json(), any_json(), prop::option::of(any::<bool>()));
    members.prop_map(|(content, structured, failed)| {
        let content = match content {
            Value::Array(_) => content,
            one => Value::Array(vec![one]),
        };
        let mut whole = serde_json::json!({ "content": content, "structuredContent": structured });
        if let Some(failed) = failed {
            whole["isError"] = failed.into();
        }
        whole
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn every_format_renders_and_raw_keeps_the_bytes(whole in prop_oneof![any_result(), any_json()], max in 0_u64..400) {
        let Ok(result) = CallToolResult::read(RawJson::from_value(&whole).unwrap()) else { return Ok(()) };
        for format in FORMATS {
            for audience in [Audience::McpClient, Audience::Other] {
                render_result(&result, format, audience).into_text();
            }
        }
        let text = whole.to_string();
        prop_assert_eq!(render_result(&result, ResultFormat::Raw, Audience::Other).into_text(), &*text);
        for policy in [minion(), docker(), dominds()] {
            let _ = deliver(&facts(), Ok(&result), &policy, Audience::Other);
            let report = call_report(&facts(), Ok(&result), policy.error_message);
            prop_assert!(report.json().read::<Value>().is_ok());
        }
        model_items(&result, "x");
        let cut = truncate_result(&result, Size(max), || "x".to_owned());
        prop_assert!(cut.delivered.json().read::<Value>().is_ok());
        match cut.stored {
            None => prop_assert_eq!(cut.delivered.text(), &*text),
            Some(stored) => prop_assert_eq!(stored.full_result.text(), &*text),
        }
    }

    #[test]
    fn any_schema_and_any_value_give_a_verdict(schema in any_json(), value in any_json()) {
        let (schema, value) = (RawJson::from_value(&schema).unwrap(), RawJson::from_value(&value).unwrap());
        SchemaValidator::new().check(&schema, &value);
        let _ = parse_arguments(&schema, [("a", value.text()), ("text", "7")]);
    }
}
