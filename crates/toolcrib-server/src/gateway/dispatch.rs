//! Dispatches MCP requests of a client to their handlers.

use std::sync::Arc;

use toolcrib::{CallError, ErrorKind, ResourceSubscription};
use toolcrib_wire::handshake::{DiscoverResult, InitializeParams, InitializeResult};
use toolcrib_wire::subscription::SubscriptionFilter;
use toolcrib_wire::view::{CacheHints, LogLevel, ServerCapabilities};
use toolcrib_wire::{Body, Id, Json, ObjectWriter, RawJson, Request, RpcError, code, method};

use super::call::CallOutcome;
use super::changes::{self, ChangeFilter};
use super::client::Client;
use super::list_cache::ListKind;
use super::parked_calls::ParkedEntry;
use super::request_context::{LegacySession, RequestContext};
use super::response_channel::{ResponseHandle, ResponseSender};
use crate::version::supported_versions;

impl Client {
    /// Handles a request. Messages that precede the response go to `handle`.
    pub(super) async fn handle_request(
        self: &Arc<Self>,
        request: &Request,
        handle: &ResponseHandle,
    ) -> Result<RawJson, RpcError> {
        let context = RequestContext::from_request(request, self.legacy_session())?;
        context.check_method(&request.method)?;
        match request.method.as_str() {
            method::TOOLS_CALL => self.call_tool(&context, &request.params, handle).await,
            // Boxed, so that the future of calls stays small.
            _ => Box::pin(self.handle_other_request(&context, request, handle)).await,
        }
    }

    async fn handle_other_request(
        self: &Arc<Self>,
        context: &RequestContext,
        request: &Request,
        handle: &ResponseHandle,
    ) -> Result<RawJson, RpcError> {
        let params = &request.params;
        let called = request.method.as_str();
        if let Some(list) = ListKind::from_method(called) {
            reject_cursor(params)?;
            return self.answer_list(context, list).await;
        }
        if names_document(called) {
            // A client of an earlier host may know resources and prompts without having listed them here.
            self.wait_for_servers().await;
        }
        match called {
            method::INITIALIZE => self.initialize(params),
            method::DISCOVER => Ok(self.discover()),
            method::PING => Ok(self.complete_result(context, &empty_result(), false)),
            method::RESOURCES_READ => self.read_resource(context, params, handle).await,
            method::PROMPTS_GET => self.get_prompt(context, params, handle).await,
            method::RESOURCES_SUBSCRIBE => self.subscribe_resource(context, params).await,
            method::RESOURCES_UNSUBSCRIBE => {
                if let Some(subscription) = self.unsubscribe(&uri_param(params)?) {
                    subscription.unsubscribe().await;
                }
                Ok(empty_result())
            }
            method::SUBSCRIPTIONS_LISTEN => {
                self.dialog(context).await?;
                self.stream_changes(&request.id, params, &handle.out).await;
                Ok(self.complete_result(context, &empty_result(), false))
            }
            method::COMPLETE => self.complete_argument(context, params, handle).await,
            method::SET_LOG_LEVEL => {
                let level = params.get("level").and_then(|level| LogLevel::read(&level.as_str()?));
                let level = level
                    .ok_or_else(|| RpcError::invalid_params("`level` is missing or unknown"))?;
                self.dialog(context).await?.set_log_level(level);
                self.set_log_level(level);
                Ok(empty_result())
            }
            other => Err(RpcError::method_not_found(other)),
        }
    }

    pub(super) fn complete_result(
        &self,
        context: &RequestContext,
        result: &RawJson,
        is_list: bool,
    ) -> RawJson {
        context.complete_result(result, &self.gateway.server, is_list)
    }

    /// Completes a result. For `input_required` it replaces the server's state with one that only this client can use.
    pub(super) fn finish_call(
        &self,
        context: &RequestContext,
        outcome: &CallOutcome,
    ) -> Result<RawJson, RpcError> {
        let result = match outcome {
            CallOutcome::Result(result) => return Ok(self.complete_result(context, result, false)),
            CallOutcome::Cacheable(result) => {
                return Ok(self.complete_result(context, result, true));
            }
            CallOutcome::InputRequired(result) => result,
        };
        let Some(state) = result.get("requestState") else {
            return Ok(self.complete_result(context, result, false));
        };
        let own = self.park(ParkedEntry::State(state))?;
        let result = result.with_members([("requestState", Some(RawJson::string(&own)))]);
        Ok(self.complete_result(context, &result, false))
    }

    async fn answer_list(
        &self,
        context: &RequestContext,
        list: ListKind,
    ) -> Result<RawJson, RpcError> {
        let dialog = self.dialog(context).await?;
        self.wait_for_servers().await;
        let turn = dialog.turn().await;
        let listed = self.gateway.lists.get(&turn, self.identity.server.as_ref(), list);
        self.record_listed(list, &listed);
        Ok(self.complete_result(context, &listed.result, true))
    }

