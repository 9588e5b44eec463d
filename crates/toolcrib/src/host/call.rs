//! One tool call: find, permit, check, lease, call, check, tell. Nothing calls back up.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use toolcrib_config::Problem;
use toolcrib_config::model::policy::{Results, Timeouts};
use toolcrib_upstream::auth::{LOGIN_REQUIRED, Protected, words};
use toolcrib_upstream::conn::peer::{CallOff, Patience, Remark, Sender};
use toolcrib_upstream::schema::{Verdict, Violation};
use toolcrib_wire::view::{CallToolResult, ClientCapabilities, Flaw, LogLevel, ResultType};
use toolcrib_wire::{Json, Kind, ObjectWriter, Raw};

use super::answers::Answers;
use super::note::Note;
use super::restart::Restarted;
use super::slot;
use super::turn::Turn;
use crate::access::Decision;
use crate::lease::Reminder;
use crate::registry::{NativeCall, NativeTool, Server, Tool};
use crate::shape::{
    Audience, CallError, CallResult, Delivered, ErrorKind, Facts, Strictness, check_output, cut,
    deliver, judge_input, judge_output, report,
};

/// The matter that the problems of the program's own tools are.
const TOOLS: &str = "tools";

/// A call that is to be made.
#[derive(Clone, Debug)]
pub struct CallRequest {
    /// The tool's id or the name that models are given.
    pub tool: String,
    /// An object.
    pub arguments: Raw,
    /// Instead of the server's own limit.
    pub timeout: Option<Duration>,
    /// Whether arguments are checked against the tool's schema whatever policy says.
    pub check: bool,
    pub besides: Besides,
}

/// What comes with a request that a server answers, whatever is requested.
#[derive(Clone, Debug, Default)]
pub struct Besides {
    /// Handed on to the server.
    pub meta: Option<Raw>,
    /// An object with params that are not known here, handed on as they are written.
    pub more: Option<Raw>,
    /// Where progress and log messages go, in order, all of them before the result.
    pub remarks: Option<Sender<Remark>>,
    /// The number that it is to be known by, from [`Dialog::number`](super::Dialog::number); otherwise it gets one.
    pub call: Option<u64>,
    /// What the server is told if it is called off by whoever has words of his own for that.
    pub call_off: Option<CallOff>,
    /// What can be asked in this request; what the dialog was made with where nothing is said.
    pub answers: Option<Answers>,
    /// Where questions go, if whoever calls answers them in the way of the modern era.
    pub rounds: Option<Rounds>,
    /// What the caller knows the request by; kept in the record of a call.
    pub request_id: Option<String>,
    /// Whether the caller hands the reminder of a new lease on to its agent.
    pub reminds: bool,
}

/// The longest id of a request that is kept, in characters.
const LONGEST_REQUEST_ID: usize = 256;

impl Besides {
    /// The id that the caller knows the request by, for its record: what was given, or `request_id` of `_meta`.
    pub(super) fn request_id(&self) -> Option<Box<str>> {
        let told = || self.meta()?.get("request_id")?.as_str().map(|id| id.into_owned());
        let id = self.request_id.clone().or_else(told)?;
        Some(match id.char_indices().nth(LONGEST_REQUEST_ID) {
            Some((end, _)) => id.get(..end).unwrap_or_default().into(),
            None => id.into(),
        })
    }

    /// What the server is told besides; nothing where that is no object.
    pub(super) fn meta(&self) -> Option<Json<'_>> {
        self.meta.as_ref().map(Raw::json).filter(|meta| meta.is_object())
    }

    /// The params of a request, with what the server is told besides.
    pub(super) fn told(&self, params: ObjectWriter) -> Raw {
        let params = params.json_if("_meta", self.meta());
        match &self.more {
            Some(more) => params.members(more.json()).finish(),
            None => params.finish(),
        }
    }
}

/// A caller that is asked inside of an answer, and asks again with what it has to say to that. A server of the
/// legacy era asks the dialog instead.
#[derive(Clone, Debug)]
pub struct Rounds {
    /// What it can be asked.
    pub capabilities: ClientCapabilities,
    /// The least severe log messages that it wants, if any.
    pub log_level: Option<LogLevel>,
    /// What it says to the questions of the round before.
    pub responses: Option<Raw>,
    /// What the server gave it in the round before.
    pub state: Option<Raw>,
}

