//! What servers ask of a dialog, and who answers: the host itself for folders, whoever is behind the dialog for
//! everything else.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::time::timeout;
use toolcrib_config::ServerSpec;
use toolcrib_config::model::policy::{Offer, Roots};
use toolcrib_wire::{ObjectWriter, Raw, RpcError, method};
use url::Url;

use super::answers::{Answers, capabilities};
use super::desk::Desk;
use super::dialog::Inner;
use super::events::Event;
use crate::conn::Caller;
use crate::conn::peer::{Answering, Asked, CallOff, Handler};

/// A question that nobody answers ends after this time.
const LONGEST: Duration = Duration::from_secs(600);

/// Questions that may wait in one dialog.
const MOST: usize = 32;

/// A question of a server that waits for its answer.
#[derive(Clone, Debug)]
pub struct Question {
    pub id: u64,
    /// The call that it is asked for; where several could be, the newest one that nothing else is asked for.
    pub call: Option<u64>,
    /// The server's id.
    pub server: Arc<str>,
    /// `elicitation/create`, `sampling/createMessage` or `roots/list`.
    pub method: String,
    pub params: Raw,
    /// What its server says if it calls it off.
    pub call_off: CallOff,
}

/// The questions of one dialog.
#[derive(Debug, Default)]
pub(super) struct Questions {
    open: Mutex<Open>,
    /// The number of the newest.
    newest: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Open {
    last: u64,
    waiting: BTreeMap<u64, (Question, Reply)>,
    /// Calls that nobody attends to now.
    away: BTreeSet<u64>,
}

/// While it lives, nobody attends to a call: what can be asked for another one is not asked for this.
#[derive(Debug)]
pub struct Away {
    dialog: Arc<Inner>,
    call: u64,
}

impl Away {
    pub(super) fn new(dialog: &Arc<Inner>, call: u64) -> Self {
        dialog.questions.open().away.insert(call);
        Away { dialog: Arc::clone(dialog), call }
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        self.dialog.questions.open().away.remove(&self.call);
    }
}

type Reply = oneshot::Sender<Result<Raw, RpcError>>;

impl Questions {
    pub(super) fn waiting(&self) -> Vec<Question> {
        self.open().waiting.values().map(|(question, _)| question.clone()).collect()
    }

    /// False if there is no such question, or nobody waits for its answer any more.
    pub(super) fn answer(&self, id: u64, answer: Result<Raw, RpcError>) -> bool {
        let waiting = self.open().waiting.remove(&id);
        waiting.is_some_and(|(_, reply)| reply.send(answer).is_ok())
    }

    /// Which of these calls, the newest first, a question is for that does not say it.
    pub(super) fn likeliest(&self, calls: impl Iterator<Item = u64> + Clone) -> Option<u64> {
        let open = self.open();
        let is_asked = |call| open.waiting.values().any(|(it, _)| it.call == Some(call));
        let mut here = calls.clone().filter(|call| !open.away.contains(call));
        let free = here.clone().find(|call| !is_asked(*call));
        free.or_else(|| here.next()).or_else(|| calls.clone().next())
    }

    /// Nobody is left who could answer.
    pub(super) fn close(&self) {
        drop(std::mem::take(&mut self.open().waiting));
    }

    /// Gives the question its number.
    fn add(
        &self,
        mut question: Question,
    ) -> Option<(Question, oneshot::Receiver<Result<Raw, RpcError>>)> {
        let mut open = self.open();
        if open.waiting.len() >= MOST {
            return None;
        }
        open.last += 1;
        question.id = open.last;
        let (reply, answer) = oneshot::channel();
        open.waiting.insert(question.id, (question.clone(), reply));
        self.newest.send_replace(question.id);
        Some((question, answer))
    }

