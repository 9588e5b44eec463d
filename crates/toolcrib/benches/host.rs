//! Costs of the host: a native tool call (at most 5 µs), the tool list of an agent with 10,000 tools (at most 1 ms),
//! and a reload of one server of 100, which starts one process.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark fails if its setup fails")]

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use toolcrib::{
    CallRequest, Dialog, DialogRequest, Host, HostBuilder, NativeCall, NativeTool,
    NativeToolDefinition, NativeToolFuture, NativeToolset,
};
use toolcrib_testkit::scripted::{Script, server_binary};
use toolcrib_wire::{MessageLimits, RawJson};

const TOOLSETS: usize = 500;
const TOOLS: usize = 20;
const SERVERS: usize = 100;

fn main() {
    divan::main();
}

/// Includes lookup, permission, execution, metrics, events and the call record.
#[divan::bench]
fn call_a_native_tool(bencher: divan::Bencher<'_, '_>) {
    let bench = BenchHost::new();
    let host = bench.start(|builder| builder.toolset(toolset("office", 1)));
    let dialog = bench.dialog(&host);
    let arguments = raw(&json!({"text": "hello"}));
    bencher.bench_local(|| {
        let request = CallRequest::new("office_tool_0", arguments.clone());
        bench.runtime.block_on(dialog.call(request)).unwrap()
    });
    bench.runtime.block_on(host.close());
}

/// The same tool without a host.
#[divan::bench]
fn call_the_tool_itself(bencher: divan::Bencher<'_, '_>) {
    let bench = BenchHost::new();
    let (tool, arguments) = (Echo("t".to_owned()), raw(&json!({"text": "hello"})));
    bencher.bench_local(|| {
        bench.runtime.block_on(tool.call(NativeCall::new(arguments.clone()))).unwrap()
    });
}

#[divan::bench]
fn tools_of_an_agent_with_10_000(bencher: divan::Bencher<'_, '_>) {
    let bench = BenchHost::new();
    let host = bench.start(|builder| {
        (0..TOOLSETS)
            .fold(builder, |builder, n| builder.toolset(toolset(&format!("set{n}"), TOOLS)))
    });
    let dialog = bench.dialog(&host);
    assert_eq!(dialog.turn_now().tools().len(), TOOLSETS * TOOLS);
    bencher.bench_local(|| dialog.turn_now().tools());
    bench.runtime.block_on(host.close());
}

/// Changes one argument of the last server; the other 99 keep their processes.
#[divan::bench(sample_count = 10, sample_size = 1)]
fn reload_one_of_100_servers(bencher: divan::Bencher<'_, '_>) {
    let bench = BenchHost::new();
    bench.write(0);
    let host = bench.start(|builder| builder);
    let mut round = 0;
    let mut before = pids(&host);
    assert_eq!(before.len(), SERVERS);
    bencher.bench_local(|| {
        round += 1;
        bench.write(round);
        bench.runtime.block_on(host.reload()).unwrap();
        let now = pids(&host);
        let others = now.iter().filter(|(id, pid)| before.get(*id) != Some(*pid));
        assert_eq!(others.count(), 1, "exactly one process is started");
        before = now;
    });
    bench.runtime.block_on(host.close());
}

struct BenchHost {
    folder: TempDir,
    runtime: Runtime,
}

impl BenchHost {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("root")).unwrap();
        BenchHost { folder, runtime: Builder::new_current_thread().enable_all().build().unwrap() }
    }

    fn start(&self, with: impl FnOnce(HostBuilder) -> HostBuilder) -> Host {
        let path = self.folder.path();
        let builder = with(Host::builder(path.join("root"), path.join("state")));
        self.runtime.block_on(async {
            let host = builder.start().await.unwrap();
            host.wait_until_settled().await;
            host
        })
    }

    fn dialog(&self, host: &Host) -> Dialog {
        self.runtime.block_on(host.open_dialog(DialogRequest::default())).unwrap()
    }

    fn write(&self, round: usize) {
        let servers: serde_json::Map<String, Value> = (0..SERVERS)
            .map(|n| {
                let tools = if n + 1 == SERVERS { vec![format!("of_round_{round}")] } else { Vec::new() };
                let script = Script { tools, ..Script::default() };
                let session = json!({"scope": "shared"});
                let entry = json!({"command": server_binary().unwrap(), "args": [script.to_json()], "session": session});
                (format!("server{n}"), entry)
            })
            .collect();
        // Reloads happen only on request and not when the file changes.
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
    fn definition(&self) -> NativeToolDefinition {
        NativeToolDefinition::new(&self.0, &raw(&json!({"type": "object"})))
    }

    fn call(&self, call: NativeCall) -> NativeToolFuture<'_> {
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

fn raw(value: &Value) -> RawJson {
    RawJson::parse(value.to_string(), &MessageLimits::default()).unwrap()
}
