//! What others wrote, shown by every command that shows it: never obeyed, never hidden.

use serde_json::json;
use toolcrib_testkit::scripted::{Script, Step};

use super::{PATH, scripted};
use crate::Place;

const EVIL: &str = "e\u{1b}]0;owned\u{7}\u{202e}\u{9b}2J\u{e0041}vil";

#[test]
fn dis_44_nothing_that_others_wrote_has_power_over_whoever_reads_it() {
    let tool = |name: &str| {
        json!({"name": name, "title": EVIL, "description": EVIL, "inputSchema": {"type": "object",
            "properties": {EVIL: {"description": EVIL}}}})
    };
    let list = json!({"resultType": "complete", "tools": [tool("t"), tool(EVIL)]});
    let script = Script::default().on("tools/list", [Step::Result(list)]);
    let mut entry = scripted(&script);
    entry["description"] = json!(EVIL);
    let file = json!({"version": 1, "servers": {"s": entry, EVIL: {"command": [EVIL]},
        "gone": {"command": EVIL, "args": [EVIL], "env": {"A": EVIL}}}, EVIL: EVIL});
    // In a file the characters stand as they are, where YAML allows that.
    let text = file.to_string().replace('\u{9b}', "\\u009b");
    let place = Place::new().file("toolcrib.yaml", &text);
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
        let ran = place.run_with(&args, &[PATH]);
        let said = ran.out + &ran.err;
        let obeyed = |c: char| {
            (c.is_control() && c != '\n') || matches!(c, '\u{202e}' | '\u{e0000}'..='\u{e007f}')
        };
        let found = said.lines().find(|line| line.contains(obeyed)); // DIS-44
        assert!(found.is_none(), "{args:?}: {found:?}");
        assert!(!said.is_empty(), "{args:?}");
    }
    // Programs get it as it was written.
    let listed = place.json(&["tools"]);
    assert_eq!(super::find(&listed["tools"], "name", "s__t")["description"], EVIL);
}
