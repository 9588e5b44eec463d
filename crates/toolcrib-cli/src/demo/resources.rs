//! Resource reads and the prompt.

use serde_json::{Value, json};
use toolcrib_wire::view::{CacheHints, CacheScope};
use toolcrib_wire::{Body, Json, RpcError, code};

use super::caller::Caller;
use super::catalog::{CALLS, PROMPT, SQUARE};
use super::state::{CallCounts, State};

/// Cache hints for results that are the same for everyone until the program ends.
pub(crate) const STATIC_CACHE: CacheHints =
    CacheHints { ttl_ms: 3_600_000, scope: CacheScope::Public };

/// Cache hints for results that may change at any time.
const NO_CACHE: CacheHints = CacheHints { ttl_ms: 0, scope: CacheScope::Private };

pub(crate) fn read_resource(
    params: &Body,
    caller: &Caller,
    state: &State,
) -> Result<(Value, CacheHints), RpcError> {
    let uri = params.uri().ok_or_else(|| RpcError::invalid_params("`uri` is missing"))?;
    let (kind, text, cache) = match uri.strip_prefix(SQUARE) {
        _ if uri == CALLS => ("application/json", call_counts_json(state.call_counts), NO_CACHE),
        Some(number) => {
            ("text/plain", square(number).ok_or_else(|| not_found(caller))?, STATIC_CACHE)
        }
        None => return Err(not_found(caller)),
    };
    let contents = json!({"uri": uri, "mimeType": kind, "text": text});
    Ok((json!({"contents": [contents]}), cache))
}

fn call_counts_json(call_counts: CallCounts) -> String {
    json!({"calls": call_counts.calls, "running": call_counts.running}).to_string()
}

fn square(number: &str) -> Option<String> {
    let number: i64 = number.parse().ok()?;
    Some(number.checked_mul(number)?.to_string())
}

fn not_found(caller: &Caller) -> RpcError {
    let code = if caller.is_modern() { code::INVALID_PARAMS } else { code::RESOURCE_NOT_FOUND };
    RpcError::new(code, "resource not found")
}

pub(crate) fn get_prompt(params: &Body) -> Result<Value, RpcError> {
    if params.name().as_deref() != Some(PROMPT) {
        return Err(RpcError::invalid_params("unknown prompt"));
    }
    let arguments = params.arguments().unwrap_or(Json::EMPTY);
    let name = arguments.get("name").and_then(Json::as_str);
    let name = name.ok_or_else(|| RpcError::invalid_params("the argument `name` is missing"))?;
    let text = format!(
        "Show {name} what the tools of this server do: call `add`, `counter` and `image` once each, and say in one sentence what came back."
    );
    let message = json!({"role": "user", "content": {"type": "text", "text": text}});
    Ok(json!({"description": "A tour of the demo server", "messages": [message]}))
}
