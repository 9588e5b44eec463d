//! Tests of the settings that a server's hash covers.

use crate::testing::compile_text_in;
use crate::{ConfigHash, Dialect, MemoryLookup};

#[test]
fn dom_73_hash_covers_only_effective_settings() {
    let base = "{ transport: stdio, command: x, args: [a, b], env: { K: v, L: { env: HOME } }, tools: { whitelist: [w], blacklist: [u] }, transform: [{ prefix: p }] }";
    let same = [
        "{ transform: [{ prefix: p }], tools: { blacklist: [u], whitelist: [w] }, env: { L: { env: HOME }, K: v }, args: [a, b], command: x, transport: stdio }",
        "\n    # a note\n    transport:   stdio\n    command: 'x'\n    args:\n      - a\n      - b\n    env:\n      K: \"v\"\n      L:\n        env: HOME\n    tools: { whitelist: [w], blacklist: [u] }\n    transform:\n      - prefix: p",
    ];
    let others = [
        base.replace("command: x", "command: y"),
        base.replace("[a, b]", "[b, a]"),
        base.replace("[a, b]", "[a]"),
        base.replace("[a, b]", "['a b']"),
        base.replace("K: v", "K: w"),
        base.replace("K: v", "J: v"),
        base.replace("env: HOME", "env: HOST"),
        base.replace("[w]", "[w, w2]"),
        base.replace("[u]", "[]"),
        base.replace("prefix: p", "suffix: p"),
        base.replace("command: x", "command: x, truely-stateless: true"),
        base.replace("command: x", "command: x, enabled: false"),
    ];
    distinct(base, &same, &others);
}

#[test]
fn dom_73_hash_of_a_remote_server() {
    let base =
        "{ transport: streamable_http, url: 'http://h/', headers: { A: b, C: d }, sessionId: s }";
    let same = [
        "{ sessionId: s, headers: { C: d, A: b }, url: \"http://h/\", transport: streamable_http }",
    ];
    let others = [
        base.replace("http://h/", "http://h/x"),
        base.replace("A: b", "A: c"),
        base.replace("A: b", "A: { env: b }"),
        base.replace("A: b", "A: { env: b, prefix: 'Bearer ' }"),
        base.replace("sessionId: s", "sessionId: t"),
        base.replace("sessionId: s", "sessionId: ''"),
    ];
    distinct(base, &same, &others);
}

fn distinct(base: &str, same: &[&str], others: &[String]) {
    let hash = |entry: &str| -> ConfigHash {
        let lookup =
            MemoryLookup::default().with_env("HOME", "h").with_env("HOST", "h").with_env("b", "h");
        let text = format!("version: 1\nservers:\n  s: {entry}\n");
        let config = compile_text_in(&lookup, Dialect::Dominds, &text);
        assert_eq!(config.problems, [], "{entry}");
        config.servers[0].hash
    };
    for entry in same {
        assert_eq!(hash(entry), hash(base), "{entry}");
    }
    let mut seen = vec![hash(base)];
    for entry in others {
        let hash = hash(entry);
        assert!(!seen.contains(&hash), "{entry}");
        seen.push(hash);
    }
}
