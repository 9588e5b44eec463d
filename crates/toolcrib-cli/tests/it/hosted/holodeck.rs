//! `agent.yaml`, from the file to the call; npx, uvx and docker are shims that are the scripted server.

use serde_json::{Value, json};
use toolcrib_testkit::http::{HttpServer, Reply};

use super::{PATH, Shim, names, parsed, server};
use crate::{Place, Ran};

fn place(file: &str) -> Place {
    Place::new().file("agent.yaml", file)
}

/// A tool of the file with these keys.
fn tool(name: &str, keys: &str) -> String {
    format!("tools:\n  - {{ name: {name}, description: d, type: mcp, server: s, {keys} }}\n")
}

/// Runs a command with the shims first in the path.
fn run(place: &Place, args: &[&str], env: &[(&str, &str)]) -> Ran {
    let path = place.shims();
    let all: Vec<(&str, &str)> = env.iter().copied().chain([("PATH", path.as_str())]).collect();
    place.run_with(args, &all)
}

fn surroundings(place: &Place, args: &[&str], env: &[(&str, &str)]) -> Value {
    let args: Vec<&str> = ["call", "--raw"].into_iter().chain(args.iter().copied()).collect();
    let ran = run(place, &args, env);
    let text = parsed(&ran)["content"][0]["text"].as_str().unwrap().to_owned();
    serde_json::from_str(&text).unwrap()
}

fn shims(place: &Place) -> [Shim; 3] {
    ["npx", "uvx", "docker"].map(|name| place.shim(name))
}

#[test]
fn hol_07_and_08_arguments_and_variables_arrive() {
    let keys = "command: npx, args: [-y, 'a b', '${KEPT}'], env: { TOKEN: 'x-${SECRET}' }";
    let place = place(&tool("t", keys));
    let [npx, ..] = shims(&place);
    let env = [("SECRET", "s3"), ("KEPT", "k")];
    let told = surroundings(&place, &["t_env"], &env);
    assert_eq!(told["env"]["TOKEN"], "x-s3"); // HOL-08
    let (_, _, args) = npx.started().unwrap();
    assert_eq!(args[..2], ["-y", "a b"]); // HOL-07
}

#[test]
fn hol_09_the_env_file_is_beside_the_agent_whatever_the_folder() {
    let place = Place::new().file("deep/.env", "FROM_FILE=yes\n");
    let absolute = place.root().join("deep/.env").display().to_string();
    for path in [".env", absolute.as_str()] {
        let text = tool("t", &format!("command: npx, envFile: '{path}'"));
        let scene =
            Place::new().file("deep/.env", "FROM_FILE=yes\n").file("deep/agent.yaml", &text);
        shims(&scene);
        // The command runs in the folder above.
        let told = surroundings(&scene, &["t_env", "--root", "deep"], &[]);
        assert_eq!(told["env"]["FROM_FILE"], "yes", "{path}"); // HOL-09
    }
}

#[test]
fn hol_20_to_22_and_39_the_messages_come_before_anything_runs() {
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
        let place = place(&tool("t", keys));
        let shims = shims(&place);
        let ran = run(&place, &["tools", "--json"], &[]);
        let listed = parsed(&ran);
        assert_eq!((ran.code, &listed["tools"]), (1, &json!([])), "{keys}");
        assert_eq!(listed["problems"][0]["text"], text, "{keys}"); // HOL-20, HOL-21, HOL-22, HOL-39
        let ran = run(&place, &["check"], &[]);
        assert!(ran.code == 1 && ran.out.contains(text), "{ran:?}"); // HOL-39
        assert!(shims.iter().all(|shim| shim.started().is_none()), "{keys}"); // HOL-21, HOL-22
    }
}