    /// Sees a new number whenever there is a new question.
    pub(super) fn watch(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whoever is behind a dialog, as a server sees them.
pub(super) fn caller(dialog: &Arc<Inner>, spec: &Arc<ServerSpec>, during: During) -> Caller {
    let person = Person { dialog: Arc::clone(dialog), spec: Arc::clone(spec), during };
    Caller {
        capabilities: capabilities(&spec.policy.client, dialog.answers.get()),
        handler: Arc::new(person),
    }
}

/// During which call a question is asked.
pub(super) enum During {
    Call(u64),
    /// One of those that the desk knows to be under way.
    Any(Arc<Desk>),
}

struct Person {
    dialog: Arc<Inner>,
    spec: Arc<ServerSpec>,
    during: During,
}

impl Handler for Person {
    fn take(&self, asked: Asked) -> Option<Answering> {
        let answers = self.dialog.answers.get();
        let whose = match &self.during {
            During::Call(call) => Whose { dialog: &self.dialog, call: Some(*call), answers },
            During::Any(desk) => desk.whose_of(&self.dialog, &asked),
        };
        take(Some(whose), &self.dialog.cwd, &self.spec, asked)
    }
}

/// Whom a question is for.
pub(super) struct Whose<'a> {
    pub(super) dialog: &'a Arc<Inner>,
    pub(super) call: Option<u64>,
    /// What can be asked there.
    pub(super) answers: Answers,
}

/// Answers a question of a server for a dialog; for none where it cannot be told whose question it is, and then
/// only what is not a dialog's own.
pub(super) fn take(
    whose: Option<Whose<'_>>,
    cwd: &Path,
    spec: &ServerSpec,
    asked: Asked,
) -> Option<Answering> {
    let client = &spec.policy.client;
    let has_own = whose.as_ref().is_some_and(|it| it.answers.roots);
    if asked.method == method::ROOTS_LIST && client.roots == Roots::Cwd && !has_own {
        let roots = roots(cwd);
        return Some(Box::pin(async move { Ok(roots) }));
    }
    let Whose { dialog, call, answers } = whose?;
    let is_off = match asked.method.as_str() {
        method::ELICIT => client.elicitation == Offer::Off,
        method::ROOTS_LIST => client.roots == Roots::Off,
        _ => client.sampling == Offer::Off,
    };
    if is_off {
        return None;
    }
    match answers.refusal(&asked.method, asked.params.json()) {
        Some(refusal) => Some(Box::pin(async { Err(refusal) })),
        None => Some(ask(Arc::clone(dialog), Arc::from(spec.id.as_str()), call, asked)),
    }
}

/// The question is known from now on, not only when its answer is waited for: the next one may be for another call.
fn ask(dialog: Arc<Inner>, server: Arc<str>, call: Option<u64>, asked: Asked) -> Answering {
    let pause = asked.pause(call);
    let params = asked.params.raw().unwrap_or_else(|| ObjectWriter::new().finish());
    let Asked { method, call_off, .. } = asked;
    let question = Question { id: 0, call, server, method, params, call_off };
    let Some((question, answer)) = dialog.questions.add(question) else {
        return Box::pin(async { Err(RpcError::internal("too many open questions")) });
    };
    let open = OpenQuestion { dialog: Arc::clone(&dialog), id: question.id };
    let id = Arc::clone(&dialog.id);
    dialog.events.tell(Event::Asked { dialog: id, question });
    Box::pin(async move {
        let answered = timeout(LONGEST, answer).await;
        drop((open, pause));
        match answered {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(RpcError::internal("the dialog ended")),
            Err(_) => Err(RpcError::internal("nobody answered in time")),
        }
    })
}

/// A question that nobody waits for any more is not shown to anybody.
struct OpenQuestion {
    dialog: Arc<Inner>,
    id: u64,
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        let questions = &self.dialog.questions;
        questions.open().waiting.remove(&self.id);
        // Whoever has asked it hears that he need not.
        questions.newest.send_modify(|_| ());
    }
}

fn roots(cwd: &Path) -> Raw {
    let root = Url::from_file_path(cwd).ok().map(|uri| {
        let name = cwd.file_name().map(|name| name.to_string_lossy());
        ObjectWriter::new().string("uri", uri.as_str()).string_if("name", name.as_deref()).finish()
    });
    ObjectWriter::new().array("roots", root).finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_for_the_newest_call_that_nothing_else_is_asked_for() {
        let questions = Questions::default();
        let ask = |call| {
            let (method, params) = (method::ELICIT.to_owned(), ObjectWriter::new().finish());
            let (server, call_off) = ("server".into(), CallOff::default());
            let question = Question { id: 0, call: Some(call), server, method, params, call_off };
            questions.add(question).unwrap().0.id
        };
        let likeliest = || questions.likeliest([3, 2, 1].into_iter());
        assert_eq!(likeliest(), Some(3));
        let newest = ask(3);
        assert_eq!(likeliest(), Some(2));
        questions.open().away.insert(2);
        assert_eq!(likeliest(), Some(1), "nobody attends to the second");
        ask(1);
        assert_eq!(likeliest(), Some(3), "all that somebody attends to are asked something");
        questions.answer(newest, Err(RpcError::internal("no")));
        questions.open().away.insert(3);
        assert_eq!(likeliest(), Some(1));
        questions.open().away.insert(1);
        assert_eq!(likeliest(), Some(3), "nobody attends to any");
        assert_eq!(questions.likeliest(std::iter::empty()), None);
    }

    #[test]
    fn dis_40_a_root_is_the_folder_as_a_uri() {
        let roots = roots(Path::new("/tmp/a b"));
        assert_eq!(roots.text(), r#"{"roots":[{"uri":"file:///tmp/a%20b","name":"a b"}]}"#);
    }
}
