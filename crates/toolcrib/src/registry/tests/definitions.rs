//! Tests that definitions keep the server's bytes except for renamed members.

use super::*;

/// Every keyword of DOM-40 to DOM-42, with odd spacing and numbers that no float can hold.
const SCHEMA: &str = r##"{ "type":"object", "properties": {
  "a":{"type":["integer","null"],"minimum":1.0,"maximum":12345678901234567890,"exclusiveMinimum":0,"exclusiveMaximum":9,"multipleOf":0.10},
  "b":{"oneOf":[{"const":1e2},{"enum":["x",null]}],"anyOf":[true],"allOf":[{}],"not":{"type":"null"},"default":"\u00e9"},
  "c":{"type":"array","items":[{"type":"string"}],"prefixItems":[{}],"minItems":0,"maxItems":3,"uniqueItems":true},
  "d":{"type":"string","minLength":1,"maxLength":2,"pattern":"^\\w+$","format":"uri","title":"T","description":"D"},
  "e":{"$ref":"#/$defs/x"} },
 "required":["a"], "additionalProperties":{"type":"string"}, "patternProperties":{"^x":{}}, "propertyNames":{"maxLength":4}, "x-unknown":[ ] }"##;

fn definition(name: &str) -> String {
    format!(
        r#"{{ "x-first":1.50, "name" : "{name}","description":"Does it", "inputSchema":{SCHEMA}, "outputSchema":{{}}, "annotations":{{"readOnlyHint":true}},"icons":[ ] }}"#
    )
}

#[test]
fn dom_40_to_42_and_dis_22_schemas_keep_every_byte() {
    for text in [
        "  a: { command: x, naming: { template: '{tool}' } }\n",
        "  a: { profile: dispatch, command: x }\n",
        "  a: { profile: docker, command: x }\n",
    ] {
        let (snapshot, _) =
            TestRegistry::native(text).definitions("a", &[&definition("go")]).plan();
        let tool = snapshot.view(None).tools().next().cloned().unwrap();
        assert_eq!(tool.input_schema().text(), SCHEMA); // DOM-40, DOM-41, DOM-42, DIS-22
        assert_eq!(tool.definition().get("inputSchema").unwrap().text(), SCHEMA);
        assert_eq!(tool.output_schema().unwrap().text(), "{}");
        assert_eq!(tool.annotations().unwrap().text(), r#"{"readOnlyHint":true}"#);
        assert_eq!(tool.raw().text(), definition("go"));
    }
}

#[test]
fn unrenamed_definitions_share_the_servers_text() {
    let text = "  a: { command: x, naming: { template: '{tool}' } }\n  b: { profile: minion, command: x }\n";
    let own = definition("go");
    let registry = TestRegistry::native(text).definitions("a", &[&own]).definitions("b", &[&own]);
    let (snapshot, _) = registry.plan();
    let tool = |name| snapshot.view(None).tool(name).cloned().unwrap();
    assert_eq!(tool("go").definition().text(), own);
    let expected = own
        .replace(r#""name" : "go""#, r#""name" : "mcp_b_go""#)
        .replace(r#""description":"Does it""#, r#""description":"[MCP:b] Does it""#);
    assert_eq!(tool("mcp_b_go").definition().text(), expected);
}

#[test]
fn missing_description_uses_the_policy_fallback() {
    let bare = r#"{"name":"go","inputSchema":{}}"#;
    for (policy, description, definition) in [
        ("naming: { template: '{tool}' }", None, bare.to_owned()),
        // Docker's platform has a fallback text; models know `crm:go` as `crm_go`.
        (
            "profile: docker",
            Some("MCP tool go"),
            r#"{"description":"MCP tool go","name":"crm_go","inputSchema":{}}"#.to_owned(),
        ),
        (
            "profile: dispatch",
            Some("[crm] "),
            r#"{"description":"[crm] ","name":"crm__go","inputSchema":{}}"#.to_owned(),
        ),
    ] {
        let text = format!("  crm: {{ command: x, {policy} }}\n");
        let (snapshot, _) = TestRegistry::native(&text).definitions("crm", &[bare]).plan();
        let tool = snapshot.view(None).tools().next().cloned().unwrap();
        assert_eq!(tool.description().as_deref(), description, "{policy}");
        assert_eq!(tool.definition().text(), definition, "{policy}");
    }
}
