//! Tests the lifecycle of servers in a running host: lost sessions, dead processes, failed starts, reloads and leases.

mod file_watching;
mod leases;
mod lost_session;
mod reload;
mod restart;
mod retry;

use std::path::Path;

use rustix::process::Signal;
use serde_json::{Value, json};
use toolcrib_testkit::scripted::{Script, Step, server_binary};

use super::{ServeProcess, send_signal, spawn};
use crate::TestWorkspace;
use crate::server_commands::{TIME_LIMIT, is_alive, wait_until};

/// Dialects for which the session guarantees hold.
const DIALECTS: [&str; 5] = ["native", "dominds", "dispatch", "holodeck", "minion"];

/// A workspace with one server `s` in the file of a dialect.
struct ServerFixture {
    workspace: TestWorkspace,
    dialect: &'static str,
}

impl ServerFixture {
    /// A server that is a process.
    fn process(dialect: &'static str, script: &Script) -> Self {
        let fixture = ServerFixture { workspace: TestWorkspace::new(), dialect };
        let (command, args) = (server_binary().unwrap(), json!([script.to_json()]));
        let entry = match dialect {
            "minion" => json!({"Transport": "stdio", "Command": command, "Args": args}),
            "dominds" => json!({"transport": "stdio", "command": command, "args": args}),
            "holodeck" => {
                fixture.workspace.shim("npx");
                json!({"command": "npx", "env": {"SCRIPT": script.to_json()}})
            }
            _ => json!({"command": command, "args": args}),
        };
        fixture.write(entry)
    }

    /// A server at a URL.
    fn address(dialect: &'static str, url: &str) -> Self {
        let entry = match dialect {
            "minion" => json!({"Transport": "http", "URL": url}),
            "dominds" => json!({"transport": "streamable_http", "url": url}),
            "dispatch" | "holodeck" => json!({"transport": "http", "url": url}),
            _ => json!({"url": url}),
        };
        ServerFixture { workspace: TestWorkspace::new(), dialect }.write(entry)
    }

    /// Writes the file with this entry.
    fn write(mut self, mut entry: Value) -> Self {
        let (path, file) = match self.dialect {
            "minion" => {
                entry["ServerName"] = json!("s");
                ("minion.json", json!({"servers": [entry]}))
            }
            "holodeck" => {
                for (key, value) in
                    [("name", "s"), ("description", "d"), ("type", "mcp"), ("server", "s")]
                {
                    entry[key] = json!(value);
                }
                ("agent.yaml", json!({"tools": [entry]}))
            }
            "dominds" => (".minds/mcp.yaml", json!({"version": 1, "servers": {"s": entry}})),
            "dispatch" => (".dispatch/mcp.json", json!({"servers": {"s": entry}})),
            _ => ("toolcrib.yaml", json!({"version": 1, "servers": {"s": entry}})),
        };
        self.workspace = self.workspace.with_file(path, &file.to_string());
        self
    }

    async fn serve(&self) -> ServeProcess {
        let mut args = vec!["serve", "--listen", ":0", "--json"];
        if self.dialect == "minion" {
            args.extend(["--config", "minion.json", "--dialect", "minion"]);
        }
        let path = self.workspace.shim_path();
        ServeProcess::from_child(spawn(&self.workspace, &args, &[("PATH", &path)])).await
    }

    /// The exposed name of a tool.
    fn tool(&self, name: &str) -> String {
        let prefix = match self.dialect {
            "minion" => "mcp_s_",
            "holodeck" => "s_",
            "dominds" => "",
            _ => "s__",
        };
        format!("{prefix}{name}")
    }
}

impl ServeProcess {
    async fn get(&self, path: &str) -> Value {
        body(&self.request_head(&format!("GET /api/v1/{path} HTTP/1.1")).await)
    }

    async fn open_dialog(&self, dialog: &str) {
        let report = self.post("/api/v1/dialogs", &json!({"id": dialog})).await;
        assert!(report.starts_with("HTTP/1.1 20"), "{report}");
    }

    /// The report of a call.
    async fn call(&self, dialog: &str, tool: &str) -> Value {
        let path = format!("/api/v1/dialogs/{dialog}/calls");
        body(&self.post(&path, &json!({"tool": tool, "arguments": {}})).await)
    }

    /// The pid of the process that answers a tool of [`counting`].
    async fn call_and_get_pid(&self, dialog: &str, tool: &str) -> u32 {
        let report = self.call(dialog, tool).await;
        let text = report["text"].as_str().filter(|_| report["ok"] == true);
        let text = text.unwrap_or_else(|| panic!("{tool}: {report}"));
        let counted: Value = serde_json::from_str(text).unwrap();
        counted["pid"].as_u64().unwrap().try_into().unwrap()
    }

    async fn tools(&self, dialog: &str) -> Vec<String> {
        super::super::names(&self.get(&format!("dialogs/{dialog}/tools")).await)
    }

    async fn state(&self) -> String {
        let listed = self.get("servers").await;
        let state = listed["servers"][0]["state"].as_str();
        state.unwrap_or_else(|| panic!("{listed}")).to_owned()
    }

    async fn until_state(&self, state: &str) {
        wait_for(state, async || self.state().await == state).await;
    }
}

/// Polls until the condition holds.
async fn wait_for(what: &str, is_so: impl AsyncFn() -> bool) {
    let started_at = std::time::Instant::now();
    while !is_so().await {
        assert!(started_at.elapsed() < TIME_LIMIT, "not within the time: {what}");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

/// A server whose tool `count` returns its pid.
fn counting() -> Script {
    Script::default().on("tools/call count", [Step::CountCalls])
}

/// Adds steps to each start of the server's process. The length of `count` is the number of starts.
fn starts(script: Script, count: &Path, turns: Vec<Vec<Step>>) -> Script {
    script.start([Step::Sequence { count: count.to_owned(), turns }])
}

/// Number of starts of a server from [`starts`].
fn started(count: &Path) -> u64 {
    std::fs::metadata(count).map(|data| data.len()).unwrap_or_default()
}

fn kill(pid: u32) {
    send_signal(pid, Signal::KILL);
    wait_until("the server has died", || !is_alive(pid));
}

fn body(answer: &str) -> Value {
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body).unwrap_or_default();
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
}
