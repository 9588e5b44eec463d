//! The tools of the demo server.

use serde::Deserialize;
use serde_json::{Value, json};
use toolcrib_wire::view::InputRequired;
use toolcrib_wire::{Body, Json, RawJson, RpcError, method};

use super::caller::{Caller, server_meta};
use super::request_action::{MAX_SECONDS, RequestAction, TimedCall};
use super::state::{Session, State};

/// A picture of three tools on a board, 24 by 24 pixels.
const IMAGE_PNG_BASE64: &str = "iVBORw0KGgoAAAANSUhEUgAAABgAAAAYAgMAAACdGdVrAAAACVBMVEX69uw+SlnWjDTYD30HAAAAK0lEQVR42mNYBQYMDQxAwISXagwFAieGBgFGBgEmMqgQVocQXBQeayEOBAA4Cxl2Uj7u/AAAAABJRU5ErkJggg==";

/// The field that the elicitation asks for.
const NAME_FIELD: &str = "name";

/// The request state of the elicitation. It is not sealed: a client that changes it only fails its own call.
const ELICIT_STATE: &str = "elicit: the name was asked for";

/// The result of a tool, or the reason of its failure, which a model can read.
type ToolOutcome = Result<Value, String>;

pub(crate) fn call(
    params: &Body,
    caller: &Caller,
    session: &mut Session,
    state: &mut State,
) -> Result<RequestAction, RpcError> {
    let name = params.name().ok_or_else(|| RpcError::invalid_params("`name` is missing"))?;
    let arguments = params.arguments().unwrap_or(Json::EMPTY);
    let outcome = match &*name {
        "echo" => echo(arguments),
        "add" => add(arguments),
        "counter" => counter(arguments, caller, session, state)?,
        "fail" => fail(arguments),
        "image" => image(),
        "slow" => match slow(arguments, params, caller) {
            Ok(slow) => return Ok(RequestAction::Wait(slow)),
            Err(reason) => Err(reason),
        },
        "elicit" => return elicit(params, caller),
        other => {
            let other: String = other.chars().take(80).collect();
            return Err(RpcError::invalid_params(format!("unknown tool: {other}")));
        }
    };
    Ok(RequestAction::Done(tool_result(outcome, caller)))
}

fn tool_result(outcome: ToolOutcome, caller: &Caller) -> Result<RawJson, RpcError> {
    let result = outcome.unwrap_or_else(|reason| {
        let mut result = text_result(&reason);
        result["isError"] = json!(true);
        result
    });
    Ok(caller.complete_result(&to_raw(&result)?, None))
}

fn parse_arguments<'a, T: Deserialize<'a>>(arguments: Json<'a>) -> Result<T, String> {
    arguments.read().map_err(|error| format!("the arguments do not fit the input schema: {error}"))
}

#[derive(Deserialize)]
struct Echo {
    text: String,
}

fn echo(arguments: Json<'_>) -> ToolOutcome {
    let Echo { text: message } = parse_arguments(arguments)?;
    Ok(text_result(&message))
}

#[derive(Deserialize)]
struct Add {
    a: f64,
    b: f64,
}

fn add(arguments: Json<'_>) -> ToolOutcome {
    let Add { a, b } = parse_arguments(arguments)?;
    let sum = a + b;
    if !sum.is_finite() {
        return Err("the sum is too large".to_owned());
    }
    // Whole numbers are written as integers, as far as every reader represents them exactly.
    let whole = sum.fract() == 0.0 && sum.abs() < 9e15;
    Ok(structured(&json!({"sum": if whole { json!(sum as i64) } else { json!(sum) }})))
}

#[derive(Deserialize)]
struct Count {
    by: Option<i64>,
    counter: Option<String>,
}

fn counter(
    arguments: Json<'_>,
    caller: &Caller,
    session: &mut Session,
    state: &mut State,
) -> Result<ToolOutcome, RpcError> {
    let Count { by, counter } = match parse_arguments(arguments) {
        Ok(count) => count,
        Err(reason) => return Ok(Err(reason)),
    };
    let name = match counter {
        Some(name) => name,
        // Modern clients have no sessions, even on a shared connection.
        None if caller.is_modern() => state.new_counter()?,
        None => session.counter(state)?,
    };
    let Some(value) = state.counter(&name) else {
        let reason = "unknown counter; omit `counter` to get a new one";
        return Ok(Err(reason.to_owned()));
    };
    let Some(next) = value.checked_add(by.unwrap_or(1)) else {
        return Ok(Err("the counter would overflow".to_owned()));
    };
    *value = next;
    Ok(Ok(structured(&json!({"counter": name, "value": next}))))
}

