//! Tests that no output of the product contains a secret.

use std::fs;

use tokio::net::UnixStream;
use tokio::task::JoinSet;
use toolcrib_config::{ConfigFile, Dialect, MemoryLookup, SecretString, Workspace, compile};
use toolcrib_testkit::http::{HttpServer, ReceivedRequest, ScriptedResponse};
use toolcrib_testkit::scripted::Script;
use toolcrib_upstream::secrets::{CredentialStore, StorageMode, input_credential_name};

use super::*;
use crate::server_commands::scripted_server;

/// Part of every secret and of no other text.
const CANARY: &str = "c4nary";

/// One server per source of secrets. `LITERAL` values stand in the file itself.
const CONFIG: &str = r#"
version: 1
host:
  credentials: file
  secrets:
    folder: { kind: file, path: ../secrets }
    told: { kind: command, command: [sh, -c, "cat ../secrets/by-command # $0", "{path}"] }
    fails: { kind: command, command: [sh, -c, "cat ../secrets/by-command >&2; cat ../secrets/by-command; exit 1"] }
    vault: { kind: vault, url: "VAULT", token: "${CANARY_TOKEN}" }
    stranger: { kind: vault, url: "VAULT", token: { secret: "folder:by-folder" } }
inputs:
  key: { description: The key, password: true, default: c4nary-default }
servers:
  good:
    command: PROGRAM
    args: ['SCRIPT']
    env_file: ../secrets/variables.env
    env:
      LITERAL: c4nary-literal
      VARIABLE: "x${CANARY_VARIABLE}x"
      COPIED: { from_env: CANARY_VARIABLE, prefix: "Bearer " }
      BY_FILE: { secret: "file:../secrets/by-file" }
      BY_FOLDER: { secret: "folder:by-folder" }
      BY_COMMAND: { secret: "told:a/path" }
      BY_VAULT: { secret: "vault:kv/app#password" }
      ASKED: "${input:key}"
    init: { config: { key: "${CANARY_VARIABLE}" }, config_delivery: both }
  bearer:
    url: "WEB/mcp?key=${CANARY_QUERY}"
    headers: { X-Literal: c4nary-header, X-Secret: { secret: "folder:by-folder" } }
    auth: { kind: bearer, token: { secret: "vault:kv/app#password" } }
  key:
    url: "http://${CANARY_QUERY}:${CANARY_QUERY}@127.0.0.1:1/mcp?key=${CANARY_QUERY}"
    auth: { kind: api_key, key: c4nary-key }
  event-stream: { kind: sse, url: "WEB/sse?key=${CANARY_QUERY}" }
  socket: { kind: websocket, url: "ws://127.0.0.1:1/?key=${CANARY_QUERY}", headers: { X-Literal: c4nary-header } }
  gone: { command: no-such-program-here, env: { LITERAL: c4nary-literal } }
  dies: { command: sh, args: [-c, "exit 3"], env: { LITERAL: c4nary-literal } }
  echoes: { command: sh, args: [-c, "echo $V $W $V >&2; exit 3"], env: { V: { secret: "folder:by-folder" }, W: "${input:key}" } }
  shouts:
    command: sh
    args: [-c, "echo $API_TOKEN $${HEADER#Bearer } $V $DATABASE_URL $IN_TOKEN >&2; echo I am $API_TOKEN; exit 3"]
    env_file: ../secrets/variables.env
    env:
      API_TOKEN: c4nary-literal
      HEADER: "Bearer c4nary-bearer"
      V: "${CANARY_TOKEN}"
      DATABASE_URL: "postgres://app:c4nary-password@db/app"
  tells: { command: sh, args: [-c, "echo it is $API_TOKEN; exec PROGRAM"], env: { API_TOKEN: c4nary-literal } }
  denied: { command: PROGRAM, env: { V: { secret: "stranger:kv/app#password" } } }
  failing: { command: PROGRAM, env: { V: { secret: "fails:x" } } }
  missing: { command: PROGRAM, env: { LITERAL: c4nary-literal, V: "${NOT_SET}", W: { secret: "folder:none" } } }
"#;

const VARIABLES: [(&str, &str); 4] = [
    ("CANARY_TOKEN", "c4nary-vault-token"),
    ("CANARY_VARIABLE", "c4nary-variable"),
    ("CANARY_QUERY", "c4nary-query"),
    PATH,
];

