//! Resources, prompts and completions of a turn, with the same access checks as tools.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use toolcrib_config::model::policy::SessionScope;
use toolcrib_upstream::conn::Session;
use toolcrib_upstream::conn::peer::{CallOptions, CallTimeouts};
use toolcrib_wire::view::ReadResourceResult;
use toolcrib_wire::{Body, Json, ObjectWriter, RawJson, method};

use super::call::{CallContext, named_params, request_limits};
use super::running_server::SessionHold;
use super::server_requests::OutgoingCall;
use super::turn::Turn;
use super::upstream_request::{UpstreamRequest, raw_result, request_error, session_error};
use super::uri_template;
use crate::registry::{Prompt, RegisteredServer, Resource, ResourceTemplate};
use crate::results::{CallError, ErrorKind};

/// Time limit for `resources/unsubscribe`.
const UNSUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(5);

/// A subscription to one resource. It keeps the session open.
#[derive(Debug)]
pub struct ResourceSubscription {
    _listener: JoinSet<()>,
    _hold: Option<SessionHold>,
    /// The session and params of `resources/unsubscribe`, for servers of the legacy era.
    unsubscribe: Option<(Session, RawJson)>,
}

impl Turn {
    /// The resources that the agent may see, each URI once.
    pub fn resources(&self) -> Vec<Arc<Resource>> {
        self.view().resources().filter(|it| self.can_use_server(it.server())).cloned().collect()
    }

    /// The resource templates that the agent may see.
    pub fn templates(&self) -> Vec<Arc<ResourceTemplate>> {
        self.view().templates().filter(|it| self.can_use_server(it.server())).cloned().collect()
    }

    /// The prompts that the agent may see.
    pub fn prompts(&self) -> Vec<Arc<Prompt>> {
        self.view().prompts().filter(|it| self.can_use_server(it.server())).cloned().collect()
    }

    /// Reads a resource and returns the complete result of `resources/read`. `server` selects one
    /// of several servers with the same URI. The full results of truncated calls are read here,
    /// too.
    pub async fn read_resource(
        &self,
        uri: &str,
        server: Option<&str>,
    ) -> Result<RawJson, CallError> {
        self.read_resource_with(uri, server, &CallContext::default()).await
    }

    /// [`Turn::read_resource`] with a context.
    pub async fn read_resource_with(
        &self,
        uri: &str,
        server: Option<&str>,
        context: &CallContext,
    ) -> Result<RawJson, CallError> {
        if let Some(whole) = self.core().full_results.get(&self.dialog_state().id, uri) {
            return Ok(full_result_resource(uri, &whole));
        }
        let owner = self.find_resource_server(uri, server)?;
        let params = uri_params(uri, context);
        let answer = self.send_to_server(&owner, method::RESOURCES_READ, params, context).await?;
        let needs_input = answer.result_type().as_deref() == Some("input_required");
        let raw = raw_result(&answer)?;
        if needs_input { Ok(raw) } else { check_resource_limits(&owner, uri, raw) }
    }

    /// Fills in a prompt and returns the complete result of `prompts/get`.
    pub async fn get_prompt(&self, name: &str, arguments: RawJson) -> Result<RawJson, CallError> {
        self.get_prompt_with(name, arguments, &CallContext::default()).await
    }

    /// [`Turn::get_prompt`] with a context.
    pub async fn get_prompt_with(
        &self,
        name: &str,
        arguments: RawJson,
        context: &CallContext,
    ) -> Result<RawJson, CallError> {
        let prompt = self.find_granted_prompt(name)?;
        let params = named_params(prompt.original_name(), &arguments, context);
        let answer =
            self.send_to_server(prompt.server(), method::PROMPTS_GET, params, context).await?;
        raw_result(&answer)
    }

    /// Completes an argument of a prompt or resource template and returns the complete result of
    /// `completion/complete`. The params are those of that method, with the names that this turn
    /// lists.
    pub async fn complete(&self, params: RawJson) -> Result<RawJson, CallError> {
        self.complete_with(params, &CallContext::default()).await
    }

