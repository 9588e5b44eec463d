//! Sends a request to a server: selects the session, retries lost calls and converts failures.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use toolcrib_config::ServerSpec;
use toolcrib_config::model::policy::CallRetry;
use toolcrib_upstream::conn::peer::{
    self, CallNotification, CallOptions, CallTimeouts, Cancellation, MailboxSender,
    NotificationSink, ProgressMode,
};
use toolcrib_upstream::conn::{Failure, FailureKind, Session};
use toolcrib_upstream::signals::chain;
use toolcrib_wire::view::{CallToolResult, ResultType};
use toolcrib_wire::{Body, RawJson, RpcError, code, method};

use super::call::{
    CallRequest, InputRounds, malformed_result, named_params, request_limits, session_wait_limit,
};
use super::call_record::CallRecorder;
use super::client_capabilities::{DialogCapabilities, allowed_capabilities};
use super::client_requests::{self, CauseLookup};
use super::events::{EventBus, HostEvent};
use super::running_server::{RunningServer, SessionError};
use super::server_requests::OutgoingCall;
use super::turn::Turn;
use crate::lease::{AcquireError, Reminder};
use crate::registry::{RegisteredServer, Tool};
use crate::results::{CallError, ErrorKind, RetryAdvice};

/// Maximum number of attempts of a call, even if its policy allows more.
const MAX_ATTEMPTS: u32 = 4;

/// A request that got no answer.
pub(super) struct UpstreamFailure {
    pub(super) error: CallError,
    /// Whether the connection was lost, so that a retry may help.
    is_connection_loss: bool,
    /// Whether the server may have started executing the request.
    may_have_run: bool,
}

/// Passes the notifications of a call to the host's listeners and to the caller.
#[derive(Debug)]
struct CallListener {
    events: EventBus,
    dialog: Arc<str>,
    call: u64,
    notifications: Option<MailboxSender<CallNotification>>,
}

/// A request to a server, ready to be sent.
pub(super) struct UpstreamRequest<'a> {
    pub(super) method: &'static str,
    pub(super) params: RawJson,
    /// Whether the params contain no `_meta`.
    pub(super) has_no_meta: bool,
    pub(super) timeouts: CallTimeouts,
    pub(super) notifications: Option<&'a MailboxSender<CallNotification>>,
    pub(super) input_rounds: Option<&'a InputRounds>,
    pub(super) cancellation: Option<&'a Cancellation>,
    /// The client features for this request. The default is the dialog's capabilities.
    pub(super) capabilities: Option<DialogCapabilities>,
    /// The call that the request belongs to.
    pub(super) call: u64,
    /// When the caller's wait began.
    pub(super) started_at: Instant,
    /// Whether the caller passes the reminder of a new lease on.
    pub(super) wants_reminder: bool,
}

/// A server's answer, with the reminder of a new lease.
pub(super) struct UpstreamResponse {
    pub(super) body: Body,
    pub(super) reminder: Option<Box<Reminder>>,
}

impl UpstreamRequest<'_> {
    /// The same request with other time limits.
    fn with_limits(&self, timeouts: CallTimeouts) -> Self {
        UpstreamRequest { params: self.params.clone(), timeouts, ..*self }
    }
}

impl Turn {
    pub(super) async fn send_tool_call(
        &self,
        recorder: &mut CallRecorder<'_>,
        tool: &Tool,
        server: &RegisteredServer,
        arguments: &RawJson,
        request: &CallRequest,
    ) -> Result<CallToolResult, CallError> {
        let running =
            self.running_server(server).ok_or_else(|| CallError::not_connected(server.id()))?;
        let context = &request.context;
        let is_first = context.input_rounds.as_ref().is_none_or(InputRounds::is_first);
        let cache_key =
            running.result_cache.key(&self.dialog_state().id, tool.original_name(), arguments);
        // Unknown params may change the result, so such calls bypass the cache.
        let cache_key = cache_key.filter(|_| is_first && context.extra_params.is_none());
        if let Some(cached) =
            cache_key.as_ref().and_then(|cache_key| running.result_cache.get(cache_key))
        {
            return Ok(cached);
        }
        let request = UpstreamRequest {
            method: method::TOOLS_CALL,
            params: named_params(tool.original_name(), arguments, context),
            has_no_meta: context.meta().is_none(),
            timeouts: request_limits(request.timeout, &server.spec.policy.timeouts),
            notifications: context.notifications.as_ref(),
            input_rounds: context.input_rounds.as_ref(),
            cancellation: context.cancellation.as_ref(),
            capabilities: context.capabilities,
            call: recorder.call(),
            started_at: Instant::now(),
            wants_reminder: context.wants_reminder,
        };
        let answer = self.send_with_retry(recorder, tool, running, &request).await?;
        let result = CallToolResult::from_body(&answer).map_err(malformed_result)?;
        let is_complete = *result.result_type() != ResultType::InputRequired;
        if let Some(cache_key) = cache_key.filter(|_| is_complete) {
            running.result_cache.insert(cache_key, &result);
        }
        Ok(result)
    }

