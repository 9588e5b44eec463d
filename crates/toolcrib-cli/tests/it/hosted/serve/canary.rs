//! No secret is in anything that the product writes, whatever it came from and whatever goes wrong.

use std::fs;

use tokio::net::UnixStream;
use tokio::task::JoinSet;
use toolcrib_config::{Dialect, Hidden, Memory, Named, Workspace, compile};
use toolcrib_testkit::http::{Asked, HttpServer, Reply};
use toolcrib_testkit::scripted::Script;
use toolcrib_upstream::secrets::{Keep, Storage, input_name};

use super::*;
use crate::hosted::scripted;

/// Every secret has this in it, and nothing else has.
const CANARY: &str = "c4nary";

/// Where each secret comes from; `toolcrib.yaml` has one of them in itself.
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

/// A vault for whoever has its token.
fn vault(asked: &Asked) -> Reply {
    match asked.header("x-vault-token") {
        Some("c4nary-vault-token") => {
            Reply::json(r#"{"data":{"data":{"password":"c4nary-by-vault"}}}"#)
        }
        given => Reply::status(403).send(format!(r#"{{"errors":["{given:?} is denied"]}}"#)),
    }
}

/// A server that says what it was given.
fn echo(asked: &Asked) -> Reply {
    let credentials = asked.header("authorization").unwrap_or_default();
    Reply::status(500).send(format!("no luck with {credentials} at {}", asked.path))
}

struct Scene {
    place: Place,
    _vault: HttpServer,
    web: HttpServer,
    root: String,
}

async fn scene() -> Scene {
    let vault = HttpServer::start(vault).await.unwrap();
    let web = HttpServer::start(echo).await.unwrap();
    let program = scripted(&Script::default())["command"].as_str().unwrap().to_owned();
    let text = CONFIG
        .replace("VAULT", &vault.url(""))
        .replace("WEB", &web.url(""))
        .replace("PROGRAM", &program)
        .replace("SCRIPT", &Script::default().to_json().replace('\'', "''"));
    let place = Place::new().file("toolcrib.yaml", &text);
    for name in ["by-file", "by-folder", "by-command"] {
        fs::create_dir_all(place.beside("secrets")).unwrap();
        fs::write(place.beside("secrets").join(name), format!("c4nary-{name}\n")).unwrap();
    }
    fs::write(
        place.beside("secrets/variables.env"),
        "IN_FILE=c4nary-variables\nIN_TOKEN=c4nary-in-file\n",
    )
    .unwrap();
    let keep = Keep::open(credentials(&place), Storage::File);
    let name = input_name(&place.root(), "key");
    keep.write(&name, &Hidden::new("c4nary-asked")).await.unwrap();
    let root = place.root().display().to_string();
    Scene { place, _vault: vault, web, root }
}

/// The one folder that has secrets in it, since there is no keyring here; it is its owner's alone.
fn credentials(place: &Place) -> PathBuf {
    place.home().join(".local/state/toolcrib/credentials")
}

/// Fails where a canary is, with the line around it.
pub(super) fn clean(what: &str, text: &str) {
    let line = text.lines().find(|line| line.contains(CANARY));
    assert_eq!(line, None, "a secret is in {what}");
}

pub(super) fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] })
        .filter(|path| path.is_file())
        .collect()
}

/// The command lines of a process and of all that it started.
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
async fn dis_43_min_69_no_secret_is_in_what_commands_write() {
    let scene = scene().await;
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
        let words: Vec<&str> = args.split(' ').chain(["-v", "--root", &scene.root]).collect();
        let ran = scene.place.run_with(&words, &VARIABLES);
        clean(&format!("the output of `{args}`"), &ran.out); // DIS-43
        clean(&format!("the log of `{args}`"), &ran.err); // DIS-43
    }
    // They were all there: else nothing would be shown by their absence.
    let words = ["doctor", "--json", "--root", &scene.root];
    let seen = parsed_servers(&scene.place.run_with(&words, &VARIABLES).out);
    let code = |id: &str| seen.iter().find(|it| it["id"] == id).unwrap()["error"]["code"].clone();
    assert_eq!(code("good"), Value::Null);
    assert_eq!(code("denied"), "secret.denied");
    assert_eq!(code("failing"), "secret.failed");
    let of = |id: &str| seen.iter().find(|it| it["id"] == id).unwrap();
    assert_eq!(of("shouts")["stderr"], "*** *** *** postgres://app:***@db/app ***");
    let noise = of("tells")["oddities"][0]["text"].as_str().unwrap();
    assert!(noise.ends_with("as `it is ***`"), "{noise}");
    let told = of("bearer")["error"]["message"].as_str().unwrap();
    assert!(told.contains("no luck with Bearer *** at /mcp?key=***"), "{told}");
    let asked = scene.web.requests();
    let asked = asked.iter().find(|it| it.header("authorization").is_some()).unwrap();
    assert_eq!(asked.header("authorization"), Some("Bearer c4nary-by-vault")); // MIN-69
    assert_eq!(asked.header("x-secret"), Some("c4nary-by-folder"));
    assert!(asked.path.contains("c4nary-query"));
}

