//! One tool call: find the tool, check the grant, validate the arguments, call, validate the
//! result, report. Nothing calls back up.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use toolcrib_config::Problem;
use toolcrib_config::model::policy::{Results, Timeouts};
use toolcrib_upstream::auth::{LOGIN_REQUIRED, ProtectedServer, login_args};
use toolcrib_upstream::conn::peer::{CallNotification, CallTimeouts, Cancellation, MailboxSender};
use toolcrib_upstream::schema::{Validity, Violation};
use toolcrib_wire::view::{CallToolResult, ClientCapabilities, FieldError, LogLevel, ResultType};
use toolcrib_wire::{Json, JsonKind, ObjectWriter, RawJson};

use super::call_record::CallRecorder;
use super::client_capabilities::DialogCapabilities;
use super::restart_on_call::RestartedTurn;
use super::slot;
use super::turn::Turn;
use crate::access::Decision;
use crate::lease::Reminder;
use crate::registry::{NativeCall, NativeTool, RegisteredServer, Tool};
use crate::results::{
    Audience, CallError, CallFacts, CallResult, DeliveredResult, ErrorKind, Strictness,
    apply_input_verdict, apply_output_verdict, call_report, check_output, deliver, truncate_result,
};

/// Problem group of native tools.
const NATIVE_TOOLS: &str = "tools";

/// A tool call to make.
///
/// ```
/// # async fn example(dialog: toolcrib::Dialog) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use toolcrib::CallRequest;
/// use toolcrib_wire::{MessageLimits, RawJson};
///
/// let arguments = RawJson::parse(r#"{"path":"a.txt"}"#, &MessageLimits::default())?;
/// let mut request = CallRequest::new("files__read", arguments);
/// request.timeout = Some(Duration::from_secs(5));
/// let called = dialog.call(request).await?;
/// println!("{}", called.result.raw().text());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct CallRequest {
    /// The tool's id, or the name that models see.
    pub tool: String,
    /// The arguments: an object.
    pub arguments: RawJson,
    /// Time limit of this call. It replaces the server's own limit.
    pub timeout: Option<Duration>,
    /// Validates the arguments against the tool's schema, whatever the server's policy says.
    pub validate_arguments: bool,
    /// Metadata, notifications, capabilities and the like.
    pub context: CallContext,
}

/// The context of a request to a server: everything but the request itself.
#[derive(Clone, Debug, Default)]
pub struct CallContext {
    /// `_meta` of the request, passed on to the server.
    pub meta: Option<RawJson>,
    /// An object with params that the library does not know, passed on unchanged.
    pub extra_params: Option<RawJson>,
    /// Receives progress and log messages, in order, all of them before the result.
    pub notifications: Option<MailboxSender<CallNotification>>,
    /// The call's number, from [`Dialog::next_call_number`](super::Dialog::next_call_number). The
    /// host assigns a number if this is `None`.
    pub call: Option<u64>,
    /// The cancellation message for the server, if the caller has one of its own.
    pub cancellation: Option<Cancellation>,
    /// The client features that this request's client can answer. The default is the dialog's
    /// capabilities.
    pub capabilities: Option<DialogCapabilities>,
    /// Input of a multi-round-trip request, if the caller answers requests of servers in the modern
    /// era's way.
    pub input_rounds: Option<InputRounds>,
    /// The caller's own id of the request, kept in the call record.
    pub request_id: Option<String>,
    /// Whether the caller passes the reminder of a new lease on to its agent.
    pub wants_reminder: bool,
}

/// Maximum length of a request id in a call record, in characters. Longer ids are truncated.
const MAX_REQUEST_ID_CHARS: usize = 256;

impl CallContext {
    /// The request id for the call record: `request_id` as given, else `request_id` of `_meta`.
    pub(super) fn request_id(&self) -> Option<Box<str>> {
        let from_meta = || self.meta()?.get("request_id")?.as_str().map(|id| id.into_owned());
        let id = self.request_id.clone().or_else(from_meta)?;
        Some(match id.char_indices().nth(MAX_REQUEST_ID_CHARS) {
            Some((end, _)) => id.get(..end).unwrap_or_default().into(),
            None => id.into(),
        })
    }

