//! A call to a server: on which session, how often, and what its failure means.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use toolcrib_config::ServerSpec;
use toolcrib_config::model::policy::CallRetry;
use toolcrib_upstream::conn::peer::{
    self, CallOff, CallOptions, Hears, Patience, ProgressWish, Remark, Sender,
};
use toolcrib_upstream::conn::{Failure, FailureKind, Session};
use toolcrib_upstream::signals::chain;
use toolcrib_wire::view::{CallToolResult, ResultType};
use toolcrib_wire::{Body, Era, Raw, RpcError, code, method};

use super::answers::{Answers, allowed};
use super::asking::{self, During};
use super::call::{CallRequest, Rounds, longest_wait, params, patience, unusable};
use super::desk::Call;
use super::events::{Event, Events};
use super::note::Note;
use super::serving::{NoSession, Serving};
use super::turn::Turn;
use crate::lease::{Reminder, TakeError};
use crate::registry::{Server, Tool};
use crate::shape::{CallError, ErrorKind, Retry};

/// A call is made this often at most, also if policy lets it be made again.
const MOST_ATTEMPTS: u32 = 4;

/// A request that got no answer.
pub(super) struct Missed {
    pub(super) error: CallError,
    /// Whether making it again may help: the connection was lost.
    is_loss: bool,
    /// Whether the server may have begun with it.
    may_have_run: bool,
}

/// Who hears of a call: everybody who listens to the host, and whoever made it.
#[derive(Debug)]
struct Hearing {
    events: Events,
    dialog: Arc<str>,
    call: u64,
    remarks: Option<Sender<Remark>>,
}

/// A request to a server, ready to be sent.
pub(super) struct Errand<'a> {
    pub(super) method: &'static str,
    pub(super) params: Raw,
    /// Whether there is none in the params.
    pub(super) has_no_meta: bool,
    pub(super) patience: Patience,
    pub(super) remarks: Option<&'a Sender<Remark>>,
    pub(super) rounds: Option<&'a Rounds>,
    pub(super) call_off: Option<&'a CallOff>,
    /// What can be asked on the way, where that is said.
    pub(super) answers: Option<Answers>,
    /// The call that it is part of.
    pub(super) call: u64,
    /// When the caller began to wait.
    pub(super) begun: Instant,
    /// Whether the caller hands the reminder of a new lease on.
    pub(super) reminds: bool,
}

/// What a server answered, and the lease that its dialog is to be reminded of.
pub(super) struct Answered {
    pub(super) body: Body,
    pub(super) reminder: Option<Box<Reminder>>,
}

impl Errand<'_> {
    /// The same in another time.
    fn within(&self, patience: Patience) -> Self {
        Errand { params: self.params.clone(), patience, ..*self }
    }
}

impl Turn {
    pub(super) async fn send(
        &self,
        note: &mut Note<'_>,
        tool: &Tool,
        server: &Server,
        arguments: &Raw,
        request: &CallRequest,
    ) -> Result<CallToolResult, CallError> {
        let serving = self.serving(server).ok_or_else(|| CallError::not_connected(server.id()))?;
        let besides = &request.besides;
        let is_first = besides.rounds.as_ref().is_none_or(Rounds::is_first);
        let asked = serving.results.asked(&self.inner().id, tool.original_name(), arguments);
        // What is not known here may ask for another result.
        let asked = asked.filter(|_| is_first && besides.more.is_none());
        if let Some(known) = asked.as_ref().and_then(|asked| serving.results.get(asked)) {
            return Ok(known);
        }
        let errand = Errand {
            method: method::TOOLS_CALL,
            params: params(tool.original_name(), arguments, besides),
            has_no_meta: besides.meta().is_none(),
            patience: patience(request.timeout, &server.spec.policy.timeouts),
            remarks: besides.remarks.as_ref(),
            rounds: besides.rounds.as_ref(),
            call_off: besides.call_off.as_ref(),
            answers: besides.answers,
            call: note.call(),
            begun: Instant::now(),
            reminds: besides.reminds,
        };
        let answer = self.send_by_policy(note, tool, serving, &errand).await?;
        let result = CallToolResult::of(&answer).map_err(unusable)?;
        let is_complete = *result.result_type() != ResultType::InputRequired;
        if let Some(asked) = asked.filter(|_| is_complete) {
            serving.results.keep(asked, &result);
        }
        Ok(result)
    }

    /// Makes a call again where its connection was lost and its policy says so.
    async fn send_by_policy(
        &self,
        note: &mut Note<'_>,
        tool: &Tool,
        serving: &Serving,
        errand: &Errand<'_>,
    ) -> Result<Body, CallError> {
        let (begun, stood) = (errand.begun, serving.stood());
        let mut left = errand.patience;
        loop {
            let attempt = note.attempt();
            let missed = match self.run_errand(serving, &errand.within(left)).await {
                Ok(Answered { body, reminder }) => {
                    note.remind(reminder);
                    return Ok(body);
                }
                Err(missed) => missed,
            };
            let may_repeat = !missed.may_have_run || repeats(serving, tool);
            let waited = serving.waited(begun, stood);
            let has_time = attempt < MOST_ATTEMPTS && waited < longest_wait(errand.patience);
            if !(missed.is_loss && may_repeat && has_time) {
                return Err(missed.error);
            }
            note.repeats(missed.may_have_run);
            tracing::info!(
                server = %serving.spec().id,
                tool = tool.name(),
                error = %missed.error,
                "a lost call is made again"
            );
            left = errand.patience.less(waited);
        }
    }

