//! Tests a server that repeats its secrets: they are masked everywhere except in tool results.

use std::fs;

use tokio::task::JoinSet;
use toolcrib_testkit::http::{HttpServer, ReceivedRequest, ScriptedResponse};
use toolcrib_testkit::scripted::{Script, Step};

use super::secret_canary::{api_get, assert_clean};
use super::*;
use crate::server_commands::scripted_server;

/// Needs escaping in JSON and in URLs.
const SECRET: &str = "c4nary \"echo\"/1+2";

/// A value that looks like a credential, in a variable with a neutral name.
const GENERATED: &str = "c4nary-a8Kd93nXq01LzP7";

/// Two lines, neither of which is a prefix of the other.
const LINES: &str = "c4nary-of-many-lines-1\nc4nary-of-many-lines-2\n";

const VARIABLES: [(&str, &str); 5] = [
    ("CANARY_ECHO", SECRET),
    ("CANARY_WEB", "c4nary-web-token"),
    ("SOME_VALUE", GENERATED),
    ("CANARY_LINES", LINES),
    PATH,
];

/// Harmless values, provided in every way. Server texts may contain them.
const HARMLESS: [(&str, &str); 5] = [
    ("MODE", "production"),
    ("DEBUG", "true"),
    ("FOLDER", "/srv/someone"),
    ("MODEL", "claude-sonnet-4-20250514"),
    ("PIN_LENGTH", "4711"),
];

/// Encodings of the secret. [`assert_no_encoded_secret`] checks for them.
fn encoded_forms() -> String {
    let base64 = toolcrib_wire::base64::encode(SECRET.as_bytes());
    let inside = toolcrib_wire::base64::encode(format!("user:{SECRET}").as_bytes());
    let url_safe = base64.replace('+', "-").replace('/', "_");
    let bare = url_safe.trim_end_matches('=');
    format!("{base64} {inside} {bare} c4nary%20%22echo%22%2F1%2B2 c4nary%20%22echo%22%2f1%2b2")
}

/// Fails if an encoded form of the secret without `c4nary` occurs.
fn assert_no_encoded_secret(what: &str, text: &str) {
    let inner = toolcrib_wire::base64::encode(b"c4nary \"echo");
    let shifted = toolcrib_wire::base64::encode(b"user:c4nary ");
    for part in [inner, shifted[8..].to_owned()] {
        assert!(!text.contains(&part), "{part} is in {what}: {text}");
    }
}

fn error(text: &str) -> Step {
    let error = json!({"code": -32001, "message": text, "data": {"given": [SECRET]}});
    let message = json!({"jsonrpc": "2.0", "id": "ID", "error": error}).to_string();
    Step::Message(message.replace("\"ID\"", "$id"))
}

/// A server with the secret in its name, lists, errors, messages and results.
fn script() -> Script {
    let says = format!("it is {SECRET}");
    let harmless = HARMLESS.map(|(_, value)| value).join(" ");
    let all = format!("{harmless}: {} {GENERATED} c4nary-of-many-lines-2", encoded_forms());
    let hello = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}, "prompts": {}, "resources": {}, "logging": {}, "completions": {}},
        "serverInfo": {"name": says, "version": says},
        "instructions": all,
    });
    let tool = |name: &str| json!({"name": name, "description": says, "inputSchema": {"type": "object", "description": says}});
    let mut tools: Vec<Value> =
        ["told", "failing", "refuse", "noisy", "asks", "echoes"].map(tool).to_vec();
    tools[5]["description"] = json!(all);
    // Masking any of these would break calls of the tool.
    tools.push(tool(&format!("of_{GENERATED}")));
    let schemas = [
        json!({"type": "object", "properties": {GENERATED: {"type": "string"}}}),
        json!({"type": "object", "properties": {"x": {"$ref": format!("#/$defs/{GENERATED}")}}, "$defs": {GENERATED: {}}}),
        json!({"type": GENERATED}),
    ];
    for (number, schema) in schemas.into_iter().enumerate() {
        tools.push(json!({"name": format!("schema{number}"), "inputSchema": schema}));
    }
    let resources = ["file:///told", "file:///refuse"]
        .map(|uri| json!({"uri": uri, "name": uri, "description": says}));
    let content = json!([{"type": "text", "text": says}, {"type": "text", "text": json!({"inner": SECRET}).to_string()}]);
    let success = json!({"content": content, "structuredContent": {"given": SECRET, SECRET: 1}});
    let failing = json!({"content": content, "isError": true});
    let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress",
        "params": {"progressToken": "TOKEN", "progress": 1, "message": says}});
    let question = json!({"message": says, "requestedSchema": {"type": "object", "properties": {"x": {"type": "string", "title": says}}}});
    let log = json!({"level": "error", "logger": says, "data": {"text": says}});
    Script { legacy_only: true, ..Script::default() }
        .on("initialize", [Step::Result(hello)])
        .on("tools/list", [Step::Result(json!({"tools": tools}))])
        .on("resources/list", [Step::Result(json!({"resources": resources}))])
        .on(
            "prompts/list",
            [Step::Result(json!({"prompts": [{"name": "refuse", "description": says}]}))],
        )
        .on("prompts/get", [error(&says)])
        .on("completion/complete", [error(&says)])
        .on("tools/call told", [Step::Result(success)])
        .on("tools/call failing", [Step::Result(failing)])
        .on("tools/call refuse", [error(&says)])
        .on(
            "tools/call asks",
            [
                Step::SendRequest { method: "elicitation/create".into(), params: question },
                Step::Result(json!({"content": []})),
            ],
        )
        .on(
            "tools/call noisy",
            [
                Step::Notify { method: "notifications/message".into(), params: log, times: 1 },
                Step::Message(progress.to_string().replace("\"TOKEN\"", "$token")),
                Step::Result(json!({"content": []})),
            ],
        )
        .on("resources/read", [error(&says)])
}