#[derive(Deserialize)]
struct Fail {
    message: Option<String>,
}

fn fail(arguments: Json<'_>) -> ToolOutcome {
    let Fail { message } = parse_arguments(arguments)?;
    Err(message.unwrap_or_else(|| "This tool always fails. That is its purpose.".to_owned()))
}

fn image() -> ToolOutcome {
    let picture = json!({"type": "image", "data": IMAGE_PNG_BASE64, "mimeType": "image/png"});
    Ok(json!({"content": [picture, block("Three tools hanging on a board.")]}))
}

#[derive(Deserialize)]
struct Wait {
    seconds: Option<f64>,
}

fn slow(arguments: Json<'_>, params: &Body, caller: &Caller) -> Result<TimedCall, String> {
    let Wait { seconds } = parse_arguments(arguments)?;
    TimedCall::new(seconds.unwrap_or(3.0), params.progress_token(), caller)
        .ok_or_else(|| format!("`seconds` must be between 0 and {MAX_SECONDS}"))
}

/// Asks for the name, by a request to a legacy client or by an input-required result to a modern client.
fn elicit(params: &Body, caller: &Caller) -> Result<RequestAction, RpcError> {
    if !caller.can_elicit() {
        let polite = "Hello, stranger! I would have asked for your name, but this client cannot ask you (it does not offer elicitation).";
        return Ok(RequestAction::Done(tool_result(Ok(text_result(polite)), caller)));
    }
    if !caller.is_modern() {
        return Ok(RequestAction::Elicit(to_raw(&elicitation_params())?));
    }
    let response = params.get("inputResponses").and_then(|responses| responses.get(NAME_FIELD));
    let Some(response) = response else {
        return elicit_by_result();
    };
    if params.request_state().as_deref() != Some(ELICIT_STATE) {
        return Err(RpcError::invalid_params("unknown `requestState`"));
    }
    Ok(RequestAction::Done(tool_result(greet(response), caller)))
}

fn elicit_by_result() -> Result<RequestAction, RpcError> {
    let mut params = elicitation_params();
    params["mode"] = json!("form");
    let requests = to_raw(&json!({NAME_FIELD: {"method": method::ELICIT, "params": params}}))?;
    let result = InputRequired::build(Some(requests.json()), Some(ELICIT_STATE));
    Ok(RequestAction::Done(Ok(result.with_members([("_meta", Some(server_meta()))]))))
}

/// The params of `elicitation/create`.
fn elicitation_params() -> Value {
    let name = json!({"type": "string", "title": "Name", "description": "Any name will do", "minLength": 1, "maxLength": 100});
    json!({
        "message": "What is your name?",
        "requestedSchema": {"type": "object", "properties": {NAME_FIELD: name}, "required": [NAME_FIELD]},
    })
}

/// Turns the response of a legacy client into the result of `elicit`.
pub(crate) fn greeting(response: Option<Result<RawJson, RpcError>>) -> Result<RawJson, RpcError> {
    let outcome = match response {
        Some(Ok(response)) => greet(response.json()),
        Some(Err(error)) => Err(format!("the client could not ask: {}", error.message)),
        None => Err("no answer arrived in time".to_owned()),
    };
    tool_result(outcome, &Caller::Unknown)
}

fn greet(response: Json<'_>) -> ToolOutcome {
    let [action, content] = response.pick(["action", "content"]);
    let name = content.and_then(|content| content.get(NAME_FIELD)).and_then(Json::as_str);
    match (action.and_then(Json::as_str).as_deref(), name) {
        (Some("accept"), Some(name)) => Ok(text_result(&format!("Hello, {name}!"))),
        (Some("decline"), _) => Ok(text_result("Hello, stranger! You would not tell your name.")),
        (Some("cancel"), _) => Ok(text_result("Hello! You closed the question without an answer.")),
        _ => Err("the answer to the question cannot be read".to_owned()),
    }
}

/// Returns a result with one text block.
pub(crate) fn text_result(text: &str) -> Value {
    json!({"content": [block(text)]})
}

fn block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// Returns structured content with the same JSON as text, for clients that do not support it.
fn structured(value: &Value) -> Value {
    json!({"content": [block(&value.to_string())], "structuredContent": value})
}

pub(crate) fn to_raw(value: &Value) -> Result<RawJson, RpcError> {
    RawJson::from_value(value).map_err(|_| RpcError::internal("cannot write the result"))
}
