//! What is listed: servers, tools, resources, prompts, status, and why.

use serde_json::{Value, json};
use toolcrib_testkit::scripted::{Script, Step};

use super::{PATH, demo, find, names, native, scripted, server};
use crate::{PROGRAM, Place};

#[test]
fn a_server_that_never_answers_is_named_and_nothing_was_reached() {
    let entry = json!({"command": "sleep", "args": ["100"], "timeouts": {"startup": "1s"}});
    let place = native(&json!({"mute": entry}));
    let ran = place.run_with(&["tools"], &[PATH]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.err.contains("server `mute` is connecting: it has not answered yet"), "{ran:?}");
    let ran = place.run_with(&["call", "mute__x"], &[PATH]);
    assert!(ran.code == 3 && ran.err.contains("server `mute` is"), "{ran:?}");
}

#[test]
fn servers_json_has_the_contracts_fields() {
    let place = native(&json!({"demo": demo(), "off": {"command": "x", "enabled": false}}));
    let listed = place.json(&["servers"]);
    assert!(listed["version"].is_u64());
    let one = server(&listed, "demo");
    let fields: Vec<&str> = one.as_object().unwrap().keys().map(String::as_str).collect();
    let contract = [
        "id",
        "key",
        "source",
        "dialect",
        "transport",
        "state",
        "tools",
        "pid",
        "sessions",
        "calls",
        "avg_response_seconds",
        "restarts",
        "attempts",
        "last_connected",
        "last_error",
        "last_error_time",
        "next_retry",
        "cache",
        "dialect_state",
        "missing_capabilities",
        "protocol_version",
    ];
    assert!(contract.iter().all(|field| fields.contains(field)), "{fields:?}");
    assert_eq!((&one["key"], &one["state"]), (&json!("toolcrib.yaml#demo"), &json!("ready")));
    assert_eq!((&one["tools"], &one["cache"]), (&json!(7), &json!("ready")));
    assert_eq!(one["calls"], json!({"total": 0, "succeeded": 0, "failed": 0}));
    assert_eq!(one["protocol_version"], "2026-07-28");
    let connected = one["last_connected"].as_str().unwrap();
    assert!(connected.starts_with("20") && connected.ends_with('Z'), "{connected}");
    assert_eq!(one["last_error"], Value::Null);
    assert_eq!(server(&listed, "off")["state"], "disabled");
}

#[test]
fn a_server_that_fails_is_shown_with_its_error_and_when_it_is_tried_again() {
    let place = native(&json!({"gone": {"command": "no-such-program-here"}, "demo": demo()}));
    let listed = place.json(&["servers"]);
    let gone = server(&listed, "gone");
    assert_eq!((&gone["state"], &gone["pid"]), (&json!("backoff"), &Value::Null));
    assert!(gone["last_error"].as_str().unwrap().contains("no-such-program-here"));
    assert!(gone["last_error_time"].is_string() && gone["next_retry"].is_string());
    let ran = place.run_with(&["servers"], &[PATH]);
    assert_eq!((ran.code, ran.err.as_str()), (0, "2 servers in 1 file: no problems\n"));
    let rows: Vec<Vec<&str>> =
        ran.out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0][..4], ["ID", "STATE", "TRANSPORT", "TOOLS"]);
    assert_eq!(rows[1][..5], ["gone", "backoff", "stdio", "0", "0"]);
    assert_eq!(rows[2], ["demo", "ready", "stdio", "7", "0"]);
}