impl Rounds {
    /// The first round has nothing to say yet.
    pub(super) fn is_first(&self) -> bool {
        self.responses.is_none() && self.state.is_none()
    }
}

/// What became of a call.
#[derive(Clone, Debug)]
pub struct Execution {
    /// The call's number, by which events name it.
    pub call: u64,
    pub facts: Facts,
    pub outcome: Result<CallToolResult, CallError>,
    /// How the server's policy hands results on.
    pub results: Results,
    /// The reminder of a lease that this call was the first to tell of; only where the caller asked for it.
    pub reminder: Option<Box<Reminder>>,
}

impl CallRequest {
    pub fn new(tool: impl Into<String>, arguments: Raw) -> Self {
        let tool = tool.into();
        CallRequest { tool, arguments, timeout: None, check: false, besides: Besides::default() }
    }
}

impl Execution {
    /// The result, whole. That a tool failed is a result, too.
    pub fn result(self) -> Result<CallResult, CallError> {
        let facts = self.facts;
        self.outcome.map(|result| CallResult { facts, result })
    }

    /// The form that the server's policy asks for.
    pub fn deliver(&self, audience: Audience) -> Result<Delivered, CallError> {
        deliver(&self.facts, self.outcome.as_ref(), &self.results, audience)
    }

    /// The JSON of the command line and the API.
    pub fn report(&self) -> Raw {
        report(&self.facts, self.outcome.as_ref(), self.results.error_message)
    }
}

impl Turn {
    /// One call. The tool is the one of this turn's snapshot.
    pub async fn call(&self, request: CallRequest) -> Result<CallResult, CallError> {
        self.execute(request).await.result()
    }

    /// The same; whatever becomes of it is a value. Dropping the future cancels the call.
    pub async fn execute(&self, request: CallRequest) -> Execution {
        self.execute_as(self.number_of(&request), &request).await
    }

    /// The number that a call is known by.
    pub(super) fn number_of(&self, request: &CallRequest) -> u64 {
        request.besides.call.unwrap_or_else(|| self.core().next_call())
    }

    pub(super) async fn execute_as(&self, call: u64, request: &CallRequest) -> Execution {
        let mut note = Note::begin(self, call, request);
        let outcome = self.perform(&mut note, request).await;
        note.end(outcome)
    }

    async fn perform(
        &self,
        note: &mut Note<'_>,
        request: &CallRequest,
    ) -> Result<CallToolResult, CallError> {
        let is_permitted = |tool: &&Arc<Tool>| self.decide(tool) == Decision::Permitted;
        match self.view().tool(&request.tool).filter(is_permitted) {
            Some(tool) => {
                note.is_of(self, tool);
                self.perform_with(note, tool, request).await
            }
            // Boxed, so that the common future stays small.
            None => Box::pin(self.perform_after_restart(note, request)).await,
        }
    }

    /// The call of a tool that cannot be used now; where its server only died, that is started again first.
    async fn perform_after_restart(
        &self,
        note: &mut Note<'_>,
        request: &CallRequest,
    ) -> Result<CallToolResult, CallError> {
        let Some(restarted) = self.restart_for(note, request).await else {
            let tool = self.permitted(note, &request.tool)?;
            return self.perform_with(note, tool, request).await;
        };
        let Restarted { turn, timeout } = restarted?;
        let request = CallRequest { timeout, ..request.clone() };
        let tool = turn.permitted(note, &request.tool)?;
        turn.perform_with(note, tool, &request).await
    }

    async fn perform_with(
        &self,
        note: &mut Note<'_>,
        tool: &Tool,
        request: &CallRequest,
    ) -> Result<CallToolResult, CallError> {
        let arguments = object(tool, &request.arguments)?;
        self.check_input(tool, &arguments, request.check)?;
        let result = match (tool.native(), tool.server()) {
            (Some(native), _) => self.run(&**native, tool, arguments, request.timeout).await?,
            (None, Some(server)) => {
                let sent = self.send(note, tool, server, &arguments, request).await;
                self.tell_of_login(tool, server, sent.as_ref().err());
                sent?
            }
            (None, None) => return Err(CallError::unknown_tool(&request.tool)),
        };
        if *result.result_type() == ResultType::InputRequired {
            return Ok(result);
        }
        self.check_output(tool, &result)?;
        self.cut(note, tool, result)
    }