    /// One request on whichever session the dialog has with the server.
    pub(super) async fn run_errand(
        &self,
        serving: &Serving,
        errand: &Errand<'_>,
    ) -> Result<Answered, Missed> {
        let spec = serving.spec();
        let call = Call { dialog: self.inner(), number: errand.call, answers: errand.answers };
        let place = serving.place(call, errand.patience).await;
        let waited = || errand.begun.elapsed();
        let (mut place, patience) = place.map_err(|why| Missed::unsent(&spec.id, why, waited()))?;
        let options = CallOptions {
            patience,
            progress: ProgressWish::Deliver(self.hearing(errand)),
            tag: Some(errand.call),
            call_off: errand.call_off.cloned(),
            has_no_meta: errand.has_no_meta,
            is_alone: place.is_leased(),
            is_direct: true,
            ..CallOptions::default()
        };
        let session = &place.ticket.session;
        if let Some(level) = self.inner().log_level().filter(|_| place.is_leased()) {
            // What is rare does not make every call large.
            Box::pin(session.log_from(level)).await;
        }
        let answer = self.ask_on(session, spec, errand, options).await;
        // After a time-out the server was told that nobody waits any more.
        if !matches!(answer, Err(peer::CallError::Timeout { .. })) {
            place.answered();
        }
        let body = answer.map_err(|error| Missed::failed(&spec.id, &error, waited()))?;
        let reminder = errand.reminds.then(|| place.remind(spec)).flatten();
        Ok(Answered { body, reminder })
    }

    /// Before the modern era a session has one caller for all its calls.
    async fn ask_on(
        &self,
        session: &Session,
        spec: &Arc<ServerSpec>,
        errand: &Errand<'_>,
        options: CallOptions,
    ) -> Result<Body, peer::CallError> {
        let (method, mut params) = (errand.method, errand.params.clone());
        let capabilities;
        let asker = match (session.agreed().era, errand.rounds) {
            (Era::Legacy, _) => None,
            (Era::Modern, None) => {
                let caller = asking::caller(self.inner(), spec, During::Call(errand.call));
                // Larger than what follows, which would have to be as large.
                return Box::pin(session.call(method, params, options, Some(&caller))).await;
            }
            (Era::Modern, Some(rounds)) => {
                let said = [
                    ("inputResponses", rounds.responses.clone()),
                    ("requestState", rounds.state.clone()),
                ];
                params = params.with_members(said.into_iter().filter(|(_, it)| it.is_some()));
                capabilities = allowed(&spec.policy.client, &rounds.capabilities);
                Some((&capabilities, rounds.log_level))
            }
        };
        session.round(method, params, options, asker).await
    }

    fn hearing(&self, errand: &Errand<'_>) -> Arc<dyn Hears> {
        Arc::new(Hearing {
            events: self.core().events.clone(),
            dialog: Arc::clone(&self.inner().id),
            call: errand.call,
            remarks: errand.remarks.cloned(),
        })
    }
}

impl Hears for Hearing {
    fn hear(&self, remark: Remark) {
        if let Remark::Progress(params) = &remark {
            let (dialog, params) = (Arc::clone(&self.dialog), params.clone());
            self.events.tell(Event::Progress { dialog, call: self.call, params });
        }
        if let Some(remarks) = &self.remarks {
            remarks.hear(remark);
        }
    }
}

/// The result of an answer, as it was written.
pub(super) fn whole(answer: &Body) -> Result<Raw, CallError> {
    answer.raw().ok_or_else(|| CallError::new(ErrorKind::Protocol, "no result"))
}

pub(super) fn unsent(server: &str, why: NoSession, waited: Duration) -> CallError {
    Missed::unsent(server, why, waited).error
}

pub(super) fn refused(server: &str, error: &peer::CallError, waited: Duration) -> CallError {
    Missed::failed(server, error, waited).error
}

/// Whether a call that may have run may be made again.
fn repeats(serving: &Serving, tool: &Tool) -> bool {
    match serving.spec().policy.calls.retry {
        CallRetry::Never => false,
        CallRetry::OnConnectionLoss => true,
        CallRetry::IfIdempotent => {
            let hints = tool.hints();
            hints.idempotent == Some(true) || hints.read_only == Some(true)
        }
    }
}

impl Missed {
    fn unsent(server: &str, why: NoSession, waited: Duration) -> Self {
        let error = match why {
            NoSession::Down(failure) => of_down(server, &failure),
            NoSession::Late => {
                let text = format!("no session with server `{server}` in time");
                CallError::new(ErrorKind::Timeout, after(text, waited)).with_server(server)
            }
            NoSession::Lease(TakeError::Failed { cause, .. }) => of_down(server, &cause),
            NoSession::Lease(error) => of_lease(server, &error, waited),
        };
        Missed { error, is_loss: false, may_have_run: false }
    }

