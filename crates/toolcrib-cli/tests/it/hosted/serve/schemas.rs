//! Tools whose schema is no JSON Schema.

use serde_json::{Value, json};
use toolcrib_testkit::scripted::{Script, Step};

use super::Served;
use crate::Place;
use crate::hosted::{codes, find, names, native, scripted};

/// A server with a good tool and one of this schema.
fn server(schema: &Value) -> Value {
    let tools = json!({"tools": [
        {"name": "good", "inputSchema": {"type": "object"}},
        {"name": "odd", "inputSchema": schema},
    ]});
    scripted(&Script::default().on("tools/list", [Step::Result(tools)]))
}

fn dominds(schema: &Value) -> String {
    let mut entry = server(schema);
    entry["transport"] = json!("stdio");
    json!({"version": 1, "servers": {"s": entry}}).to_string()
}

fn invalid_schemas() -> [Value; 4] {
    let loops = json!({"x": {"$ref": "#/$defs/y"}, "y": {"$ref": "#/$defs/x"}});
    [
        json!({"type": "object", "properties": {"a": {"type": 5}}}),
        json!({"type": "object", "properties": ["a"]}),
        json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}),
        json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": loops}),
    ]
}

/// A tree of itself, which is legal.
fn recursive() -> Value {
    json!({"type": "object", "properties": {"child": {"$ref": "#"}}})
}

#[tokio::test]
async fn dom_100_an_invalid_tool_schema_fails_the_reload_and_the_last_good_server_stays() {
    let place = Place::new().file(".minds/mcp.yaml", &dominds(&recursive()));
    let _served = Served::start(&place).await;
    assert_eq!(place.tools(), ["good", "odd"]);
    for schema in invalid_schemas() {
        std::fs::write(place.root().join(".minds/mcp.yaml"), dominds(&schema)).unwrap();
        assert_eq!(place.run(&["reload"]).code, 1, "{schema}");
        let listed = place.json(&["tools"]);
        let problem = find(&listed["problems"], "code", "reload.kept_last_good");
        assert_eq!((&problem["server"], &problem["tool"]), (&json!("s"), &json!("odd"))); // DOM-100
        let text = problem["text"].as_str().unwrap();
        assert!(text.contains("tool schema invalid: tool `odd`"), "{text}"); // DOM-100
        // The first call has leased a session, which brings a tool of the host.
        let listed = names(&listed);
        assert!(
            listed.ends_with(&["good".into(), "odd".into()]),
            "the last good one stays: {listed:?}"
        ); // DOM-100
        assert_eq!(place.run(&["call", "good"]).code, 0);
    }
    std::fs::write(place.root().join(".minds/mcp.yaml"), dominds(&json!({"type": "object"})))
        .unwrap();
    assert_eq!(place.run(&["reload"]).code, 0);
    let listed = place.json(&["tools"]);
    assert!(!codes(&listed["problems"]).contains(&"reload.kept_last_good"), "{listed:#}");
}

#[test]
fn dom_100_an_invalid_tool_schema_fails_the_first_start_of_its_server_alone() {
    let mut file: Value = serde_json::from_str(&dominds(&invalid_schemas()[0])).unwrap();
    let mut other = scripted(&Script::default());
    other["transport"] = json!("stdio");
    file["servers"]["other"] = other;
    let place = Place::new().file(".minds/mcp.yaml", &file.to_string());
    let listed = place.json(&["tools"]);
    assert_eq!(names(&listed), ["echo", "fail", "env"]);
    let problem = find(&listed["problems"], "code", "tool.schema.invalid");
    assert_eq!((&problem["server"], &problem["tool"]), (&json!("s"), &json!("odd"))); // DOM-100
}

#[test]
fn dom_100_whether_an_invalid_tool_is_offered_is_a_setting() {
    for schema in invalid_schemas() {
        for (policy, offered) in
            [(Value::Null, true), (json!("offer"), true), (json!("withhold"), false)]
        {
            let mut entry = server(&schema);
            if policy.is_string() {
                entry["discovery"] = json!({ "invalid_schemas": policy });
            }
            let listed = native(&json!({"s": entry})).json(&["tools"]);
            let problem = find(&listed["problems"], "code", "tool.schema.invalid");
            assert_eq!((&problem["server"], &problem["tool"]), (&json!("s"), &json!("odd"))); // DOM-100
            assert_eq!(names(&listed).contains(&"s__odd".to_owned()), offered, "{listed:#}"); // DOM-100
            assert!(names(&listed).contains(&"s__good".to_owned()));
        }
    }
    let listed = native(&json!({"s": server(&recursive())})).json(&["tools"]);
    assert_eq!(listed["problems"], json!([]), "{listed:#}");
}