    /// Whatever the agent may not use does not exist for it.
    fn permitted(&self, note: &mut Note<'_>, name: &str) -> Result<&Tool, CallError> {
        let tool = self.view().tool(name).ok_or_else(|| CallError::unknown_tool(name))?;
        match self.decide(tool) {
            Decision::Permitted => {
                note.is_of(self, tool);
                Ok(tool)
            }
            Decision::Away(verdict) => {
                note.is_of(self, tool);
                let server = tool.server().map_or("", |server| server.id());
                tracing::debug!(tool = tool.name(), server, why = %verdict.rule, "a server is away");
                Err(CallError::not_connected(server))
            }
            Decision::Denied(verdict) => {
                note.is_denied();
                tracing::info!(
                    tool = tool.name(),
                    agent = %self.inner().agent,
                    gate = %verdict.gate,
                    why = %verdict.rule,
                    "a call was denied"
                );
                Err(CallError::unknown_tool(name))
            }
        }
    }

    fn check_input(&self, tool: &Tool, arguments: &Raw, always: bool) -> Result<(), CallError> {
        let wanted = tool.server().is_some_and(|it| it.spec.policy.calls.validate_input);
        if !(wanted || always) {
            return Ok(());
        }
        let verdict = self.core().checker.check(tool.input_schema(), arguments);
        let problem = judge_input(server_of(tool), tool.name(), verdict, Strictness::Strict)?;
        self.tell("input", tool, problem);
        Ok(())
    }

    fn check_output(&self, tool: &Tool, result: &CallToolResult) -> Result<(), CallError> {
        let Some(schema) = tool.output_schema() else { return Ok(()) };
        let wanted = tool.server().is_some_and(|it| it.spec.policy.calls.validate_output);
        let strictness = if wanted { Strictness::Strict } else { Strictness::Relaxed };
        let verdict = check_output(&self.core().checker, Some(schema), result);
        let verdict = match verdict {
            Verdict::Invalid(violations) => Verdict::Invalid(self.masked(tool, violations)),
            verdict => verdict,
        };
        let problem = judge_output(server_of(tool), tool.name(), verdict, strictness)?;
        self.tell("output", tool, problem);
        Ok(())
    }

    /// The names of a result's members are text of the server.
    fn masked(&self, tool: &Tool, violations: Vec<Violation>) -> Vec<Violation> {
        let serving = tool.server().and_then(|server| self.serving(server));
        let session = serving.and_then(|serving| serving.server.main().view().session);
        let Some(session) = session else { return violations };
        let mask = &session.peer().facts().mask;
        let masked = violations.into_iter().map(|Violation { pointer, expected }| Violation {
            pointer: mask.mask_text(pointer),
            expected: mask.mask_text(expected),
        });
        masked.collect()
    }

    /// A problem of a tool is there until a call shows that it is not.
    fn tell(&self, matter: &str, tool: &Tool, problem: Option<Problem>) {
        if problem.is_none() && self.core().problems.is_empty() {
            return;
        }
        let of = tool.server().map_or(TOOLS.to_owned(), |server| slot::matter(&server.key));
        let matter = format!("{of} {matter} {}", tool.name());
        self.core().tell_problems(&matter, problem.into_iter().collect());
    }

    /// What only a person can give to a server that serves otherwise: everybody, or this agent.
    fn tell_of_login(&self, tool: &Tool, server: &Server, error: Option<&CallError>) {
        let (agent, spec) = (&*self.inner().agent, &server.spec);
        let own = spec.own_auth(agent);
        if !Protected::is_possible(spec, own.unwrap_or(&spec.policy.auth)) {
            return;
        }
        let whose = own.map(|_| agent);
        let error = error.filter(|error| error.code() == LOGIN_REQUIRED);
        let problem = error.map(|error| login(server, whose, error));
        match whose {
            Some(agent) => self.tell(&format!("login of {agent}"), tool, problem),
            None => self.tell("login", tool, problem),
        }
    }

