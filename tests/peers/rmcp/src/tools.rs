//! The tools: an echo, a sum, a slow one, one that asks the person, one that changes the list.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock,
    ElicitRequest, ElicitRequestParams, InputRequest, InputRequests, InputRequiredResult,
    JsonObject, ProgressNotificationParam, ProtocolVersion, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Value, json};

use crate::server::Server;

type Answer = Result<CallToolResponse, ErrorData>;

pub(crate) fn list(server: &Server) -> Vec<Tool> {
    let number = json!({"type": "number"});
    let whole = json!({"type": "integer", "minimum": 0});
    let mut tools = vec![
        tool("echo", "Says what it is told.", json!({"text": {"type": "string"}}), &["text"]),
        tool("add", "Adds two numbers.", json!({"a": number, "b": number}), &["a", "b"]),
        tool(
            "slow",
            "Counts to `steps`, `pause_ms` apart.",
            json!({"steps": whole, "pause_ms": whole}),
            &[],
        ),
        tool("cancelled", "How many calls of `slow` were cancelled.", json!({}), &[]),
        tool("ask", "Asks for a name and greets.", json!({}), &[]),
        tool("change", "Adds the tool `extra`, or takes it away.", json!({}), &[]),
    ];
    if server.has_extra() {
        tools.push(tool("extra", "Comes and goes.", json!({}), &[]));
    }
    tools
}

fn tool(name: &'static str, what: &'static str, properties: Value, required: &[&str]) -> Tool {
    let schema = json!({"type": "object", "properties": properties, "required": required});
    let Value::Object(schema) = schema else { return Tool::new(name, what, JsonObject::new()) };
    Tool::new(name, what, Arc::new(schema))
}

pub(crate) async fn call(
    server: &Server,
    request: CallToolRequestParams,
    context: RequestContext<RoleServer>,
) -> Answer {
    let given = request.arguments.clone().unwrap_or_default();
    match request.name.as_ref() {
        "echo" => text(given.get("text").and_then(Value::as_str).unwrap_or_default()),
        "add" => add(&given),
        "slow" => slow(server, &given, context).await,
        "cancelled" => text(server.cancelled().to_string()),
        "ask" => ask(request, context).await,
        "change" => change(server, context).await,
        "extra" if server.has_extra() => text("here"),
        name => Err(ErrorData::invalid_params(format!("no tool named `{name}`"), None)),
    }
}

fn add(given: &JsonObject) -> Answer {
    let number = |name: &str| given.get(name).and_then(Value::as_f64);
    let (Some(a), Some(b)) = (number("a"), number("b")) else {
        return Ok(
            CallToolResult::error(vec![ContentBlock::text("`a` and `b` are numbers")]).into()
        );
    };
    Ok(CallToolResult::structured(json!({"sum": a + b})).into())
}

async fn slow(server: &Server, given: &JsonObject, context: RequestContext<RoleServer>) -> Answer {
    let number = |name: &str, or: u64| given.get(name).and_then(Value::as_u64).unwrap_or(or);
    let (steps, pause) = (number("steps", 20), Duration::from_millis(number("pause_ms", 50)));
    for step in 1..=steps {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = context.ct.cancelled() => {
                server.cancelled.fetch_add(1, Ordering::Relaxed);
                return text("cancelled");
            }
        }
        if let Some(token) = context.meta.get_progress_token() {
            let progress =
                ProgressNotificationParam::new(token, step as f64).with_total(steps as f64);
            // A client that is gone is noticed by the cancellation, at the next pause.
            let _ = context.peer.notify_progress(progress).await;
        }
    }
    text(format!("counted to {steps}"))
}

/// The old era asks while the call is open; the new one ends it and is called again with the answer.
async fn ask(request: CallToolRequestParams, context: RequestContext<RoleServer>) -> Answer {
    if context.client_capabilities().is_none_or(|client| client.elicitation.is_none()) {
        let needed = ClientCapabilities::builder().enable_elicitation().build();
        return Err(ErrorData::missing_required_client_capability(needed));
    }
    let modern = context.protocol_version() >= Some(ProtocolVersion::V_2026_07_28);
    let answer = match request.input_responses {
        Some(answers) => answers.get("name").cloned().unwrap_or_default(),
        None if modern => {
            let wanted = InputRequest::Elicitation(ElicitRequest::new(question()?));
            let wanted = InputRequests::from([("name".to_owned(), wanted)]);
            return Ok(InputRequiredResult::new(Some(wanted), Some("asked".to_owned())).into());
        }
        None => {
            let asked = context.peer.create_elicitation(question()?).await;
            let answer =
                asked.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
            json!(answer)
        }
    };
    match (answer["action"].as_str(), answer["content"]["name"].as_str()) {
        (Some("accept"), Some(name)) => text(format!("hello {name}")),
        (action, _) => text(format!("no name: {}", action.unwrap_or("no answer"))),
    }
}

fn question() -> Result<ElicitRequestParams, ErrorData> {
    let schema =
        json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    let requested_schema = serde_json::from_value(schema)
        .map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    Ok(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: "What is your name?".to_owned(),
        requested_schema,
    })
}

/// Sessions of the new era hear of it through `listen`, this session of the old one directly.
async fn change(server: &Server, context: RequestContext<RoleServer>) -> Answer {
    server.changes.send_modify(|changes| *changes += 1);
    if context.protocol_version() < Some(ProtocolVersion::V_2026_07_28) {
        let told = context.peer.notify_tool_list_changed().await;
        told.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    }
    text(if server.has_extra() { "added" } else { "taken away" })
}

fn text(text: impl Into<String>) -> Answer {
    Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
}
