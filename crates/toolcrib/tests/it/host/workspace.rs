//! A workspace for hosts under test: configuration files, scripted servers and their logs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use toolcrib::{
    CallError, CallRequest, CallResult, Dialog, DialogRequest, ErrorKind, EventListener, Host,
    HostBuilder, HostEvent, NativeCall, NativeTool, NativeToolDefinition, NativeToolFuture,
    NativeToolset, Problem, ServerStatus, Trust,
};
use toolcrib_testkit::scripted::{Script, Step, server_binary};
use toolcrib_wire::{MessageLimits, RawJson};

use toolcrib_testkit::time_limit::{TIME_LIMIT, with_time_limit};
use toolcrib_upstream::process::GracePeriods;

/// A temporary folder with a root and a state folder.
pub(crate) struct TestWorkspace {
    pub(crate) folder: TempDir,
}

impl TestWorkspace {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("root")).unwrap();
        TestWorkspace { folder }
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    /// Writes a file in the root like an editor: to a temporary file that then replaces the old
    /// one.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.root().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let beside = path.with_extension("tmp");
        std::fs::write(&beside, text).unwrap();
        std::fs::rename(&beside, &path).unwrap();
    }

    /// Writes a native file with these servers.
    pub(crate) fn write_servers(&self, servers: &Value) {
        self.write_native(&json!({"version": 1, "servers": servers}));
    }

    pub(crate) fn write_native(&self, file: &Value) {
        self.write("toolcrib.yaml", &file.to_string());
    }

    /// Writes a Dominds file with these servers.
    pub(crate) fn write_minds(&self, servers: &Value) {
        self.write(".minds/mcp.yaml", &json!({"version": 1, "servers": servers}).to_string());
    }

    pub(crate) fn write_team(&self, members: &Value) {
        self.write(".minds/team.yaml", &json!({"members": members}).to_string());
    }

    /// The entry of a scripted server in a Dominds file. `name` is the prefix of its tools and the
    /// name of its log.
    pub(crate) fn minds_entry(&self, script: Script, name: &str) -> Value {
        let mut entry = self.scripted_entry(script, name);
        entry["transport"] = json!("stdio");
        entry["transform"] = json!([{"prefix": format!("{name}_")}]);
        entry
    }

    /// Creates a folder beside the root with a Dispatch file of these servers, and returns its
    /// path.
    pub(crate) fn write_dispatch(&self, folder: &str, servers: &Value) -> PathBuf {
        let path = self.folder.path().join(folder);
        std::fs::create_dir_all(path.join(".dispatch")).unwrap();
        let text = json!({"servers": servers}).to_string();
        std::fs::write(path.join(".dispatch/mcp.json"), text).unwrap();
        path.canonicalize().unwrap()
    }

    /// The entry of a scripted server. Received messages go to the log `log`.
    pub(crate) fn scripted_entry(&self, mut script: Script, log: &str) -> Value {
        script.log = Some(self.log_path(log));
        json!({"command": server_binary().unwrap(), "args": [script.to_json()]})
    }

    pub(crate) fn builder(&self) -> HostBuilder {
        let path = ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned());
        let graces = GracePeriods::default();
        let builder = Host::builder(self.root(), self.folder.path().join("state"));
        builder.env([path]).graces(graces).trust(Trust::all_folders())
    }

    /// Starts a host and waits until its servers are ready or have failed.
    pub(crate) async fn start_host(&self) -> Host {
        let host = with_time_limit(self.builder().start()).await.unwrap();
        with_time_limit(host.wait_until_settled()).await;
        host
    }

    pub(crate) fn log_path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The messages that a scripted server has received.
    pub(crate) fn log(&self, name: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.log_path(name)).unwrap_or_default();
        // The last line may be incomplete.
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    pub(crate) fn count_messages(&self, name: &str, method: &str) -> usize {
        self.log(name).iter().filter(|message| message["method"] == method).count()
    }
}

/// Opens a dialog of an agent in the root.
pub(crate) async fn open_dialog(host: &Host, agent: &str) -> Dialog {
    let request = DialogRequest { agent: Some(agent.to_owned()), ..DialogRequest::default() };
    with_time_limit(host.open_dialog(request)).await.unwrap()
}

