//! Tests that every command escapes foreign text.

use serde_json::json;
use toolcrib_testkit::scripted::{Script, Step};

use super::{PATH, scripted_server};
use crate::TestWorkspace;

const EVIL: &str = "e\u{1b}]0;owned\u{7}\u{202e}\u{9b}2J\u{e0041}vil";

#[test]
fn dis_44_control_characters_of_foreign_text_are_escaped_in_every_command() {
    let tool = |name: &str| {
        json!({"name": name, "title": EVIL, "description": EVIL, "inputSchema": {"type": "object",
            "properties": {EVIL: {"description": EVIL}}}})
    };
    let list = json!({"resultType": "complete", "tools": [tool("t"), tool(EVIL)]});
    let script = Script::default().on("tools/list", [Step::Result(list)]);
    let mut entry = scripted_server(&script);
    entry["description"] = json!(EVIL);
    let file = json!({"version": 1, "servers": {"s": entry, EVIL: {"command": [EVIL]},
        "gone": {"command": EVIL, "args": [EVIL], "env": {"A": EVIL}}}, EVIL: EVIL});
    // The characters are literal in the file where YAML allows them.
    let text = file.to_string().replace('\u{9b}', "\\u009b");
    let workspace = TestWorkspace::new().with_file("toolcrib.yaml", &text);
    for args in [
        vec!["check"],
        vec!["explain"],
        vec!["trust", "--show"],
        vec!["servers"],
        vec!["tools"],
        vec!["why", "s__t"],
        vec!["why", EVIL],
        vec!["call", EVIL],
        vec!["reload"],
        vec!["doctor"],
        vec!["accept"],
        vec!["server", "restart", EVIL],
    ] {
        let ran = workspace.run_with_env(&args, &[PATH]);
        let output = ran.out + &ran.err;
        let obeyed = |c: char| {
            (c.is_control() && c != '\n') || matches!(c, '\u{202e}' | '\u{e0000}'..='\u{e007f}')
        };
        let found = output.lines().find(|line| line.contains(obeyed)); // DIS-44
        assert!(found.is_none(), "{args:?}: {found:?}");
        assert!(!output.is_empty(), "{args:?}");
    }
    // JSON output is unescaped.
    let listed = workspace.json(&["tools"]);
    assert_eq!(super::find(&listed["tools"], "name", "s__t")["description"], EVIL);
}
