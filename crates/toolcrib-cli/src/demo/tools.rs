//! The tools: each takes arguments and gives a result, or what leads to one.

use serde::Deserialize;
use serde_json::{Value, json};
use toolcrib_wire::view::InputRequired;
use toolcrib_wire::{Body, Json, Raw, RpcError, method};

use super::caller::{Caller, server_meta};
use super::state::{Session, State};
use super::work::{LONGEST, Slow, Work};

/// Three tools hanging on a board, 24 by 24.
const PICTURE: &str = "iVBORw0KGgoAAAANSUhEUgAAABgAAAAYAgMAAACdGdVrAAAACVBMVEX69uw+SlnWjDTYD30HAAAAK0lEQVR42mNYBQYMDQxAwISXagwFAieGBgFGBgEmMqgQVocQXBQeayEOBAA4Cxl2Uj7u/AAAAABJRU5ErkJggg==";

/// The one thing that is asked for.
const QUESTION: &str = "name";

/// Comes back with the answer. Whoever changes it only fails their own call, so it is not sealed.
const ASKED: &str = "elicit: the name was asked for";

/// Result, or the reason why the tool failed, which a model may read and do better.
type Told = Result<Value, String>;

pub(crate) fn call(
    params: &Body,
    caller: &Caller,
    session: &mut Session,
    state: &mut State,
) -> Result<Work, RpcError> {
    let name = params.name().ok_or_else(|| RpcError::invalid_params("`name` is missing"))?;
    let arguments = params.arguments().unwrap_or(Json::EMPTY);
    let told = match &*name {
        "echo" => echo(arguments),
        "add" => add(arguments),
        "counter" => counter(arguments, caller, session, state)?,
        "fail" => fail(arguments),
        "image" => image(),
        "slow" => match slow(arguments, params, caller) {
            Ok(slow) => return Ok(Work::Slow(slow)),
            Err(reason) => Err(reason),
        },
        "elicit" => return elicit(params, caller),
        other => {
            let other: String = other.chars().take(80).collect();
            return Err(RpcError::invalid_params(format!("unknown tool: {other}")));
        }
    };
    Ok(Work::Done(finish(told, caller)))
}

fn finish(told: Told, caller: &Caller) -> Result<Raw, RpcError> {
    let result = told.unwrap_or_else(|reason| {
        let mut result = text(&reason);
        result["isError"] = json!(true);
        result
    });
    Ok(caller.seal(&raw(&result)?, None))
}

fn read<'a, T: Deserialize<'a>>(arguments: Json<'a>) -> Result<T, String> {
    arguments.read().map_err(|error| format!("the arguments do not fit the input schema: {error}"))
}

#[derive(Deserialize)]
struct Echo {
    text: String,
}

fn echo(arguments: Json<'_>) -> Told {
    let Echo { text: said } = read(arguments)?;
    Ok(text(&said))
}

#[derive(Deserialize)]
struct Add {
    a: f64,
    b: f64,
}

fn add(arguments: Json<'_>) -> Told {
    let Add { a, b } = read(arguments)?;
    let sum = a + b;
    if !sum.is_finite() {
        return Err("the sum is too large to be written".to_owned());
    }
    // Whole numbers are written as such, as far as every reader holds them exactly.
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
) -> Result<Told, RpcError> {
    let Count { by, counter } = match read(arguments) {
        Ok(count) => count,
        Err(reason) => return Ok(Err(reason)),
    };
    let name = match counter {
        Some(name) => name,
        // There are no sessions, even where a connection would make it look so.
        None if caller.is_modern() => state.new_counter()?,
        None => session.counter(state)?,
    };
    let Some(value) = state.counter(&name) else {
        let reason = "there is no such counter any more; leave `counter` out to get a new one";
        return Ok(Err(reason.to_owned()));
    };
    let Some(next) = value.checked_add(by.unwrap_or(1)) else {
        return Ok(Err("the counter cannot count so far".to_owned()));
    };
    *value = next;
    Ok(Ok(structured(&json!({"counter": name, "value": next}))))
}

