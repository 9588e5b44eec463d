//! Tests of the HoloDeck contract's examples, copied character for character.

use crate::model::transport::{Transport, TransportKind};
use crate::model::units::Period;
use crate::testing::{compile_text_in, problem_codes};
use crate::{Dialect, MemoryLookup, Reference, ServerSpec, Value};
const STDIO: &str = r#"tools:
  - name: filesystem
    description: "File system operations via MCP"
    type: mcp
    server: "@modelcontextprotocol/server-filesystem"
    transport: stdio                # Optional, stdio is default
    command: npx                    # Required: npx | uvx | docker
    args:                           # Optional
      - "-y"
      - "@modelcontextprotocol/server-filesystem"
    env:                            # Optional
      ALLOWED_PATHS: "/workspace"
    envFile: ".env"                 # Optional
    encoding: "utf-8"               # Optional
    config:                         # Optional, passed to server init
      allowed_directories:
        - "/workspace/data"
    request_timeout: 60             # Optional, default 60
"#;

const SSE: &str = r#"tools:
  - name: cloud_mcp
    description: "Cloud-hosted MCP server"
    type: mcp
    server: "cloud-mcp-service"
    transport: sse                  # Required for SSE
    url: "https://mcp.example.com/sse"  # Required
    headers:                        # Optional
      Authorization: "Bearer ${API_TOKEN}"
      X-Custom-Header: "value"
    timeout: 30                     # Optional, connection timeout
    sse_read_timeout: 120           # Optional, read timeout
    request_timeout: 60             # Optional
"#;

const WEBSOCKET: &str = r#"tools:
  - name: realtime_mcp
    description: "Real-time MCP server"
    type: mcp
    server: "realtime-service"
    transport: websocket            # Required for WebSocket
    url: "wss://mcp.example.com/ws" # Required
    request_timeout: 60             # Optional
"#;

const HTTP: &str = r#"tools:
  - name: http_mcp
    description: "HTTP MCP server with streaming"
    type: mcp
    server: "http-mcp-service"
    transport: http                 # Required for HTTP
    url: "https://mcp.example.com/stream"  # Required
    headers:                        # Optional
      Authorization: "Bearer ${TOKEN}"
    timeout: 30                     # Optional
    sse_read_timeout: 120           # Optional
    terminate_on_close: true        # Optional
    request_timeout: 60             # Optional
"#;

const LEGACY: &str = r#"tools:
  - name: old_mcp_tool
    type: mcp
    server: "@modelcontextprotocol/server-memory"
    config:
      key: value
"#;

const FILES: &str = r#"tools:
  - name: files
    description: "Read and write files in workspace"
    type: mcp
    server: "@modelcontextprotocol/server-filesystem"
    command: npx
    args: ["-y", "@modelcontextprotocol/server-filesystem"]
    config:
      allowed_directories:
        - "${workspaceFolder}/data"
        - "${workspaceFolder}/output"
"#;

const GITHUB: &str = r#"tools:
  - name: github
    description: "GitHub repository operations"
    type: mcp
    server: "@modelcontextprotocol/server-github"
    command: npx
    args: ["-y", "@modelcontextprotocol/server-github"]
    env:
      GITHUB_TOKEN: "${GITHUB_TOKEN}"
    config:
      repositories:
        - "owner/repo"
"#;

const POSTGRES: &str = r#"tools:
  - name: postgres
    description: "PostgreSQL database queries"
    type: mcp
    server: "@modelcontextprotocol/server-postgres"
    command: npx
    args: ["-y", "@modelcontextprotocol/server-postgres"]
    env:
      DATABASE_URL: "${DATABASE_URL}"
"#;

const UVX: &str = r#"tools:
  - name: python_mcp
    description: "Python MCP server via uvx"
    type: mcp
    server: "mcp-server-fetch"
    command: uvx
    args: ["mcp-server-fetch"]
    env:
      CUSTOM_CONFIG: "${CUSTOM_CONFIG}"
"#;

const DOCKER: &str = r#"tools:
  - name: docker_mcp
    description: "Containerized MCP server"
    type: mcp
    server: "mcp-server-custom"
    command: docker
    args: ["run", "--rm", "-i", "mcp-server:latest"]
    env:
      API_KEY: "${API_KEY}"
"#;

