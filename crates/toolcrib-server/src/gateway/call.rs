//! A request of a client that a server answers, first of all a tool call: remarks and questions on the way, and the
//! result as the server gave it.

use std::collections::HashSet;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::watch;
use tokio::time::timeout;
use toolcrib::host::{Answers, Besides, Question};
use toolcrib::lease::Reminder;
use toolcrib::{CallRequest, Dialog, Turn};
use toolcrib_upstream::conn::peer::{CallOff, Receiver, Remark, mailbox};
use toolcrib_wire::meta::PROGRESS_TOKEN;
use toolcrib_wire::notice::LogMessage;
use toolcrib_wire::param_header::{check_params, param_headers};
use toolcrib_wire::view::{CallToolResult, InputRequired, ResultType};
use toolcrib_wire::{
    Body, Era, Json, ObjectWriter, ProgressToken, Raw, Request, RpcError, build, method,
};

use super::answer::{empty, refusal, unknown_state};
use super::caller::Caller;
use super::client::Client;
use super::outlet::Course;
use super::parked::Parked;
use super::reminder::with_reminder;

/// Remarks that wait for a client; then the oldest are dropped.
const REMARKS: usize = 4096;

/// How long a client may take to read what it is told.
const SLOWEST: Duration = Duration::from_secs(60);

/// A call that is under way. Dropped, it is cancelled.
pub(super) struct Underway {
    method: &'static str,
    call: u64,
    running: Running,
    /// Until there can be no more.
    remarks: Option<Receiver<Remark>>,
    /// Questions that the client has been asked.
    asked: HashSet<u64>,
    /// Whether there can be any.
    may_be_asked: bool,
    /// What the server is told if the client calls it off.
    call_off: CallOff,
}

pub(super) type Running = Pin<Box<dyn Future<Output = Result<Said, RpcError>> + Send>>;

/// What a server says in the end.
pub(super) enum Said {
    Result(Raw),
    /// A result that may be kept as long as it says.
    Keepable(Raw),
    /// What a server of the modern era wants to know first.
    Question(Raw),
}

/// Whom a call is made for, and where that client hears of it.
pub(super) struct Conduct<'a> {
    client: &'a Client,
    caller: &'a Caller,
    pub(super) dialog: &'a Dialog,
    params: &'a Body,
    token: Option<ProgressToken>,
    course: &'a Course,
    /// What this request says that can be asked; what an earlier one said does not count.
    answers: Answers,
}

impl Client {
    pub(super) async fn call(
        self: &Arc<Self>,
        caller: &Caller,
        params: &Body,
        course: &Course,
    ) -> Result<Raw, RpcError> {
        let conduct = self.conduct(caller, params, course).await?;
        let begin = |besides: Besides| -> Running {
            let name = params.name().map(|name| name.into_owned());
            let arguments = params.arguments().map_or_else(empty, |it| params.message().part(it));
            let (dialog, traces) = (conduct.dialog.clone(), self.gateway.traces.clone());
            let (agent, server) = (Arc::clone(&self.who.agent), self.who.server.clone());
            Box::pin(async move {
                let name = name.ok_or_else(|| RpcError::invalid_params("`name` is missing"))?;
                let tool = tool_name(&dialog, server.as_deref(), &name).await?;
                let (span, meta) = traces.begin(&agent, &name, besides.meta);
                let besides = Besides { meta, ..besides };
                let request = CallRequest { besides, ..CallRequest::new(tool, arguments) };
                let ended = dialog.execute(request).await;
                if let Some(span) = span {
                    span.end(&ended);
                }
                let result = ended.outcome.map_err(|error| refusal(&error))?;
                Ok(Said::of_call(&result, ended.reminder.as_deref()))
            })
        };
        conduct.see_through(method::TOOLS_CALL, begin).await
    }