/// A vault that checks its token.
fn vault(received: &ReceivedRequest) -> ScriptedResponse {
    match received.header("x-vault-token") {
        Some("c4nary-vault-token") => {
            ScriptedResponse::json(r#"{"data":{"data":{"password":"c4nary-by-vault"}}}"#)
        }
        given => {
            ScriptedResponse::status(403).send(format!(r#"{{"errors":["{given:?} is denied"]}}"#))
        }
    }
}

/// A server that repeats its credentials in an error.
fn echo(received: &ReceivedRequest) -> ScriptedResponse {
    let credentials = received.header("authorization").unwrap_or_default();
    ScriptedResponse::status(500).send(format!("no luck with {credentials} at {}", received.path))
}

struct CanaryWorkspace {
    workspace: TestWorkspace,
    _vault: HttpServer,
    web: HttpServer,
    root: String,
}

async fn canary_workspace() -> CanaryWorkspace {
    let vault = HttpServer::start(vault).await.unwrap();
    let web = HttpServer::start(echo).await.unwrap();
    let program = scripted_server(&Script::default())["command"].as_str().unwrap().to_owned();
    let text = CONFIG
        .replace("VAULT", &vault.url(""))
        .replace("WEB", &web.url(""))
        .replace("PROGRAM", &program)
        .replace("SCRIPT", &Script::default().to_json().replace('\'', "''"));
    let workspace = TestWorkspace::new().with_file("toolcrib.yaml", &text);
    for name in ["by-file", "by-folder", "by-command"] {
        fs::create_dir_all(workspace.sibling_path("secrets")).unwrap();
        fs::write(workspace.sibling_path("secrets").join(name), format!("c4nary-{name}\n"))
            .unwrap();
    }
    fs::write(
        workspace.sibling_path("secrets/variables.env"),
        "IN_FILE=c4nary-variables\nIN_TOKEN=c4nary-in-file\n",
    )
    .unwrap();
    let keep = CredentialStore::open(credentials(&workspace), StorageMode::File);
    let name = input_credential_name(&workspace.root(), "key");
    keep.write(&name, &SecretString::new("c4nary-asked")).await.unwrap();
    let root = workspace.root().display().to_string();
    CanaryWorkspace { workspace, _vault: vault, web, root }
}

/// The credential folder, the only place with secrets, because these tests have no keyring. Only the owner can read it.
fn credentials(workspace: &TestWorkspace) -> PathBuf {
    workspace.home().join(".local/state/toolcrib/credentials")
}

/// Fails if the text contains the canary, and shows the line.
pub(super) fn assert_clean(what: &str, text: &str) {
    let line = text.lines().find(|line| line.contains(CANARY));
    assert_eq!(line, None, "a secret is in {what}");
}

pub(super) fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] })
        .filter(|path| path.is_file())
        .collect()
}