    /// Retries a call after its connection was lost, if the policy allows it.
    async fn send_with_retry(
        &self,
        recorder: &mut CallRecorder<'_>,
        tool: &Tool,
        running: &RunningServer,
        request: &UpstreamRequest<'_>,
    ) -> Result<Body, CallError> {
        let (started_at, total_paused) = (request.started_at, running.total_paused());
        let mut timeouts = request.timeouts;
        loop {
            let attempt = recorder.next_attempt();
            let failure = match self.send_upstream(running, &request.with_limits(timeouts)).await {
                Ok(UpstreamResponse { body, reminder }) => {
                    recorder.set_reminder(reminder);
                    return Ok(body);
                }
                Err(failure) => failure,
            };
            let is_repeatable = !failure.may_have_run || may_repeat(running, tool);
            let waited = running.counted_wait(started_at, total_paused);
            let has_time = attempt < MAX_ATTEMPTS && waited < session_wait_limit(request.timeouts);
            if !(failure.is_connection_loss && is_repeatable && has_time) {
                return Err(failure.error);
            }
            recorder.mark_repeated(failure.may_have_run);
            tracing::info!(
                server = %running.spec().id,
                tool = tool.name(),
                error = %failure.error,
                "retrying a lost call"
            );
            timeouts = request.timeouts.minus_elapsed(waited);
        }
    }

    /// Sends one request on the session that the dialog uses.
    pub(super) async fn send_upstream(
        &self,
        running: &RunningServer,
        request: &UpstreamRequest<'_>,
    ) -> Result<UpstreamResponse, UpstreamFailure> {
        let spec = running.spec();
        let call = OutgoingCall {
            dialog: self.dialog_state(),
            number: request.call,
            capabilities: request.capabilities,
        };
        let call_session = running.acquire_session(call, request.timeouts).await;
        let waited = || request.started_at.elapsed();
        let (mut call_session, timeouts) = call_session
            .map_err(|error| UpstreamFailure::from_session_error(&spec.id, error, waited()))?;
        let options = CallOptions {
            timeouts,
            progress: ProgressMode::Deliver(self.call_listener(request)),
            tag: Some(request.call),
            cancellation: request.cancellation.cloned(),
            has_no_meta: request.has_no_meta,
            is_exclusive: call_session.is_leased(),
            is_direct: true,
            ..CallOptions::default()
        };
        let session = &call_session.permit.session;
        if let Some(level) = self.dialog_state().log_level().filter(|_| call_session.is_leased()) {
            // Boxed: the log level is rarely set and would make the future of every call larger.
            Box::pin(session.set_log_level(level)).await;
        }
        let answer = self.send_on_session(session, spec, request, options).await;
        // A timed-out call was cancelled at the server.
        if !matches!(answer, Err(peer::PeerCallError::Timeout { .. })) {
            call_session.mark_answered();
        }
        let body =
            answer.map_err(|error| UpstreamFailure::from_call_error(&spec.id, &error, waited()))?;
        let reminder = request.wants_reminder.then(|| call_session.take_reminder(spec)).flatten();
        Ok(UpstreamResponse { body, reminder })
    }