/// Accepts the handshake and answers a call with an error status that repeats the credentials.
fn web(received_requests: &ReceivedRequest) -> ScriptedResponse {
    let message: Value = serde_json::from_str(&received_requests.body).unwrap_or_default();
    let result = match message["method"].as_str() {
        Some("initialize") => {
            json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "web", "version": "1"}})
        }
        Some("tools/list") => {
            json!({"tools": [{"name": "refuse", "inputSchema": {"type": "object"}}]})
        }
        Some("notifications/initialized") => return ScriptedResponse::status(202),
        Some("tools/call") => {
            let given = received_requests.header("authorization").unwrap_or_default();
            // The excerpt of the error ends within the second copy.
            let body = format!(
                "no luck with {given} at {} {}{given}",
                received_requests.path,
                "x".repeat(95)
            );
            return ScriptedResponse::status(500).send(body);
        }
        _ => return ScriptedResponse::status(405),
    };
    ScriptedResponse::json(
        json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string(),
    )
}

struct EchoWorkspace {
    workspace: TestWorkspace,
    _web: HttpServer,
}

async fn echo_workspace() -> EchoWorkspace {
    let web = HttpServer::start(web).await.unwrap();
    let mut echo = scripted_server(&script());
    echo["env"] = json!({"ECHO_TOKEN": "${CANARY_ECHO}", "PLAIN": "${SOME_VALUE}", "LITERAL": GENERATED,
        "LINES_KEY": {"from_env": "CANARY_LINES"}});
    for (name, value) in HARMLESS {
        echo["env"][name] = json!(value);
    }
    let mut masks = echo.clone();
    masks["results"] = json!({"mask_secrets": true});
    let remote = json!({"url": format!("{}?key=${{CANARY_WEB}}", web.url("/mcp")), "protocol": "legacy",
        "auth": {"kind": "bearer", "token": "${CANARY_WEB}"}});
    let servers = json!({"echo": echo, "masks": masks, "web": remote});
    let text = json!({"version": 1, "servers": servers}).to_string();
    EchoWorkspace { workspace: TestWorkspace::new().with_file("toolcrib.yaml", &text), _web: web }
}

impl EchoWorkspace {
    fn run(&self, args: &[&str]) -> crate::CommandOutput {
        self.workspace.run_with_env(args, &VARIABLES)
    }
}