    /// `_meta` for the server, or `None` if it is not an object.
    pub(super) fn meta(&self) -> Option<Json<'_>> {
        self.meta.as_ref().map(RawJson::json).filter(|meta| meta.is_object())
    }

    /// Completes the params of a request with `_meta` and the extra params.
    pub(super) fn build_params(&self, params: ObjectWriter) -> RawJson {
        let params = params.json_if("_meta", self.meta());
        match &self.extra_params {
            Some(extra_params) => params.members(extra_params.json()).finish(),
            None => params.finish(),
        }
    }
}

/// Input of a multi-round-trip request: the result asks the caller for input, and the caller
/// repeats the request with its responses. A server of the legacy era sends its requests to the
/// dialog instead.
#[derive(Clone, Debug)]
pub struct InputRounds {
    /// The client features that the caller can answer.
    pub capabilities: ClientCapabilities,
    /// Minimum severity of the log messages that the caller wants; `None` for no log messages.
    pub log_level: Option<LogLevel>,
    /// The caller's responses to the requests of the previous round.
    pub responses: Option<RawJson>,
    /// The request state that the server returned in the previous round.
    pub state: Option<RawJson>,
}

impl InputRounds {
    /// Whether this is the first round, which carries no responses and no state.
    pub(super) fn is_first(&self) -> bool {
        self.responses.is_none() && self.state.is_none()
    }
}

/// The outcome of a call, with its facts.
#[derive(Clone, Debug)]
pub struct Execution {
    /// The call's number, by which events name it.
    pub call: u64,
    /// Server, tool, duration and attempts of the call.
    pub facts: CallFacts,
    /// The result or the error.
    pub outcome: Result<CallToolResult, CallError>,
    /// The server's policy for delivering results.
    pub results: Results,
    /// The reminder of a lease, if this call is the first to report that lease and the caller asked
    /// for reminders.
    pub reminder: Option<Box<Reminder>>,
}

impl CallRequest {
    /// A call with the default settings.
    pub fn new(tool: impl Into<String>, arguments: RawJson) -> Self {
        let tool = tool.into();
        CallRequest {
            tool,
            arguments,
            timeout: None,
            validate_arguments: false,
            context: CallContext::default(),
        }
    }
}

impl Execution {
    /// The complete result. A result with `isError` is a result, too.
    pub fn into_result(self) -> Result<CallResult, CallError> {
        let facts = self.facts;
        self.outcome.map(|result| CallResult { facts, result })
    }

    /// The result in the form that the server's policy asks for.
    pub fn deliver(&self, audience: Audience) -> Result<DeliveredResult, CallError> {
        deliver(&self.facts, self.outcome.as_ref(), &self.results, audience)
    }

    /// The result as JSON for the command line and the API.
    pub fn report(&self) -> RawJson {
        call_report(&self.facts, self.outcome.as_ref(), self.results.error_message)
    }
}

impl Turn {
    /// Calls a tool of this turn's snapshot.
    pub async fn call(&self, request: CallRequest) -> Result<CallResult, CallError> {
        self.execute(request).await.into_result()
    }

    /// Calls a tool and returns errors inside the [`Execution`]. Dropping the future cancels the
    /// call.
    pub async fn execute(&self, request: CallRequest) -> Execution {
        self.execute_numbered(self.call_number(&request), &request).await
    }

    /// The call's number: the one that the caller reserved, or a new one.
    pub(super) fn call_number(&self, request: &CallRequest) -> u64 {
        request.context.call.unwrap_or_else(|| self.core().next_call_number())
    }

    pub(super) async fn execute_numbered(&self, call: u64, request: &CallRequest) -> Execution {
        let mut recorder = CallRecorder::start(self, call, request);
        let outcome = self.find_and_call(&mut recorder, request).await;
        recorder.finish(outcome)
    }

