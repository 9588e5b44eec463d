//! Tests of file discovery and of mistakes that affect a whole file.

use proptest::prelude::*;

use super::{dominds, ids};
use crate::model::policy::Grant;
use crate::model::security::SecuritySection;
use crate::model::transport::Transport;
use crate::testing::{compile_discovered, compile_text_in, problem_codes};
use crate::{Dialect, MemoryLookup, SourceOutcome};

#[test]
fn dom_04_version_must_be_the_number_one() {
    for version in ["", "version: 2\n", "version: '1'\n", "version: null\n"] {
        let config =
            dominds(&format!("{version}servers: {{ s: {{ transport: stdio, command: x }} }}\n"));
        assert_eq!(config.servers.len(), 0, "{version}");
        assert!(
            problem_codes(&config).contains(&"version.unsupported"),
            "{version}: {:?}",
            config.problems
        );
        assert_eq!(config.sources[0].outcome, SourceOutcome::Rejected, "{version}");
    }
}

const SMALL: &str = "version: 1\nservers:\n  a: { transport: stdio, command: x, cwd: sub }\n";

#[test]
fn dom_01_file_and_its_paths_are_relative_to_the_root() {
    let lookup =
        MemoryLookup::default().with_file("/ws/.minds/mcp.yaml", SMALL).with_file("/ws/sub/x", "");
    let config = compile_discovered(&lookup, "/ws");
    assert_eq!(config.problems, []);
    let Transport::Stdio(stdio) = &config.servers[0].transport else { panic!() };
    assert_eq!(stdio.cwd.as_ref().unwrap().display_text(), "/ws/sub"); // EXT-02
    assert_eq!(ids(&compile_discovered(&lookup, "/elsewhere")), [""; 0]);
}

#[test]
fn ext_02_missing_working_directory_gives_a_warning() {
    let lookup = MemoryLookup::default().with_file("/ws/.minds/mcp.yaml", SMALL);
    let nowhere = compile_discovered(&lookup, "/ws");
    assert_eq!(problem_codes(&nowhere), ["cwd.missing"]);
    let file = compile_discovered(&lookup.with_file("/ws/sub", "a file"), "/ws");
    assert_eq!(problem_codes(&file), ["cwd.missing"]);
    assert_eq!(file.servers.len(), 1, "the folder may exist when the server starts");
}

#[test]
fn dom_02_missing_file_gives_an_empty_configuration() {
    let config = compile_discovered(&MemoryLookup::default(), "/ws");
    assert_eq!(config.problems, []);
    assert!(config.servers.is_empty() && config.sources.is_empty());
}