    /// [`Turn::complete`] with a context.
    pub async fn complete_with(
        &self,
        params: RawJson,
        context: &CallContext,
    ) -> Result<RawJson, CallError> {
        let reference = params.json().get("ref").unwrap_or(Json::EMPTY);
        let [kind, name, uri] = reference.pick(["type", "name", "uri"]);
        let [kind, name, uri] = [kind, name, uri].map(|it| it.and_then(Json::as_str));
        let (server, params) = match (kind.as_deref(), name, uri) {
            (Some("ref/prompt"), Some(name), _) => {
                let prompt = self.find_granted_prompt(&name)?;
                let own = RawJson::string(prompt.original_name());
                let reference = RawJson::from(reference).with_members([("name", Some(own))]);
                (Arc::clone(prompt.server()), params.with_members([("ref", Some(reference))]))
            }
            (Some("ref/resource"), _, Some(uri)) => {
                (self.find_resource_server(&uri, None)?, params.clone())
            }
            _ => {
                let text = "`ref` names neither a prompt nor a resource";
                return Err(CallError::new(ErrorKind::InvalidArguments, text));
            }
        };
        let meta = context.meta().map(|meta| ("_meta", Some(RawJson::from(meta))));
        let params = params.with_members(meta);
        let answer = self.send_to_server(&server, method::COMPLETE, params, context).await?;
        raw_result(&answer)
    }

    /// Subscribes to changes of a resource. Each change is published as the server's notification
    /// `notifications/resources/updated`.
    pub async fn subscribe(
        &self,
        uri: &str,
        server: Option<&str>,
    ) -> Result<ResourceSubscription, CallError> {
        self.subscribe_with(uri, server, &CallContext::default()).await
    }

    /// [`Turn::subscribe`] with a context. A server of the modern era does not receive the context,
    /// because the host listens in a request of its own.
    pub async fn subscribe_with(
        &self,
        uri: &str,
        server: Option<&str>,
        context: &CallContext,
    ) -> Result<ResourceSubscription, CallError> {
        let owner = self.find_resource_server(uri, server)?;
        let running =
            self.running_server(&owner).ok_or_else(|| CallError::not_connected(owner.id()))?;
        let running = Arc::clone(running);
        let (timeouts, started_at) =
            (request_limits(None, &owner.spec.policy.timeouts), Instant::now());
        let number = self.core().next_call_number();
        let call = OutgoingCall {
            dialog: self.dialog_state(),
            number,
            capabilities: context.capabilities,
        };
        let call_session = running.acquire_session(call, timeouts).await;
        let (call_session, timeouts) =
            call_session.map_err(|error| session_error(owner.id(), error, started_at.elapsed()))?;
        let session = call_session.permit.session.clone();
        let per_call = owner.spec.policy.session.scope == SessionScope::PerCall;
        if session.agreed().subscribes_by_open_request() {
            let (uri, hold) = (uri.to_owned(), call_session.into_hold(per_call));
            let mut listener = JoinSet::new();
            listener.spawn(async move {
                // Any end of the request ends the subscription. The task keeps the session open.
                let _ = session.subscribe_resource(&uri).await;
                drop(hold);
            });
            return Ok(ResourceSubscription {
                _listener: listener,
                _hold: None,
                unsubscribe: None,
            });
        }
        let params = uri_params(uri, context);
        let options = CallOptions { timeouts, ..CallOptions::default() };
        let response = session.call(method::RESOURCES_SUBSCRIBE, params, options, None).await;
        response.map_err(|error| request_error(owner.id(), &error, started_at.elapsed()))?;
        let hold = Some(call_session.into_hold(per_call));
        let unsubscribe = Some((session, uri_params(uri, &CallContext::default())));
        Ok(ResourceSubscription { _listener: JoinSet::new(), _hold: hold, unsubscribe })
    }

    /// A prompt that the agent may use.
    fn find_granted_prompt(&self, prompt: &str) -> Result<&Arc<Prompt>, CallError> {
        let may_ask = |owner: &Arc<RegisteredServer>| {
            self.can_use_server(owner) || self.can_start_server(owner)
        };
        let found = self.view().prompt(prompt).filter(|it| may_ask(it.server()));
        let unknown = || format!("prompt not found: {prompt}");
        found.ok_or_else(|| CallError::new(ErrorKind::UnknownTool, unknown()))
    }

