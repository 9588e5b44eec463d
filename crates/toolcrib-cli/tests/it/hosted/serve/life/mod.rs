//! How servers live in a running host: lost sessions, dead processes, failed starts, reloads and leases.

mod files;
mod leases;
mod lost_session;
mod reload;
mod restart;
mod retry;

use std::path::Path;

use rustix::process::Signal;
use serde_json::{Value, json};
use toolcrib_testkit::scripted::{Script, Step, program};

use super::{Served, spawn, tell};
use crate::Place;
use crate::hosted::{PATIENCE, is_alive, until};

/// The designs that every promise about sessions holds for.
const DIALECTS: [&str; 5] = ["native", "dominds", "dispatch", "holodeck", "minion"];

/// A workspace with one server `s` in the file of a dialect, and what to say to serve it.
struct Scene {
    place: Place,
    dialect: &'static str,
}

impl Scene {
    /// A server that is a process.
    fn process(dialect: &'static str, script: &Script) -> Self {
        let scene = Scene { place: Place::new(), dialect };
        let (command, args) = (program().unwrap(), json!([script.to_json()]));
        let entry = match dialect {
            "minion" => json!({"Transport": "stdio", "Command": command, "Args": args}),
            "dominds" => json!({"transport": "stdio", "command": command, "args": args}),
            "holodeck" => {
                scene.place.shim("npx");
                json!({"command": "npx", "env": {"SCRIPT": script.to_json()}})
            }
            _ => json!({"command": command, "args": args}),
        };
        scene.write(entry)
    }

    /// A server at an address.
    fn address(dialect: &'static str, url: &str) -> Self {
        let entry = match dialect {
            "minion" => json!({"Transport": "http", "URL": url}),
            "dominds" => json!({"transport": "streamable_http", "url": url}),
            "dispatch" | "holodeck" => json!({"transport": "http", "url": url}),
            _ => json!({"url": url}),
        };
        Scene { place: Place::new(), dialect }.write(entry)
    }

    /// Writes the file with this entry, in which keys of the dialect may have been added.
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
        self.place = self.place.file(path, &file.to_string());
        self
    }

    async fn serve(&self) -> Served {
        let mut args = vec!["serve", "--listen", ":0", "--json"];
        if self.dialect == "minion" {
            args.extend(["--config", "minion.json", "--dialect", "minion"]);
        }
        let path = self.place.shims();
        Served::of(spawn(&self.place, &args, &[("PATH", &path)])).await
    }

    /// The name that a tool of the server has.
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

impl Served {
    async fn get(&self, path: &str) -> Value {
        body(&self.ask(&format!("GET /api/v1/{path} HTTP/1.1")).await)
    }

    async fn open_dialog(&self, dialog: &str) {
        let told = self.post("/api/v1/dialogs", &json!({"id": dialog})).await;
        assert!(told.starts_with("HTTP/1.1 20"), "{told}");
    }

    /// What a call reports.
    async fn call(&self, dialog: &str, tool: &str) -> Value {
        let path = format!("/api/v1/dialogs/{dialog}/calls");
        body(&self.post(&path, &json!({"tool": tool, "arguments": {}})).await)
    }

    /// The process that answers a tool of [`counting`].
    async fn answering(&self, dialog: &str, tool: &str) -> u32 {
        let told = self.call(dialog, tool).await;
        let text = told["text"].as_str().filter(|_| told["ok"] == true);
        let text = text.unwrap_or_else(|| panic!("{tool}: {told}"));
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
        eventually(state, async || self.state().await == state).await;
    }
}

/// Waits until something is so in another process, which nothing tells of.
async fn eventually(what: &str, is_so: impl AsyncFn() -> bool) {
    let begun = std::time::Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < PATIENCE, "not within the time: {what}");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

/// A server whose tool `count` tells its process.
fn counting() -> Script {
    Script::default().on("tools/call count", [Step::Count])
}

/// Steps at the start of each process of a server, the first ones first; `count` counts the starts.
fn starts(script: Script, count: &Path, turns: Vec<Vec<Step>>) -> Script {
    script.start([Step::Turns { count: count.to_owned(), turns }])
}

/// How often a server was started that [`starts`] made.
fn started(count: &Path) -> u64 {
    std::fs::metadata(count).map(|data| data.len()).unwrap_or_default()
}

fn kill(pid: u32) {
    tell(pid, Signal::KILL);
    until("the server has died", || !is_alive(pid));
}

fn body(answer: &str) -> Value {
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body).unwrap_or_default();
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
}
