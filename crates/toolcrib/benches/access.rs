//! How long it takes to say which of 10,000 tools one agent sees: below 1 ms, and nothing is allocated.

use toolcrib::access::{Attached, Grants, Pass, Presence, Standing, Switches, Toolset};
use toolcrib_config::{Config, Dialect, Memory, Named, Workspace, compile};

#[global_allocator]
static ALLOCATIONS: divan::AllocProfiler = divan::AllocProfiler::system();

const SERVERS: usize = 500;
const TOOLS: usize = 20;

fn main() {
    divan::main();
}

/// By single tools: the dearest of all grants.
#[divan::bench]
fn list_of_an_agent(bencher: divan::Bencher<'_, '_>) {
    let config = configured();
    let passes = passes(&Grants::of(&config), &config);
    let names: Vec<_> = (0..TOOLS).map(|i| format!("tool_{i}")).collect();
    let (switches, here) = (Switches::default(), Presence::Here("ready"));
    let standings: Vec<_> =
        config.servers.iter().map(|spec| Standing::of(spec, &switches, here)).collect();
    let list = || {
        let standing = passes.iter().zip(&standings);
        let offered = standing.filter(|(_, standing)| **standing == Standing::Offered);
        offered.flat_map(|(pass, _)| names.iter().filter(|name| pass.permits(name))).count()
    };
    assert_eq!(list(), SERVERS * 2);
    bencher.bench(list);
}

/// Once for each agent and configuration.
#[divan::bench]
fn passes_of_an_agent(bencher: divan::Bencher<'_, '_>) {
    let config = configured();
    let grants = Grants::of(&config);
    bencher.bench(|| passes(&grants, &config));
}

fn passes(grants: &Grants, config: &Config) -> Vec<Pass> {
    let attached = Attached::default();
    let pass = |spec| Pass::of(grants, "alice", &attached, Toolset::Server(spec));
    config.servers.iter().map(pass).collect()
}

fn configured() -> Config {
    let of = |i| format!("mcp_s{i}x_tool_3, mcp_s{i}x_tool_7");
    let capabilities: Vec<_> = (0..SERVERS).map(of).collect();
    let mut text = format!(
        "version: 1\nhost: {{ grants: {{ members: {{ alice: {{ capabilities: [{}] }} }} }} }}\nservers:\n",
        capabilities.join(", ")
    );
    (0..SERVERS).for_each(|i| text.push_str(&format!("  s{i}x: {{ command: x }}\n")));
    let named = Named { path: "toolcrib.yaml".into(), dialect: Some(Dialect::Native) };
    let world = Memory::default().with_file("/ws/toolcrib.yaml", text);
    compile(&Workspace { root: "/ws".into(), home: None, named: Some(named) }, &world)
}