    async fn find_and_call(
        &self,
        recorder: &mut CallRecorder<'_>,
        request: &CallRequest,
    ) -> Result<CallToolResult, CallError> {
        let is_permitted = |tool: &&Arc<Tool>| self.decide(tool) == Decision::Permitted;
        match self.view().tool(&request.tool).filter(is_permitted) {
            Some(tool) => {
                recorder.set_tool(self, tool);
                self.call_tool(recorder, tool, request).await
            }
            // Boxed, so that the common future stays small.
            None => Box::pin(self.call_after_restart(recorder, request)).await,
        }
    }

    /// Calls a tool that is not permitted now. If only the server's connection is down, the server
    /// is restarted first.
    async fn call_after_restart(
        &self,
        recorder: &mut CallRecorder<'_>,
        request: &CallRequest,
    ) -> Result<CallToolResult, CallError> {
        let Some(restarted) = self.restart_server_for_call(recorder, request).await else {
            let tool = self.find_permitted_tool(recorder, &request.tool)?;
            return self.call_tool(recorder, tool, request).await;
        };
        let RestartedTurn { turn, timeout } = restarted?;
        let request = CallRequest { timeout, ..request.clone() };
        let tool = turn.find_permitted_tool(recorder, &request.tool)?;
        turn.call_tool(recorder, tool, &request).await
    }

    async fn call_tool(
        &self,
        recorder: &mut CallRecorder<'_>,
        tool: &Tool,
        request: &CallRequest,
    ) -> Result<CallToolResult, CallError> {
        let arguments = require_object(tool, &request.arguments)?;
        self.check_input(tool, &arguments, request.validate_arguments)?;
        let result = match (tool.native(), tool.server()) {
            (Some(native), _) => {
                self.call_native(&**native, tool, arguments, request.timeout).await?
            }
            (None, Some(server)) => {
                let sent = self.send_tool_call(recorder, tool, server, &arguments, request).await;
                self.report_login_problem(tool, server, sent.as_ref().err());
                sent?
            }
            (None, None) => return Err(CallError::unknown_tool(&request.tool)),
        };
        if *result.result_type() == ResultType::InputRequired {
            return Ok(result);
        }
        self.check_output(tool, &result)?;
        self.truncate_result(recorder, tool, result)
    }

    /// The tool with this name. A tool that the agent may not use is reported as unknown.
    fn find_permitted_tool(
        &self,
        recorder: &mut CallRecorder<'_>,
        name: &str,
    ) -> Result<&Tool, CallError> {
        let tool = self.view().tool(name).ok_or_else(|| CallError::unknown_tool(name))?;
        match self.decide(tool) {
            Decision::Permitted => {
                recorder.set_tool(self, tool);
                Ok(tool)
            }
            Decision::Unavailable(verdict) => {
                recorder.set_tool(self, tool);
                let server = tool.server().map_or("", |server| server.id());
                tracing::debug!(tool = tool.name(), server, why = %verdict.rule, "server is away");
                Err(CallError::not_connected(server))
            }
            Decision::Denied(verdict) => {
                recorder.mark_denied();
                tracing::info!(
                    tool = tool.name(),
                    agent = %self.dialog_state().agent,
                    gate = %verdict.gate,
                    why = %verdict.rule,
                    "call denied"
                );
                Err(CallError::unknown_tool(name))
            }
        }
    }

    fn check_input(&self, tool: &Tool, arguments: &RawJson, always: bool) -> Result<(), CallError> {
        let wanted = tool.server().is_some_and(|it| it.spec.policy.calls.validate_input);
        if !(wanted || always) {
            return Ok(());
        }
        let verdict = self.core().checker.check(tool.input_schema(), arguments);
        let problem =
            apply_input_verdict(server_id(tool), tool.name(), verdict, Strictness::Strict)?;
        self.report_tool_problem("input", tool, problem);
        Ok(())
    }

