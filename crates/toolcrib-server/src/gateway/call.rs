//! Forwards tool calls and other requests of a client to a server, with notifications and server requests on the way.

use std::collections::HashSet;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::watch;
use tokio::time::timeout;
use toolcrib::{
    CallContext, CallRequest, Dialog, DialogCapabilities, PendingRequest, Reminder, Turn,
};
use toolcrib_upstream::conn::peer::{CallNotification, Cancellation, MailboxReceiver, mailbox};
use toolcrib_wire::meta::PROGRESS_TOKEN;
use toolcrib_wire::notification::LogMessage;
use toolcrib_wire::param_header::{check_param_headers, param_headers};
use toolcrib_wire::view::{CallToolResult, InputRequired, ResultType};
use toolcrib_wire::{
    Body, Era, Json, ObjectWriter, ProgressToken, RawJson, Request, RpcError, build, method,
};

use super::client::Client;
use super::dispatch::{call_error, empty_result, unknown_state_error};
use super::parked_calls::ParkedEntry;
use super::reminder::with_reminder;
use super::request_context::RequestContext;
use super::response_channel::ResponseHandle;

/// Capacity of the notification queue of one call. The oldest notifications are dropped when it is full.
const MAX_NOTIFICATIONS: usize = 4096;

/// Maximum time for a client to accept one notification.
const SEND_TIMEOUT: Duration = Duration::from_secs(60);

/// A running call. Dropping it cancels the call.
pub(super) struct RunningCall {
    method: &'static str,
    call: u64,
    running: CallFuture,
    /// `None` when no more notifications can come.
    notifications: Option<MailboxReceiver<CallNotification>>,
    /// Ids of the server requests that were forwarded to the client.
    forwarded: HashSet<u64>,
    /// True if server requests can be forwarded at all.
    can_forward: bool,
    /// Cancellation of the call by the client.
    cancellation: Cancellation,
}

pub(super) type CallFuture = Pin<Box<dyn Future<Output = Result<CallOutcome, RpcError>> + Send>>;

/// Final result of a call.
pub(super) enum CallOutcome {
    Result(RawJson),
    /// A result with cache hints.
    Cacheable(RawJson),
    /// A server of the modern era needs input from the client first.
    InputRequired(RawJson),
}

/// One request of a client, with its dialog and response channel.
pub(super) struct ClientCall<'a> {
    client: &'a Client,
    context: &'a RequestContext,
    pub(super) dialog: &'a Dialog,
    params: &'a Body,
    token: Option<ProgressToken>,
    handle: &'a ResponseHandle,
    /// Capabilities of this request only; those of earlier requests do not count.
    capabilities: DialogCapabilities,
}

impl Client {
    pub(super) async fn call_tool(
        self: &Arc<Self>,
        context: &RequestContext,
        params: &Body,
        handle: &ResponseHandle,
    ) -> Result<RawJson, RpcError> {
        let client_call = self.prepare_call(context, params, handle).await?;
        let begin = |call_context: CallContext| -> CallFuture {
            let name = params.name().map(|name| name.into_owned());
            let arguments =
                params.arguments().map_or_else(empty_result, |it| params.message().part(it));
            let (dialog, traces) = (client_call.dialog.clone(), self.gateway.traces.clone());
            let (agent, server) = (Arc::clone(&self.identity.agent), self.identity.server.clone());
            Box::pin(async move {
                let name = name.ok_or_else(|| RpcError::invalid_params("`name` is missing"))?;
                let tool = tool_name(&dialog, server.as_deref(), &name).await?;
                let (span, meta) = traces.start_span(&agent, &name, call_context.meta);
                let call_context = CallContext { meta, ..call_context };
                let request =
                    CallRequest { context: call_context, ..CallRequest::new(tool, arguments) };
                let ended = dialog.execute(request).await;
                if let Some(span) = span {
                    span.finish(&ended);
                }
                let result = ended.outcome.map_err(|error| call_error(&error))?;
                Ok(CallOutcome::from_tool_result(&result, ended.reminder.as_deref()))
            })
        };
        client_call.execute(method::TOOLS_CALL, begin).await
    }