/// Fails if any form of the secret occurs.
fn assert_silent(args: &[&str], ran: &crate::CommandOutput) {
    assert_no_encoded_secret(&format!("the output of {args:?}"), &ran.out);
    assert_no_encoded_secret(&format!("the log of {args:?}"), &ran.err);
    assert_clean(&format!("the output of {args:?}"), &ran.out);
    assert_clean(&format!("the log of {args:?}"), &ran.err);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn min_69_echoed_secrets_are_masked_in_command_output() {
    let fixture = echo_workspace().await;
    for args in [
        &["call", "echo__refuse"][..],
        &["call", "echo__refuse", "--json"],
        &["call", "echo__refuse", "--raw"],
        &["call", "masks__refuse", "--json"],
        &["call", "masks__told"],
        &["call", "masks__told", "--json"],
        &["call", "masks__told", "--raw"],
        &["call", "masks__failing"],
        &["call", "masks__failing", "--json"],
        &["call", "echo__noisy", "-v"],
        &["call", "web__refuse"],
        &["call", "web__refuse", "--json"],
        &["read", "file:///refuse", "--server", "echo"],
        &["read", "file:///refuse", "--server", "echo", "--json"],
        &["prompt", "echo__refuse"],
        &["prompt", "echo__refuse", "--json"],
        &["doctor"],
        &["doctor", "--json"],
        &["servers", "--json"],
        &["tools"],
        &["tools", "--json"],
        &["resources", "--json"],
        &["prompts", "--json"],
        &["why", "echo__refuse"],
        &["check", "--json"],
    ] {
        assert_silent(args, &fixture.run(args));
    }
    // Only secrets are masked. Items that cannot be masked are withheld with a problem.
    let tools = parse_json(&fixture.run(&["tools", "--server", "echo", "--json"]));
    let tools = tools["tools"].as_array().unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"echo__told"), "{names:?}");
    assert!(
        !names.iter().any(|name| name.contains("of_") || name.contains("schema0")),
        "{names:?}"
    );
    let echoes = tools.iter().find(|tool| tool["name"] == "echo__echoes").unwrap();
    let harmless = HARMLESS.map(|(_, value)| value).join(" ");
    let shown = echoes["description"].as_str().unwrap();
    assert!(shown.starts_with(&format!("{harmless}: *** ")), "{shown}");
    let odd = parse_json(&fixture.run(&["doctor", "--json"]));
    let odd = crate::server_commands::server(&odd, "echo")["oddities"].to_string();
    assert!(odd.contains("tools `of_***`: not offered: its definition contains a secret"), "{odd}");
    assert!(odd.contains("tools `schema0`") && odd.contains("tools `schema1`"), "{odd}");
    // Control: results contain the secrets, unless the configuration masks them.
    let report = parse_json(&fixture.run(&["call", "echo__told", "--json"]));
    assert_eq!(report["text"], format!("it is {SECRET}\n{}", json!({"inner": SECRET})));
    assert_eq!(report["structured"]["given"], SECRET);
    let report = parse_json(&fixture.run(&["call", "echo__failing", "--json"]));
    assert_eq!(report["content"][0]["text"], format!("it is {SECRET}"));
    let masked = parse_json(&fixture.run(&["call", "masks__told", "--json"]));
    assert_eq!(masked["text"], "it is ***\n{\"inner\":\"***\"}");
    assert_eq!(masked["structured"], json!({"given": "***", "***": 1}));
    let error = parse_json(&fixture.run(&["call", "echo__refuse", "--json"]))["error"].clone();
    assert_eq!(
        (&error["message"], &error["cause"]),
        (&json!("it is ***"), &json!({"given": ["***"]}))
    );
    let error = parse_json(&fixture.run(&["call", "web__refuse", "--json"]))["error"].clone();
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("no luck with Bearer *** at /mcp?key=*** x"), "{message}");
    let seen = parse_json(&fixture.run(&["doctor", "--json"]));
    let name = &crate::server_commands::server(&seen, "echo")["name"];
    assert_eq!(name, "it is ***", "{seen}");
}

