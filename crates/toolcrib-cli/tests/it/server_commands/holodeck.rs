//! Tests `agent.yaml`, from the file to the call. npx, uvx and docker are shims of the scripted server.

use serde_json::{Value, json};
use toolcrib_testkit::http::{HttpServer, ScriptedResponse};

use super::{PATH, Shim, names, parse_json, server};
use crate::{CommandOutput, TestWorkspace};

fn workspace(file: &str) -> TestWorkspace {
    TestWorkspace::new().with_file("agent.yaml", file)
}

/// A file with one tool that has these keys.
fn tool(name: &str, keys: &str) -> String {
    format!("tools:\n  - {{ name: {name}, description: d, type: mcp, server: s, {keys} }}\n")
}

/// Runs a command with the shims first in `PATH`.
fn run(workspace: &TestWorkspace, args: &[&str], env: &[(&str, &str)]) -> CommandOutput {
    let path = workspace.shim_path();
    let all: Vec<(&str, &str)> = env.iter().copied().chain([("PATH", path.as_str())]).collect();
    workspace.run_with_env(args, &all)
}

fn server_environment(workspace: &TestWorkspace, args: &[&str], env: &[(&str, &str)]) -> Value {
    let args: Vec<&str> = ["call", "--raw"].into_iter().chain(args.iter().copied()).collect();
    let ran = run(workspace, &args, env);
    let text = parse_json(&ran)["content"][0]["text"].as_str().unwrap().to_owned();
    serde_json::from_str(&text).unwrap()
}

fn shims(workspace: &TestWorkspace) -> [Shim; 3] {
    ["npx", "uvx", "docker"].map(|name| workspace.shim(name))
}

#[test]
fn hol_07_and_08_arguments_and_variables_reach_server() {
    let keys = "command: npx, args: [-y, 'a b', '${KEPT}'], env: { TOKEN: 'x-${SECRET}' }";
    let workspace = workspace(&tool("t", keys));
    let [npx, ..] = shims(&workspace);
    let env = [("SECRET", "s3"), ("KEPT", "k")];
    let report = server_environment(&workspace, &["t_env"], &env);
    assert_eq!(report["env"]["TOKEN"], "x-s3"); // HOL-08
    let (_, _, args) = npx.start_record().unwrap();
    assert_eq!(args[..2], ["-y", "a b"]); // HOL-07
}

#[test]
fn hol_09_env_file_path_is_relative_to_agent_file() {
    let workspace = TestWorkspace::new().with_file("deep/.env", "FROM_FILE=yes\n");
    let absolute = workspace.root().join("deep/.env").display().to_string();
    for path in [".env", absolute.as_str()] {
        let text = tool("t", &format!("command: npx, envFile: '{path}'"));
        let nested = TestWorkspace::new()
            .with_file("deep/.env", "FROM_FILE=yes\n")
            .with_file("deep/agent.yaml", &text);
        shims(&nested);
        // The command runs in the parent folder.
        let report = server_environment(&nested, &["t_env", "--root", "deep"], &[]);
        assert_eq!(report["env"]["FROM_FILE"], "yes", "{path}"); // HOL-09
    }
}