    /// Prepares a forwarded request.
    pub(super) async fn prepare_call<'a>(
        &'a self,
        context: &'a RequestContext,
        params: &'a Body,
        handle: &'a ResponseHandle,
    ) -> Result<ClientCall<'a>, RpcError> {
        let (dialog, token) = (self.dialog(context).await?, params.progress_token());
        let capabilities = context.capabilities();
        Ok(ClientCall { client: self, context, dialog, params, token, handle, capabilities })
    }

    /// Checks that header copies of arguments match the arguments.
    pub(super) async fn check_headers<'h>(
        &self,
        request: &Request,
        look_up: impl Fn(&str) -> Option<&'h str>,
    ) -> Result<(), RpcError> {
        let (method::TOOLS_CALL, Some(name)) = (request.method.as_str(), request.params.name())
        else {
            return Ok(());
        };
        let dialog = self.dialog(&RequestContext::from_request(request, None)?).await?;
        let turn = dialog.turn_now();
        let tool = match &self.identity.server {
            Some(server) => turn.tool_of(server, &name),
            None => turn.tool(&name),
        };
        // The call itself rejects an unknown tool.
        let headers = tool.and_then(|tool| param_headers(tool.input_schema().json()).ok());
        let arguments = request.params.arguments().unwrap_or(Json::EMPTY);
        check_param_headers(&headers.unwrap_or_default(), arguments, look_up)
            .map_err(|mismatch| RpcError::header_mismatch(mismatch.to_string()))
    }
}

impl CallOutcome {
    /// Classifies a result by its JSON text.
    pub(super) fn from_result(result: RawJson, is_cacheable: bool) -> Self {
        let kind = result.json().get("resultType").and_then(|kind| kind.as_str());
        match kind.as_deref() {
            Some("input_required") => CallOutcome::InputRequired(result),
            _ if is_cacheable => CallOutcome::Cacheable(result),
            _ => CallOutcome::Result(result),
        }
    }

    fn from_tool_result(result: &CallToolResult, reminder: Option<&Reminder>) -> Self {
        let raw = match reminder {
            Some(reminder) => with_reminder(result.raw(), reminder),
            None => result.raw().clone(),
        };
        match result.result_type() {
            ResultType::InputRequired => CallOutcome::InputRequired(raw),
            _ => CallOutcome::Result(raw),
        }
    }
}