    /// The server of a resource: by the resource's URI, or by a template that matches the URI.
    pub(super) fn find_resource_server(
        &self,
        uri: &str,
        server: Option<&str>,
    ) -> Result<Arc<RegisteredServer>, CallError> {
        let view = self.view();
        let mut listed = view.resources_at(uri).map(|resource| resource.server());
        let mut by_template = view
            .all_templates()
            .filter(|template| uri_template::matches_template(template.uri(), uri))
            .map(|template| template.server());
        let may_ask = |owner: &Arc<RegisteredServer>| {
            self.can_use_server(owner) || self.can_start_server(owner)
        };
        let is_meant = |owner: &&Arc<RegisteredServer>| {
            server.is_none_or(|name| owner.matches_name(name)) && may_ask(owner)
        };
        let found = listed.find(is_meant).or_else(|| by_template.find(is_meant));
        found.cloned().ok_or_else(|| {
            let text = format!("resource not found: {uri}");
            CallError::new(ErrorKind::UnknownTool, text).with_code("unknown_resource")
        })
    }

    async fn send_to_server(
        &self,
        server: &RegisteredServer,
        method: &'static str,
        params: RawJson,
        context: &CallContext,
    ) -> Result<Body, CallError> {
        let running =
            self.running_server(server).ok_or_else(|| CallError::not_connected(server.id()))?;
        let request = UpstreamRequest {
            method,
            params,
            has_no_meta: false,
            timeouts: request_limits(None, &server.spec.policy.timeouts),
            notifications: context.notifications.as_ref(),
            input_rounds: context.input_rounds.as_ref(),
            cancellation: context.cancellation.as_ref(),
            capabilities: context.capabilities,
            call: context.call.unwrap_or_else(|| self.core().next_call_number()),
            started_at: Instant::now(),
            wants_reminder: false,
        };
        let answered = self.send_upstream(running, &request).await;
        answered.map(|answered| answered.body).map_err(|failure| failure.error)
    }
}

impl ResourceSubscription {
    /// Ends the subscription and unsubscribes at the server.
    pub async fn unsubscribe(self) {
        let Some((session, params)) = self.unsubscribe else { return };
        let timeouts = CallTimeouts { request: Some(UNSUBSCRIBE_TIMEOUT), max: None };
        let options = CallOptions { timeouts, ..CallOptions::default() };
        // An error of the server changes nothing.
        let _ = session.call(method::RESOURCES_UNSUBSCRIBE, params, options, None).await;
    }
}

fn uri_params(uri: &str, context: &CallContext) -> RawJson {
    context.build_params(ObjectWriter::new().string("uri", uri))
}

/// Refuses resources above the size limit or of a disallowed MIME type. The error names the rule.
fn check_resource_limits(
    server: &RegisteredServer,
    uri: &str,
    raw: RawJson,
) -> Result<RawJson, CallError> {
    let rules = &server.spec.policy.expose.resources;
    let result = ReadResourceResult::read(raw.clone()).map_err(|flaw| {
        CallError::new(ErrorKind::Protocol, "the result is malformed").with_cause(flaw)
    })?;
    for content in result.contents().into_iter().flatten() {
        let kind = content.mime_type().map(|kind| kind.to_string()).unwrap_or_default();
        if !rules.mime.is_empty() && !rules.mime.contains(&kind) {
            let text = format!(
                "`{uri}` has the type `{kind}`, which `expose.resources.mime` does not list"
            );
            return Err(CallError::new(ErrorKind::Denied, text).with_server(server.id()));
        }
        let size = content.text().map_or(0, |text| text.len())
            + content.blob().map_or(0, |blob| blob.len() / 4 * 3);
        if rules.max_bytes.0 > 0 && size as u64 > rules.max_bytes.0 {
            let most = rules.max_bytes.0;
            let text = format!(
                "`{uri}` of server `{}` has {size} bytes, over the limit of {most} \
                 (`expose.resources.max_bytes`)",
                server.id()
            );
            return Err(CallError::new(ErrorKind::Resource, text).with_server(server.id()));
        }
    }
    Ok(raw)
}

/// A full result in the form of a `resources/read` result.
fn full_result_resource(uri: &str, whole: &RawJson) -> RawJson {
    let content = ObjectWriter::new()
        .string("uri", uri)
        .string("mimeType", "application/json")
        .string("text", whole.text())
        .finish();
    ObjectWriter::new().array("contents", [content]).finish()
}