    /// Sends a request on a session, with its client if the protocol wants it in each request.
    async fn send_on_session(
        &self,
        session: &Session,
        spec: &Arc<ServerSpec>,
        request: &UpstreamRequest<'_>,
        options: CallOptions,
    ) -> Result<Body, peer::PeerCallError> {
        let (method, mut params) = (request.method, request.params.clone());
        let capabilities;
        let input = match (session.agreed().carries_client_per_request(), request.input_rounds) {
            (false, _) => None,
            (true, None) => {
                let client = client_requests::dialog_client(
                    self.dialog_state(),
                    spec,
                    CauseLookup::Call(request.call),
                );
                // Boxed, so that the future of the other case stays small.
                return Box::pin(session.call(method, params, options, Some(&client))).await;
            }
            (true, Some(input_rounds)) => {
                let input = [
                    ("inputResponses", input_rounds.responses.clone()),
                    ("requestState", input_rounds.state.clone()),
                ];
                params = params.with_members(input.into_iter().filter(|(_, it)| it.is_some()));
                capabilities =
                    allowed_capabilities(&spec.policy.client, &input_rounds.capabilities);
                Some((&capabilities, input_rounds.log_level))
            }
        };
        session.call_single_round(method, params, options, input).await
    }

    fn call_listener(&self, request: &UpstreamRequest<'_>) -> Arc<dyn NotificationSink> {
        Arc::new(CallListener {
            events: self.core().events.clone(),
            dialog: Arc::clone(&self.dialog_state().id),
            call: request.call,
            notifications: request.notifications.cloned(),
        })
    }
}

impl NotificationSink for CallListener {
    fn on_notification(&self, notification: CallNotification) {
        if let CallNotification::Progress(params) = &notification {
            let (dialog, params) = (Arc::clone(&self.dialog), params.clone());
            self.events.publish(HostEvent::CallProgress { dialog, call: self.call, params });
        }
        if let Some(notifications) = &self.notifications {
            notifications.on_notification(notification);
        }
    }
}

/// The result of an answer, unchanged.
pub(super) fn raw_result(answer: &Body) -> Result<RawJson, CallError> {
    answer.raw().ok_or_else(|| CallError::new(ErrorKind::Protocol, "no result"))
}

pub(super) fn session_error(server: &str, error: SessionError, waited: Duration) -> CallError {
    UpstreamFailure::from_session_error(server, error, waited).error
}

pub(super) fn request_error(
    server: &str,
    error: &peer::PeerCallError,
    waited: Duration,
) -> CallError {
    UpstreamFailure::from_call_error(server, error, waited).error
}

/// Whether the policy allows repeating a call that may have run.
fn may_repeat(running: &RunningServer, tool: &Tool) -> bool {
    match running.spec().policy.calls.retry {
        CallRetry::Never => false,
        CallRetry::OnConnectionLoss => true,
        CallRetry::IfIdempotent => {
            let hints = tool.hints();
            hints.idempotent == Some(true) || hints.read_only == Some(true)
        }
    }
}

impl UpstreamFailure {
    fn from_session_error(server: &str, error: SessionError, waited: Duration) -> Self {
        let error = match error {
            SessionError::NotConnected(failure) => unavailable_error(server, &failure),
            SessionError::Timeout => {
                let text = format!("no session with server `{server}` in time");
                CallError::new(ErrorKind::Timeout, with_elapsed(text, waited)).with_server(server)
            }
            SessionError::Lease(AcquireError::Failed { cause, .. }) => {
                unavailable_error(server, &cause)
            }
            SessionError::Lease(error) => lease_error(server, &error, waited),
        };
        UpstreamFailure { error, is_connection_loss: false, may_have_run: false }
    }

    fn from_call_error(server: &str, error: &peer::PeerCallError, waited: Duration) -> Self {
        let failure = Failure::from(error);
        let is_connection_loss = match error {
            peer::PeerCallError::Closed(_) | peer::PeerCallError::Unsent(_) => true,
            peer::PeerCallError::Failed(_) => failure.kind == FailureKind::Connection,
            _ => false,
        };
        let error_for_caller = match error {
            peer::PeerCallError::Refused(refusal) => refusal_error(refusal),
            peer::PeerCallError::Closed(_)
            | peer::PeerCallError::Unsent(_)
            | peer::PeerCallError::Failed(_) => failure_error(server, &failure),
            peer::PeerCallError::Timeout { .. } => {
                let text = format!("{} from server `{server}`", chain(error));
                CallError::new(ErrorKind::Timeout, with_elapsed(text, waited))
            }
            peer::PeerCallError::TooLarge { .. } => {
                CallError::new(ErrorKind::Resource, name_server(server, chain(error)))
            }
            peer::PeerCallError::Malformed(_)
            | peer::PeerCallError::EndedByServer
            | peer::PeerCallError::Unanswered { .. }
            | peer::PeerCallError::TooManyRounds(_) => {
                CallError::new(ErrorKind::Protocol, name_server(server, chain(error)))
            }
        };
        // A call certainly did not run only if it was never sent, or if its session was unknown.
        let may_have_run = match error {
            peer::PeerCallError::Unsent(_) => false,
            peer::PeerCallError::Failed(_) => !failure.is_session_gone(),
            _ => true,
        };
        UpstreamFailure {
            error: error_for_caller.with_server(server),
            is_connection_loss,
            may_have_run,
        }
    }
}

