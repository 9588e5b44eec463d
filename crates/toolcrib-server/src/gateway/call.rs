//! A tool call of a client: remarks and questions on the way, and the result as the server gave it.

use std::collections::HashSet;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc;
use tokio::time::timeout;
use toolcrib::conn::peer::{Receiver, Remark, mailbox};
use toolcrib::host::{Execution, Question};
use toolcrib::{CallRequest, Dialog};
use toolcrib_wire::notice::LogMessage;
use toolcrib_wire::param_header::{check_params, param_headers};
use toolcrib_wire::view::{InputRequired, ResultType};
use toolcrib_wire::{
    Body, Era, Json, ObjectWriter, ProgressToken, Raw, Request, RpcError, build, method,
};

use super::answer::{empty, refusal, unknown_state};
use super::caller::Caller;
use super::client::Client;
use super::parked::Parked;
use crate::trace::Span;

/// Remarks that wait for a client; then the oldest are dropped.
const REMARKS: usize = 64;

/// How long a client may take to read what it is told.
const SLOWEST: Duration = Duration::from_secs(60);

/// A call that is under way. Dropped, it is cancelled.
pub(super) struct Underway {
    call: u64,
    running: Pin<Box<dyn Future<Output = Execution> + Send>>,
    /// Until there can be no more.
    remarks: Option<Receiver<Remark>>,
    /// Questions that the client has been asked.
    asked: HashSet<u64>,
    /// Where it is recorded.
    span: Option<Span>,
}

/// A call that is to be made, and where it is heard and recorded.
struct Prepared {
    request: CallRequest,
    remarks: Option<Receiver<Remark>>,
    span: Option<Span>,
}

/// Whom a call is made for, and where that client hears of it.
struct Conduct<'a> {
    client: &'a Client,
    caller: &'a Caller,
    dialog: &'a Dialog,
    token: Option<ProgressToken>,
    out: &'a mpsc::Sender<Raw>,
}

impl Client {
    pub(super) async fn call(
        self: &Arc<Self>,
        caller: &Caller,
        params: &Body,
        out: &mpsc::Sender<Raw>,
    ) -> Result<Raw, RpcError> {
        let dialog = self.dialog(caller).await?;
        let token = params.progress_token();
        let conduct = Conduct { client: self, caller, dialog, token, out };
        let state = params.get("requestState").and_then(|state| state.as_str());
        let state = match state.map(|state| self.parking.take(&state).ok_or_else(unknown_state)) {
            Some(Ok(Parked::Call(underway))) => {
                conduct.answer_questions(params);
                return conduct.run(underway).await;
            }
            Some(Ok(Parked::State(state))) => Some(state),
            Some(Err(error)) => return Err(error),
            None => None,
        };
        let request = self.request(caller, params, state, conduct.token.is_some()).await?;
        conduct.run(Underway::start(dialog, request)).await
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
        let arguments = request.params.get("arguments").unwrap_or(Json::EMPTY);
        check_params(&headers.unwrap_or_default(), arguments, look_up)
            .map_err(|mismatch| RpcError::header_mismatch(mismatch.to_string()))
    }

    async fn request(
        &self,
        caller: &Caller,
        params: &Body,
        state: Option<Raw>,
        wants_progress: bool,
    ) -> Result<Prepared, RpcError> {
        let name = params.name().ok_or_else(|| RpcError::invalid_params("`name` is missing"))?;
        let arguments = params.get("arguments").map_or_else(empty, Raw::from);
        let mut request = CallRequest::new(self.tool_name(&name).await?, arguments);
        let (span, meta) = self.gateway.traces.begin(&self.who.agent, &name, handed_on(params));
        request.meta = meta;
        request.rounds = caller.rounds(params, state);
        let heard = (wants_progress || caller.wants_log()).then(|| mailbox(REMARKS));
        let (told, remarks) = heard.unzip();
        request.remarks = told;
        Ok(Prepared { request, remarks, span })
    }