#[test]
fn hol_20_to_22_and_39_invalid_entries_are_reported_before_any_start() {
    for (keys, text) in [
        ("transport: stdio", "MCPConfigError: 'command' is required for stdio transport"), // HOL-20
        (
            "command: bash",
            "MCPConfigError: Invalid command 'bash'. Supported commands: npx, uvx, docker",
        ),
        (
            "command: NPX",
            "MCPConfigError: Invalid command 'NPX'. Supported commands: npx, uvx, docker",
        ),
        (
            "command: /usr/bin/npx",
            "MCPConfigError: Invalid command '/usr/bin/npx'. Supported commands: npx, uvx, docker",
        ),
        (
            "command: 'npx '",
            "MCPConfigError: Invalid command 'npx '. Supported commands: npx, uvx, docker",
        ),
        ("transport: sse", "MCPConfigError: 'url' is required for sse transport"),
        ("transport: websocket", "MCPConfigError: 'url' is required for websocket transport"),
        ("transport: http", "MCPConfigError: 'url' is required for http transport"),
        (
            "command: npx, env: { A: '${VAR_NAME}' }",
            "ConfigError: Environment variable 'VAR_NAME' not found",
        ),
        (
            "transport: sse, url: 'http://example.com'",
            "MCPConfigError: 'url' must use https:// (or http:// for localhost)",
        ),
    ] {
        let workspace = workspace(&tool("t", keys));
        let shims = shims(&workspace);
        let ran = run(&workspace, &["tools", "--json"], &[]);
        let listed = parse_json(&ran);
        assert_eq!((ran.code, &listed["tools"]), (1, &json!([])), "{keys}");
        assert_eq!(listed["problems"][0]["text"], text, "{keys}"); // HOL-20, HOL-21, HOL-22, HOL-39
        let ran = run(&workspace, &["check"], &[]);
        assert!(ran.code == 1 && ran.out.contains(text), "{ran:?}"); // HOL-39
        assert!(shims.iter().all(|shim| shim.start_record().is_none()), "{keys}"); // HOL-21, HOL-22
    }
}