    /// How a request is made for a client.
    pub(super) async fn conduct<'a>(
        &'a self,
        caller: &'a Caller,
        params: &'a Body,
        course: &'a Course,
    ) -> Result<Conduct<'a>, RpcError> {
        let (dialog, token) = (self.dialog(caller).await?, params.progress_token());
        let answers = caller.answers();
        Ok(Conduct { client: self, caller, dialog, params, token, course, answers })
    }

    /// Whether arguments that travel in headers too say the same there.
    pub(super) async fn check_headers<'h>(
        &self,
        request: &Request,
        look_up: impl Fn(&str) -> Option<&'h str>,
    ) -> Result<(), RpcError> {
        let (method::TOOLS_CALL, Some(name)) = (request.method.as_str(), request.params.name())
        else {
            return Ok(());
        };
        let dialog = self.dialog(&Caller::of(request, None)?).await?;
        let turn = dialog.turn_now();
        let tool = match &self.who.server {
            Some(server) => turn.tool_of(server, &name),
            None => turn.tool(&name),
        };
        // A tool that is not known is refused by whoever is asked to call it.
        let headers = tool.and_then(|tool| param_headers(tool.input_schema().json()).ok());
        let arguments = request.params.arguments().unwrap_or(Json::EMPTY);
        check_params(&headers.unwrap_or_default(), arguments, look_up)
            .map_err(|mismatch| RpcError::header_mismatch(mismatch.to_string()))
    }
}

impl Said {
    /// A result that is only known by its text.
    pub(super) fn of(result: Raw, is_keepable: bool) -> Self {
        let kind = result.json().get("resultType").and_then(|kind| kind.as_str());
        match kind.as_deref() {
            Some("input_required") => Said::Question(result),
            _ if is_keepable => Said::Keepable(result),
            _ => Said::Result(result),
        }
    }

    fn of_call(result: &CallToolResult, reminder: Option<&Reminder>) -> Self {
        let raw = match reminder {
            Some(reminder) => with_reminder(result.raw(), reminder),
            None => result.raw().clone(),
        };
        match result.result_type() {
            ResultType::InputRequired => Said::Question(raw),
            _ => Said::Result(raw),
        }
    }
}