    fn check_output(&self, tool: &Tool, result: &CallToolResult) -> Result<(), CallError> {
        let Some(schema) = tool.output_schema() else { return Ok(()) };
        let wanted = tool.server().is_some_and(|it| it.spec.policy.calls.validate_output);
        let strictness = if wanted { Strictness::Strict } else { Strictness::Relaxed };
        let verdict = check_output(&self.core().checker, Some(schema), result);
        let verdict = match verdict {
            Validity::Invalid(violations) => {
                Validity::Invalid(self.mask_violations(tool, violations))
            }
            verdict => verdict,
        };
        let problem = apply_output_verdict(server_id(tool), tool.name(), verdict, strictness)?;
        self.report_tool_problem("output", tool, problem);
        Ok(())
    }

    /// Masks secrets in violations. The member names of a result are text of the server.
    fn mask_violations(&self, tool: &Tool, violations: Vec<Violation>) -> Vec<Violation> {
        let running = tool.server().and_then(|server| self.running_server(server));
        let session = running.and_then(|running| running.server.main().view().session);
        let Some(session) = session else { return violations };
        let mask = &session.peer().link_info().mask;
        let masked = violations.into_iter().map(|Violation { pointer, expected }| Violation {
            pointer: mask.mask_text(pointer),
            expected: mask.mask_text(expected),
        });
        masked.collect()
    }

    /// Reports or clears a tool's problem. A problem persists until a call shows that it is gone.
    fn report_tool_problem(&self, problem_group: &str, tool: &Tool, problem: Option<Problem>) {
        if problem.is_none() && self.core().problems.is_empty() {
            return;
        }
        let server_group = tool
            .server()
            .map_or(NATIVE_TOOLS.to_owned(), |server| slot::problem_group(&server.key));
        let problem_group = format!("{server_group} {problem_group} {}", tool.name());
        self.core().set_problems(&problem_group, problem.into_iter().collect());
    }

    /// Reports that a login is needed for a server that otherwise works. The login belongs to all
    /// agents, or to this agent alone.
    fn report_login_problem(
        &self,
        tool: &Tool,
        server: &RegisteredServer,
        error: Option<&CallError>,
    ) {
        let (agent, spec) = (&*self.dialog_state().agent, &server.spec);
        let own = spec.agent_auth(agent);
        if !ProtectedServer::may_need_token(spec, own.unwrap_or(&spec.policy.auth)) {
            return;
        }
        let agent_account = own.map(|_| agent);
        let error = error.filter(|error| error.code() == LOGIN_REQUIRED);
        let problem = error.map(|error| login_problem(server, agent_account, error));
        match agent_account {
            Some(agent) => self.report_tool_problem(&format!("login of {agent}"), tool, problem),
            None => self.report_tool_problem("login", tool, problem),
        }
    }

    async fn call_native(
        &self,
        native: &dyn NativeTool,
        tool: &Tool,
        arguments: RawJson,
        limit: Option<Duration>,
    ) -> Result<CallToolResult, CallError> {
        let inner = self.dialog_state();
        let call = NativeCall {
            arguments,
            agent: Some(inner.agent.to_string()),
            dialog: Some(inner.id.to_string()),
            cwd: Some(inner.cwd.clone()),
        };
        let answer = native.call(call);
        let answer = match limit {
            Some(limit) => timeout(limit, answer).await.map_err(|_| timeout_error(limit))?,
            None => answer.await,
        };
        let answer = answer.map_err(|error| CallError::new(ErrorKind::Tool, error.0))?;
        parse_call_result(answer).map_err(|error| error.with_tool(tool.name()))
    }

    /// Truncates a result to the server's size limit. The full result stays readable by its URI.
    fn truncate_result(
        &self,
        recorder: &CallRecorder<'_>,
        tool: &Tool,
        result: CallToolResult,
    ) -> Result<CallToolResult, CallError> {
        let Some(server) = tool.server() else { return Ok(result) };
        let max = server.spec.policy.results.max_bytes;
        let truncated = truncate_result(&result, max, || {
            format!("{}-{}", self.dialog_state().id, recorder.call())
        });
        match truncated.stored {
            None => Ok(result),
            Some(stored) => {
                self.core().full_results.insert(
                    &self.dialog_state().id,
                    stored.uri,
                    stored.full_result,
                );
                parse_call_result(truncated.delivered)
            }
        }
    }
}