#[test]
fn hol_23_contract_examples_run() {
    let examples = [
        (
            "files",
            "npx",
            "server: '@modelcontextprotocol/server-filesystem'\n    command: npx\n    args: [\"-y\", \"@modelcontextprotocol/server-filesystem\"]\n    config:\n      allowed_directories:\n        - \"${workspaceFolder}/data\"\n        - \"${workspaceFolder}/output\"",
        ),
        (
            "github",
            "npx",
            "server: \"@modelcontextprotocol/server-github\"\n    command: npx\n    args: [\"-y\", \"@modelcontextprotocol/server-github\"]\n    env:\n      GITHUB_TOKEN: \"${GITHUB_TOKEN}\"\n    config:\n      repositories:\n        - \"owner/repo\"",
        ),
        (
            "postgres",
            "npx",
            "server: \"@modelcontextprotocol/server-postgres\"\n    command: npx\n    args: [\"-y\", \"@modelcontextprotocol/server-postgres\"]\n    env:\n      DATABASE_URL: \"${DATABASE_URL}\"",
        ),
        (
            "python_mcp",
            "uvx",
            "server: \"mcp-server-fetch\"\n    command: uvx\n    args: [\"mcp-server-fetch\"]\n    env:\n      CUSTOM_CONFIG: \"${CUSTOM_CONFIG}\"",
        ),
        (
            "docker_mcp",
            "docker",
            "server: \"mcp-server-custom\"\n    command: docker\n    args: [\"run\", \"--rm\", \"-i\", \"mcp-server:latest\"]\n    env:\n      API_KEY: \"${API_KEY}\"",
        ),
    ];
    let env = ["GITHUB_TOKEN", "DATABASE_URL", "CUSTOM_CONFIG", "API_KEY"].map(|name| (name, "v"));
    for (name, program, keys) in examples {
        let text = format!(
            "tools:\n  - name: {name}\n    description: \"d\"\n    type: mcp\n    {keys}\n"
        );
        let workspace = workspace(&text);
        let shims = shims(&workspace);
        let ran = run(&workspace, &["call", &format!("{name}_echo"), "-a", "x=1"], &env);
        assert_eq!(ran.code, 0, "{name}: {ran:?}"); // HOL-23
        assert!(ran.out.contains(r#"{\"x\":1}"#), "{ran:?}");
        let which = ["npx", "uvx", "docker"].iter().position(|known| *known == program).unwrap();
        assert!(shims[which].start_record().is_some(), "{name}"); // HOL-23
    }
}

#[test]
fn hol_38_one_invalid_tool_prevents_all_starts() {
    let text = "tools:\n  - { name: good, description: d, type: mcp, server: s, command: npx }\n  - { name: bad, description: d, type: mcp, server: s, command: bash }\n";
    let workspace = workspace(text);
    let shims = shims(&workspace);
    let ran = run(&workspace, &["tools", "--json"], &[]);
    let listed = parse_json(&ran);
    assert_eq!((ran.code, names(&listed).len()), (1, 0), "{ran:?}");
    let problem = &listed["problems"][0];
    assert_eq!((&problem["server"], &problem["line"]), (&json!("bad"), &json!(3))); // HOL-38
    let ran = run(&workspace, &["check"], &[]);
    assert!(ran.out.contains("command: bash") && ran.out.contains("agent.yaml:3"), "{ran:?}"); // HOL-38: the field
    assert!(shims.iter().all(|shim| shim.start_record().is_none())); // HOL-38
}

#[test]
fn hol_40_to_43_legacy_form_runs_npx_with_warning() {
    let text = "tools:\n  - name: old_mcp_tool\n    type: mcp\n    server: \"@modelcontextprotocol/server-memory\"\n    config:\n      key: value\n";
    let workspace = workspace(text);
    let [npx, ..] = shims(&workspace);
    let ran = run(&workspace, &["tools", "--json"], &[]);
    let listed = parse_json(&ran);
    assert_eq!(ran.code, 0, "{ran:?}"); // HOL-43: without a description
    assert_eq!(names(&listed)[0], "old_mcp_tool_echo");
    let (_, _, args) = npx.start_record().unwrap();
    assert_eq!(args, ["-y", "@modelcontextprotocol/server-memory"]); // HOL-41
    assert_eq!(super::codes(&listed["problems"]), ["holodeck.legacy"]); // HOL-42: once
    let problem = &listed["problems"][0];
    assert_eq!(problem["severity"], "warning");
    assert!(problem["fix"].as_str().unwrap().contains("command: npx"), "{problem}"); // HOL-42
    let ran = run(&workspace, &["servers", "--json"], &[]);
    assert_eq!(server(&parse_json(&ran), "old_mcp_tool")["transport"], "stdio"); // HOL-40
}

#[test]
fn hol_44_legacy_form_without_package_name_requires_command() {
    let workspace = workspace("tools:\n  - { name: t, type: mcp, server: ./local.py }\n");
    let ran = workspace.run_with_env(&["tools", "--json"], &[PATH]);
    assert_eq!(ran.code, 1);
    let listed = parse_json(&ran);
    let text = &listed["problems"][0]["text"];
    assert_eq!(text, "MCPConfigError: 'command' is required for stdio transport"); // HOL-44
}

/// HOL-46: variables are expanded in every text of the entry, not only in `env`.
#[tokio::test]
async fn hol_46_variables_are_expanded_in_args_url_and_config() {
    let keys = "command: npx, args: ['--key=${SECRET}', '${SECRET}'], config: { key: '${SECRET}', deep: ['x-${SECRET}'] }";
    let workspace = workspace(&tool("t", keys));
    let [npx, ..] = shims(&workspace);
    let report = server_environment(&workspace, &["t_env"], &[("SECRET", "s3")]);
    let (_, _, args) = npx.start_record().unwrap();
    assert_eq!(args, ["--key=s3", "s3"], "HOL-46");
    let config: Value =
        serde_json::from_str(report["env"]["MCP_CONFIG"].as_str().unwrap()).unwrap();
    assert_eq!(config, json!({"key": "s3", "deep": ["x-s3"]}), "HOL-46");

    let far = HttpServer::start(|_| ScriptedResponse::status(404)).await.unwrap();
    let url = far.url("/mcp");
    let (base, path) = url.rsplit_once('/').unwrap();
    let workspace = self::workspace(&tool("t", "transport: http, url: '${BASE}/${PATH_OF_IT}'"));
    let env = [("BASE", base.to_owned()), ("PATH_OF_IT", path.to_owned())];
    tokio::task::spawn_blocking(move || {
        let env: Vec<(&str, &str)> = env.iter().map(|(name, it)| (*name, it.as_str())).collect();
        run(&workspace, &["servers", "--json"], &env)
    })
    .await
    .unwrap();
    let first = far.requests().into_iter().next().unwrap();
    assert_eq!((first.method.as_str(), first.path.as_str()), ("POST", "/mcp"), "HOL-46");
}
