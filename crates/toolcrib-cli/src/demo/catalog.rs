//! The catalog of the demo server: tools, resources and prompt as they are listed.

use serde_json::{Value, json};
use toolcrib_wire::handshake::Implementation;

/// URI of a resource that changes: the number of calls made and in flight.
pub(crate) const CALLS: &str = "demo://calls";

/// Common prefix of the template's URIs.
pub(crate) const SQUARE: &str = "demo://square/";

pub(crate) const PROMPT: &str = "introduce";

pub(crate) const INSTRUCTIONS: &str = "A demonstration: each tool shows one thing that MCP can do. Nothing here has an effect outside of this server.";

pub(crate) fn server() -> Implementation {
    Implementation::new("toolcrib-demo", env!("CARGO_PKG_VERSION"))
}

/// Returns the server's capabilities. Only modern clients can subscribe to changes.
pub(crate) fn capabilities(subscribe: bool) -> Value {
    let resources = if subscribe { json!({"subscribe": true}) } else { json!({}) };
    json!({"tools": {}, "resources": resources, "prompts": {}})
}

pub(crate) fn tools() -> Value {
    let tools: Vec<Value> = TOOLS.iter().map(|tool| tool()).collect();
    json!({ "tools": tools })
}

const TOOLS: [fn() -> Value; 7] = [echo, add, counter, slow, fail, image, elicit];

fn echo() -> Value {
    let text = json!({"type": "string", "description": "The text to return"});
    json!({
        "name": "echo",
        "title": "Echo",
        "description": "Returns the given text.",
        "inputSchema": object(&json!({"text": text}), &["text"]),
        "annotations": harmless(true),
    })
}

fn add() -> Value {
    let number = json!({"type": "number"});
    json!({
        "name": "add",
        "title": "Add",
        "description": "Adds two numbers; the sum comes as text and as structured content.",
        "inputSchema": object(&json!({"a": number, "b": number}), &["a", "b"]),
        "outputSchema": object(&json!({"sum": number}), &["sum"]),
        "annotations": harmless(true),
    })
}

fn counter() -> Value {
    let by = json!({"type": "integer", "default": 1, "description": "The increment"});
    let handle = "The counter of an earlier call. Default: the session's counter, or a new one without sessions";
    json!({
        "name": "counter",
        "title": "Counter",
        "description": "Counts and remembers the value, in the session or in the named counter.",
        "inputSchema": object(&json!({"by": by, "counter": {"type": "string", "description": handle}}), &[]),
        "outputSchema": object(&json!({"counter": {"type": "string"}, "value": {"type": "integer"}}), &["counter", "value"]),
        "annotations": {"readOnlyHint": false, "destructiveHint": false, "idempotentHint": false, "openWorldHint": false},
    })
}

fn slow() -> Value {
    let seconds = json!({"type": "number", "minimum": 0, "maximum": crate::demo::request_action::MAX_SECONDS, "default": 3, "description": "Duration"});
    json!({
        "name": "slow",
        "title": "Slow",
        "description": "Waits, reports progress, and stops when it is cancelled.",
        "inputSchema": object(&json!({"seconds": seconds}), &[]),
        "annotations": harmless(true),
    })
}

fn fail() -> Value {
    let message = json!({"type": "string", "description": "The error message"});
    json!({
        "name": "fail",
        "title": "Fail",
        "description": "Always fails: its result is an error that a model can read.",
        "inputSchema": object(&json!({"message": message}), &[]),
        "annotations": harmless(true),
    })
}

fn image() -> Value {
    json!({
        "name": "image",
        "title": "Image",
        "description": "Returns a small picture as PNG.",
        "inputSchema": object(&json!({}), &[]),
        "annotations": harmless(true),
    })
}

fn elicit() -> Value {
    json!({
        "name": "elicit",
        "title": "Elicit",
        "description": "Asks the person at the client for a name and greets them.",
        "inputSchema": object(&json!({}), &[]),
        "annotations": harmless(false),
    })
}

/// Returns the schema of an object with exactly these properties.
fn object(properties: &Value, required: &[&str]) -> Value {
    let mut schema =
        json!({"type": "object", "properties": properties, "additionalProperties": false});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn harmless(idempotent: bool) -> Value {
    json!({"readOnlyHint": true, "idempotentHint": idempotent, "openWorldHint": false})
}

pub(crate) fn resources() -> Value {
    json!({"resources": [{
        "uri": CALLS,
        "name": "calls",
        "title": "Calls",
        "description": "The number of tool calls made and in flight. Supports subscriptions.",
        "mimeType": "application/json",
    }]})
}

pub(crate) fn templates() -> Value {
    json!({"resourceTemplates": [{
        "uriTemplate": format!("{SQUARE}{{number}}"),
        "name": "square",
        "title": "Square",
        "description": "The square of a whole number.",
        "mimeType": "text/plain",
    }]})
}

pub(crate) fn prompts() -> Value {
    json!({"prompts": [{
        "name": PROMPT,
        "title": "Introduce the tools",
        "description": "Lets a model give a tour.",
        "arguments": [
            {"name": "name", "title": "Name", "description": "The name of the visitor", "required": true},
        ],
    }]})
}
