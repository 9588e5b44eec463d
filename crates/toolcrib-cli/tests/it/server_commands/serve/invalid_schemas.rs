//! Tests tools with an invalid JSON Schema.

use serde_json::{Value, json};
use toolcrib_testkit::scripted::{Script, Step};

use super::ServeProcess;
use crate::TestWorkspace;
use crate::server_commands::{codes, find, names, native_workspace, scripted_server};

/// A server with a valid tool and one with this schema.
fn server(schema: &Value) -> Value {
    let tools = json!({"tools": [
        {"name": "good", "inputSchema": {"type": "object"}},
        {"name": "odd", "inputSchema": schema},
    ]});
    scripted_server(&Script::default().on("tools/list", [Step::Result(tools)]))
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

/// A recursive schema, which is valid.
fn recursive() -> Value {
    json!({"type": "object", "properties": {"child": {"$ref": "#"}}})
}

#[tokio::test]
async fn dom_100_invalid_tool_schema_fails_reload_and_last_valid_server_stays() {
    let workspace = TestWorkspace::new().with_file(".minds/mcp.yaml", &dominds(&recursive()));
    let _served = ServeProcess::start(&workspace).await;
    assert_eq!(workspace.tools(), ["good", "odd"]);
    for schema in invalid_schemas() {
        std::fs::write(workspace.root().join(".minds/mcp.yaml"), dominds(&schema)).unwrap();
        assert_eq!(workspace.run(&["reload"]).code, 1, "{schema}");
        let listed = workspace.json(&["tools"]);
        let problem = find(&listed["problems"], "code", "reload.kept_last_good");
        assert_eq!((&problem["server"], &problem["tool"]), (&json!("s"), &json!("odd"))); // DOM-100
        let text = problem["text"].as_str().unwrap();
        assert!(text.contains("tool schema invalid: tool `odd`"), "{text}"); // DOM-100
        // The first call has leased a session, which adds a host tool.
        let listed = names(&listed);
        assert!(
            listed.ends_with(&["good".into(), "odd".into()]),
            "the last valid server stays: {listed:?}"
        ); // DOM-100
        assert_eq!(workspace.run(&["call", "good"]).code, 0);
    }
    std::fs::write(workspace.root().join(".minds/mcp.yaml"), dominds(&json!({"type": "object"})))
        .unwrap();
    assert_eq!(workspace.run(&["reload"]).code, 0);
    let listed = workspace.json(&["tools"]);
    assert!(!codes(&listed["problems"]).contains(&"reload.kept_last_good"), "{listed:#}");
}

#[test]
fn dom_100_invalid_tool_schema_fails_first_start_of_its_server_only() {
    let mut file: Value = serde_json::from_str(&dominds(&invalid_schemas()[0])).unwrap();
    let mut other = scripted_server(&Script::default());
    other["transport"] = json!("stdio");
    file["servers"]["other"] = other;
    let workspace = TestWorkspace::new().with_file(".minds/mcp.yaml", &file.to_string());
    let listed = workspace.json(&["tools"]);
    assert_eq!(names(&listed), ["echo", "fail", "env"]);
    let problem = find(&listed["problems"], "code", "tool.schema.invalid");
    assert_eq!((&problem["server"], &problem["tool"]), (&json!("s"), &json!("odd"))); // DOM-100
}

#[test]
fn dom_100_invalid_schemas_setting_offers_or_withholds_tool() {
    for schema in invalid_schemas() {
        for (policy, offered) in
            [(Value::Null, true), (json!("offer"), true), (json!("withhold"), false)]
        {
            let mut entry = server(&schema);
            if policy.is_string() {
                entry["discovery"] = json!({ "invalid_schemas": policy });
            }
            let listed = native_workspace(&json!({"s": entry})).json(&["tools"]);
            let problem = find(&listed["problems"], "code", "tool.schema.invalid");
            assert_eq!((&problem["server"], &problem["tool"]), (&json!("s"), &json!("odd"))); // DOM-100
            assert_eq!(names(&listed).contains(&"s__odd".to_owned()), offered, "{listed:#}"); // DOM-100
            assert!(names(&listed).contains(&"s__good".to_owned()));
        }
    }
    let listed = native_workspace(&json!({"s": server(&recursive())})).json(&["tools"]);
    assert_eq!(listed["problems"], json!([]), "{listed:#}");
}