    fn failed(server: &str, error: &peer::CallError, waited: Duration) -> Self {
        let failure = Failure::from(error);
        let is_loss = match error {
            peer::CallError::Closed(_) | peer::CallError::Unsent(_) => true,
            peer::CallError::Failed(_) => failure.kind == FailureKind::Connection,
            _ => false,
        };
        let told = match error {
            peer::CallError::Refused(refusal) => of_refusal(refusal),
            peer::CallError::Closed(_)
            | peer::CallError::Unsent(_)
            | peer::CallError::Failed(_) => of_failure(server, &failure),
            peer::CallError::Timeout { .. } => {
                let text = format!("{} from server `{server}`", chain(error));
                CallError::new(ErrorKind::Timeout, after(text, waited))
            }
            peer::CallError::TooLarge { .. } => {
                CallError::new(ErrorKind::Resource, naming(server, chain(error)))
            }
            peer::CallError::Malformed(_)
            | peer::CallError::EndedByServer
            | peer::CallError::Unanswered { .. }
            | peer::CallError::TooManyRounds(_) => {
                CallError::new(ErrorKind::Protocol, naming(server, chain(error)))
            }
        };
        // Only a call that was never sent, or refused because its session is unknown, has certainly not been begun.
        let may_have_run = match error {
            peer::CallError::Unsent(_) => false,
            peer::CallError::Failed(_) => !failure.is_session_gone(),
            _ => true,
        };
        Missed { error: told.with_server(server), is_loss, may_have_run }
    }
}

/// The server understood the request and will not have it.
fn of_refusal(refusal: &RpcError) -> CallError {
    let kind = match refusal.code {
        code::INVALID_PARAMS => ErrorKind::InvalidArguments,
        _ => ErrorKind::Protocol,
    };
    CallError::refused(kind, refusal.clone())
}

/// Nothing was sent.
fn of_down(server: &str, failure: &Failure) -> CallError {
    match failure.kind {
        FailureKind::Connection => CallError::not_connected(server).with_cause(failure.clone()),
        _ => of_failure(server, failure),
    }
}

fn of_failure(server: &str, failure: &Failure) -> CallError {
    let kind = match failure.kind {
        FailureKind::Config => ErrorKind::Config,
        FailureKind::Connection => ErrorKind::Connection,
        FailureKind::Authentication => ErrorKind::Authentication,
        FailureKind::Protocol => ErrorKind::Protocol,
        FailureKind::Timeout => ErrorKind::Timeout,
        FailureKind::Resource => ErrorKind::Resource,
    };
    let error = CallError::new(kind, naming(server, failure.message.clone()));
    let error = error.with_code(failure.code).with_server(server);
    match failure.retry_after {
        Some(wait) => error.with_retry(Retry::After(wait)),
        None => error,
    }
}

fn of_lease(server: &str, error: &TakeError<Failure>, waited: Duration) -> CallError {
    let kind = match error {
        _ if error.is_resource() => ErrorKind::Resource,
        TakeError::Slow { .. } => ErrorKind::Timeout,
        TakeError::DialogEnded { .. } => ErrorKind::Cancelled,
        _ => ErrorKind::Connection,
    };
    let text = match error {
        TakeError::NoneFree { .. } | TakeError::Slow { .. } => after(chain(error), waited),
        _ => chain(error),
    };
    CallError::new(kind, text).with_server(server)
}

/// A limit that was exceeded is of a server: its name belongs to the message.
fn naming(server: &str, text: String) -> String {
    match text.contains("limit of ") && !text.contains(&format!("`{server}`")) {
        true => format!("server `{server}`: {text}"),
        false => text,
    }
}

/// A wait that was too long, with the time that passed. What was left of a limit when the request was sent may be less.
fn after(text: String, waited: Duration) -> String {
    format!("{text} ({:.1} s passed)", waited.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exceeded_limit_names_the_server_once() {
        let error = peer::CallError::TooLarge { limit: 7 };
        let missed = Missed::failed("docs", &error, Duration::ZERO);
        let text = "server `docs`: the answer is over the limit of 7 bytes";
        assert_eq!(missed.error.message(), text);
        assert_eq!(naming("docs", text.to_owned()), text);
        assert_eq!(naming("docs", "refused".to_owned()), "refused");
    }

    #[test]
    fn a_timeout_says_the_time_that_passed() {
        let after = Duration::from_millis(1500);
        let error = peer::CallError::Timeout { after, limit: peer::Limit::Request };
        let missed = Missed::failed("docs", &error, Duration::from_millis(2040));
        let text = "no answer within 1500 ms from server `docs` (2.0 s passed)";
        assert_eq!(missed.error.message(), text);
        let missed = Missed::unsent("docs", NoSession::Late, Duration::from_secs(3));
        let text = "no session with server `docs` in time (3.0 s passed)";
        assert_eq!(missed.error.message(), text);
    }
}
