//! A workspace for hosts: files that may be rewritten, scripted servers, and what they have received.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use toolcrib::host::{DialogRequest, Listening, Trust};
use toolcrib::registry::{Answer, Definition, NativeCall, NativeTool, NativeToolset};
use toolcrib::shape::ErrorKind;
use toolcrib::{
    CallError, CallRequest, CallResult, Dialog, Event, Host, HostBuilder, Problem, ServerStatus,
};
use toolcrib_testkit::scripted::{Script, Step, program};
use toolcrib_wire::{Limits, Raw};

use toolcrib_testkit::time_limit::{LIMIT, within};
use toolcrib_upstream::process::Graces;

/// A folder with a root and a state folder in it.
pub(crate) struct Stage {
    pub(crate) folder: TempDir,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("root")).unwrap();
        Stage { folder }
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    /// Writes a file of the root the way editors do: beside, and then in its place.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.root().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let beside = path.with_extension("tmp");
        std::fs::write(&beside, text).unwrap();
        std::fs::rename(&beside, &path).unwrap();
    }

    /// A native file with these servers.
    pub(crate) fn servers(&self, servers: &Value) {
        self.native(&json!({"version": 1, "servers": servers}));
    }

    pub(crate) fn native(&self, file: &Value) {
        self.write("toolcrib.yaml", &file.to_string());
    }

    /// A Dominds file with these servers.
    pub(crate) fn minds(&self, servers: &Value) {
        self.write(".minds/mcp.yaml", &json!({"version": 1, "servers": servers}).to_string());
    }

    pub(crate) fn team(&self, members: &Value) {
        self.write(".minds/team.yaml", &json!({"members": members}).to_string());
    }

    /// The entry of a scripted server in a Dominds file: its tools begin with its name, and so does its log.
    pub(crate) fn minded(&self, script: Script, name: &str) -> Value {
        let mut entry = self.scripted(script, name);
        entry["transport"] = json!("stdio");
        entry["transform"] = json!([{"prefix": format!("{name}_")}]);
        entry
    }

    /// A folder beside the root, with a Dispatch file of these servers.
    pub(crate) fn dispatch(&self, folder: &str, servers: &Value) -> PathBuf {
        let path = self.folder.path().join(folder);
        std::fs::create_dir_all(path.join(".dispatch")).unwrap();
        let text = json!({"servers": servers}).to_string();
        std::fs::write(path.join(".dispatch/mcp.json"), text).unwrap();
        path.canonicalize().unwrap()
    }

    /// The entry of a scripted server; what it receives is in the log of that name.
    pub(crate) fn scripted(&self, mut script: Script, log: &str) -> Value {
        script.log = Some(self.log_path(log));
        json!({"command": program().unwrap(), "args": [script.to_json()]})
    }

    pub(crate) fn builder(&self) -> HostBuilder {
        let path = ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned());
        let graces = Graces::default();
        let builder = Host::builder(self.root(), self.folder.path().join("state"));
        builder.env([path]).graces(graces).trust(Trust::of_everything())
    }

    /// A host whose servers are up or have failed.
    pub(crate) async fn host(&self) -> Host {
        let host = within(self.builder().start()).await.unwrap();
        within(host.settled()).await;
        host
    }

    pub(crate) fn log_path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The messages that a scripted server has received.
    pub(crate) fn log(&self, name: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.log_path(name)).unwrap_or_default();
        // The last line may not be whole yet.
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    pub(crate) fn count(&self, name: &str, method: &str) -> usize {
        self.log(name).iter().filter(|message| message["method"] == method).count()
    }
}

/// A dialog of an agent in the root.
pub(crate) async fn dialog(host: &Host, agent: &str) -> Dialog {
    let request = DialogRequest { agent: Some(agent.to_owned()), ..DialogRequest::default() };
    within(host.dialog(request)).await.unwrap()
}

/// A dialog in a folder.
pub(crate) async fn dialog_in(host: &Host, folder: &Path) -> Dialog {
    let request = DialogRequest { cwd: Some(folder.to_owned()), ..DialogRequest::default() };
    within(host.dialog(request)).await.unwrap()
}

pub(crate) fn request(tool: &str, arguments: &Value) -> CallRequest {
    CallRequest::new(tool, raw(arguments))
}

pub(crate) async fn call(
    dialog: &Dialog,
    tool: &str,
    arguments: &Value,
) -> Result<CallResult, CallError> {
    within(dialog.call(request(tool, arguments))).await
}

/// The text of a call that must succeed.
pub(crate) async fn text(dialog: &Dialog, tool: &str, arguments: &Value) -> String {
    let called = call(dialog, tool, arguments).await.unwrap();
    let result: Value = serde_json::from_str(called.result.raw().text()).unwrap();
    result["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

/// A script with a tool `count`, which tells its process and how often it was called there.
pub(crate) fn counting() -> Script {
    Script::default().on("tools/call count", [Step::Count])
}

/// The process that answered, and how often it has.
pub(crate) async fn counted(dialog: &Dialog, tool: &str) -> (u32, u64) {
    let told: Value = serde_json::from_str(&text(dialog, tool, &json!({})).await).unwrap();
    (told["pid"].as_u64().unwrap().try_into().unwrap(), told["count"].as_u64().unwrap())
}

pub(crate) fn kind(error: Result<CallResult, CallError>) -> ErrorKind {
    error.unwrap_err().kind()
}

/// What is wrong, by code, with the server that it is wrong with.
pub(crate) fn wrongs(host: &Host) -> Vec<(String, String)> {
    let each = |problem: Problem| (problem.code, problem.server.unwrap_or_default());
    host.problems().into_iter().map(each).collect()
}

pub(crate) fn has_problem(host: &Host, code: &str, server: &str) -> bool {
    wrongs(host).contains(&(code.to_owned(), server.to_owned()))
}

/// The next event that is wanted.
pub(crate) async fn hear<T>(
    listening: &mut Listening,
    mut wanted: impl FnMut(&Event) -> Option<T>,
) -> T {
    let hears = async {
        loop {
            let event = listening.next().await.expect("the host has not ended");
            if let Some(found) = wanted(&event) {
                return found;
            }
        }
    };
    within(hears).await
}

/// The names of the tools that a dialog sees.
pub(crate) async fn names(dialog: &Dialog) -> Vec<String> {
    let tools = within(dialog.turn()).await.tools();
    tools.iter().map(|tool| tool.name().to_owned()).collect()
}

pub(crate) fn server(host: &Host, id: &str) -> ServerStatus {
    host.servers().into_iter().find(|server| server.spec.id == id).unwrap()
}

pub(crate) fn raw(value: &Value) -> Raw {
    Raw::parse(value.to_string(), &Limits::default()).unwrap()
}

pub(crate) fn is_alive(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// Waits until something is so.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LIMIT, "not within the time: {what}");
        // What is waited for happens in other processes: there is nothing to be woken by.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A toolset of the program itself, with the tool `revenue`.
pub(crate) fn own() -> NativeToolset {
    NativeToolset::new("own").with(Revenue).unwrap()
}

struct Revenue;

impl NativeTool for Revenue {
    fn definition(&self) -> Definition {
        let schema = raw(&json!({"type": "object"}));
        Definition::new("revenue", &schema)
    }

    fn call(&self, _: NativeCall) -> Answer<'_> {
        let result = raw(&json!({"content": [{"type": "text", "text": "42"}]}));
        Box::pin(async move { Ok(result) })
    }
}