impl ClientCall<'_> {
    /// Resumes the parked call that the client returns to, or starts a new one.
    pub(super) async fn execute(
        &self,
        method: &'static str,
        begin: impl FnOnce(CallContext) -> CallFuture,
    ) -> Result<RawJson, RpcError> {
        let state = match self.take_parked()? {
            Some(ParkedEntry::Call(running_call, unattended)) if running_call.method == method => {
                drop(unattended);
                self.handle.cancellation.forward_to(&running_call.cancellation);
                self.deliver_responses();
                return self.drive(running_call).await;
            }
            Some(ParkedEntry::Call(..)) => return Err(unknown_state_error()),
            Some(ParkedEntry::State(state)) => Some(state),
            None => None,
        };
        let wants_notifications = self.token.is_some() || self.context.wants_log();
        let (notification_sender, notifications) =
            wants_notifications.then(|| mailbox(MAX_NOTIFICATIONS)).unzip();
        self.dialog.declare_capabilities(self.capabilities);
        let call = self.dialog.next_call_number();
        let cancellation = self.handle.cancellation.clone();
        let call_context = CallContext {
            meta: forwarded_meta(self.params),
            extra_params: forwarded_params(method, self.params),
            notifications: notification_sender,
            call: Some(call),
            cancellation: Some(cancellation.clone()),
            capabilities: Some(self.capabilities),
            input_rounds: self.context.input_rounds(self.params, state),
            request_id: None,
            wants_reminder: method == method::TOOLS_CALL,
        };
        let (running, can_forward) =
            (begin(call_context), self.capabilities != DialogCapabilities::default());
        let forwarded = HashSet::new();
        self.drive(RunningCall {
            method,
            call,
            running,
            notifications,
            forwarded,
            can_forward,
            cancellation,
        })
        .await
    }

    fn take_parked(&self) -> Result<Option<ParkedEntry>, RpcError> {
        let state = self.params.request_state();
        let parked =
            state.map(|state| self.client.take_parked(&state).ok_or_else(unknown_state_error));
        parked.transpose()
    }

    /// Drives the call until it has a result or needs input from the client.
    async fn drive(&self, running_call: RunningCall) -> Result<RawJson, RpcError> {
        // Created lazily, because few calls cause server requests.
        let mut forwarding = None;
        // Declared after `forwarding`, so that a dropped call ends before its forwarded requests. Requests that another
        // call may have caused then pass to that call.
        let mut running_call = running_call;
        let mut changes = running_call.can_forward.then(|| self.dialog.watch_requests());
        loop {
            let pending_requests = match &mut changes {
                Some(changes) => {
                    changes.mark_unchanged();
                    self.new_requests(&running_call)
                }
                None => Vec::new(),
            };
            let is_modern = self.context.era() == Era::Modern;
            if is_modern && !pending_requests.is_empty() && running_call.method != method::COMPLETE
            {
                return self.require_input(&pending_requests, running_call);
            }
            for pending in pending_requests {
                running_call.forwarded.insert(pending.id);
                match is_modern {
                    // A completion must not return `input_required`.
                    true => self.reject_request(&pending),
                    false => forwarding
                        .get_or_insert_with(FuturesUnordered::new)
                        .push(self.forward_request(running_call.call, pending)),
                }
            }
            tokio::select! {
                biased;
                // Boxed, so that the common future stays small.
                notification = next_notification(&mut running_call.notifications) => Box::pin(self.forward_notification(&notification)).await?,
                outcome = &mut running_call.running => {
                    while let Some(notification) = running_call.notifications.as_mut().and_then(MailboxReceiver::try_next) {
                        Box::pin(self.forward_notification(&notification)).await?;
                    }
                    return self.client.finish_call(self.context, &outcome?);
                }
                () = next_forwarded(&mut forwarding), if forwarding.is_some() => {}
                () = wait_changed(&mut changes), if changes.is_some() => {}
            }
        }
    }

    /// Server requests for this call that were not forwarded yet.
    fn new_requests(&self, running_call: &RunningCall) -> Vec<PendingRequest> {
        let mut pending_requests = self.dialog.pending_requests();
        let carries = |it: &PendingRequest| it.carrier == Some(running_call.call);
        pending_requests.retain(|it| carries(it) && !running_call.forwarded.contains(&it.id));
        // A resumed call may declare fewer capabilities than the original one.
        pending_requests.retain(|it| {
            match self.capabilities.refusal(&it.method, it.params.json()) {
                Some(refusal) => {
                    self.dialog.answer_request(it.id, Err(refusal));
                    false
                }
                None => true,
            }
        });
        pending_requests
    }

    /// Forwards a server request as a JSON-RPC request and waits until it is closed.
    async fn forward_request(&self, call: u64, pending: PendingRequest) {
        let forwarded = self.client.forward_request(self.dialog, &pending, &self.handle.out).await;
        match forwarded {
            Some(_forwarded) => self.wait_closed(pending.id).await,
            None if self.dialog.reroute_request(pending.id, call) => {}
            None => {
                let error = RpcError::internal("the client has disconnected");
                self.dialog.answer_request(pending.id, Err(error));
            }
        }
    }

    /// Waits until a server request is answered or withdrawn.
    async fn wait_closed(&self, pending: u64) {
        let mut changes = self.dialog.watch_requests();
        while self.dialog.is_request_pending(pending) {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    fn reject_request(&self, pending: &PendingRequest) {
        let refused = RpcError::invalid_params("the client cannot be asked during a completion");
        self.dialog.answer_request(pending.id, Err(refused));
    }

    /// Returns server requests as an `input_required` result. The call stays parked until the client returns.
    fn require_input(
        &self,
        pending_requests: &[PendingRequest],
        running_call: RunningCall,
    ) -> Result<RawJson, RpcError> {
        let mut requests = ObjectWriter::new();
        for pending in pending_requests {
            let request = ObjectWriter::new()
                .string("method", &pending.method)
                .json("params", pending.params.json())
                .finish();
            requests = requests.json(&pending.id.to_string(), request.json());
        }
        let unattended = self.dialog.mark_call_unattended(running_call.call);
        let state = self.client.park(ParkedEntry::Call(running_call, unattended))?;
        let required = InputRequired::build(Some(requests.finish().json()), Some(&state));
        Ok(self.client.complete_result(self.context, &required, false))
    }

    /// Delivers the input responses of a resumed call.
    fn deliver_responses(&self) {
        let Some(answers) = self.params.get("inputResponses") else { return };
        for (key, answer) in answers.members() {
            if let Ok(pending) = key.parse() {
                // The server may have withdrawn the request.
                self.dialog.answer_request(pending, Ok(RawJson::from(answer)));
            }
        }
    }

    /// Forwards a notification. A client that reads nothing for too long loses the call, which frees its session.
    async fn forward_notification(&self, notification: &CallNotification) -> Result<(), RpcError> {
        let message = match (notification, &self.token) {
            (CallNotification::Progress(params), Some(token)) => {
                let own = ObjectWriter::new().id(PROGRESS_TOKEN, token).finish();
                let params = params.with_members([(PROGRESS_TOKEN, own.get(PROGRESS_TOKEN))]);
                build::notification(method::PROGRESS, Some(params.json()))
            }
            (CallNotification::Log(params), _) if self.wants_log(params) => {
                build::notification(method::LOG_MESSAGE, Some(params.json()))
            }
            _ => return Ok(()),
        };
        match timeout(SEND_TIMEOUT, self.handle.out.send(message)).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(RpcError::internal("the client has stopped reading")),
        }
    }

    fn wants_log(&self, params: &RawJson) -> bool {
        let minimum = match self.context.era() {
            Era::Modern => self.context.log_level(),
            Era::Legacy => self.client.log_level(),
        };
        let level = LogMessage::read(params.json()).level;
        self.context.wants_log() && minimum.is_none_or(|minimum| level >= Some(minimum))
    }
}

