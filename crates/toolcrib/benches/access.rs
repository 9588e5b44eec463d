//! Time to compute which of 10,000 tools one agent may use: below 1 ms and without allocations.

use toolcrib::internal::{
    Attachments, Grants, ServerAvailability, Switches, ToolVisibility, ToolsetPermissions,
    ToolsetRef,
};
use toolcrib_config::{Config, ConfigFile, Dialect, MemoryLookup, Workspace, compile};

#[global_allocator]
static ALLOCATIONS: divan::AllocProfiler = divan::AllocProfiler::system();

const SERVERS: usize = 500;
const TOOLS: usize = 20;

fn main() {
    divan::main();
}

/// Grants for single tools, the most expensive kind.
#[divan::bench]
fn list_of_an_agent(bencher: divan::Bencher<'_, '_>) {
    let config = test_config();
    let permissions = permissions(&Grants::from_config(&config), &config);
    let names: Vec<_> = (0..TOOLS).map(|i| format!("tool_{i}")).collect();
    let (switches, here) = (Switches::default(), ServerAvailability::Available("ready"));
    let visibilities: Vec<_> =
        config.servers.iter().map(|spec| ToolVisibility::new(spec, &switches, here)).collect();
    let list = || {
        let visibility = permissions.iter().zip(&visibilities);
        let offered = visibility.filter(|(_, visibility)| **visibility == ToolVisibility::Offered);
        offered
            .flat_map(|(permission, _)| names.iter().filter(|name| permission.permits(name)))
            .count()
    };
    assert_eq!(list(), SERVERS * 2);
    bencher.bench(list);
}

/// Needed once per agent and configuration.
#[divan::bench]
fn permissions_of_an_agent(bencher: divan::Bencher<'_, '_>) {
    let config = test_config();
    let grants = Grants::from_config(&config);
    bencher.bench(|| permissions(&grants, &config));
}

fn permissions(grants: &Grants, config: &Config) -> Vec<ToolsetPermissions> {
    let attached = Attachments::default();
    let permission =
        |spec| ToolsetPermissions::new(grants, "alice", &attached, ToolsetRef::Server(spec));
    config.servers.iter().map(permission).collect()
}

fn test_config() -> Config {
    let capabilities_of = |i| format!("mcp_s{i}x_tool_3, mcp_s{i}x_tool_7");
    let capabilities: Vec<_> = (0..SERVERS).map(capabilities_of).collect();
    let mut text = format!(
        "version: 1\nhost: {{ grants: {{ members: {{ alice: {{ capabilities: [{}] }} }} }} }}\nservers:\n",
        capabilities.join(", ")
    );
    (0..SERVERS).for_each(|i| text.push_str(&format!("  s{i}x: {{ command: x }}\n")));
    let config_file = ConfigFile { path: "toolcrib.yaml".into(), dialect: Some(Dialect::Native) };
    let files = MemoryLookup::default().with_file("/ws/toolcrib.yaml", text);
    compile(&Workspace { root: "/ws".into(), home: None, config_file: Some(config_file) }, &files)
}
