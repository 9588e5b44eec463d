//! What the demo server offers: its tools, resources and prompt, as they are listed.

use serde_json::{Value, json};
use toolcrib_wire::handshake::Implementation;

/// A resource that changes: how often a tool was called, and how many calls are under way.
pub(crate) const CALLS: &str = "demo://calls";

/// The part of the template's addresses that is the same in all.
pub(crate) const SQUARE: &str = "demo://square/";

pub(crate) const PROMPT: &str = "introduce";

pub(crate) const INSTRUCTIONS: &str = "A demonstration: each tool shows one thing that MCP can do. Nothing here has an effect outside of this server.";

pub(crate) fn server() -> Implementation {
    Implementation::new("toolcrib-demo", env!("CARGO_PKG_VERSION"))
}

/// What the server can do; changes can be subscribed to in the modern era only.
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
    let text = json!({"type": "string", "description": "What is to come back"});
    json!({
        "name": "echo",
        "title": "Echo",
        "description": "Returns the text that it is given.",
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
    let by = json!({"type": "integer", "default": 1, "description": "How far to count"});
    let handle = "The counter to use, as an earlier call named it; without it that of the session, or a new one where there are no sessions";
    json!({
        "name": "counter",
        "title": "Counter",
        "description": "Counts, and remembers how far. State lives in the session, or in the counter that is named.",
        "inputSchema": object(&json!({"by": by, "counter": {"type": "string", "description": handle}}), &[]),
        "outputSchema": object(&json!({"counter": {"type": "string"}, "value": {"type": "integer"}}), &["counter", "value"]),
        "annotations": {"readOnlyHint": false, "destructiveHint": false, "idempotentHint": false, "openWorldHint": false},
    })
}

fn slow() -> Value {
    let seconds = json!({"type": "number", "minimum": 0, "maximum": crate::demo::work::LONGEST, "default": 3, "description": "How long it takes"});
    json!({
        "name": "slow",
        "title": "Slow",
        "description": "Takes its time, reports progress on the way, and stops when it is cancelled.",
        "inputSchema": object(&json!({"seconds": seconds}), &[]),
        "annotations": harmless(true),
    })
}

fn fail() -> Value {
    let message = json!({"type": "string", "description": "What it says"});
    json!({
        "name": "fail",
        "title": "Fail",
        "description": "Fails, always: its result is an error that a model can read.",
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

/// The schema of an object with these properties and no others.
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
        "description": "How many tool calls this server has taken, and how many are under way. It can be subscribed to.",
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
        "description": "Lets a model show somebody around.",
        "arguments": [
            {"name": "name", "title": "Name", "description": "Who is shown around", "required": true},
        ],
    }]})
}
