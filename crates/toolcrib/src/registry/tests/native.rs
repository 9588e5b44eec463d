//! Tests of native tools.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::*;

pub(super) struct Echo(pub(super) &'static str);

impl NativeTool for Echo {
    fn definition(&self) -> NativeToolDefinition {
        NativeToolDefinition::new(self.0, &raw(r#"{"type":"object"}"#)).description("Does it")
    }

    fn call(&self, call: NativeCall) -> NativeToolFuture<'_> {
        Box::pin(async move { Ok(call.arguments) })
    }
}

fn toolset(name: &str, tools: &[&'static str]) -> NativeToolset {
    tools.iter().fold(NativeToolset::new(name), |toolset, tool| toolset.with(Echo(tool)).unwrap())
}

#[test]
fn dom_19_server_tool_never_displaces_a_native_tool() {
    let text = "  a: { transport: stdio, command: x }\n";
    let mut registry =
        TestRegistry::dominds(text).tools("a", &["read_file", "shell", "write_file"]);
    registry.native = vec![toolset("ws", &["read_file"])];
    registry.reserved_tools = vec!["shell".to_owned(), "read_file".to_owned()];
    let (snapshot, problems) = registry.plan();
    let view = snapshot.view(None);
    assert_eq!(names(view), ["read_file", "write_file"]);
    assert!(view.tool("read_file").unwrap().native().is_some(), "a call reaches the native tool");
    assert!(view.tool("shell").is_none());
    assert_eq!(
        problem_lines(&problems),
        ["warning name.collision a read_file", "warning name.collision a shell"]
    );
}

#[test]
fn dom_14_and_min_03_native_and_server_tools_have_the_same_definition() {
    let text = "servers: [{ ServerName: github, Transport: stdio, Command: x }]";
    let mut registry = TestRegistry::from_file(Dialect::Minion, text).definitions(
        "github",
        &[r#"{"description":"Does it","name":"create_issue","inputSchema":{"type":"object"}}"#],
    );
    registry.native = vec![toolset("domain", &["revenue_analyzer"])];
    let (snapshot, _) = registry.plan();
    let view = snapshot.view(None);
    let [native, mcp] = view.tools().collect::<Vec<_>>()[..] else { panic!("{view:?}") };
    let shape = |tool: &Tool| {
        let name = tool.model_name().to_owned();
        tool.definition().text().replace(&name, "N").replace("[MCP:github] ", "")
    };
    assert_eq!(shape(native), shape(mcp)); // DOM-14, MIN-03
    // MIN-68: the source of a tool is visible
    assert_eq!((native.toolset(), native.server().is_none()), ("domain", true));
    let server = mcp.server().unwrap();
    assert_eq!(
        (server.id(), mcp.original_name(), mcp.input_schema().text(), mcp.is_available()),
        ("github", "create_issue", r#"{"type":"object"}"#, true)
    );
}

#[test]
fn a_native_tool_is_called_with_raw_arguments() {
    let registry =
        TestRegistry { native: vec![toolset("ws", &["echo"])], ..TestRegistry::default() };
    let (snapshot, _) = registry.plan();
    let tool = snapshot.view(None).tool("echo").and_then(|tool| tool.native()).cloned().unwrap();
    let arguments = raw(r#"{ "n" : 1.0 }"#);
    let mut answer = pin!(tool.call(NativeCall::new(arguments.clone())));
    let polled = answer.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(polled, Poll::Ready(Ok(arguments)));
}

#[test]
fn native_tools_get_unique_and_legal_model_names() {
    let native =
        vec![toolset("a", &["x.y", "go"]), toolset("b", &["go", "x_y"]), toolset("a", &["never"])];
    let registry = TestRegistry { native, ..TestRegistry::default() };
    let (snapshot, problems) = registry.plan();
    let view = snapshot.view(None);
    assert_eq!(names(view), ["x.y", "go", "x_y"]);
    assert_eq!(view.tool("x_y").unwrap().original_name(), "x_y");
    assert!(view.tool("x.y").unwrap().model_name().starts_with("x_y_"));
    assert_eq!(
        problem_lines(&problems),
        ["error name.collision - -", "error toolset.collision - -"]
    );
}

#[test]
fn native_tool_with_invalid_definition_is_rejected() {
    struct Bad;
    impl NativeTool for Bad {
        fn definition(&self) -> NativeToolDefinition {
            NativeToolDefinition::new("bad", &raw("true"))
        }

        fn call(&self, _: NativeCall) -> NativeToolFuture<'_> {
            Box::pin(async { Err(NativeError("never".to_owned())) })
        }
    }
    let error = NativeToolset::new("ws").with(Bad).unwrap_err();
    assert_eq!(error.error.to_string(), "`inputSchema` must be an object, found a boolean");
}