fn parse_json(ran: &crate::CommandOutput) -> Value {
    crate::server_commands::parse_json(ran)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dis_43_echoed_secrets_are_masked_in_host_log_events_and_answers() {
    let fixture = echo_workspace().await;
    let args = ["serve", "--listen", ":0", "--json", "-v"];
    let mut child = spawn(&fixture.workspace, &args, &VARIABLES);
    let (stdout, mut stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let mut log = JoinSet::new();
    log.spawn(async move {
        let mut text = String::new();
        stderr.read_to_string(&mut text).await.unwrap();
        text
    });
    let line = with_time_limit(BufReader::new(stdout).lines().next_line()).await.unwrap().unwrap();
    let served = ServeProcess { child, line: serde_json::from_str(&line).unwrap() };
    let mut events = JoinSet::new();
    let socket = served.socket();
    events.spawn(async move { api_get(&socket, "events").await });
    api_get(&served.socket(), "servers?wait=true").await;
    let call = |id: u64, name: &str| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name, "arguments": {}, "_meta": {"progressToken": id}}});
    let read = json!({"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": "file:///refuse"}});
    let prompt = json!({"jsonrpc": "2.0", "id": 1, "method": "prompts/get", "params": {"name": "echo__refuse"}});
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}});
    let complete = json!({"jsonrpc": "2.0", "id": 1, "method": "completion/complete", "params":
        {"ref": {"type": "ref/prompt", "name": "echo__refuse"}, "argument": {"name": "x", "value": ""}}});
    let mut client = StdioClient::spawn(&fixture.workspace);
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "it", "version": "0"}});
    client.request("initialize", hello).await;
    client.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    client.request("logging/setLevel", json!({"level": "debug"})).await;
    let mut all = String::new();
    for request in [
        call(1, "echo__refuse"),
        call(1, "masks__failing"),
        call(1, "masks__told"),
        call(1, "echo__noisy"),
        call(1, "web__refuse"),
        call(1, "echo__asks"),
        read,
        prompt,
        list,
        complete,
    ] {
        let id = client.send(request["method"].as_str().unwrap(), request["params"].clone()).await;
        let mut received = String::new();
        let answer: Value = loop {
            let line = with_time_limit(client.lines.next_line()).await.unwrap().unwrap();
            received += &line;
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["method"] == "elicitation/create" {
                let result = json!({"action": "accept", "content": {"x": "y"}});
                let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
                client.write(&answer).await;
            } else if message["id"] == id {
                break message;
            }
        };
        assert_clean(&format!("what a client hears of {request}"), &received);
        assert_no_encoded_secret(&format!("what a client hears of {request}"), &received);
        all += &received;
        assert!(answer["result"].is_object() || answer["error"].is_object(), "{answer}");
    }
    for method in ["elicitation/create", "notifications/message", "notifications/progress"] {
        assert!(all.contains(method), "{method} is in {all}");
    }
    for path in ["problems", "servers", "servers/echo", "tools", "calls", "status"] {
        let answer = api_get(&served.socket(), path).await;
        assert_clean(path, &answer);
        assert_no_encoded_secret(path, &answer);
    }
    drop(client);
    served.stop(Signal::TERM).await;
    assert_clean("the events", &with_time_limit(events.join_next()).await.unwrap().unwrap());
    let log = with_time_limit(log.join_next()).await.unwrap().unwrap();
    assert_clean("the host's log", &log);
    assert!(log.contains("it is ***"), "a failed call is logged: {log}");
    let kept = fixture.workspace.home();
    for file in super::secret_canary::files_below(&kept) {
        assert_clean(
            &file.display().to_string(),
            &String::from_utf8_lossy(&fs::read(&file).unwrap()),
        );
    }
}

#[test]
fn dis_43_min_69_explain_masks_secrets_in_commands_and_urls() {
    let servers = json!({
        "args": {"command": "tool", "args": ["--api-key", "c4nary-1", "--token=c4nary-2", "-c", "run --password c4nary-3 now"]},
        "url": {"url": "https://me:c4nary-4@h.test/mcp?token=c4nary-5&mode=fast"},
        "template": {"url": "https://h.test/mcp?api_key=c4nary-6${REST}", "headers": {"X-Key": "c4nary-7"}},
        "wrong": {"url": "ftp://me:c4nary-8@h.test/?token=c4nary-9"},
    });
    let host = json!({"secrets": {"ask": {"kind": "command", "command": ["vault", "--token", "c4nary-10", "{path}"]}}});
    let text =
        serde_json::to_string_pretty(&json!({"version": 1, "host": host, "servers": servers}))
            .unwrap();
    let workspace = TestWorkspace::new().with_file("toolcrib.yaml", &text);
    for args in [
        &["explain"][..],
        &["explain", "--json"],
        &["explain", "args"],
        &["trust", "--show"],
        &["trust", "--show", "--json"],
        &["check"],
        &["check", "--json"],
    ] {
        let ran = workspace.run_with_env(args, &[PATH]);
        assert_silent(args, &ran);
    }
    let shown = workspace.run_with_env(&["explain"], &[PATH]).out;
    for kept in [
        "--api-key",
        "--token=***",
        "run --password *** now",
        "https://me:***@h.test/mcp?token=***&mode=fast",
        "api_key=***${REST}",
    ] {
        assert!(shown.contains(kept), "{kept} is in {shown}");
    }
    let revealed = workspace.run_with_env(&["explain", "--reveal"], &[PATH]).out;
    for number in [1, 2, 3, 4, 5, 6, 7, 10] {
        assert!(revealed.contains(&format!("c4nary-{number}")), "{number}: {revealed}");
    }
}