/// Opens a dialog in a folder.
pub(crate) async fn open_dialog_in(host: &Host, folder: &Path) -> Dialog {
    let request = DialogRequest { cwd: Some(folder.to_owned()), ..DialogRequest::default() };
    with_time_limit(host.open_dialog(request)).await.unwrap()
}

pub(crate) fn request(tool: &str, arguments: &Value) -> CallRequest {
    CallRequest::new(tool, raw(arguments))
}

pub(crate) async fn call_tool(
    dialog: &Dialog,
    tool: &str,
    arguments: &Value,
) -> Result<CallResult, CallError> {
    with_time_limit(dialog.call(request(tool, arguments))).await
}

/// The text of a call that must succeed.
pub(crate) async fn call_text(dialog: &Dialog, tool: &str, arguments: &Value) -> String {
    let called = call_tool(dialog, tool, arguments).await.unwrap();
    let result: Value = serde_json::from_str(called.result.raw().text()).unwrap();
    result["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

/// A script with the tool `count`, which returns its process id and the number of its calls in that
/// process.
pub(crate) fn counting_script() -> Script {
    Script::default().on("tools/call count", [Step::CountCalls])
}

/// The process that answered, and its number of calls.
pub(crate) async fn call_count(dialog: &Dialog, tool: &str) -> (u32, u64) {
    let reported: Value = serde_json::from_str(&call_text(dialog, tool, &json!({})).await).unwrap();
    (reported["pid"].as_u64().unwrap().try_into().unwrap(), reported["count"].as_u64().unwrap())
}

pub(crate) fn error_kind(error: Result<CallResult, CallError>) -> ErrorKind {
    error.unwrap_err().kind()
}

/// The current problems as pairs of code and server.
pub(crate) fn problem_codes(host: &Host) -> Vec<(String, String)> {
    let each = |problem: Problem| (problem.code, problem.server.unwrap_or_default());
    host.problems().into_iter().map(each).collect()
}

pub(crate) fn has_problem(host: &Host, code: &str, server: &str) -> bool {
    problem_codes(host).contains(&(code.to_owned(), server.to_owned()))
}

/// Waits for the next event that `wanted` accepts.
pub(crate) async fn wait_for_event<T>(
    events: &mut EventListener,
    mut wanted: impl FnMut(&HostEvent) -> Option<T>,
) -> T {
    let hears = async {
        loop {
            let event = events.next().await.expect("the host is running");
            if let Some(found) = wanted(&event) {
                return found;
            }
        }
    };
    with_time_limit(hears).await
}

/// The names of the tools that a dialog sees.
pub(crate) async fn tool_names(dialog: &Dialog) -> Vec<String> {
    let tools = with_time_limit(dialog.turn()).await.tools();
    tools.iter().map(|tool| tool.name().to_owned()).collect()
}

pub(crate) fn server_status(host: &Host, id: &str) -> ServerStatus {
    host.servers().into_iter().find(|server| server.spec.id == id).unwrap()
}

pub(crate) fn raw(value: &Value) -> RawJson {
    RawJson::parse(value.to_string(), &MessageLimits::default()).unwrap()
}

pub(crate) fn is_alive(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// Polls until the condition holds.
pub(crate) async fn wait_until(condition: &str, mut is_so: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < TIME_LIMIT, "timed out waiting: {condition}");
        // The condition depends on other processes, which cannot wake this one.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A native toolset with the tool `revenue`.
pub(crate) fn native_toolset() -> NativeToolset {
    NativeToolset::new("own").with(Revenue).unwrap()
}

struct Revenue;

impl NativeTool for Revenue {
    fn definition(&self) -> NativeToolDefinition {
        let schema = raw(&json!({"type": "object"}));
        NativeToolDefinition::new("revenue", &schema)
    }

    fn call(&self, _: NativeCall) -> NativeToolFuture<'_> {
        let result = raw(&json!({"content": [{"type": "text", "text": "42"}]}));
        Box::pin(async move { Ok(result) })
    }
}