impl fmt::Debug for RunningCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningCall").field("call", &self.call).finish_non_exhaustive()
    }
}

/// Waits until a server request is added or removed.
async fn wait_changed(changes: &mut Option<watch::Receiver<u64>>) {
    if let Some(changes) = changes {
        // `dialog` holds the sender, so this wait cannot fail.
        let _ = changes.changed().await;
    }
}

/// Waits for the next forwarded request, if there is one.
async fn next_forwarded<F: Future<Output = ()>>(forwarding: &mut Option<FuturesUnordered<F>>) {
    if let Some(all) = forwarding
        && all.next().await.is_none()
    {
        *forwarding = None;
    }
}

/// The host's name of a tool.
async fn tool_name(dialog: &Dialog, server: Option<&str>, name: &str) -> Result<String, RpcError> {
    let Some(server) = server else { return Ok(name.to_owned()) };
    let find = |turn: Turn| match turn.tool_of(server, name) {
        Some(tool) => Some(tool.name().to_owned()),
        // The call starts the server again.
        None => turn.find_away_tool(server, name),
    };
    let mut tool = find(dialog.turn_now());
    if tool.is_none() {
        // The tool may belong to a server that is not listed yet.
        tool = find(Box::pin(dialog.turn()).await);
    }
    tool.ok_or_else(|| RpcError::invalid_params(format!("unknown tool: {name}")))
}

async fn next_notification(
    notifications: &mut Option<MailboxReceiver<CallNotification>>,
) -> CallNotification {
    if let Some(receiver) = notifications {
        if let Some(notification) = receiver.next().await {
            return notification;
        }
        *notifications = None;
    }
    std::future::pending().await
}

/// The `_meta` members to forward, without those between the client and the gateway.
pub(super) fn forwarded_meta(params: &Body) -> Option<RawJson> {
    let meta = params.meta()?;
    let own = |key: &str| {
        key == PROGRESS_TOKEN
            || key == super::DIALOG_META_KEY
            || key.starts_with("io.modelcontextprotocol/")
    };
    let mut rest = ObjectWriter::new();
    for (key, value) in meta.members().filter(|(key, _)| !own(key)) {
        rest = rest.json(&key, value);
    }
    Some(rest.finish()).filter(|rest| rest.text() != "{}")
}

/// Params between the client and the gateway, for any method. The gateway has no tasks.
pub(super) const OWN_PARAMS: [&str; 4] = ["_meta", "task", "inputResponses", "requestState"];

/// Params that only the server understands.
pub(super) fn forwarded_params(called: &str, params: &Body) -> Option<RawJson> {
    let [meta, task, responses, state] = OWN_PARAMS;
    match called {
        method::TOOLS_CALL | method::PROMPTS_GET => {
            params.without(&["name", "arguments", meta, task, responses, state])
        }
        method::RESOURCES_READ | method::RESOURCES_SUBSCRIBE => {
            params.without(&["uri", meta, task, responses, state])
        }
        // Completion params are forwarded as a whole.
        _ => None,
    }
}