impl Conduct<'_> {
    /// Goes on with what the client comes back for, or begins.
    pub(super) async fn see_through(
        &self,
        method: &'static str,
        begin: impl FnOnce(Besides) -> Running,
    ) -> Result<Raw, RpcError> {
        let state = match self.parked()? {
            Some(Parked::Call(underway, away)) if underway.method == method => {
                drop(away);
                self.course.call_off.lead_to(&underway.call_off);
                self.answer_questions();
                return self.run(underway).await;
            }
            Some(Parked::Call(..)) => return Err(unknown_state()),
            Some(Parked::State(state)) => Some(state),
            None => None,
        };
        let wants_remarks = self.token.is_some() || self.caller.wants_log();
        let (told, remarks) = wants_remarks.then(|| mailbox(REMARKS)).unzip();
        self.dialog.declare(self.answers);
        let call = self.dialog.number();
        let call_off = self.course.call_off.clone();
        let besides = Besides {
            meta: handed_on(self.params),
            more: further(method, self.params),
            remarks: told,
            call: Some(call),
            call_off: Some(call_off.clone()),
            answers: Some(self.answers),
            rounds: self.caller.rounds(self.params, state),
            request_id: None,
            reminds: method == method::TOOLS_CALL,
        };
        let (running, may_be_asked) = (begin(besides), self.answers != Answers::default());
        let asked = HashSet::new();
        self.run(Underway { method, call, running, remarks, asked, may_be_asked, call_off }).await
    }

    fn parked(&self) -> Result<Option<Parked>, RpcError> {
        let state = self.params.request_state();
        let parked = state.map(|state| self.client.parked(&state).ok_or_else(unknown_state));
        parked.transpose()
    }

    /// Until there is a result, or something that only the client can answer.
    async fn run(&self, underway: Underway) -> Result<Raw, RpcError> {
        // Hardly any call asks something.
        let mut asking = None;
        // Declared after `asking`, so that a call that is dropped ends before its questions: those that another call
        // may have caused are then that call's.
        let mut underway = underway;
        let mut asks = underway.may_be_asked.then(|| self.dialog.asked());
        loop {
            let questions = match &mut asks {
                Some(asks) => {
                    asks.mark_unchanged();
                    self.questions(&underway)
                }
                None => Vec::new(),
            };
            let is_modern = self.caller.era() == Era::Modern;
            if is_modern && !questions.is_empty() && underway.method != method::COMPLETE {
                return self.require(&questions, underway);
            }
            for question in questions {
                underway.asked.insert(question.id);
                match is_modern {
                    // That may have no question for an answer.
                    true => self.refuse(&question),
                    false => asking
                        .get_or_insert_with(FuturesUnordered::new)
                        .push(self.pass_on(underway.call, question)),
                }
            }
            tokio::select! {
                biased;
                // Boxed, so that calls do not carry the room for it.
                remark = next(&mut underway.remarks) => Box::pin(self.tell(&remark)).await?,
                ended = &mut underway.running => {
                    while let Some(remark) = underway.remarks.as_mut().and_then(Receiver::try_next) {
                        Box::pin(self.tell(&remark)).await?;
                    }
                    return self.client.finish(self.caller, &ended?);
                }
                () = one_of(&mut asking), if asking.is_some() => {}
                () = changed(&mut asks), if asks.is_some() => {}
            }
        }
    }

    /// What is to be asked of the client for this call, and has not been.
    fn questions(&self, underway: &Underway) -> Vec<Question> {
        let mut questions = self.dialog.questions();
        let carries = |it: &Question| it.carrier == Some(underway.call);
        questions.retain(|it| carries(it) && !underway.asked.contains(&it.id));
        // Whoever comes back may say less than he said in the beginning.
        questions.retain(|it| match self.answers.refusal(&it.method, it.params.json()) {
            Some(refusal) => {
                self.dialog.answer(it.id, Err(refusal));
                false
            }
            None => true,
        });
        questions
    }

    /// A question as a request of its own, until it ends.
    async fn pass_on(&self, call: u64, question: Question) {
        let asked = self.client.ask(self.dialog, &question, &self.course.out).await;
        match asked {
            Some(_asked) => self.closed(question.id).await,
            None if self.dialog.pass_over(question.id, call) => {}
            None => {
                let gone = RpcError::internal("the client has gone");
                self.dialog.answer(question.id, Err(gone));
            }
        }
    }

    /// Waits until a question is answered or its server does not want to know it any more.
    async fn closed(&self, question: u64) {
        let mut asks = self.dialog.asked();
        while self.dialog.is_asked(question) {
            if asks.changed().await.is_err() {
                return;
            }
        }
    }

    fn refuse(&self, question: &Question) {
        let refused = RpcError::invalid_params("nobody can be asked while a word is completed");
        self.dialog.answer(question.id, Err(refused));
    }

    /// Questions inside of an answer; the call stays open until the client comes back.
    fn require(&self, questions: &[Question], underway: Underway) -> Result<Raw, RpcError> {
        let mut requests = ObjectWriter::new();
        for question in questions {
            let request = ObjectWriter::new()
                .string("method", &question.method)
                .json("params", question.params.json())
                .finish();
            requests = requests.json(&question.id.to_string(), request.json());
        }
        let away = self.dialog.away(underway.call);
        let state = self.client.park(Parked::Call(underway, away))?;
        let required = InputRequired::build(Some(requests.finish().json()), Some(&state));
        Ok(self.client.seal(self.caller, &required, false))
    }

    /// What the client comes back with.
    fn answer_questions(&self) {
        let Some(answers) = self.params.get("inputResponses") else { return };
        for (key, answer) in answers.members() {
            if let Ok(question) = key.parse() {
                // Nobody may wait for it any more.
                self.dialog.answer(question, Ok(Raw::from(answer)));
            }
        }
    }

    /// Whoever does not read for long is gone: what the call holds is for others.
    async fn tell(&self, remark: &Remark) -> Result<(), RpcError> {
        let message = match (remark, &self.token) {
            (Remark::Progress(params), Some(token)) => {
                let own = ObjectWriter::new().id(PROGRESS_TOKEN, token).finish();
                let params = params.with_members([(PROGRESS_TOKEN, own.get(PROGRESS_TOKEN))]);
                build::notification(method::PROGRESS, Some(params.json()))
            }
            (Remark::Log(params), _) if self.wants_log(params) => {
                build::notification(method::LOG_MESSAGE, Some(params.json()))
            }
            _ => return Ok(()),
        };
        match timeout(SLOWEST, self.course.out.send(message)).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(RpcError::internal("the client does not read")),
        }
    }

    fn wants_log(&self, params: &Raw) -> bool {
        let least = match self.caller.era() {
            Era::Modern => self.caller.log_level(),
            Era::Legacy => self.client.log_level(),
        };
        let level = LogMessage::read(params.json()).level;
        self.caller.wants_log() && least.is_none_or(|least| level >= Some(least))
    }
}

