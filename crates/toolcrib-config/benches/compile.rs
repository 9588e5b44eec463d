//! How long a thousand servers take: compiling them has to stay below 50 ms.

use std::fmt::Write;

use toolcrib_config::{Config, Dialect, Memory, Named, Workspace, compile};

const SERVERS: usize = 1000;

fn main() {
    divan::main();
}

#[divan::bench]
fn native_yaml(bencher: divan::Bencher<'_, '_>) {
    let world = World::new("toolcrib.yaml", Dialect::Native, native());
    assert_eq!(world.compile().servers.len(), SERVERS);
    bencher.bench(|| world.compile());
}

#[divan::bench]
fn claude_json(bencher: divan::Bencher<'_, '_>) {
    let world = World::new(".mcp.json", Dialect::Claude, claude());
    assert!(!world.compile().has_errors());
    bencher.bench(|| world.compile());
}

struct World {
    workspace: Workspace,
    files: Memory,
}

impl World {
    fn new(name: &str, dialect: Dialect, text: String) -> Self {
        let named = Named { path: name.into(), dialect: Some(dialect) };
        Self {
            workspace: Workspace { root: "/ws".into(), home: None, named: Some(named) },
            files: Memory::default()
                .with_env("TOKEN", "t")
                .with_file("/ws/.env", "A=1\nB=2\n")
                .with_file(format!("/ws/{name}"), text),
        }
    }

    fn compile(&self) -> Config {
        compile(&self.workspace, &self.files)
    }
}

fn native() -> String {
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

fn claude() -> String {
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