    /// The name that the host knows a tool by.
    async fn tool_name(&self, name: &str) -> Result<String, RpcError> {
        let (Some(server), Some(dialog)) = (&self.who.server, self.begun()) else {
            return Ok(name.to_owned());
        };
        let mut tool = dialog.turn_now().tool_of(server, name);
        if tool.is_none() {
            // It may be one of a server that has not been asked yet.
            tool = dialog.turn().await.tool_of(server, name);
        }
        let unknown = || RpcError::invalid_params(format!("unknown tool: {name}"));
        Ok(tool.ok_or_else(unknown)?.name().to_owned())
    }
}

impl Underway {
    fn start(dialog: &Dialog, prepared: Prepared) -> Self {
        let Prepared { mut request, remarks, span } = prepared;
        let (dialog, call) = (dialog.clone(), dialog.number());
        request.call = Some(call);
        let running = Box::pin(async move { dialog.execute(request).await });
        Underway { call, running, remarks, asked: HashSet::new(), span }
    }
}

impl Conduct<'_> {
    /// Until there is a result, or something that only the client can answer.
    async fn run(&self, mut underway: Underway) -> Result<Raw, RpcError> {
        let mut asks = self.dialog.asked();
        let mut asking = FuturesUnordered::new();
        loop {
            asks.mark_unchanged();
            let questions = self.questions(&underway);
            if !questions.is_empty() && self.caller.era() == Era::Modern {
                return self.require(&questions, underway);
            }
            for question in questions {
                underway.asked.insert(question.id);
                asking.push(self.pass_on(question));
            }
            tokio::select! {
                biased;
                remark = next(&mut underway.remarks) => self.tell(&remark).await?,
                ended = &mut underway.running => {
                    while let Some(remark) = underway.remarks.as_mut().and_then(Receiver::try_next) {
                        self.tell(&remark).await?;
                    }
                    if let Some(span) = underway.span.take() {
                        span.end(&ended);
                    }
                    return self.result(ended);
                }
                Some(()) = asking.next(), if !asking.is_empty() => {}
                // Its sender is in the dialog, which is held here.
                _ = asks.changed() => {}
            }
        }
    }

    fn result(&self, ended: Execution) -> Result<Raw, RpcError> {
        let result = ended.outcome.map_err(|error| refusal(&error))?;
        match result.result_type() {
            ResultType::InputRequired => self.client.finish(self.caller, result.raw(), false),
            _ => Ok(self.client.seal(self.caller, result.raw(), false)),
        }
    }

    /// What is to be asked of the client for this call, and has not been.
    fn questions(&self, underway: &Underway) -> Vec<Question> {
        let mut questions = self.dialog.questions();
        questions.retain(|it| it.call == Some(underway.call) && !underway.asked.contains(&it.id));
        questions
    }

    /// A question as a request of its own.
    async fn pass_on(&self, question: Question) {
        let answer = self.client.ask(&question.method, &question.params, self.out).await;
        let gone = || Err(RpcError::internal("the client has gone"));
        self.dialog.answer(question.id, answer.unwrap_or_else(gone));
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
        let state = self.client.parking.park(Parked::Call(underway))?;
        let required = InputRequired::build(Some(requests.finish().json()), Some(&state));
        Ok(self.client.seal(self.caller, &required, false))
    }

    /// What the client comes back with.
    fn answer_questions(&self, params: &Body) {
        let Some(answers) = params.get("inputResponses") else { return };
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
                let own = ObjectWriter::new().id("progressToken", token).finish();
                let params = params.with_members([("progressToken", own.get("progressToken"))]);
                build::notification(method::PROGRESS, Some(params.json()))
            }
            (Remark::Log(params), _) if self.wants_log(params) => {
                build::notification(method::LOG_MESSAGE, Some(params.json()))
            }
            _ => return Ok(()),
        };
        match timeout(SLOWEST, self.out.send(message)).await {
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
fn handed_on(params: &Body) -> Option<Raw> {
    let meta = params.meta()?;
    let own = |key: &str| {
        key == "progressToken"
            || key == super::DIALOG
            || key.starts_with("io.modelcontextprotocol/")
    };
    let mut rest = ObjectWriter::new();
    for (key, value) in meta.members().filter(|(key, _)| !own(key)) {
        rest = rest.json(&key, value);
    }
    Some(rest.finish()).filter(|rest| rest.text() != "{}")
}