/// The server refused the request.
fn refusal_error(refusal: &RpcError) -> CallError {
    let kind = match refusal.code {
        code::INVALID_PARAMS => ErrorKind::InvalidArguments,
        _ => ErrorKind::Protocol,
    };
    CallError::from_rpc_error(kind, refusal.clone())
}

/// The request was not sent, because the connection is down.
fn unavailable_error(server: &str, failure: &Failure) -> CallError {
    match failure.kind {
        FailureKind::Connection => CallError::not_connected(server).with_cause(failure.clone()),
        _ => failure_error(server, failure),
    }
}

fn failure_error(server: &str, failure: &Failure) -> CallError {
    let kind = match failure.kind {
        FailureKind::Config => ErrorKind::Config,
        FailureKind::Connection => ErrorKind::Connection,
        FailureKind::Authentication => ErrorKind::Authentication,
        FailureKind::Protocol => ErrorKind::Protocol,
        FailureKind::Timeout => ErrorKind::Timeout,
        FailureKind::Resource => ErrorKind::Resource,
    };
    let error = CallError::new(kind, name_server(server, failure.message.clone()));
    let error = error.with_code(failure.code).with_server(server);
    match failure.retry_after {
        Some(wait) => error.with_retry(RetryAdvice::After(wait)),
        None => error,
    }
}

fn lease_error(server: &str, error: &AcquireError<Failure>, waited: Duration) -> CallError {
    let kind = match error {
        _ if error.is_resource_exhausted() => ErrorKind::Resource,
        AcquireError::OpenTimeout { .. } => ErrorKind::Timeout,
        AcquireError::DialogEnded { .. } => ErrorKind::Cancelled,
        _ => ErrorKind::Connection,
    };
    let text = match error {
        AcquireError::Timeout { .. } | AcquireError::OpenTimeout { .. } => {
            with_elapsed(chain(error), waited)
        }
        _ => chain(error),
    };
    CallError::new(kind, text).with_server(server)
}

/// Adds the server's name to the message about an exceeded limit.
fn name_server(server: &str, text: String) -> String {
    match text.contains("limit of ") && !text.contains(&format!("`{server}`")) {
        true => format!("server `{server}`: {text}"),
        false => text,
    }
}

/// Adds the elapsed time to a timeout message. The limit in the message may be smaller, because
/// waiting for the session used a part of it.
fn with_elapsed(text: String, waited: Duration) -> String {
    format!("{text} ({:.1} s passed)", waited.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceeded_limit_names_the_server_once() {
        let error = peer::PeerCallError::TooLarge { limit: 7 };
        let failure = UpstreamFailure::from_call_error("docs", &error, Duration::ZERO);
        let text = "server `docs`: the answer is over the limit of 7 bytes";
        assert_eq!(failure.error.message(), text);
        assert_eq!(name_server("docs", text.to_owned()), text);
        assert_eq!(name_server("docs", "refused".to_owned()), "refused");
    }

    #[test]
    fn timeout_message_contains_the_elapsed_time() {
        let after = Duration::from_millis(1500);
        let error = peer::PeerCallError::Timeout { after, limit: peer::TimeoutKind::Request };
        let failure = UpstreamFailure::from_call_error("docs", &error, Duration::from_millis(2040));
        let text = "no answer within 1500 ms from server `docs` (2.0 s passed)";
        assert_eq!(failure.error.message(), text);
        let failure = UpstreamFailure::from_session_error(
            "docs",
            SessionError::Timeout,
            Duration::from_secs(3),
        );
        let text = "no session with server `docs` in time (3.0 s passed)";
        assert_eq!(failure.error.message(), text);
    }
}