/// The time limits of a call: without progress, and in total.
pub(super) fn request_limits(given: Option<Duration>, timeouts: &Timeouts) -> CallTimeouts {
    let limit = |time: Duration| Some(time).filter(|time| !time.is_zero());
    let request = given.or_else(|| limit(timeouts.request.0));
    let max = limit(timeouts.request_max.0).map(|max| request.map_or(max, |it| it.max(max)));
    CallTimeouts { request, max }
}

/// The maximum time that a call waits for a session.
pub(super) fn session_wait_limit(timeouts: CallTimeouts) -> Duration {
    /// Upper bound for calls without a limit, so that no call waits forever.
    const LONGEST: Duration = Duration::from_secs(24 * 3600);
    timeouts.request.or(timeouts.max).unwrap_or(LONGEST).min(LONGEST)
}

pub(super) fn parse_call_result(answer: RawJson) -> Result<CallToolResult, CallError> {
    CallToolResult::read(answer).map_err(malformed_result)
}

pub(super) fn malformed_result(flaw: FieldError) -> CallError {
    CallError::new(ErrorKind::Protocol, "the result is malformed")
        .with_code("result.malformed")
        .with_cause(flaw)
}

fn require_object(tool: &Tool, arguments: &RawJson) -> Result<RawJson, CallError> {
    match arguments.json().kind() {
        JsonKind::Object => Ok(arguments.clone()),
        JsonKind::Null => Ok(ObjectWriter::new().finish()),
        kind => {
            let text =
                format!("the arguments of `{}` must be an object, found {kind}", tool.name());
            Err(CallError::new(ErrorKind::InvalidArguments, text))
        }
    }
}

fn server_id(tool: &Tool) -> &str {
    tool.server().map_or("", |server| server.id())
}

fn timeout_error(limit: Duration) -> CallError {
    CallError::new(ErrorKind::Timeout, format!("no answer within {limit:?}"))
}

/// The params of a request that has a name and arguments.
pub(super) fn named_params(name: &str, arguments: &RawJson, context: &CallContext) -> RawJson {
    let named = ObjectWriter::new().string("name", name).json("arguments", arguments.json());
    context.build_params(named)
}

fn login_problem(server: &RegisteredServer, agent: Option<&str>, error: &CallError) -> Problem {
    let account = login_args(server.id(), agent);
    let mut problem = Problem::error(LOGIN_REQUIRED, error.to_string()).server(server.id());
    problem.id = format!("{LOGIN_REQUIRED}:{account}");
    let problem = problem.fix(format!("run `toolcrib login {account}`"));
    match agent {
        Some(agent) => problem.agent(agent),
        None => problem,
    }
}

#[cfg(test)]
mod tests {
    use toolcrib_wire::MessageLimits;

    use super::*;

    fn context(meta: &str, given: Option<&str>) -> Option<Box<str>> {
        let meta = Some(RawJson::parse(meta, &MessageLimits::default()).unwrap());
        let request_id = given.map(str::to_owned);
        CallContext { meta, request_id, ..CallContext::default() }.request_id()
    }

    #[test]
    fn min_83_request_id_comes_from_the_caller_or_its_meta() {
        assert_eq!(context(r#"{"request_id":"r1"}"#, None).as_deref(), Some("r1"));
        assert_eq!(context(r#"{"request_id":"r1"}"#, Some("r2")).as_deref(), Some("r2"));
        assert_eq!(context(r#"{"request_id":7}"#, None), None);
        assert_eq!(CallContext::default().request_id(), None);
        let long = context("{}", Some(&"ä".repeat(1000))).unwrap();
        assert_eq!(long.chars().count(), MAX_REQUEST_ID_CHARS);
    }
}
