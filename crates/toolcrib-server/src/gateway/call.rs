//! A tool call of a client: progress and questions on the way, and the result as the server gave it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use toolcrib::conn::peer::{Receiver, mailbox};
use toolcrib::host::{Event, Execution, Listening, Question};
use toolcrib::{CallRequest, Dialog};
use toolcrib_wire::view::InputRequired;
use toolcrib_wire::{Body, Era, ObjectWriter, ProgressToken, Raw, RpcError, build, method};

use super::answer::{empty, refusal};
use super::caller::Caller;
use super::client::Client;

/// Progress that waits for a client; then the oldest is dropped.
const PROGRESS: usize = 64;

/// Questions are looked for this often, besides being told of: a listener that is too slow is told nothing.
const LOOK: Duration = Duration::from_millis(500);

/// One call that is under way, and how far it was told.
struct Conduct<'a> {
    client: &'a Arc<Client>,
    caller: &'a Caller,
    dialog: &'a Dialog,
    call: u64,
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
        let events = self.gateway.host.listen();
        let token = params.progress_token();
        let state = params.get("requestState").and_then(|state| state.as_str());
        if let Some(call) = state.and_then(|state| self.unpark(&state)) {
            let conduct = Conduct { client: self, caller, dialog, call, token, out };
            conduct.answer_questions(params);
            return conduct.run(events, None).await;
        }
        let name = params.name().ok_or_else(|| RpcError::invalid_params("`name` is missing"))?;
        let arguments = params.get("arguments").map_or_else(empty, Raw::from);
        let (told, progress) = mailbox(PROGRESS);
        let mut request = CallRequest::new(name, arguments);
        request.progress = token.is_some().then_some(told);
        request.meta = handed_on(params);
        let call = dialog.start(request).map_err(|error| refusal(&error))?;
        let conduct = Conduct { client: self, caller, dialog, call, token, out };
        conduct.run(events, Some(progress)).await
    }
}

impl Conduct<'_> {
    /// Until there is a result, or something that only the client can answer.
    async fn run(
        &self,
        mut events: Listening,
        mut progress: Option<Receiver<Raw>>,
    ) -> Result<Raw, RpcError> {
        let underway = Underway { dialog: self.dialog, call: self.call, is_over: false };
        let ended = self.dialog.wait(self.call);
        tokio::pin!(ended);
        loop {
            if let Some(question) = self.question() {
                if self.caller.era() == Era::Modern {
                    let required = self.require(&question)?;
                    underway.goes_on();
                    return Ok(required);
                }
                self.pass_on(&question).await;
            }
            tokio::select! {
                biased;
                params = next(&mut progress) => self.tell(&params).await,
                ended = &mut ended => {
                    self.tell_rest(&mut progress).await;
                    underway.goes_on();
                    return self.result(ended);
                }
                event = events.next() => self.woken(event).await,
            }
        }
    }

    fn result(&self, ended: Option<Execution>) -> Result<Raw, RpcError> {
        let ended = ended.ok_or_else(|| RpcError::internal("the call was cancelled"))?;
        let result = ended.outcome.map_err(|error| refusal(&error))?;
        Ok(self.client.seal(self.caller, result.raw(), false))
    }

    fn question(&self) -> Option<Question> {
        self.dialog.questions().into_iter().find(|question| question.call == Some(self.call))
    }

    /// A question as a request of its own.
    async fn pass_on(&self, question: &Question) {
        let answer = self.client.ask(&question.method, &question.params, self.out).await;
        let gone = || Err(RpcError::internal("the client has gone"));
        self.dialog.answer(question.id, answer.unwrap_or_else(gone));
    }

    /// A question inside of an answer; the call stays open until the client comes back.
    fn require(&self, question: &Question) -> Result<Raw, RpcError> {
        let request = ObjectWriter::new()
            .string("method", &question.method)
            .json("params", question.params.json())
            .finish();
        let requests = ObjectWriter::new().json(&question.id.to_string(), request.json()).finish();
        let state = self.client.park(self.call)?;
        let required = InputRequired::build(Some(requests.json()), Some(&state));
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

    /// Something happened; whether it is of this call is looked up.
    async fn woken(&self, event: Option<Arc<Event>>) {
        if event.is_none() {
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn tell(&self, params: &Raw) {
        let Some(token) = &self.token else { return };
        let own = ObjectWriter::new().id("progressToken", token).finish();
        let params = params.with_members([("progressToken", own.get("progressToken"))]);
        let message = build::notification(method::PROGRESS, Some(params.json()));
        // A client that has gone ends this elsewhere.
        let _ = self.out.send(message).await;
    }

    async fn tell_rest(&self, progress: &mut Option<Receiver<Raw>>) {
        while let Some(params) = progress.as_mut().and_then(Receiver::try_next) {
            self.tell(&params).await;
        }
    }
}

/// A call that is cancelled if nobody waits for it any more.
struct Underway<'a> {
    dialog: &'a Dialog,
    call: u64,
    is_over: bool,
}

impl Underway<'_> {
    /// It has ended, or somebody will come back for it.
    fn goes_on(mut self) {
        self.is_over = true;
    }
}

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.dialog.cancel(self.call);
        }
    }
}

async fn next(progress: &mut Option<Receiver<Raw>>) -> Raw {
    if let Some(receiver) = progress {
        if let Some(params) = receiver.next().await {
            return params;
        }
        *progress = None;
    }
    std::future::pending().await
}

/// What the client says besides, without what is between it and us alone.
fn handed_on(params: &Body) -> Option<Raw> {
    let meta = params.meta()?;
    let own = |key: &str| key == "progressToken" || key.starts_with("io.modelcontextprotocol/");
    let mut rest = ObjectWriter::new();
    for (key, value) in meta.members().filter(|(key, _)| !own(key)) {
        rest = rest.json(&key, value);
    }
    Some(rest.finish()).filter(|rest| rest.text() != "{}")
}