#[test]
fn tools_json_has_the_contracts_fields_and_schemas_byte_for_byte() {
    let schema = r#"{ "type":"object" , "x-odd": 1.50e+2, "properties":{"a":{"const":12345678901234567890}}}"#;
    let listed = format!(
        r#"{{"jsonrpc":"2.0","id":$id,"result":{{"tools":[{{"name":"t","title":"T","inputSchema":{schema}}}]}}}}"#
    );
    let script =
        Script { legacy_only: true, ..Script::default() }.on("tools/list", [Step::Message(listed)]);
    let place = native(&json!({"s": scripted(&script)}));
    let ran = place.run(&["tools", "--json"]);
    assert!(ran.out.contains(&format!("\"input_schema\":{schema},")), "{}", ran.out);
    let listed: Value = serde_json::from_str(&ran.out).unwrap();
    let tool = &listed["tools"][0];
    let fields: Vec<&str> = tool.as_object().unwrap().keys().map(String::as_str).collect();
    let contract = [
        "name",
        "model_name",
        "server",
        "toolset",
        "original_name",
        "title",
        "description",
        "input_schema",
        "output_schema",
        "annotations",
        "available",
    ];
    assert_eq!(fields, contract);
    assert_eq!((&tool["name"], &tool["original_name"]), (&json!("s__t"), &json!("t")));
    assert_eq!((&tool["server"], &tool["toolset"]), (&json!("s"), &json!("s")));
    assert_eq!((&tool["output_schema"], &tool["available"]), (&Value::Null, &json!(true)));
    assert_eq!(listed["problems"], json!([]));
}

#[test]
fn tools_read_as_a_table() {
    let place = native(&json!({"demo": demo()}));
    let ran = place.run(&["tools"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, "7 tools\n"));
    insta::assert_snapshot!(ran.out);
}

#[test]
fn tools_of_one_server_do_not_wait_for_others() {
    // It would take a minute to fail.
    let hangs = scripted(
        &Script { legacy_only: true, ..Script::default() }
            .on("initialize", [Step::Sleep(120_000), Step::Answer]),
    );
    let place = native(&json!({"demo": demo(), "hangs": hangs}));
    let begun = std::time::Instant::now();
    assert_eq!(names(&place.json(&["tools", "--server", "demo"])).len(), 7);
    assert_eq!(place.out(&["call", "demo__echo", "-a", "text=quick"]), "quick\n");
    assert!(begun.elapsed() < std::time::Duration::from_secs(20));
    let ran = place.run(&["tools", "--server", "nobody", "--config", "toolcrib.yaml"]);
    assert_eq!(ran.code, 1);
    assert_eq!(ran.err, "error: there is no server `nobody`; there are demo, hangs\n");
}