impl fmt::Debug for Underway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Underway").field("call", &self.call).finish_non_exhaustive()
    }
}

/// Until there is a new question, or one is gone.
async fn changed(asks: &mut Option<watch::Receiver<u64>>) {
    if let Some(asks) = asks {
        // Its sender is in the dialog, which is held.
        let _ = asks.changed().await;
    }
}

/// Until one of them is done, if there are any.
async fn one_of<F: Future<Output = ()>>(asking: &mut Option<FuturesUnordered<F>>) {
    if let Some(all) = asking
        && all.next().await.is_none()
    {
        *asking = None;
    }
}

/// The name that the host knows a tool by.
async fn tool_name(dialog: &Dialog, server: Option<&str>, name: &str) -> Result<String, RpcError> {
    let Some(server) = server else { return Ok(name.to_owned()) };
    let find = |turn: Turn| match turn.tool_of(server, name) {
        Some(tool) => Some(tool.name().to_owned()),
        // The call starts its server again.
        None => turn.away_tool_of(server, name),
    };
    let mut tool = find(dialog.turn_now());
    if tool.is_none() {
        // It may be one of a server that has not been asked yet.
        tool = find(Box::pin(dialog.turn()).await);
    }
    tool.ok_or_else(|| RpcError::invalid_params(format!("unknown tool: {name}")))
}

async fn next(remarks: &mut Option<Receiver<Remark>>) -> Remark {
    if let Some(receiver) = remarks {
        if let Some(remark) = receiver.next().await {
            return remark;
        }
        *remarks = None;
    }
    std::future::pending().await
}

/// What the client says besides, without what is between it and us alone.
pub(super) fn handed_on(params: &Body) -> Option<Raw> {
    let meta = params.meta()?;
    let own = |key: &str| {
        key == PROGRESS_TOKEN || key == super::DIALOG || key.starts_with("io.modelcontextprotocol/")
    };
    let mut rest = ObjectWriter::new();
    for (key, value) in meta.members().filter(|(key, _)| !own(key)) {
        rest = rest.json(&key, value);
    }
    Some(rest.finish()).filter(|rest| rest.text() != "{}")
}

/// Params that are between the client and us alone, whatever is requested. There are no tasks here.
pub(super) const OURS: [&str; 4] = ["_meta", "task", "inputResponses", "requestState"];

/// The params that are only the server's business.
pub(super) fn further(called: &str, params: &Body) -> Option<Raw> {
    let [meta, task, responses, state] = OURS;
    match called {
        method::TOOLS_CALL | method::PROMPTS_GET => {
            params.without(&["name", "arguments", meta, task, responses, state])
        }
        method::RESOURCES_READ | method::RESOURCES_SUBSCRIBE => {
            params.without(&["uri", meta, task, responses, state])
        }
        // Those of a completion are handed on as a whole.
        _ => None,
    }
}
