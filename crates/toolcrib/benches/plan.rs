//! How long ten thousand tools of five hundred servers take: to plan (50 ms at most) and to list (1 ms at most).

use std::fmt::Write;
use std::sync::Arc;

use toolcrib::registry::{Input, Offer, Presence, Scope, Snapshot, Tool, Upstream, plan};
use toolcrib_config::{Memory, ServerSpec, Workspace, compile};
use toolcrib_wire::view::{self, Page};
use toolcrib_wire::{Limits, Raw};

const SERVERS: usize = 500;
const TOOLS: usize = 20;

fn main() {
    divan::main();
}

/// Names by template, models by the same name.
#[divan::bench]
fn plan_10_000_tools(bencher: divan::Bencher<'_, '_>) {
    let world = World::new("");
    assert_eq!(world.plan().view(None).tools().count(), SERVERS * TOOLS);
    bencher.bench(|| world.plan());
}

/// Filters, transforms, and a second name for every tool.
#[divan::bench]
fn plan_10_000_filtered_and_aliased_tools(bencher: divan::Bencher<'_, '_>) {
    let world = World::new(
        ", naming: { template: '{server}:{tool}', transforms: [{ prefix: p. }] }, expose: { tools: { deny: ['*_19'] } }",
    );
    assert_eq!(world.plan().view(None).tools().count(), SERVERS * (TOOLS - 1));
    bencher.bench(|| world.plan());
}

/// What an agent is given, from a published snapshot: every tool, by reference count.
#[divan::bench]
fn list_10_000_tools(bencher: divan::Bencher<'_, '_>) {
    let snapshot = World::new("").plan();
    bencher.bench(|| snapshot.view(None).tools().cloned().collect::<Vec<Arc<Tool>>>());
}

/// The same with the definitions, which are made when they are first asked for.
#[divan::bench]
fn list_10_000_definitions(bencher: divan::Bencher<'_, '_>) {
    let snapshot = World::new("").plan();
    bencher.bench(|| {
        snapshot.view(None).tools().map(|tool| tool.definition().clone()).collect::<Vec<Raw>>()
    });
}

#[divan::bench]
fn find_a_tool(bencher: divan::Bencher<'_, '_>) {
    let snapshot = World::new("").plan();
    bencher
        .bench(|| snapshot.view(None).tool(divan::black_box("server-499__tool_number_7")).cloned());
}

struct World {
    specs: Vec<Arc<ServerSpec>>,
    tools: Vec<Vec<view::Tool>>,
}

impl World {
    fn new(policy: &str) -> Self {
        let mut text = "version: 1\nservers:\n".to_owned();
        for server in 0..SERVERS {
            let _ = writeln!(text, "  server-{server}: {{ command: x{policy} }}");
        }
        let files = Memory::default().with_file("/ws/toolcrib.yaml", text);
        let config = compile(&Workspace { root: "/ws".into(), home: None, named: None }, &files);
        assert!(!config.has_errors());
        let tools = (0..SERVERS).map(tools).collect();
        World { specs: config.servers.into_iter().map(Arc::new).collect(), tools }
    }

    fn plan(&self) -> Snapshot {
        let servers = self.specs.iter().zip(&self.tools).map(|(spec, tools)| Upstream {
            spec: spec.clone(),
            scope: Scope::Global,
            presence: Presence::Up,
            offer: Some(Offer { tools, ..Offer::default() }),
        });
        let (snapshot, _) = plan(&Input { servers: servers.collect(), ..Input::default() });
        snapshot
    }
}

/// A list of about a kilobyte a tool, as servers send them.
fn tools(server: usize) -> Vec<view::Tool> {
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
    let raw = Raw::parse(page, &Limits::default()).ok();
    let page = raw.and_then(|raw| Page::read(&raw, TOOLS).ok());
    page.map(|page: Page<view::Tool>| page.items).unwrap_or_default()
}