#[test]
fn why_names_the_gates_and_the_place_of_the_rule() {
    let file = format!(
        "version: 1
host:
  grants:
    members:
      ada: {{ toolsets: [demo] }}
      bob: {{ toolsets: [] }}
servers:
  demo:
    command: {PROGRAM}
    args: [demo-server]
    expose: {{ tools: {{ deny: [fail] }} }}
"
    );
    let place = Place::new().file("toolcrib.yaml", &file);
    let ran = place.run(&["why", "demo__echo", "--agent", "ada"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    insta::assert_snapshot!("why_a_tool_can_be_used", ran.out);
    let ran = place.run(&["why", "demo__echo", "--agent", "bob"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    insta::assert_snapshot!("why_a_tool_is_not_granted", ran.out);
    let ran = place.run(&["why", "demo__fail"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    insta::assert_snapshot!("why_a_tool_is_left_out", ran.out);

    let why = place.json(&["why", "demo__echo", "--agent", "bob"]);
    assert_eq!(why["usable"], false);
    let gates: Vec<&str> = why["gates"]
        .as_array()
        .unwrap()
        .iter()
        .map(|gate| gate["gate"].as_str().unwrap())
        .collect();
    assert_eq!(gates, ["exposure", "grant", "switch", "availability"]);
    let grant = find(&why["gates"], "gate", "grant");
    assert_eq!(grant["passed"], false);
    assert!(grant["origin"].as_str().unwrap().starts_with("toolcrib.yaml:6:"), "{grant}");
    // To the agent there is no such tool.
    assert!(!names(&place.json(&["tools", "--agent", "bob"])).contains(&"demo__echo".to_owned()));
    let told = place.json(&["call", "demo__echo", "-a", "text=x", "--agent", "bob"]);
    assert_eq!(told["error"]["kind"], "unknown_tool");
}

#[test]
fn dis_36_resources_are_listed_over_all_pages_and_read() {
    let folder = tempfile::tempdir().unwrap();
    let page = |uris: &[&str], next: Option<&str>| {
        let all: Vec<Value> = uris.iter().map(|uri| json!({"uri": uri, "name": uri})).collect();
        match next {
            Some(next) => vec![Step::Result(json!({"resources": all, "nextCursor": next}))],
            None => vec![Step::Result(json!({"resources": all}))],
        }
    };
    let turns = vec![page(&["m://one"], Some("2")), page(&["m://two"], None)];
    let pages = Step::Turns { count: folder.path().join("count"), turns };
    let read = json!({"contents": [
        {"uri": "m://two", "text": "two\n"}, {"uri": "m://two", "blob": "AAEC", "mimeType": "x/y"},
    ]});
    let script = Script { legacy_only: true, ..Script::default() }
        .on("resources/list", [pages])
        .on("resources/read", [Step::Result(read.clone())]);
    let place = native(&json!({"mem": scripted(&script), "demo": demo()}));
    let listed = place.json(&["resources"]);
    let uris: Vec<&str> = listed["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|resource| resource["uri"].as_str().unwrap())
        .collect();
    assert_eq!(uris, ["m://one", "m://two", "demo://calls"]); // DIS-36
    assert_eq!(listed["templates"][0]["uri_template"], "demo://square/{number}");
    assert_eq!(place.out(&["read", "demo://square/12"]), "144\n"); // DIS-36
    assert_eq!(place.json(&["read", "m://two", "--server", "mem"]), read);
    let output = place.command(&["read", "m://two"]).output().unwrap();
    assert_eq!(output.stdout, b"two\n\x00\x01\x02");
    let ran = place.run(&["read", "m://none"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.starts_with("error: resource not found: m://none\n"), "{ran:?}");
}

#[test]
fn min_73_prompts_are_listed_and_filled_in() {
    let place = native(&json!({"demo": demo()}));
    let listed = place.json(&["prompts"]);
    let prompt = find(&listed["prompts"], "name", "demo__introduce");
    assert_eq!(
        (&prompt["server"], &prompt["original_name"]),
        (&json!("demo"), &json!("introduce"))
    );
    assert_eq!(prompt["arguments"][0]["name"], "name");
    let table = place.out(&["prompts"]);
    assert!(table.contains("demo__introduce  demo    name"), "{table}");
    let said = place.out(&["prompt", "demo__introduce", "-a", "name=Ada"]);
    assert!(said.starts_with("user: Show Ada"), "{said}"); // MIN-73
    let whole = place.json(&["prompt", "demo__introduce", "-a", "name=Ada"]);
    assert_eq!(whole["messages"][0]["role"], "user");
    let ran = place.run(&["prompt", "nothing"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.starts_with("error: prompt not found: nothing\n"), "{ran:?}");
}

#[test]
fn dis_44_what_servers_write_is_shown_and_never_obeyed() {
    let text = "{{7*7}} <script>\u{1b}[2J\u{202e} `id`\nsecond line";
    let tools = json!({"resultType": "complete", "tools": [
        {"name": "t", "description": text, "inputSchema": {"type": "object"}}]});
    let script = Script::default().on("tools/list", [Step::Result(tools)]);
    let place = native(&json!({"s": scripted(&script)}));
    let listed = place.json(&["tools"]);
    assert_eq!(listed["tools"][0]["description"], text); // DIS-44: verbatim
    let table = place.out(&["tools"]);
    // DIS-44: escaped
    let shown = r"{{7*7}} <script>\u{1b}[2J\u{202e} `id`…";
    assert!(table.contains(shown), "{table}");
    assert!(!table.contains('\u{1b}') && !table.contains('\u{202e}'), "{table}");
}

#[test]
fn dis_46_a_new_server_needs_only_its_entry() {
    let place = native(&json!({"one": scripted(&Script::default())}));
    assert_eq!(place.tools(), ["one__echo", "one__fail", "one__env"]);
    let both = json!({"one": scripted(&Script::default()), "two": demo()});
    let place = place.file("toolcrib.yaml", &json!({"version": 1, "servers": both}).to_string());
    let tools = place.tools();
    assert_eq!((tools.len(), tools[3].as_str()), (10, "two__echo")); // DIS-46
    assert_eq!(place.out(&["call", "two__echo", "-a", "text=new"]), "new\n");
}

#[test]
fn dis_50_status_says_that_there_is_no_sandbox_and_it_is_so() {
    let place = Place::new();
    let shim = place.shim("mine");
    let file = json!({"version": 1, "servers": {"s": {"command": shim.path}}});
    let place = place.file("toolcrib.yaml", &file.to_string());
    let said = place.out(&["status"]);
    assert!(said.contains("run with the host's privileges: there is no sandbox"), "{said}");
    assert!(said.contains("1 server, 1 ready; 3 tools of servers; 0 problems"), "{said}");
    let (_, user, _) = shim.started().unwrap();
    assert_eq!(user, rustix::process::getuid().as_raw()); // DIS-50
    let status = place.json(&["status"]);
    assert_eq!((&status["sandbox"], &status["ready"]), (&json!(false), &json!(1)));
    assert!(status["registry_version"].is_u64() && status["uptime_seconds"].is_number());
    let help = place.out(&["status", "--help"]);
    assert!(help.contains("no sandbox"), "{help}");
}

#[test]
fn what_is_done_is_told_to_whoever_asks_and_holds_no_secret() {
    let mut entry = demo();
    entry["env"] = json!({"TOKEN": "canary"});
    let place = native(&json!({"demo": entry, "gone": {"command": "no-such-program-here"}}));
    let ran = place.run_with(&["tools", "-v"], &[PATH]);
    assert!(ran.err.contains("info: configuration loaded"), "{ran:?}");
    assert!(!ran.err.contains("canary") && !ran.out.contains("info:"), "{ran:?}");
    let ran = place.run_with(&["tools", "-q"], &[PATH]);
    assert_eq!(ran.err, "");
}

/// DIS-54: where the configuration says so, an agent that has only tools can list and read resources.
#[test]
fn dis_54_resources_are_offered_as_tools() {
    let place = native(&json!({"demo": demo()}));
    let has = |place: &Place, name: &str| place.tools().iter().any(|it| it == name);
    assert!(!has(&place, "list_resources") && !has(&place, "read_resource"));
    assert_eq!(place.run(&["call", "list_resources"]).code, 1);
    let mut entry = demo();
    entry["expose"] = json!({"resources": {"as": "tools"}});
    let grants = json!({"members": {"ada": {"toolsets": ["demo"]}, "bob": {"toolsets": []}}});
    let file = json!({"version": 1, "host": {"grants": grants}, "servers": {"demo": entry, "other": demo()}});
    let place = place.file("toolcrib.yaml", &file.to_string());
    assert!(has(&place, "list_resources") && has(&place, "read_resource"));
    let listed: Value = serde_json::from_str(&place.out(&["call", "list_resources"])).unwrap();
    let calls = find(&listed["resources"], "uri", "demo://calls");
    assert_eq!(calls["server"], "demo", "only of the server that says so: {listed:#}");
    assert_eq!(listed["resources"].as_array().unwrap().len(), 1, "{listed:#}");
    assert!(
        listed["templates"][0]["uriTemplate"].as_str().unwrap().contains("square"),
        "{listed:#}"
    );
    let read = ["call", "read_resource", "-a", "uri=demo://square/12"];
    assert_eq!(place.out(&read), "144\n");
    assert_eq!(place.out(&[&read[..], &["--agent", "ada"]].concat()), "144\n");
    let denied = place.run(&[&read[..], &["--agent", "bob"]].concat());
    assert!(denied.code == 1 && denied.err.contains("tool not found"), "{denied:?}");
    let missing = place.run(&["call", "read_resource", "-a", "uri=demo://none"]);
    assert!(missing.code == 1 && missing.out.contains("resource not found"), "{missing:?}");
}