#[test]
fn hol_23_the_examples_of_the_contract_run() {
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
        let place = place(&text);
        let shims = shims(&place);
        let ran = run(&place, &["call", &format!("{name}_echo"), "-a", "x=1"], &env);
        assert_eq!(ran.code, 0, "{name}: {ran:?}"); // HOL-23
        assert!(ran.out.contains(r#"{\"x\":1}"#), "{ran:?}");
        let which = ["npx", "uvx", "docker"].iter().position(|known| *known == program).unwrap();
        assert!(shims[which].started().is_some(), "{name}"); // HOL-23
    }
}

#[test]
fn hol_38_nothing_is_started_where_one_of_two_is_wrong() {
    let text = "tools:\n  - { name: good, description: d, type: mcp, server: s, command: npx }\n  - { name: bad, description: d, type: mcp, server: s, command: bash }\n";
    let place = place(text);
    let shims = shims(&place);
    let ran = run(&place, &["tools", "--json"], &[]);
    let listed = parsed(&ran);
    assert_eq!((ran.code, names(&listed).len()), (1, 0), "{ran:?}");
    let problem = &listed["problems"][0];
    assert_eq!((&problem["server"], &problem["line"]), (&json!("bad"), &json!(3))); // HOL-38
    let ran = run(&place, &["check"], &[]);
    assert!(ran.out.contains("command: bash") && ran.out.contains("agent.yaml:3"), "{ran:?}"); // HOL-38: the field
    assert!(shims.iter().all(|shim| shim.started().is_none())); // HOL-38
}

#[test]
fn hol_40_to_43_the_old_form_is_npx_with_a_warning() {
    let text = "tools:\n  - name: old_mcp_tool\n    type: mcp\n    server: \"@modelcontextprotocol/server-memory\"\n    config:\n      key: value\n";
    let place = place(text);
    let [npx, ..] = shims(&place);
    let ran = run(&place, &["tools", "--json"], &[]);
    let listed = parsed(&ran);
    assert_eq!(ran.code, 0, "{ran:?}"); // HOL-43: without a description
    assert_eq!(names(&listed)[0], "old_mcp_tool_echo");
    let (_, _, args) = npx.started().unwrap();
    assert_eq!(args, ["-y", "@modelcontextprotocol/server-memory"]); // HOL-41
    assert_eq!(super::codes(&listed["problems"]), ["holodeck.legacy"]); // HOL-42: once
    let problem = &listed["problems"][0];
    assert_eq!(problem["severity"], "warning");
    assert!(problem["fix"].as_str().unwrap().contains("command: npx"), "{problem}"); // HOL-42
    let ran = run(&place, &["servers", "--json"], &[]);
    assert_eq!(server(&parsed(&ran), "old_mcp_tool")["transport"], "stdio"); // HOL-40
}

#[test]
fn hol_44_the_old_form_of_what_is_no_package_lacks_its_command() {
    let place = place("tools:\n  - { name: t, type: mcp, server: ./local.py }\n");
    let ran = place.run_with(&["tools", "--json"], &[PATH]);
    assert_eq!(ran.code, 1);
    let listed = parsed(&ran);
    let text = &listed["problems"][0]["text"];
    assert_eq!(text, "MCPConfigError: 'command' is required for stdio transport"); // HOL-44
}

/// HOL-46: variables are expanded wherever the entry holds a text, not only in `env`.
#[tokio::test]
async fn hol_46_variables_are_expanded_in_args_url_and_config() {
    let keys = "command: npx, args: ['--key=${SECRET}', '${SECRET}'], config: { key: '${SECRET}', deep: ['x-${SECRET}'] }";
    let place = place(&tool("t", keys));
    let [npx, ..] = shims(&place);
    let told = surroundings(&place, &["t_env"], &[("SECRET", "s3")]);
    let (_, _, args) = npx.started().unwrap();
    assert_eq!(args, ["--key=s3", "s3"], "HOL-46");
    let config: Value = serde_json::from_str(told["env"]["MCP_CONFIG"].as_str().unwrap()).unwrap();
    assert_eq!(config, json!({"key": "s3", "deep": ["x-s3"]}), "HOL-46");

    let far = HttpServer::start(|_| Reply::status(404)).await.unwrap();
    let url = far.url("/mcp");
    let (base, path) = url.rsplit_once('/').unwrap();
    let place = self::place(&tool("t", "transport: http, url: '${BASE}/${PATH_OF_IT}'"));
    let env = [("BASE", base.to_owned()), ("PATH_OF_IT", path.to_owned())];
    tokio::task::spawn_blocking(move || {
        let env: Vec<(&str, &str)> = env.iter().map(|(name, it)| (*name, it.as_str())).collect();
        run(&place, &["servers", "--json"], &env)
    })
    .await
    .unwrap();
    let first = far.requests().into_iter().next().unwrap();
    assert_eq!((first.method.as_str(), first.path.as_str()), ("POST", "/mcp"), "HOL-46");
}
