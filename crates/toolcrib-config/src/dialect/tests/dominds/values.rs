//! Tests of variables and headers, literal or copied from the host.

use super::{dominds, ids, one};
use crate::testing::compile_text_in;
use crate::{Dialect, MemoryLookup, Value};

#[test]
fn dom_54_and_58_values_are_literal_or_copied_from_the_host() {
    let lookup = MemoryLookup::default().with_env("OLD", "v").with_env("TOKEN", "t");
    let text = "version: 1\nservers:\n  s:\n    transport: stdio\n    command: x\n    env: { A: '${HOME}', NEW: { env: OLD } }\n  h:\n    transport: streamable_http\n    url: http://h/mcp\n    headers: { Authorization: { prefix: 'Bearer ', env: TOKEN }, X: y }\n";
    let config = compile_text_in(&lookup, Dialect::Dominds, text);
    assert_eq!(config.problems, []);
    let env = config.servers[0].transport.env().unwrap();
    assert_eq!(env.set["A"], Value::literal("${HOME}")); // DOM-54
    assert_eq!(env.set["NEW"], Value::from_env("OLD")); // DOM-55
    let headers = &config.servers[1].transport.remote().unwrap().headers;
    assert_eq!(headers["X"], Value::literal("y")); // DOM-58
    assert_eq!(headers["Authorization"].references().len(), 1); // EXT-03
}

#[test]
fn dom_57_unset_variable_is_reported_and_its_server_kept() {
    let config = one("{ transport: stdio, command: x, env: { A: { env: GONE } } }");
    let [problem] = config.problems.as_slice() else { panic!("{:?}", config.problems) };
    assert_eq!((problem.code.as_str(), problem.server.as_deref()), ("env.missing", Some("s")));
    assert!(problem.text.contains("GONE"));
    assert_eq!(config.servers.len(), 1);
}

#[test]
fn dom_57_and_90_unset_variable_does_not_affect_other_servers() {
    let config = dominds(
        "version: 1\nservers:\n  a:\n    transport: streamable_http\n    url: http://h/\n    headers:\n      X: { env: GONE }\n  b: { transport: stdio, command: x }\n",
    );
    let [problem] = config.problems.as_slice() else { panic!("{:?}", config.problems) };
    assert_eq!((problem.code.as_str(), problem.server.as_deref()), ("env.missing", Some("a"))); // DOM-58
    assert_eq!((problem.line, problem.column), (Some(7), Some(7)));
    assert!(problem.text.contains("GONE"));
    assert!(ids(&config).contains(&"b")); // DOM-90
}

#[test]
fn ext_03_header_prefix_precedes_the_variable() {
    let lookup = MemoryLookup::default().with_env("TOKEN", "t");
    let text = "version: 1\nservers:\n  h: { transport: streamable_http, url: 'http://h/', headers: { Authorization: { prefix: 'Bearer ', env: TOKEN } } }\n";
    let config = compile_text_in(&lookup, Dialect::Dominds, text);
    let header = &config.servers[0].transport.remote().unwrap().headers["Authorization"];
    let resolved = header.resolve(&|_| Some("t".to_string())).unwrap();
    assert_eq!(resolved.reveal(), "Bearer t");
}
