//! The pure core of the demo server: turns a request into an action.

use serde_json::{Value, json};
use toolcrib_server::version::supported_versions;
use toolcrib_wire::handshake::{DiscoverResult, InitializeParams, InitializeResult};
use toolcrib_wire::subscription::SubscriptionFilter;
use toolcrib_wire::view::ServerCapabilities;
use toolcrib_wire::{Body, Json, RawJson, Request, RpcError, method};

use super::caller::{Caller, LegacyClient};
use super::request_action::RequestAction;
use super::resources::{self, STATIC_CACHE};
use super::state::{Session, State};
use super::{catalog, tools};

pub(crate) fn respond(
    request: &Request,
    caller: &Caller,
    session: &mut Session,
    state: &mut State,
) -> RequestAction {
    let action = caller
        .check_method(&request.method)
        .and_then(|()| dispatch_method(&request.method, &request.params, caller, session, state));
    action.unwrap_or_else(|error| RequestAction::Done(Err(error)))
}

fn dispatch_method(
    method: &str,
    params: &Body,
    caller: &Caller,
    session: &mut Session,
    state: &mut State,
) -> Result<RequestAction, RpcError> {
    let (result, cache) = match method {
        method::INITIALIZE => return Ok(RequestAction::Done(initialize(params, session))),
        method::DISCOVER => return Ok(RequestAction::Done(discover())),
        method::TOOLS_CALL => {
            let action = tools::call(params, caller, session, state)?;
            state.call_counts.calls += 1;
            return Ok(action);
        }
        method::SUBSCRIPTIONS_LISTEN => {
            return Ok(RequestAction::Listen(accepted_subscription(params)));
        }
        method::PING => (json!({}), None),
        method::TOOLS_LIST => (unpaged_list(params, catalog::tools)?, Some(STATIC_CACHE)),
        method::PROMPTS_LIST => (unpaged_list(params, catalog::prompts)?, Some(STATIC_CACHE)),
        method::RESOURCES_LIST => (unpaged_list(params, catalog::resources)?, Some(STATIC_CACHE)),
        method::RESOURCE_TEMPLATES_LIST => {
            (unpaged_list(params, catalog::templates)?, Some(STATIC_CACHE))
        }
        method::PROMPTS_GET => (resources::get_prompt(params)?, None),
        method::RESOURCES_READ => {
            let (result, cache) = resources::read_resource(params, caller, state)?;
            (result, Some(cache))
        }
        other => return Err(RpcError::method_not_found(other)),
    };
    Ok(RequestAction::Done(Ok(caller.complete_result(&tools::to_raw(&result)?, cache))))
}

fn initialize(params: &Body, session: &mut Session) -> Result<RawJson, RpcError> {
    let params = params.raw().unwrap_or_else(|| Json::EMPTY.into());
    let opening = InitializeParams::read(params)
        .map_err(|error| RpcError::invalid_params(error.to_string()))?;
    let client = LegacyClient::new(&opening);
    let version = client.version.clone();
    session.open(client);
    let capabilities = capabilities(false)?;
    let server = catalog::server();
    Ok(InitializeResult::build(&version, &capabilities, &server, Some(catalog::INSTRUCTIONS)))
}

fn discover() -> Result<RawJson, RpcError> {
    let (versions, capabilities) = (supported_versions(), capabilities(true)?);
    let server = catalog::server();
    let instructions = Some(catalog::INSTRUCTIONS);
    Ok(DiscoverResult::build(&versions, &capabilities, &server, instructions, STATIC_CACHE))
}

fn capabilities(subscribe: bool) -> Result<ServerCapabilities, RpcError> {
    tools::to_raw(&catalog::capabilities(subscribe)).map(ServerCapabilities::new)
}

/// Returns a list. All lists fit on one page, so every cursor is unknown.
fn unpaged_list(params: &Body, all: fn() -> Value) -> Result<Value, RpcError> {
    match params.get("cursor").filter(|cursor| !cursor.is_null()) {
        Some(_) => Err(RpcError::invalid_params("unknown cursor")),
        None => Ok(all()),
    }
}

/// Returns the accepted part of a subscription. Only one resource changes; the lists never do.
fn accepted_subscription(params: &Body) -> SubscriptionFilter {
    let wanted = SubscriptionFilter::read(params.get("notifications").unwrap_or(Json::EMPTY));
    let uris = wanted.uris.into_iter().filter(|uri| uri == catalog::CALLS).take(1).collect();
    SubscriptionFilter { uris, ..SubscriptionFilter::default() }
}

#[cfg(test)]
#[path = "respond_tests.rs"]
mod tests;