    fn initialize(&self, params: &Body) -> Result<RawJson, RpcError> {
        let params = params.raw().unwrap_or_else(empty_result);
        let opening = InitializeParams::read(params)
            .map_err(|flaw| RpcError::invalid_params(flaw.to_string()))?;
        let opened = LegacySession::new(&opening);
        let version = opened.version.clone();
        self.open_session(opened);
        Ok(InitializeResult::build(&version, &capabilities(), &self.gateway.server, None))
    }

    fn discover(&self) -> RawJson {
        let (versions, cache) = (supported_versions(), CacheHints::default());
        DiscoverResult::build(&versions, &capabilities(), &self.gateway.server, None, cache)
    }

    /// Streams change notifications until the client, the gateway or the sender ends it.
    async fn stream_changes(self: &Arc<Self>, id: &Id, params: &Body, out: &ResponseSender) {
        let wanted = SubscriptionFilter::read(params.get("notifications").unwrap_or(Json::EMPTY));
        let (agreed, _followed) = self.subscribe_all(wanted).await;
        // A failure means that the client has disconnected, which ends this task elsewhere.
        let _ = out.send(agreed.acknowledgement(id)).await;
        let filter = ChangeFilter::Subscribed(id.clone(), agreed);
        tokio::select! {
            () = changes::forward_changes(Arc::clone(self), filter, out.clone()) => {}
            () = self.wait_ended() => {}
            () = self.gateway.wait_closing() => {}
        }
    }

    /// Subscribes to the wanted resources. Returns the accepted filter and the subscriptions.
    async fn subscribe_all(
        &self,
        wanted: SubscriptionFilter,
    ) -> (SubscriptionFilter, Vec<ResourceSubscription>) {
        let Some(dialog) = self.begun_dialog().filter(|_| !wanted.uris.is_empty()) else {
            return (SubscriptionFilter { uris: Vec::new(), ..wanted }, Vec::new());
        };
        self.wait_for_servers().await;
        let turn = dialog.turn().await;
        let (mut uris, mut followed) = (Vec::new(), Vec::new());
        for uri in wanted.uris {
            if let Ok(subscription) = turn.subscribe(&uri, self.identity.server.as_deref()).await {
                uris.push(uri);
                followed.push(subscription);
            }
        }
        (SubscriptionFilter { uris, ..wanted }, followed)
    }
}

/// Converts a call error. An error of the server itself passes unchanged.
pub(super) fn call_error(error: &CallError) -> RpcError {
    if let Some(own) = error.rpc() {
        return own.clone();
    }
    let number = match error.kind() {
        ErrorKind::UnknownTool if error.code() == "unknown_resource" => code::RESOURCE_NOT_FOUND,
        ErrorKind::UnknownTool | ErrorKind::Denied | ErrorKind::InvalidArguments => {
            code::INVALID_PARAMS
        }
        _ => code::INTERNAL_ERROR,
    };
    RpcError::new(number, error.chain())
}

/// Returns whether the method names a resource or a prompt of a list.
fn names_document(called: &str) -> bool {
    use method::{COMPLETE, PROMPTS_GET, RESOURCES_READ, RESOURCES_SUBSCRIBE};
    matches!(called, COMPLETE | PROMPTS_GET | RESOURCES_READ | RESOURCES_SUBSCRIBE)
}

fn capabilities() -> ServerCapabilities {
    let changes = ObjectWriter::new().bool("listChanged", true).finish();
    let resources = ObjectWriter::new().bool("listChanged", true).bool("subscribe", true).finish();
    ServerCapabilities::new(
        ObjectWriter::new()
            .json("tools", changes.json())
            .json("prompts", changes.json())
            .json("resources", resources.json())
            .json("completions", Json::EMPTY)
            .json("logging", Json::EMPTY)
            .finish(),
    )
}

/// All lists have one page, so no cursor is valid.
fn reject_cursor(params: &Body) -> Result<(), RpcError> {
    match params.get("cursor").filter(|cursor| !cursor.is_null()) {
        Some(_) => Err(RpcError::invalid_params("invalid cursor: the list has a single page")),
        None => Ok(()),
    }
}

pub(super) fn uri_param(params: &Body) -> Result<String, RpcError> {
    let uri = params.uri().ok_or_else(|| RpcError::invalid_params("`uri` is missing"))?;
    Ok(uri.into_owned())
}

pub(super) fn unknown_state_error() -> RpcError {
    RpcError::invalid_params("unknown `requestState`: it was already used or has expired")
}

pub(super) fn empty_result() -> RawJson {
    ObjectWriter::new().finish()
}