#[test]
fn dom_03_other_formats_in_the_root_are_read_too() {
    let lookup = MemoryLookup::default()
        .with_file(
            "/ws/.minds/mcp.yaml",
            "version: 1\nservers: { y: { transport: stdio, command: x } }\n",
        )
        .with_file(
            "/ws/toolcrib.yaml",
            "version: 1\ninclude: [{ path: more.json, dialect: native }]\n",
        )
        .with_file("/ws/more.json", r#"{ "version": 1, "servers": { "j": { "command": "x" } } }"#)
        .with_file("/ws/.dispatch/mcp.json", r#"{ "servers": { "d": { "command": "x" } } }"#);
    let config = compile_discovered(&lookup, "/ws");
    assert_eq!(ids(&config), ["j", "y", "d"]);
    assert_eq!(problem_codes(&config), [""; 0]);
    let labels: Vec<_> = config.sources.iter().map(|s| &*s.label).collect();
    let all = ["toolcrib.yaml", "more.json", ".minds/mcp.yaml", ".dispatch/mcp.json"];
    assert_eq!(labels, all);
}

const TEAM: &str = "members:
  alice:
    toolsets:
      - ws_read
      - playwright
";

#[test]
fn dom_85_team_file_grants_toolsets() {
    let lookup = MemoryLookup::default().with_file("/ws/.minds/team.yaml", TEAM);
    let text = "version: 1\nservers: { playwright: { transport: stdio, command: x } }\n";
    let config = compile_text_in(&lookup, Dialect::Dominds, text);
    assert_eq!(config.problems, []);
    let members = &config.host.grants.members;
    assert_eq!(members["alice"].toolsets, ["ws_read", "playwright"]);
    assert_eq!(members.get("bob"), None);
    assert_eq!(config.servers[0].policy.access.grant, Grant::Toolsets);
}

#[test]
fn invalid_team_file_is_reported_and_servers_stay() {
    for (team, line, is_whole) in [
        ("members: [", 2, false),
        ("members: 5", 1, false),
        ("members:\n  alice: { toolsets: ws_read }\n", 2, true),
    ] {
        let lookup = MemoryLookup::default().with_file("/ws/.minds/team.yaml", team);
        let config = compile_text_in(
            &lookup,
            Dialect::Dominds,
            "version: 1\nservers: { a: { transport: stdio, command: x } }\n",
        );
        assert_eq!(ids(&config), ["a"], "{team}");
        // Without a readable list of members no caller has a grant.
        assert_eq!(config.security.is_invalid(SecuritySection::Grants), !is_whole, "{team}");
        let [problem, rest @ ..] = config.problems.as_slice() else { panic!("no problem: {team}") };
        assert_eq!(rest.is_empty(), is_whole, "{rest:?}");
        assert_eq!(problem.source.as_deref(), Some(".minds/team.yaml"), "{team}");
        assert!(problem.line <= Some(line), "{problem:?}");
    }
}

proptest! {
    #[test]
    fn dom_88_arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let lookup = MemoryLookup::default().with_file("/ws/.minds/mcp.yaml", bytes.clone()).with_file("/ws/.minds/team.yaml", bytes);
        let config = compile_discovered(&lookup, "/ws");
        prop_assert!(config.problems.iter().all(|p| p.source.is_some()));
    }

    #[test]
    fn dom_88_arbitrary_entry_keeps_other_servers(entry in "[-a1 :{}\\[\\],'\"&*<?|>!]{0,40}", key in "(transport|command|args|env|tools|transform|url)") {
        let quoted = serde_json::to_string(&entry).unwrap();
        let text = format!("version: 1\nservers:\n  bad: {{ transport: stdio, {key}: {quoted} }}\n  ok: {{ transport: stdio, command: x }}\n");
        let config = dominds(&text);
        prop_assert!(ids(&config).contains(&"ok"), "{:?}", config.problems);
    }
}

#[test]
fn dom_89_broken_file_is_rejected() {
    for text in [
        "version: 1\nservers: [",
        "version: 1\nservers:\n  a: { transport: stdio, command: x }\n  a: { transport: stdio, command: y }\n",
    ] {
        let config = dominds(text);
        assert_eq!(
            (config.servers.len(), config.sources[0].outcome),
            (0, SourceOutcome::Rejected),
            "{text}"
        );
        assert!(config.has_errors());
    }
}

#[test]
fn dom_89_file_level_mistake_is_one_problem_without_a_server() {
    for (text, code, line) in [
        ("version: 1\nservers: [", "yaml.syntax", 2),
        ("version: 3\n", "version.unsupported", 1),
        ("version: 1\nservers: { a: {}, a: {} }\n", "key.duplicate", 2),
        ("version: 1\nversion: 1\n", "key.duplicate", 2),
        ("version: 1\nservers: 7\n", "value.invalid", 2),
        ("- version: 1\n", "version.unsupported", 1),
    ] {
        let config = dominds(text);
        assert_eq!(config.sources[0].outcome, SourceOutcome::Rejected, "{text}");
        let found = config
            .problems
            .iter()
            .find(|p| p.code == code)
            .unwrap_or_else(|| panic!("{text}: {:?}", config.problems));
        assert_eq!((found.line, found.server.as_deref()), (Some(line), None), "{text}");
        assert!(found.is_error() && found.fix.is_some(), "{text}");
    }
}

#[test]
fn dom_90_duplicate_key_rejects_only_its_server() {
    let config = dominds(
        "version: 1\nservers:\n  a: { transport: stdio, command: x, command: y }\n  b: { transport: stdio, command: x }\n  c: { transport: stdio, command: x, env: { K: 1, K: 2 } }\n",
    );
    assert_eq!(ids(&config), ["b"]);
    assert_eq!(problem_codes(&config)[..2], ["key.duplicate"; 2]);
    let rejected: Vec<_> =
        config.rejected.iter().map(|r| (r.id.as_str(), r.keep_last_good)).collect();
    assert_eq!(rejected, [("a", true), ("c", true)]);
}