    async fn run(
        &self,
        native: &dyn NativeTool,
        tool: &Tool,
        arguments: Raw,
        limit: Option<Duration>,
    ) -> Result<CallToolResult, CallError> {
        let inner = self.inner();
        let call = NativeCall {
            arguments,
            agent: Some(inner.agent.to_string()),
            dialog: Some(inner.id.to_string()),
            cwd: Some(inner.cwd.clone()),
        };
        let answer = native.call(call);
        let answer = match limit {
            Some(limit) => timeout(limit, answer).await.map_err(|_| too_late(limit))?,
            None => answer.await,
        };
        let answer = answer.map_err(|error| CallError::new(ErrorKind::Tool, error.0))?;
        read(answer).map_err(|error| error.with_tool(tool.name()))
    }

    /// Within the server's size; what had to go can be read later.
    fn cut(
        &self,
        note: &Note<'_>,
        tool: &Tool,
        result: CallToolResult,
    ) -> Result<CallToolResult, CallError> {
        let Some(server) = tool.server() else { return Ok(result) };
        let max = server.spec.policy.results.max_bytes;
        let cut = cut(&result, max, || format!("{}-{}", self.inner().id, note.call()));
        match cut.kept {
            None => Ok(result),
            Some(kept) => {
                self.core().whole.keep(&self.inner().id, kept.uri, kept.whole);
                read(cut.handed_on)
            }
        }
    }
}

/// How long a call may take: until it is given up without a sign of progress, and in all.
pub(super) fn patience(given: Option<Duration>, timeouts: &Timeouts) -> Patience {
    let limit = |time: Duration| Some(time).filter(|time| !time.is_zero());
    let request = given.or_else(|| limit(timeouts.request.0));
    let max = limit(timeouts.request_max.0).map(|max| request.map_or(max, |it| it.max(max)));
    Patience { request, max }
}

/// How long a call may wait for a session to be made on.
pub(super) fn longest_wait(patience: Patience) -> Duration {
    /// Whoever sets no limit waits for long, but not for ever.
    const LONGEST: Duration = Duration::from_secs(24 * 3600);
    patience.request.or(patience.max).unwrap_or(LONGEST).min(LONGEST)
}

pub(super) fn read(answer: Raw) -> Result<CallToolResult, CallError> {
    CallToolResult::read(answer).map_err(unusable)
}

pub(super) fn unusable(flaw: Flaw) -> CallError {
    CallError::new(ErrorKind::Protocol, "the result cannot be used")
        .with_code("result.malformed")
        .with_cause(flaw)
}

fn object(tool: &Tool, arguments: &Raw) -> Result<Raw, CallError> {
    match arguments.json().kind() {
        Kind::Object => Ok(arguments.clone()),
        Kind::Null => Ok(ObjectWriter::new().finish()),
        kind => {
            let text =
                format!("the arguments of `{}` must be an object, this is {kind}", tool.name());
            Err(CallError::new(ErrorKind::InvalidArguments, text))
        }
    }
}

fn server_of(tool: &Tool) -> &str {
    tool.server().map_or("", |server| server.id())
}

fn too_late(limit: Duration) -> CallError {
    CallError::new(ErrorKind::Timeout, format!("no answer within {limit:?}"))
}

/// What a request for something with a name and arguments tells.
pub(super) fn params(name: &str, arguments: &Raw, besides: &Besides) -> Raw {
    let named = ObjectWriter::new().string("name", name).json("arguments", arguments.json());
    besides.told(named)
}

fn login(server: &Server, agent: Option<&str>, error: &CallError) -> Problem {
    let account = words(server.id(), agent);
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
    use toolcrib_wire::Limits;

    use super::*;

    fn besides(meta: &str, given: Option<&str>) -> Option<Box<str>> {
        let meta = Some(Raw::parse(meta, &Limits::default()).unwrap());
        let request_id = given.map(str::to_owned);
        Besides { meta, request_id, ..Besides::default() }.request_id()
    }

    #[test]
    fn min_83_a_request_is_known_by_what_its_caller_says() {
        assert_eq!(besides(r#"{"request_id":"r1"}"#, None).as_deref(), Some("r1"));
        assert_eq!(besides(r#"{"request_id":"r1"}"#, Some("r2")).as_deref(), Some("r2"));
        assert_eq!(besides(r#"{"request_id":7}"#, None), None);
        assert_eq!(Besides::default().request_id(), None);
        let long = besides("{}", Some(&"ä".repeat(1000))).unwrap();
        assert_eq!(long.chars().count(), LONGEST_REQUEST_ID);
    }
}