#[derive(Deserialize)]
struct Fail {
    message: Option<String>,
}

fn fail(arguments: Json<'_>) -> Told {
    let Fail { message } = read(arguments)?;
    Err(message.unwrap_or_else(|| "This tool always fails. That is its purpose.".to_owned()))
}

fn image() -> Told {
    let picture = json!({"type": "image", "data": PICTURE, "mimeType": "image/png"});
    Ok(json!({"content": [picture, block("Three tools hanging on a board.")]}))
}

#[derive(Deserialize)]
struct Wait {
    seconds: Option<f64>,
}

fn slow(arguments: Json<'_>, params: &Body, caller: &Caller) -> Result<Slow, String> {
    let Wait { seconds } = read(arguments)?;
    Slow::new(seconds.unwrap_or(3.0), params.progress_token(), caller)
        .ok_or_else(|| format!("`seconds` must be between 0 and {LONGEST}"))
}

/// Asks where that is possible: by a request of our own, or by a result that is to be completed.
fn elicit(params: &Body, caller: &Caller) -> Result<Work, RpcError> {
    if !caller.can_elicit() {
        let polite = "Hello, stranger! I would have asked for your name, but this client cannot ask you (it does not offer elicitation).";
        return Ok(Work::Done(finish(Ok(text(polite)), caller)));
    }
    if !caller.is_modern() {
        return Ok(Work::Ask(raw(&question())?));
    }
    let answer = params.get("inputResponses").and_then(|responses| responses.get(QUESTION));
    let Some(answer) = answer else {
        return ask_in_result();
    };
    if params.request_state().as_deref() != Some(ASKED) {
        return Err(RpcError::invalid_params("`requestState` is not the one that was given out"));
    }
    Ok(Work::Done(finish(greet(answer), caller)))
}

fn ask_in_result() -> Result<Work, RpcError> {
    let mut params = question();
    params["mode"] = json!("form");
    let requests = raw(&json!({QUESTION: {"method": method::ELICIT, "params": params}}))?;
    let result = InputRequired::build(Some(requests.json()), Some(ASKED));
    Ok(Work::Done(Ok(result.with_members([("_meta", Some(server_meta()))]))))
}

/// The params of `elicitation/create`.
fn question() -> Value {
    let name = json!({"type": "string", "title": "Name", "description": "Any name will do", "minLength": 1, "maxLength": 100});
    json!({
        "message": "What is your name?",
        "requestedSchema": {"type": "object", "properties": {QUESTION: name}, "required": [QUESTION]},
    })
}

/// The result of `elicit` once the client has answered, or has not. Only sessions are asked that way.
pub(crate) fn greeting(answer: Option<Result<Raw, RpcError>>) -> Result<Raw, RpcError> {
    let told = match answer {
        Some(Ok(answer)) => greet(answer.json()),
        Some(Err(error)) => Err(format!("the client could not ask: {}", error.message)),
        None => Err("nobody answered in time".to_owned()),
    };
    finish(told, &Caller::Stranger)
}

fn greet(answer: Json<'_>) -> Told {
    let [action, content] = answer.pick(["action", "content"]);
    let name = content.and_then(|content| content.get(QUESTION)).and_then(Json::as_str);
    match (action.and_then(Json::as_str).as_deref(), name) {
        (Some("accept"), Some(name)) => Ok(text(&format!("Hello, {name}!"))),
        (Some("decline"), _) => Ok(text("Hello, whoever you are! You would not tell your name.")),
        (Some("cancel"), _) => Ok(text("Hello! You closed the question without an answer.")),
        _ => Err("the answer to the question cannot be read".to_owned()),
    }
}

/// A result of one text.
pub(crate) fn text(text: &str) -> Value {
    json!({"content": [block(text)]})
}

fn block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// Structured content, and the same as text for clients that do not know it.
fn structured(value: &Value) -> Value {
    json!({"content": [block(&value.to_string())], "structuredContent": value})
}

pub(crate) fn raw(value: &Value) -> Result<Raw, RpcError> {
    Raw::of(value).map_err(|_| RpcError::internal("cannot write the result"))
}
