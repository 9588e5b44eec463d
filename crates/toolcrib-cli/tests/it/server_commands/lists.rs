//! Tests the listing commands: servers, tools, resources, prompts, status and why.

use serde_json::{Value, json};
use toolcrib_testkit::scripted::{Script, Step};

use super::{PATH, demo_server, find, names, native_workspace, scripted_server, server};
use crate::{PROGRAM, TestWorkspace};

#[test]
fn silent_server_is_named_and_exit_code_is_three() {
    let entry = json!({"command": "sleep", "args": ["100"], "timeouts": {"startup": "1s"}});
    let workspace = native_workspace(&json!({"mute": entry}));
    let ran = workspace.run_with_env(&["tools"], &[PATH]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(
        ran.err.contains("server `mute` is failed: the server was not ready within 1 s"),
        "{ran:?}"
    );
    let ran = workspace.run_with_env(&["call", "mute__x"], &[PATH]);
    assert!(ran.code == 3 && ran.err.contains("server `mute` is"), "{ran:?}");
}

#[test]
fn servers_json_has_contract_fields() {
    let workspace = native_workspace(
        &json!({"demo": demo_server(), "off": {"command": "x", "enabled": false}}),
    );
    let listed = workspace.json(&["servers"]);
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
fn failed_server_is_listed_with_error_and_next_retry() {
    let workspace = native_workspace(
        &json!({"gone": {"command": "no-such-program-here"}, "demo": demo_server()}),
    );
    let listed = workspace.json(&["servers"]);
    let gone = server(&listed, "gone");
    assert_eq!((&gone["state"], &gone["pid"]), (&json!("backoff"), &Value::Null));
    assert!(gone["last_error"].as_str().unwrap().contains("no-such-program-here"));
    assert!(gone["last_error_time"].is_string() && gone["next_retry"].is_string());
    let ran = workspace.run_with_env(&["servers"], &[PATH]);
    assert_eq!((ran.code, ran.err.as_str()), (0, "2 servers in 1 file: no problems\n"));
    let rows: Vec<Vec<&str>> =
        ran.out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0][..4], ["ID", "STATE", "TRANSPORT", "TOOLS"]);
    assert_eq!(rows[1][..5], ["gone", "backoff", "stdio", "0", "0"]);
    assert_eq!(rows[2], ["demo", "ready", "stdio", "7", "0"]);
}

