//! Benchmarks for a thousand servers; the target for compiling them is below 50 ms.

use std::fmt::Write;

use toolcrib_config::{
    Config, ConfigFile, Dialect, MemoryLookup, SecretVisibility, Workspace, compile, diff,
};

const SERVERS: usize = 1000;

fn main() {
    divan::main();
}

#[divan::bench]
fn native_yaml(bencher: divan::Bencher<'_, '_>) {
    let bench = CompileBench::new("toolcrib.yaml", Dialect::Native, native_text());
    assert_eq!(bench.compile().servers.len(), SERVERS);
    bencher.bench(|| bench.compile());
}

#[divan::bench]
fn claude_json(bencher: divan::Bencher<'_, '_>) {
    let bench = CompileBench::new(".mcp.json", Dialect::Claude, claude_text());
    let config = bench.compile();
    assert!(!config.has_errors());
    assert_eq!(config.servers.len(), SERVERS);
    bencher.bench(|| bench.compile());
}

/// Diff of two configurations, of which a tenth changed; the target is below 5 ms.
#[divan::bench]
fn diff_of_a_changed_copy(bencher: divan::Bencher<'_, '_>) {
    let old = CompileBench::new("toolcrib.yaml", Dialect::Native, native_text()).compile();
    let changed = native_text().replace("0:\n", "0x:\n").replace("debug", "info");
    let new = CompileBench::new("toolcrib.yaml", Dialect::Native, changed).compile();
    assert!(!diff(&old, &new).is_empty());
    bencher.bench(|| diff(&old, &new));
}

#[divan::bench]
fn explain_yaml(bencher: divan::Bencher<'_, '_>) {
    let config = CompileBench::new("toolcrib.yaml", Dialect::Native, native_text()).compile();
    bencher.bench(|| config.explain(SecretVisibility::Masked));
}

struct CompileBench {
    workspace: Workspace,
    files: MemoryLookup,
}

impl CompileBench {
    fn new(name: &str, dialect: Dialect, text: String) -> Self {
        let config_file = ConfigFile { path: name.into(), dialect: Some(dialect) };
        Self {
            workspace: Workspace { root: "/ws".into(), home: None, config_file: Some(config_file) },
            files: MemoryLookup::default()
                .with_env("TOKEN", "t")
                .with_file("/ws/.env", "A=1\nB=2\n")
                .with_file(format!("/ws/{name}"), text),
        }
    }

    fn compile(&self) -> Config {
        compile(&self.workspace, &self.files)
    }
}

fn native_text() -> String {
    let mut text = "version: 1\nservers:\n".to_string();
    for i in 0..SERVERS {
        let _ = match i % 2 {
            0 => write!(
                text,
                r#"  local-{i}:
    command: npx
    args: ["-y", "@scope/server-{i}@1.2.3", --flag, "value {i}"]
    env: {{ LEVEL: debug, TOKEN: "${{TOKEN}}", NUMBER: {i} }}
    env_file: .env
    expose: {{ tools: {{ allow: ["read_*", "list_*"], deny: ["*_unsafe"] }} }}
    naming: {{ transforms: [{{ prefix: s{i}_ }}] }}
"#
            ),
            _ => write!(
                text,
                r#"  remote-{i}:
    url: https://example.com/{i}/mcp
    headers: {{ Authorization: "Bearer ${{TOKEN}}", X-Number: "{i}" }}
    timeouts: {{ request: 30s }}
    session: {{ scope: shared }}
"#
            ),
        };
    }
    text
}

fn claude_text() -> String {
    let servers: Vec<String> = (0..SERVERS)
        .map(|i| match i % 2 {
            0 => format!(
                r#""local-{i}": {{ "command": "npx", "args": ["-y", "@scope/server-{i}@1.2.3"], "env": {{ "LEVEL": "debug", "TOKEN": "${{TOKEN}}" }} }}"#
            ),
            _ => format!(
                r#""remote-{i}": {{ "type": "http", "url": "https://example.com/{i}/mcp", "headers": {{ "Authorization": "Bearer ${{TOKEN}}" }} }}"#
            ),
        })
        .collect();
    format!("{{ \"mcpServers\": {{\n{}\n}} }}\n", servers.join(",\n"))
}