const CLOUD: &str = r#"tools:
  - name: cloud_api
    description: "Cloud AI service via MCP"
    type: mcp
    server: "cloud-ai-mcp"
    transport: sse
    url: "https://api.example.com/mcp/sse"
    headers:
      Authorization: "Bearer ${CLOUD_API_KEY}"
      X-Request-ID: "holodeck-agent"
    timeout: 10
    sse_read_timeout: 300
    request_timeout: 120
"#;

fn lookup() -> MemoryLookup {
    [
        "API_TOKEN",
        "TOKEN",
        "GITHUB_TOKEN",
        "DATABASE_URL",
        "CUSTOM_CONFIG",
        "API_KEY",
        "CLOUD_API_KEY",
    ]
    .into_iter()
    .fold(MemoryLookup::default(), |lookup, name| lookup.with_env(name, &format!("<{name}>")))
    .with_file("/ws/.env", "FROM_FILE=1\n")
}

/// Compiles an example and returns its only server. `reported` are the expected problem codes.
fn loaded(text: &str, reported: &[&str]) -> ServerSpec {
    let config = compile_text_in(&lookup(), Dialect::Holodeck, text);
    assert_eq!(problem_codes(&config), reported, "{text}\n{:?}", config.problems);
    let [server] = config.servers.as_slice() else { panic!("{text}") };
    server.clone()
}

fn resolved(value: &Value) -> String {
    let find = |reference: &Reference| match reference {
        Reference::Env(name) => lookup().env.get(name).cloned(),
        _ => None,
    };
    value.resolve(&find).unwrap().reveal().to_string()
}

fn argv(server: &ServerSpec) -> Vec<String> {
    let Transport::Stdio(stdio) = &server.transport else { panic!("{:?}", server.transport) };
    let words = std::iter::once(&stdio.command).chain(&stdio.args);
    words.map(|word| resolved(&word.0)).collect()
}

fn env(server: &ServerSpec, name: &str) -> String {
    resolved(&server.transport.env().unwrap().set[name])
}

fn config(server: &ServerSpec) -> serde_json::Value {
    server.policy.init.config.resolve(&|_| None).unwrap()
}

#[test]
fn hol_23_contract_examples_compile() {
    let cases = [
        (FILES, "files", vec!["npx", "-y", "@modelcontextprotocol/server-filesystem"], None),
        (
            GITHUB,
            "github",
            vec!["npx", "-y", "@modelcontextprotocol/server-github"],
            Some(("GITHUB_TOKEN", "<GITHUB_TOKEN>")),
        ),
        (
            POSTGRES,
            "postgres",
            vec!["npx", "-y", "@modelcontextprotocol/server-postgres"],
            Some(("DATABASE_URL", "<DATABASE_URL>")),
        ),
        (
            UVX,
            "python_mcp",
            vec!["uvx", "mcp-server-fetch"],
            Some(("CUSTOM_CONFIG", "<CUSTOM_CONFIG>")),
        ),
        (
            DOCKER,
            "docker_mcp",
            vec!["docker", "run", "--rm", "-i", "mcp-server:latest"],
            Some(("API_KEY", "<API_KEY>")),
        ),
    ];
    for (text, id, expected, variable) in cases {
        let server = loaded(text, &[]);
        assert_eq!(server.id, id);
        assert_eq!(argv(&server), expected, "{id}"); // HOL-07, HOL-23
        if let Some((name, value)) = variable {
            assert_eq!(env(&server, name), value, "{id}"); // HOL-08, HOL-31
        }
    }
}

#[test]
fn hol_37_workspace_folder_is_the_folder_of_the_agent_file() {
    let server = loaded(FILES, &[]);
    let expected = serde_json::json!({ "allowed_directories": ["/ws/data", "/ws/output"] });
    assert_eq!(config(&server), expected); // HOL-37
    let named = lookup().with_env("workspaceFolder", "/elsewhere");
    let config = compile_text_in(&named, Dialect::Holodeck, FILES);
    let find = |reference: &Reference| match reference {
        Reference::Env(name) => named.env.get(name).cloned(),
        _ => None,
    };
    let config = config.servers[0].policy.init.config.resolve(&find).unwrap();
    assert_eq!(config["allowed_directories"][0], "/elsewhere/data");
}

