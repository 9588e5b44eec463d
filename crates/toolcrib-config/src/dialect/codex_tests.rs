//! Tests of Codex's `config.toml`.

use crate::model::auth::Auth;
use crate::model::filter::FilterVerdict;
use crate::model::transport::{Transport, TransportKind};
use crate::model::units::Period;
use crate::testing::{compile_text_at, problem_codes};
use crate::{Config, MemoryLookup, Value};

fn codex(text: &str) -> Config {
    let lookup = MemoryLookup::default()
        .with_env("HOME", "/h")
        .with_env("FIGMA_TOKEN", "t")
        .with_env("TEAM", "x")
        .with_file("/ws/srv/x", "");
    compile_text_at(&lookup, "/h/.codex/config.toml", text)
}

#[test]
fn codex_tables_compile() {
    let config = codex(
        r#"
        model = "gpt-5"
        [mcp_servers.context7]
        command = "npx"
        args = ["-y", "@upstash/context7-mcp", "${HOME}"]
        cwd = "srv"
        env_vars = ["LOCAL_TOKEN", { name = "OTHER", source = "local" }]
        startup_timeout_sec = 20.5
        tool_timeout_sec = 45
        enabled_tools = ["search", "open"]
        disabled_tools = ["open"]
        supports_parallel_tool_calls = true
        [mcp_servers.context7.env]
        MY_VAR = "${LITERAL}"
        [mcp_servers.figma]
        url = "https://mcp.figma.com/mcp"
        enabled = false
        bearer_token_env_var = "FIGMA_TOKEN"
        http_headers = { "X-Region" = "us-east-1" }
        env_http_headers = { "X-Team" = "TEAM" }
        startup_timeout_ms = 1500
        "#,
    );
    assert_eq!(config.problems, []);
    let [context7, figma] = config.servers.as_slice() else { panic!("{:?}", config.rejected) };
    let Transport::Stdio(stdio) = &context7.transport else { panic!("{:?}", context7.transport) };
    assert_eq!(stdio.args[2].0, Value::literal("${HOME}"));
    assert_eq!(stdio.cwd.as_ref().unwrap().display_text(), "/ws/srv");
    assert_eq!(stdio.env.set["MY_VAR"], Value::literal("${LITERAL}"));
    let inherit = &stdio.env.inherit;
    for (name, expected) in [
        ("LOCAL_TOKEN", true),
        ("OTHER", true),
        ("PATH", true),
        ("LC_TIME", true),
        ("AWS_KEY", false),
    ] {
        assert_eq!(inherit.allows(name), expected, "{name}");
    }
    let limits = &context7.policy.timeouts;
    assert_eq!(
        (limits.startup, limits.request, limits.request_max),
        (Period::millis(20_500), Period::secs(45), Period::secs(45))
    );
    let tools = &context7.policy.expose.tools;
    assert_eq!(tools.verdict("search"), FilterVerdict::Offered);
    assert_eq!(tools.verdict("open"), FilterVerdict::Denied("open"));
    assert_eq!(tools.verdict("write"), FilterVerdict::NotAllowed);

    assert!(!figma.policy.enabled);
    assert_eq!(figma.transport.kind(), TransportKind::StreamableHttp);
    let headers = &figma.transport.remote().unwrap().headers;
    assert_eq!(headers["X-Region"], Value::literal("us-east-1"));
    assert_eq!(headers["X-Team"], Value::from_env("TEAM"));
    let token = Value::from_env("FIGMA_TOKEN");
    assert_eq!(figma.policy.auth, Auth::Bearer { token });
    assert_eq!(figma.policy.timeouts.startup, Period::millis(1500));
}

#[test]
fn empty_enabled_tools_offers_no_tools() {
    let config = codex("[mcp_servers.s]\ncommand = 'x'\nenabled_tools = []\n");
    let tools = &config.servers[0].policy.expose.tools;
    assert_eq!(tools.verdict("any"), FilterVerdict::NotAllowed);
}

#[test]
fn invalid_server_keeps_other_servers() {
    for (entry, code) in [
        ("command = 7", "value.invalid"),
        ("command = 'x'\nurl = 'http://x/'", "transport.ambiguous"),
        ("url = 'http://x/'\nbearer_token = 'secret'", "auth.inline_token"),
        ("command = 'x'\ntool_timeout_sec = -1", "value.invalid"),
    ] {
        let config =
            codex(&format!("[mcp_servers.bad]\n{entry}\n[mcp_servers.good]\ncommand = 'x'\n"));
        assert_eq!(problem_codes(&config), [code], "{entry}");
        let ids: Vec<_> = config.servers.iter().map(|s| s.id.as_str()).collect();
        assert_eq!(ids, ["good"], "{entry}");
    }
}
