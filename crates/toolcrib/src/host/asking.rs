//! What servers ask of a dialog, and who answers: the host itself for folders, whoever is behind the dialog for
//! everything else.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::time::timeout;
use toolcrib_config::ServerSpec;
use toolcrib_config::model::policy::{Client, Offer, Roots};
use toolcrib_wire::view::ClientCapabilities;
use toolcrib_wire::{Json, ObjectWriter, Raw, RpcError, method};
use url::Url;

use super::desk::Desk;
use super::dialog::Inner;
use super::events::Event;
use crate::conn::Caller;
use crate::conn::peer::{Answering, Asked, Handler};

/// A question that nobody answers ends after this time.
const LONGEST: Duration = Duration::from_secs(600);

/// Questions that may wait in one dialog.
const MOST: usize = 32;

/// What somebody behind a dialog can answer. Nothing else is declared to servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// There is a person who can fill in forms and open addresses.
    pub elicitation: bool,
    /// There is a model.
    pub sampling: bool,
    /// It has folders of its own; the dialog's folder counts where it has none.
    pub roots: bool,
}

/// A question of a server that waits for its answer.
#[derive(Clone, Debug)]
pub struct Question {
    pub id: u64,
    /// The call that it is asked for: the oldest one of the dialog at that server, where several could be.
    pub call: Option<u64>,
    /// The server's id.
    pub server: Arc<str>,
    /// `elicitation/create`, `sampling/createMessage` or `roots/list`.
    pub method: String,
    pub params: Raw,
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

    /// Nobody is left who could answer.
    pub(super) fn close(&self) {
        drop(std::mem::take(&mut self.open().waiting));
    }

    fn add(
        &self,
        server: Arc<str>,
        call: Option<u64>,
        method: String,
        params: Raw,
    ) -> Option<(Question, oneshot::Receiver<Result<Raw, RpcError>>)> {
        let mut open = self.open();
        if open.waiting.len() >= MOST {
            return None;
        }
        open.last += 1;
        let question = Question { id: open.last, call, server, method, params };
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
        capabilities: capabilities(&spec.policy.client, dialog.answers),
        handler: Arc::new(person),
    }
}

/// What is declared: only what can really be answered.
pub(super) fn capabilities(client: &Client, answers: Answers) -> ClientCapabilities {
    let mut declared = ObjectWriter::new();
    if client.roots == Roots::Cwd {
        declared = declared.json("roots", Json::EMPTY);
    }
    if is_offered(client.sampling, answers.sampling) {
        declared = declared.json("sampling", Json::EMPTY);
    }
    if is_offered(client.elicitation, answers.elicitation) {
        let ways = ObjectWriter::new().json("form", Json::EMPTY).json("url", Json::EMPTY).finish();
        declared = declared.json("elicitation", ways.json());
    }
    ClientCapabilities::new(declared.finish())
}

/// What of a caller's own capabilities the server may be told.
pub(super) fn allowed(client: &Client, own: &ClientCapabilities) -> ClientCapabilities {
    let off = [
        ("roots", client.roots == Roots::Off),
        ("sampling", client.sampling == Offer::Off),
        ("elicitation", client.elicitation == Offer::Off),
    ];
    let off = off.into_iter().filter(|(_, is_off)| *is_off).map(|(name, _)| (name, None));
    ClientCapabilities::new(own.raw().with_members(off))
}

fn is_offered(offer: Offer, can: bool) -> bool {
    can && offer != Offer::Off
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
        let call = match &self.during {
            During::Call(call) => Some(*call),
            During::Any(desk) => asked.tag.or_else(|| desk.call_of(&self.dialog)),
        };
        take(Some((&self.dialog, call)), &self.dialog.cwd, &self.spec, asked)
    }
}

/// Answers a question of a server for a dialog; for none where it cannot be told whose question it is, and then
/// only what is not a dialog's own.
pub(super) fn take(
    dialog: Option<(&Arc<Inner>, Option<u64>)>,
    cwd: &Path,
    spec: &ServerSpec,
    asked: Asked,
) -> Option<Answering> {
    let client = &spec.policy.client;
    let has_own = dialog.as_ref().is_some_and(|(dialog, _)| dialog.answers.roots);
    if asked.method == method::ROOTS_LIST && client.roots == Roots::Cwd && !has_own {
        let roots = roots(cwd);
        return Some(Box::pin(async move { Ok(roots) }));
    }
    let (dialog, call) = dialog?;
    let may_ask = match asked.method.as_str() {
        method::ELICIT => is_offered(client.elicitation, dialog.answers.elicitation),
        method::ROOTS_LIST => client.roots == Roots::Cwd && dialog.answers.roots,
        method::CREATE_MESSAGE => is_offered(client.sampling, dialog.answers.sampling),
        _ => false,
    };
    let (dialog, server) = (Arc::clone(dialog), Arc::from(spec.id.as_str()));
    may_ask.then(|| -> Answering { Box::pin(ask(dialog, server, call, asked)) })
}

async fn ask(
    dialog: Arc<Inner>,
    server: Arc<str>,
    call: Option<u64>,
    asked: Asked,
) -> Result<Raw, RpcError> {
    let _pause = asked.pause();
    let params = asked.params.raw().unwrap_or_else(|| ObjectWriter::new().finish());
    let added = dialog.questions.add(server, call, asked.method, params);
    let (question, answer) = added.ok_or_else(|| RpcError::internal("too many open questions"))?;
    let open = OpenQuestion { dialog: &dialog, id: question.id };
    let id = Arc::clone(&dialog.id);
    dialog.events.tell(Event::Asked { dialog: id, question });
    let answered = timeout(LONGEST, answer).await;
    drop(open);
    match answered {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => Err(RpcError::internal("the dialog ended")),
        Err(_) => Err(RpcError::internal("nobody answered in time")),
    }
}

/// A question that nobody waits for any more is not shown to anybody.
struct OpenQuestion<'a> {
    dialog: &'a Inner,
    id: u64,
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        self.dialog.questions.open().waiting.remove(&self.id);
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
    fn dis_42_only_what_can_be_answered_is_declared() {
        let mut client = Client::default();
        let both = Answers { elicitation: true, sampling: true, roots: false };
        let declared = capabilities(&client, both);
        assert!(declared.roots() && declared.sampling());
        assert!(declared.elicitation_form() && declared.elicitation_url());
        // DIS-42: what nobody can answer is not declared.
        let declared = capabilities(&client, Answers::default());
        assert!(declared.roots() && !declared.sampling() && !declared.elicitation_form());
        (client.roots, client.sampling) = (Roots::Off, Offer::Off);
        client.elicitation = Offer::Off;
        assert_eq!(capabilities(&client, both).raw().text(), "{}");
    }

    #[test]
    fn dis_40_a_root_is_the_folder_as_a_uri() {
        let roots = roots(Path::new("/tmp/a b"));
        assert_eq!(roots.text(), r#"{"roots":[{"uri":"file:///tmp/a%20b","name":"a b"}]}"#);
    }
}
