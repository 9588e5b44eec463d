//! Time to plan 10,000 tools of 500 servers (at most 50 ms) and to list them (at most 1 ms).

use std::fmt::Write;
use std::sync::Arc;

use toolcrib::Tool;
use toolcrib::internal::{PlanInput, Presence, Scope, ServerInput, ServerLists, Snapshot, plan};
use toolcrib_config::{MemoryLookup, ServerSpec, Workspace, compile};
use toolcrib_wire::view::{self, Page};
use toolcrib_wire::{MessageLimits, RawJson};

const SERVERS: usize = 500;
const TOOLS: usize = 20;

fn main() {
    divan::main();
}

/// Names from a template that are also legal for models.
#[divan::bench]
fn plan_10_000_tools(bencher: divan::Bencher<'_, '_>) {
    let fixture = PlanFixture::new("");
    assert_eq!(fixture.plan().view(None).tools().count(), SERVERS * TOOLS);
    bencher.bench(|| fixture.plan());
}

/// With filters, transforms and a second name for every tool.
#[divan::bench]
fn plan_10_000_filtered_and_aliased_tools(bencher: divan::Bencher<'_, '_>) {
    let fixture = PlanFixture::new(
        ", naming: { template: '{server}:{tool}', transforms: [{ prefix: p. }] }, expose: { tools: { deny: ['*_19'] } }",
    );
    assert_eq!(fixture.plan().view(None).tools().count(), SERVERS * (TOOLS - 1));
    bencher.bench(|| fixture.plan());
}

/// Lists the tools of a published snapshot, by reference count.
#[divan::bench]
fn list_10_000_tools(bencher: divan::Bencher<'_, '_>) {
    let snapshot = PlanFixture::new("").plan();
    bencher.bench(|| snapshot.view(None).tools().cloned().collect::<Vec<Arc<Tool>>>());
}

/// Like `list_10_000_tools`, with the definitions, which are built on first use.
#[divan::bench]
fn list_10_000_definitions(bencher: divan::Bencher<'_, '_>) {
    let snapshot = PlanFixture::new("").plan();
    bencher.bench(|| {
        snapshot.view(None).tools().map(|tool| tool.definition().clone()).collect::<Vec<RawJson>>()
    });
}

#[divan::bench]
fn find_a_tool(bencher: divan::Bencher<'_, '_>) {
    let snapshot = PlanFixture::new("").plan();
    bencher
        .bench(|| snapshot.view(None).tool(divan::black_box("server-499__tool_number_7")).cloned());
}

struct PlanFixture {
    specs: Vec<Arc<ServerSpec>>,
    tools: Vec<Vec<view::ToolView>>,
}

impl PlanFixture {
    fn new(policy: &str) -> Self {
        let mut text = "version: 1\nservers:\n".to_owned();
        for server in 0..SERVERS {
            let _ = writeln!(text, "  server-{server}: {{ command: x{policy} }}");
        }
        let files = MemoryLookup::default().with_file("/ws/toolcrib.yaml", text);
        let config =
            compile(&Workspace { root: "/ws".into(), home: None, config_file: None }, &files);
        assert!(!config.has_errors());
        let tools = (0..SERVERS).map(tools).collect();
        PlanFixture { specs: config.servers.into_iter().map(Arc::new).collect(), tools }
    }

    fn plan(&self) -> Snapshot {
        let servers = self.specs.iter().zip(&self.tools).map(|(spec, tools)| ServerInput {
            spec: spec.clone(),
            scope: Scope::Global,
            presence: Presence::Up,
            lists: Some(ServerLists { tools, ..ServerLists::default() }),
        });
        let (snapshot, _) = plan(&PlanInput { servers: servers.collect(), ..PlanInput::default() });
        snapshot
    }
}

/// Lists tools of about one kilobyte each, as servers send them.
fn tools(server: usize) -> Vec<view::ToolView> {
    let properties: Vec<String> = (0..8)
        .map(|i| format!(r#""argument_{i}":{{"type":"string","description":"What argument {i} is good for, at some length"}}"#))
        .collect();
    let properties = properties.join(",");
    let tools: Vec<String> = (0..TOOLS)
        .map(|i| format!(
            r#"{{"name":"tool_number_{i}","description":"Does the {i}th thing that server {server} can do","inputSchema":{{"type":"object","properties":{{{properties}}},"required":["argument_0"]}}}}"#
        ))
        .collect();
    let page = format!(r#"{{"tools":[{}]}}"#, tools.join(","));
    let raw = RawJson::parse(page, &MessageLimits::default()).ok();
    let page = raw.and_then(|raw| Page::read(&raw, TOOLS).ok());
    page.map(|page: Page<view::ToolView>| page.items).unwrap_or_default()
}