/// The command lines of a process and its descendants.
fn command_lines(pid: u32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut all = String::from_utf8_lossy(&line).replace('\0', " ") + "\n";
    for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        children.split_whitespace().for_each(|pid| all += &command_lines(pid.parse().unwrap()));
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dis_43_min_69_command_output_has_no_secrets() {
    let fixture = canary_workspace().await;
    for args in [
        "check",
        "check --json",
        "explain",
        "explain good",
        "explain --json",
        "servers",
        "servers --json",
        "tools --json",
        "why good__echo",
        "call good__echo -a text=x --json",
        "call good__fail",
        "call nobody__nothing",
        "resources",
        "prompts --json",
        "status --json",
        "doctor",
        "doctor --json",
    ] {
        let words: Vec<&str> = args.split(' ').chain(["-v", "--root", &fixture.root]).collect();
        let ran = fixture.workspace.run_with_env(&words, &VARIABLES);
        assert_clean(&format!("the output of `{args}`"), &ran.out); // DIS-43
        assert_clean(&format!("the log of `{args}`"), &ran.err); // DIS-43
    }
    // Control: all secrets were resolved, so their absence above is meaningful.
    let words = ["doctor", "--json", "--root", &fixture.root];
    let seen = parsed_servers(&fixture.workspace.run_with_env(&words, &VARIABLES).out);
    let code = |id: &str| seen.iter().find(|it| it["id"] == id).unwrap()["error"]["code"].clone();
    assert_eq!(code("good"), Value::Null);
    assert_eq!(code("denied"), "secret.denied");
    assert_eq!(code("failing"), "secret.failed");
    let of = |id: &str| seen.iter().find(|it| it["id"] == id).unwrap();
    assert_eq!(of("shouts")["stderr"], "*** *** *** postgres://app:***@db/app ***");
    let noise = of("tells")["oddities"][0]["text"].as_str().unwrap();
    assert!(noise.ends_with("first: `it is ***`"), "{noise}");
    let response = of("bearer")["error"]["message"].as_str().unwrap();
    assert!(response.contains("no luck with Bearer *** at /mcp?key=***"), "{response}");
    let received = fixture.web.requests();
    let received = received.iter().find(|it| it.header("authorization").is_some()).unwrap();
    assert_eq!(received.header("authorization"), Some("Bearer c4nary-by-vault")); // MIN-69
    assert_eq!(received.header("x-secret"), Some("c4nary-by-folder"));
    assert!(received.path.contains("c4nary-query"));
}

fn parsed_servers(text: &str) -> Vec<Value> {
    let report: Value = serde_json::from_str(text).unwrap();
    report["servers"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dis_43_host_output_answers_and_command_lines_have_no_secrets() {
    let fixture = canary_workspace().await;
    let args = ["serve", "--listen", ":0", "--json", "-v", "--root", &fixture.root];
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
    assert_clean("what `serve` says", &line);
    let mut events = JoinSet::new();
    let socket = served.socket();
    events.spawn(async move { api_get(&socket, "events").await });
    for path in [
        "servers?wait=true",
        "servers/good",
        "servers/good/log",
        "servers/dies/log",
        "servers/echoes/log",
        "servers/shouts/log",
        "tools?wait=true",
        "problems",
        "status",
        "dialogs",
        "openapi.json",
    ] {
        assert_clean(path, &api_get(&served.socket(), path).await);
    }
    let root = ["--root", &fixture.root];
    for args in [vec!["call", "good__env"], vec!["call", "good__fail"], vec!["reload"]] {
        let ran = fixture.workspace.run_with_env(&[&args[..], &root[..]].concat(), &VARIABLES);
        if args[1..] == ["good__env"] {
            // Control: the secrets reach the server and its tool results.
            for name in [
                "literal",
                "variable",
                "by-file",
                "by-folder",
                "by-command",
                "by-vault",
                "asked",
                "variables",
            ] {
                assert!(ran.out.contains(&format!("c4nary-{name}")), "{name}: {ran:?}");
            }
        }
        assert_clean("the log of a command", &ran.err);
    }
    assert_clean("the audit", &api_get(&served.socket(), "calls").await);
    assert_clean("the metrics", &served.request_head("GET /metrics HTTP/1.1").await);
    assert_clean("the command lines", &command_lines(served.pid())); // DIS-43
    served.stop(Signal::TERM).await;
    assert_clean("the events", &with_time_limit(events.join_next()).await.unwrap().unwrap());
    assert_clean("the host's log", &with_time_limit(log.join_next()).await.unwrap().unwrap());
    let kept = credentials(&fixture.workspace);
    assert_eq!(file_mode(&kept), 0o700);
    for file in files_below(&fixture.workspace.home()) {
        if file.starts_with(&kept) {
            assert_eq!(file_mode(&file), 0o600);
        } else {
            let text = fs::read(&file).unwrap();
            assert_clean(&file.display().to_string(), &String::from_utf8_lossy(&text));
        }
    }
}

/// The response to the owner. A stream is read until the host ends.
pub(super) async fn api_get(socket: &Path, path: &str) -> String {
    let mut stream = with_time_limit(UnixStream::connect(socket)).await.unwrap();
    let text =
        format!("GET /api/v1/{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // A host that ends may cut the stream off.
    let _ = with_time_limit(stream.read_to_end(&mut answer)).await;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    answer
}

#[test]
fn problems_of_unreadable_files_have_no_secrets() {
    let yaml = "version: 1\nservers:\n  a:\n    command: x\n    env: { A: c4nary-1, B: 'c4nary-2' }\n    headers:\n      Authorization: Bearer c4nary-3\n";
    let json =
        r#"{"mcpServers": {"a": {"command": "x", "env": {"A": "c4nary-1", "B": "c4nary-2"}}}}"#;
    let toml = "[mcp_servers.a]\ncommand = \"x\"\nenv = { A = \"c4nary-1\", B = \"c4nary-2\" }\n";
    for (name, dialect, text) in [
        ("a.yaml", Dialect::Native, yaml),
        (".mcp.json", Dialect::Claude, json),
        ("c.toml", Dialect::Codex, toml),
    ] {
        // Truncates the text at each place, and inserts each character.
        for at in (0..text.len()).filter(|at| text.is_char_boundary(*at)).step_by(7) {
            for sign in ["", "\"", "'", "}", "]", ":", "\t", "\u{0}", "&a", "*a", "${"] {
                let (before, after) = text.split_at(at);
                let broken = [before, sign, if sign.is_empty() { "" } else { after }].concat();
                check_problems(name, dialect, &broken);
            }
        }
    }
}

/// Checks the problems that `check` would print.
fn check_problems(name: &str, dialect: Dialect, text: &str) {
    let path = PathBuf::from("/w").join(name);
    let config_file = ConfigFile { path: path.clone(), dialect: Some(dialect) };
    let workspace = Workspace { root: "/w".into(), home: None, config_file: Some(config_file) };
    let config = compile(&workspace, &MemoryLookup::default().with_file(&path, text));
    for problem in &config.problems {
        assert_clean(text, &format!("{problem:?}"));
        let location = problem.line.zip(problem.column).zip(config.sources.first());
        let excerpt = location.and_then(|((line, column), source)| source.excerpt(line, column));
        assert_clean(text, &excerpt.unwrap_or_default().0);
    }
}