#[test]
fn contract_examples_of_each_transport_compile() {
    let stdio = loaded(STDIO, &[]);
    assert_eq!(stdio.policy.description, "File system operations via MCP");
    assert_eq!(stdio.policy.package, "@modelcontextprotocol/server-filesystem");
    assert_eq!(env(&stdio, "ALLOWED_PATHS"), "/workspace");
    let file = stdio.transport.env().unwrap().file.clone().unwrap();
    assert_eq!(file.path.to_str(), Some("/ws/.env")); // HOL-09
    assert_eq!(config(&stdio), serde_json::json!({ "allowed_directories": ["/workspace/data"] })); // HOL-16

    let sse = loaded(SSE, &[]);
    assert_eq!(sse.transport.kind(), TransportKind::Sse);
    let remote = sse.transport.remote().unwrap();
    assert_eq!(remote.url.display_text(), "https://mcp.example.com/sse");
    assert_eq!(resolved(&remote.headers["Authorization"]), "Bearer <API_TOKEN>"); // HOL-12
    assert_eq!(resolved(&remote.headers["X-Custom-Header"]), "value");
    assert_eq!(sse.policy.timeouts.connect, Period::secs(30)); // HOL-13
    assert_eq!(sse.policy.timeouts.sse_read, Period::secs(120)); // HOL-14
    assert_eq!(sse.policy.timeouts.request, Period::secs(60));

    let websocket = loaded(WEBSOCKET, &[]);
    assert_eq!(websocket.transport.kind(), TransportKind::WebSocket); // HOL-28

    let http = loaded(HTTP, &[]);
    let Transport::StreamableHttp(http) = &http.transport else {
        panic!() // HOL-29
    };
    assert!(http.terminate_on_close); // HOL-15
    assert_eq!(resolved(&http.remote.headers["Authorization"]), "Bearer <TOKEN>");

    let cloud = loaded(CLOUD, &[]);
    assert_eq!(cloud.transport.kind(), TransportKind::Sse); // HOL-27
    assert_eq!(cloud.policy.timeouts.connect, Period::secs(10));
    assert_eq!(cloud.policy.timeouts.sse_read, Period::secs(300));
    assert_eq!(cloud.policy.timeouts.request, Period::secs(120)); // HOL-19
}

#[test]
fn contract_examples_of_the_legacy_form_compile() {
    let server = loaded(LEGACY, &["holodeck.legacy"]); // HOL-42, HOL-43
    assert_eq!(server.transport.kind(), TransportKind::Stdio); // HOL-40
    assert_eq!(argv(&server), ["npx", "-y", "@modelcontextprotocol/server-memory"]); // HOL-41
    assert_eq!(config(&server), serde_json::json!({ "key": "value" }));
}

const ENV: &str = r#"env:
  API_KEY: "${MY_API_KEY}"          # Reads MY_API_KEY from environment
  DATABASE_URL: "${DB_CONNECTION}"  # Reads DB_CONNECTION from environment
"#;

#[test]
fn contract_examples_of_environment_variables_compile() {
    let indented = ENV.replace('\n', "\n    ");
    let text = format!(
        "tools:\n  - name: t\n    description: d\n    type: mcp\n    server: s\n    command: npx\n    {indented}"
    );
    let unset = compile_text_in(&lookup(), Dialect::Holodeck, &text);
    let texts: Vec<&str> = unset.problems.iter().map(|problem| problem.text.as_str()).collect();
    let missing = ["MY_API_KEY", "DB_CONNECTION"]
        .map(|name| format!("ConfigError: Environment variable '{name}' not found"));
    assert_eq!(texts, missing); // HOL-33
    let set = lookup().with_env("MY_API_KEY", "k").with_env("DB_CONNECTION", "d");
    let config = compile_text_in(&set, Dialect::Holodeck, &text);
    assert_eq!(config.problems, []);
    let variables = &config.servers[0].transport.env().unwrap().set;
    let find = |reference: &Reference| match reference {
        Reference::Env(name) => set.env.get(name).cloned(),
        _ => None,
    };
    let resolved = |name: &str| variables[name].resolve(&find).unwrap().reveal().to_string();
    assert_eq!((resolved("API_KEY"), resolved("DATABASE_URL")), ("k".into(), "d".into())); // HOL-31
}