#[test]
fn tools_json_has_contract_fields_and_unchanged_schemas() {
    let schema = r#"{ "type":"object" , "x-odd": 1.50e+2, "properties":{"a":{"const":12345678901234567890}}}"#;
    let listed = format!(
        r#"{{"jsonrpc":"2.0","id":$id,"result":{{"tools":[{{"name":"t","title":"T","inputSchema":{schema}}}]}}}}"#
    );
    let script =
        Script { legacy_only: true, ..Script::default() }.on("tools/list", [Step::Message(listed)]);
    let workspace = native_workspace(&json!({"s": scripted_server(&script)}));
    let ran = workspace.run(&["tools", "--json"]);
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
fn tools_are_printed_as_table() {
    let workspace = native_workspace(&json!({"demo": demo_server()}));
    let ran = workspace.run(&["tools"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, "7 tools\n"));
    insta::assert_snapshot!(ran.out);
}

#[test]
fn listing_one_server_does_not_wait_for_others() {
    // The start would take a minute to fail.
    let hangs = scripted_server(
        &Script { legacy_only: true, ..Script::default() }
            .on("initialize", [Step::Sleep(120_000), Step::Respond]),
    );
    let workspace = native_workspace(&json!({"demo": demo_server(), "hangs": hangs}));
    let started_at = std::time::Instant::now();
    assert_eq!(names(&workspace.json(&["tools", "--server", "demo"])).len(), 7);
    assert_eq!(workspace.stdout_of(&["call", "demo__echo", "-a", "text=quick"]), "quick\n");
    assert!(started_at.elapsed() < std::time::Duration::from_secs(20));
    let ran = workspace.run(&["tools", "--server", "nobody", "--config", "toolcrib.yaml"]);
    assert_eq!(ran.code, 1);
    assert_eq!(ran.err, "error: there is no server `nobody`; there are demo, hangs\n");
}

#[test]
fn why_names_gates_and_origin_of_rule() {
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
    let workspace = TestWorkspace::new().with_file("toolcrib.yaml", &file);
    let ran = workspace.run(&["why", "demo__echo", "--agent", "ada"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    insta::assert_snapshot!("why_usable_tool", ran.out);
    let ran = workspace.run(&["why", "demo__echo", "--agent", "bob"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    insta::assert_snapshot!("why_tool_without_grant", ran.out);
    let ran = workspace.run(&["why", "demo__fail"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    insta::assert_snapshot!("why_hidden_tool", ran.out);

    let why = workspace.json(&["why", "demo__echo", "--agent", "bob"]);
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
    // The tool does not exist for this agent.
    assert!(
        !names(&workspace.json(&["tools", "--agent", "bob"])).contains(&"demo__echo".to_owned())
    );
    let report = workspace.json(&["call", "demo__echo", "-a", "text=x", "--agent", "bob"]);
    assert_eq!(report["error"]["kind"], "unknown_tool");
}

#[test]
fn dis_36_resources_of_all_pages_are_listed_and_read() {
    let folder = tempfile::tempdir().unwrap();
    let page = |uris: &[&str], next: Option<&str>| {
        let all: Vec<Value> = uris.iter().map(|uri| json!({"uri": uri, "name": uri})).collect();
        match next {
            Some(next) => vec![Step::Result(json!({"resources": all, "nextCursor": next}))],
            None => vec![Step::Result(json!({"resources": all}))],
        }
    };
    let turns = vec![page(&["m://one"], Some("2")), page(&["m://two"], None)];
    let pages = Step::Sequence { count: folder.path().join("count"), turns };
    let read = json!({"contents": [
        {"uri": "m://two", "text": "two\n"}, {"uri": "m://two", "blob": "AAEC", "mimeType": "x/y"},
    ]});
    let script = Script { legacy_only: true, ..Script::default() }
        .on("resources/list", [pages])
        .on("resources/read", [Step::Result(read.clone())]);
    let workspace =
        native_workspace(&json!({"mem": scripted_server(&script), "demo": demo_server()}));
    let listed = workspace.json(&["resources"]);
    let uris: Vec<&str> = listed["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|resource| resource["uri"].as_str().unwrap())
        .collect();
    assert_eq!(uris, ["m://one", "m://two", "demo://calls"]); // DIS-36
    assert_eq!(listed["templates"][0]["uri_template"], "demo://square/{number}");
    assert_eq!(workspace.stdout_of(&["read", "demo://square/12"]), "144\n"); // DIS-36
    assert_eq!(workspace.json(&["read", "m://two", "--server", "mem"]), read);
    let output = workspace.command(&["read", "m://two"]).output().unwrap();
    assert_eq!(output.stdout, b"two\n\x00\x01\x02");
    let ran = workspace.run(&["read", "m://none"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.starts_with("error: resource not found: m://none\n"), "{ran:?}");
}

#[test]
fn min_73_prompts_are_listed_and_rendered() {
    let workspace = native_workspace(&json!({"demo": demo_server()}));
    let listed = workspace.json(&["prompts"]);
    let prompt = find(&listed["prompts"], "name", "demo__introduce");
    assert_eq!(
        (&prompt["server"], &prompt["original_name"]),
        (&json!("demo"), &json!("introduce"))
    );
    assert_eq!(prompt["arguments"][0]["name"], "name");
    let table = workspace.stdout_of(&["prompts"]);
    assert!(table.contains("demo__introduce  demo    name"), "{table}");
    let printed = workspace.stdout_of(&["prompt", "demo__introduce", "-a", "name=Ada"]);
    assert!(printed.starts_with("user: Show Ada"), "{printed}"); // MIN-73
    let whole = workspace.json(&["prompt", "demo__introduce", "-a", "name=Ada"]);
    assert_eq!(whole["messages"][0]["role"], "user");
    let ran = workspace.run(&["prompt", "nothing"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.starts_with("error: prompt not found: nothing\n"), "{ran:?}");
}

#[test]
fn dis_44_control_characters_of_server_text_are_escaped() {
    let text = "{{7*7}} <script>\u{1b}[2J\u{202e} `id`\nsecond line";
    let tools = json!({"resultType": "complete", "tools": [
        {"name": "t", "description": text, "inputSchema": {"type": "object"}}]});
    let script = Script::default().on("tools/list", [Step::Result(tools)]);
    let workspace = native_workspace(&json!({"s": scripted_server(&script)}));
    let listed = workspace.json(&["tools"]);
    assert_eq!(listed["tools"][0]["description"], text); // DIS-44: verbatim
    let table = workspace.stdout_of(&["tools"]);
    // DIS-44: escaped
    let shown = r"{{7*7}} <script>\u{1b}[2J\u{202e} `id`…";
    assert!(table.contains(shown), "{table}");
    assert!(!table.contains('\u{1b}') && !table.contains('\u{202e}'), "{table}");
}

#[test]
fn dis_46_a_new_server_needs_only_its_entry() {
    let workspace = native_workspace(&json!({"one": scripted_server(&Script::default())}));
    assert_eq!(workspace.tools(), ["one__echo", "one__fail", "one__env"]);
    let both = json!({"one": scripted_server(&Script::default()), "two": demo_server()});
    let workspace =
        workspace.with_file("toolcrib.yaml", &json!({"version": 1, "servers": both}).to_string());
    let tools = workspace.tools();
    assert_eq!((tools.len(), tools[3].as_str()), (10, "two__echo")); // DIS-46
    assert_eq!(workspace.stdout_of(&["call", "two__echo", "-a", "text=new"]), "new\n");
}

#[test]
fn dis_50_status_reports_missing_sandbox() {
    let workspace = TestWorkspace::new();
    let shim = workspace.shim("mine");
    let file = json!({"version": 1, "servers": {"s": {"command": shim.path}}});
    let workspace = workspace.with_file("toolcrib.yaml", &file.to_string());
    let printed = workspace.stdout_of(&["status"]);
    assert!(printed.contains("run with the host's privileges and without a sandbox"), "{printed}");
    assert!(printed.contains("1 server, 1 ready; 3 tools of servers; 0 problems"), "{printed}");
    let (_, user, _) = shim.start_record().unwrap();
    assert_eq!(user, rustix::process::getuid().as_raw()); // DIS-50
    let status = workspace.json(&["status"]);
    assert_eq!((&status["sandbox"], &status["ready"]), (&json!(false), &json!(1)));
    assert!(status["registry_version"].is_u64() && status["uptime_seconds"].is_number());
    let help = workspace.stdout_of(&["status", "--help"]);
    assert!(help.contains("no sandbox"), "{help}");
}

#[test]
fn verbose_log_has_no_secrets() {
    let mut entry = demo_server();
    entry["env"] = json!({"TOKEN": "canary"});
    let workspace =
        native_workspace(&json!({"demo": entry, "gone": {"command": "no-such-program-here"}}));
    let ran = workspace.run_with_env(&["tools", "-v"], &[PATH]);
    assert!(ran.err.contains("info: configuration loaded"), "{ran:?}");
    assert!(!ran.err.contains("canary") && !ran.out.contains("info:"), "{ran:?}");
    let ran = workspace.run_with_env(&["tools", "-q"], &[PATH]);
    assert_eq!(ran.err, "");
}

/// DIS-54: with this setting, an agent that has only tools can list and read resources.
#[test]
fn dis_54_resources_are_offered_as_tools() {
    let workspace = native_workspace(&json!({"demo": demo_server()}));
    let has = |workspace: &TestWorkspace, name: &str| workspace.tools().iter().any(|it| it == name);
    assert!(!has(&workspace, "list_resources") && !has(&workspace, "read_resource"));
    assert_eq!(workspace.run(&["call", "list_resources"]).code, 1);
    let mut entry = demo_server();
    entry["expose"] = json!({"resources": {"as": "tools"}});
    let grants = json!({"members": {"ada": {"toolsets": ["demo"]}, "bob": {"toolsets": []}}});
    let file = json!({"version": 1, "host": {"grants": grants}, "servers": {"demo": entry, "other": demo_server()}});
    let workspace = workspace.with_file("toolcrib.yaml", &file.to_string());
    assert!(has(&workspace, "list_resources") && has(&workspace, "read_resource"));
    let listed: Value =
        serde_json::from_str(&workspace.stdout_of(&["call", "list_resources"])).unwrap();
    let calls = find(&listed["resources"], "uri", "demo://calls");
    assert_eq!(calls["server"], "demo", "only of the configured server: {listed:#}");
    assert_eq!(listed["resources"].as_array().unwrap().len(), 1, "{listed:#}");
    assert!(
        listed["templates"][0]["uriTemplate"].as_str().unwrap().contains("square"),
        "{listed:#}"
    );
    let read = ["call", "read_resource", "-a", "uri=demo://square/12"];
    assert_eq!(workspace.stdout_of(&read), "144\n");
    assert_eq!(workspace.stdout_of(&[&read[..], &["--agent", "ada"]].concat()), "144\n");
    let denied = workspace.run(&[&read[..], &["--agent", "bob"]].concat());
    assert!(denied.code == 1 && denied.err.contains("tool not found"), "{denied:?}");
    let missing = workspace.run(&["call", "read_resource", "-a", "uri=demo://none"]);
    assert!(missing.code == 1 && missing.out.contains("resource not found"), "{missing:?}");
}