fn parsed_servers(text: &str) -> Vec<Value> {
    let report: Value = serde_json::from_str(text).unwrap();
    report["servers"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dis_43_no_secret_is_in_what_a_host_writes_answers_or_starts() {
    let scene = scene().await;
    let args = ["serve", "--listen", ":0", "--json", "-v", "--root", &scene.root];
    let mut child = spawn(&scene.place, &args, &VARIABLES);
    let (stdout, mut stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let mut log = JoinSet::new();
    log.spawn(async move {
        let mut text = String::new();
        stderr.read_to_string(&mut text).await.unwrap();
        text
    });
    let line = within(BufReader::new(stdout).lines().next_line()).await.unwrap().unwrap();
    let served = Served { child, line: serde_json::from_str(&line).unwrap() };
    clean("what `serve` says", &line);
    let mut events = JoinSet::new();
    let socket = served.socket();
    events.spawn(async move { get(&socket, "events").await });
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
        clean(path, &get(&served.socket(), path).await);
    }
    let root = ["--root", &scene.root];
    for args in [vec!["call", "good__env"], vec!["call", "good__fail"], vec!["reload"]] {
        let ran = scene.place.run_with(&[&args[..], &root[..]].concat(), &VARIABLES);
        if args[1..] == ["good__env"] {
            // They reach the server, and whoever asks the server.
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
        clean("the log of a command", &ran.err);
    }
    clean("the audit", &get(&served.socket(), "calls").await);
    clean("the metrics", &served.ask("GET /metrics HTTP/1.1").await);
    clean("the command lines", &command_lines(served.pid())); // DIS-43
    served.end(Signal::TERM).await;
    clean("the events", &within(events.join_next()).await.unwrap().unwrap());
    clean("the host's log", &within(log.join_next()).await.unwrap().unwrap());
    let kept = credentials(&scene.place);
    assert_eq!(mode(&kept), 0o700);
    for file in files(&scene.place.home()) {
        if file.starts_with(&kept) {
            assert_eq!(mode(&file), 0o600);
        } else {
            let text = fs::read(&file).unwrap();
            clean(&file.display().to_string(), &String::from_utf8_lossy(&text));
        }
    }
}

/// What the owner is answered; of a stream what comes until the host ends.
pub(super) async fn get(socket: &Path, path: &str) -> String {
    let mut stream = within(UnixStream::connect(socket)).await.unwrap();
    let text =
        format!("GET /api/v1/{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // A host that ends may cut a stream off.
    let _ = within(stream.read_to_end(&mut answer)).await;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    answer
}

#[test]
fn no_secret_is_in_what_is_told_of_files_that_cannot_be_read() {
    let yaml = "version: 1\nservers:\n  a:\n    command: x\n    env: { A: c4nary-1, B: 'c4nary-2' }\n    headers:\n      Authorization: Bearer c4nary-3\n";
    let json =
        r#"{"mcpServers": {"a": {"command": "x", "env": {"A": "c4nary-1", "B": "c4nary-2"}}}}"#;
    let toml = "[mcp_servers.a]\ncommand = \"x\"\nenv = { A = \"c4nary-1\", B = \"c4nary-2\" }\n";
    for (name, dialect, text) in [
        ("a.yaml", Dialect::Native, yaml),
        (".mcp.json", Dialect::Claude, json),
        ("c.toml", Dialect::Codex, toml),
    ] {
        // Ended or broken at each place, and with each sign too many.
        for at in (0..text.len()).filter(|at| text.is_char_boundary(*at)).step_by(7) {
            for sign in ["", "\"", "'", "}", "]", ":", "\t", "\u{0}", "&a", "*a", "${"] {
                let (before, after) = text.split_at(at);
                let broken = [before, sign, if sign.is_empty() { "" } else { after }].concat();
                told_of(name, dialect, &broken);
            }
        }
    }
}

/// What `check` would print of a file.
fn told_of(name: &str, dialect: Dialect, text: &str) {
    let path = PathBuf::from("/w").join(name);
    let named = Named { path: path.clone(), dialect: Some(dialect) };
    let workspace = Workspace { root: "/w".into(), home: None, named: Some(named) };
    let config = compile(&workspace, &Memory::default().with_file(&path, text));
    for problem in &config.problems {
        clean(text, &format!("{problem:?}"));
        let place = problem.line.zip(problem.column).zip(config.sources.first());
        let excerpt = place.and_then(|((line, column), source)| source.excerpt(line, column));
        clean(text, &excerpt.unwrap_or_default().0);
    }
}
