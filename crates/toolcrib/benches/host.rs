//! What the host itself costs: a call of a native tool (5 µs at most), the list of an agent with ten thousand tools
//! (1 ms at most), and a reload of one server of a hundred, which starts one process.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a bench that cannot set its scene has failed"
)]

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use toolcrib::host::DialogRequest;
use toolcrib::registry::{Answer, Definition, NativeCall, NativeTool, NativeToolset};
use toolcrib::{CallRequest, Dialog, Host, HostBuilder};
use toolcrib_testkit::scripted::{Script, program};
use toolcrib_wire::{Limits, Raw};

const TOOLSETS: usize = 500;
const TOOLS: usize = 20;
const SERVERS: usize = 100;

fn main() {
    divan::main();
}

/// Find, permit, run, count, tell, write down.
#[divan::bench]
fn call_a_native_tool(bencher: divan::Bencher<'_, '_>) {
    let scene = Scene::new();
    let host = scene.start(|builder| builder.toolset(toolset("office", 1)));
    let dialog = scene.dialog(&host);
    let arguments = raw(&json!({"text": "hello"}));
    bencher.bench_local(|| {
        let request = CallRequest::new("office_tool_0", arguments.clone());
        scene.runtime.block_on(dialog.call(request)).unwrap()
    });
    scene.runtime.block_on(host.close());
}

/// The same tool without a host.
#[divan::bench]
fn call_the_tool_itself(bencher: divan::Bencher<'_, '_>) {
    let scene = Scene::new();
    let (tool, arguments) = (Echo("t".to_owned()), raw(&json!({"text": "hello"})));
    bencher.bench_local(|| {
        scene.runtime.block_on(tool.call(NativeCall::new(arguments.clone()))).unwrap()
    });
}

#[divan::bench]
fn tools_of_an_agent_with_10_000(bencher: divan::Bencher<'_, '_>) {
    let scene = Scene::new();
    let host = scene.start(|builder| {
        (0..TOOLSETS)
            .fold(builder, |builder, n| builder.toolset(toolset(&format!("set{n}"), TOOLS)))
    });
    let dialog = scene.dialog(&host);
    assert_eq!(dialog.turn_now().tools().len(), TOOLSETS * TOOLS);
    bencher.bench_local(|| dialog.turn_now().tools());
    scene.runtime.block_on(host.close());
}

/// Every time another argument for the last server; the other ninety-nine keep their processes.
#[divan::bench(sample_count = 10, sample_size = 1)]
fn reload_one_of_100_servers(bencher: divan::Bencher<'_, '_>) {
    let scene = Scene::new();
    scene.write(0);
    let host = scene.start(|builder| builder);
    let mut round = 0;
    let mut before = pids(&host);
    assert_eq!(before.len(), SERVERS);
    bencher.bench_local(|| {
        round += 1;
        scene.write(round);
        scene.runtime.block_on(host.reload()).unwrap();
        let now = pids(&host);
        let others = now.iter().filter(|(id, pid)| before.get(*id) != Some(*pid));
        assert_eq!(others.count(), 1, "exactly one process is started");
        before = now;
    });
    scene.runtime.block_on(host.close());
}

struct Scene {
    folder: TempDir,
    runtime: Runtime,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("root")).unwrap();
        Scene { folder, runtime: Builder::new_current_thread().enable_all().build().unwrap() }
    }

    fn start(&self, with: impl FnOnce(HostBuilder) -> HostBuilder) -> Host {
        let path = self.folder.path();
        let builder = with(Host::builder(path.join("root"), path.join("state")));
        self.runtime.block_on(async {
            let host = builder.start().await.unwrap();
            host.settled().await;
            host
        })
    }

    fn dialog(&self, host: &Host) -> Dialog {
        self.runtime.block_on(host.dialog(DialogRequest::default())).unwrap()
    }

    fn write(&self, round: usize) {
        let servers: serde_json::Map<String, Value> = (0..SERVERS)
            .map(|n| {
                let tools = if n + 1 == SERVERS { vec![format!("of_round_{round}")] } else { Vec::new() };
                let script = Script { tools, ..Script::default() };
                let session = json!({"scope": "shared"});
                let entry = json!({"command": program().unwrap(), "args": [script.to_json()], "session": session});
                (format!("server{n}"), entry)
            })
            .collect();
        // Read when the bench says so, and not when the file changes.
        let file =
            json!({"version": 1, "host": {"reload": {"mode": "manual"}}, "servers": servers});
        std::fs::write(self.folder.path().join("root/toolcrib.yaml"), file.to_string()).unwrap();
    }
}

fn pids(host: &Host) -> BTreeMap<String, u32> {
    let servers = host.servers().into_iter();
    let pids = servers.filter_map(|server| Some((server.spec.id.clone(), server.pid?)));
    pids.filter(|(_, pid)| Path::new(&format!("/proc/{pid}")).exists()).collect()
}

struct Echo(String);

impl NativeTool for Echo {
    fn definition(&self) -> Definition {
        Definition::new(&self.0, &raw(&json!({"type": "object"})))
    }

    fn call(&self, call: NativeCall) -> Answer<'_> {
        Box::pin(async move {
            let text = call.arguments.text().to_owned();
            Ok(raw(&json!({"content": [{"type": "text", "text": text}]})))
        })
    }
}

fn toolset(name: &str, tools: usize) -> NativeToolset {
    (0..tools).fold(NativeToolset::new(name), |toolset, n| {
        toolset.with(Echo(format!("{name}_tool_{n}"))).unwrap()
    })
}

fn raw(value: &Value) -> Raw {
    Raw::parse(value.to_string(), &Limits::default()).unwrap()
}
