//! The heart of the demo server: a request in, work out, and no IO.

use serde_json::{Value, json};
use toolcrib_server::version::spoken;
use toolcrib_wire::handshake::{DiscoverResult, Initialize, InitializeResult};
use toolcrib_wire::subscription::SubscriptionFilter;
use toolcrib_wire::view::ServerCapabilities;
use toolcrib_wire::{Body, Json, Raw, Request, RpcError, method};

use super::caller::{Caller, Client};
use super::reading::{self, LASTING};
use super::state::{Session, State};
use super::work::Work;
use super::{offer, tools};

pub(crate) fn respond(
    request: &Request,
    caller: &Caller,
    session: &mut Session,
    state: &mut State,
) -> Work {
    let work = caller
        .check_method(&request.method)
        .and_then(|()| work(&request.method, &request.params, caller, session, state));
    work.unwrap_or_else(|error| Work::Done(Err(error)))
}

fn work(
    method: &str,
    params: &Body,
    caller: &Caller,
    session: &mut Session,
    state: &mut State,
) -> Result<Work, RpcError> {
    let (result, cache) = match method {
        method::INITIALIZE => return Ok(Work::Done(initialize(params, session))),
        method::DISCOVER => return Ok(Work::Done(discover())),
        method::TOOLS_CALL => {
            let work = tools::call(params, caller, session, state)?;
            state.tally.calls += 1;
            return Ok(work);
        }
        method::SUBSCRIPTIONS_LISTEN => return Ok(Work::Listen(agreed(params))),
        method::PING => (json!({}), None),
        method::TOOLS_LIST => (list(params, offer::tools)?, Some(LASTING)),
        method::PROMPTS_LIST => (list(params, offer::prompts)?, Some(LASTING)),
        method::RESOURCES_LIST => (list(params, offer::resources)?, Some(LASTING)),
        method::RESOURCE_TEMPLATES_LIST => (list(params, offer::templates)?, Some(LASTING)),
        method::PROMPTS_GET => (reading::get_prompt(params)?, None),
        method::RESOURCES_READ => {
            let (result, cache) = reading::read(params, caller, state)?;
            (result, Some(cache))
        }
        other => return Err(RpcError::method_not_found(other)),
    };
    Ok(Work::Done(Ok(caller.seal(&tools::raw(&result)?, cache))))
}

fn initialize(params: &Body, session: &mut Session) -> Result<Raw, RpcError> {
    let params = params.raw().unwrap_or_else(|| Json::EMPTY.into());
    let opening =
        Initialize::read(params).map_err(|flaw| RpcError::invalid_params(flaw.to_string()))?;
    let client = Client::new(&opening);
    let version = client.version.clone();
    session.open(client);
    let capabilities = capabilities(false)?;
    let server = offer::server();
    Ok(InitializeResult::build(&version, &capabilities, &server, Some(offer::INSTRUCTIONS)))
}

fn discover() -> Result<Raw, RpcError> {
    let (versions, capabilities) = (spoken(), capabilities(true)?);
    let server = offer::server();
    let instructions = Some(offer::INSTRUCTIONS);
    Ok(DiscoverResult::build(&versions, &capabilities, &server, instructions, LASTING))
}

fn capabilities(subscribe: bool) -> Result<ServerCapabilities, RpcError> {
    tools::raw(&offer::capabilities(subscribe)).map(ServerCapabilities::new)
}

/// All lists fit on one page, so no cursor was ever given out.
fn list(params: &Body, all: fn() -> Value) -> Result<Value, RpcError> {
    match params.get("cursor").filter(|cursor| !cursor.is_null()) {
        Some(_) => Err(RpcError::invalid_params("there is no such page")),
        None => Ok(all()),
    }
}

/// The lists never change; one resource does.
fn agreed(params: &Body) -> SubscriptionFilter {
    let wanted = SubscriptionFilter::read(params.get("notifications").unwrap_or(Json::EMPTY));
    let uris = wanted.uris.into_iter().filter(|uri| uri == offer::CALLS).take(1).collect();
    SubscriptionFilter { uris, ..SubscriptionFilter::default() }
}

#[cfg(test)]
#[path = "respond_tests.rs"]
mod tests;
