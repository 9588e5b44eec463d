//! What servers ask of a dialog, and who answers: the host itself for folders, whoever is behind the dialog for
//! everything else.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use toolcrib_config::ServerSpec;
use toolcrib_config::model::policy::{Offer, Roots};
use toolcrib_upstream::conn::Caller;
use toolcrib_upstream::conn::peer::{Answering, Asked, Handler};
use toolcrib_wire::{ObjectWriter, Raw, RpcError, method};
use url::Url;

use super::answers::{Answers, capabilities};
use super::desk::Desk;
use super::dialog::Inner;
use super::events::Event;
use super::questions::{AddError, Question};

/// A question that nobody answers ends after this time.
const LONGEST: Duration = Duration::from_secs(600);

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
        let whose = match &self.during {
            During::Call(call) => Whose::of_call(&self.dialog, *call, self.dialog.answers.get()),
            During::Any(desk) => desk.whose_of(&self.dialog, &asked),
        };
        take(Some(whose), &self.dialog.cwd, &self.spec, asked)
    }
}

/// Whom a question is for.
pub(super) struct Whose<'a> {
    pub(super) dialog: &'a Arc<Inner>,
    pub(super) cause: Cause,
    /// The call whose client is asked.
    pub(super) carrier: Option<u64>,
    /// What can be asked there.
    pub(super) answers: Answers,
}

/// What caused a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    Call(u64),
    /// One of these calls, or none of them where the list is empty.
    OneOf(Vec<u64>),
    /// A call that has ended.
    Ended,
}

impl<'a> Whose<'a> {
    pub(super) fn of_call(dialog: &'a Arc<Inner>, call: u64, answers: Answers) -> Self {
        Whose { dialog, cause: Cause::Call(call), carrier: Some(call), answers }
    }
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
    let Whose { dialog, cause, carrier, answers } = whose?;
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
        None => Some(ask(Arc::clone(dialog), Arc::from(spec.id.as_str()), (cause, carrier), asked)),
    }
}

/// Opens the question at once, not when its answer is first waited for: the next question may have another carrier.
fn ask(
    dialog: Arc<Inner>,
    server: Arc<str>,
    (cause, carrier): (Cause, Option<u64>),
    asked: Asked,
) -> Answering {
    let (call, calls) = match cause {
        Cause::Call(call) => (Some(call), vec![call]),
        Cause::OneOf(calls) => (None, calls),
        Cause::Ended => return refused("the call that asks this has ended"),
    };
    // Any of these calls may be the one that waits for the answer.
    let pause = asked.pause(|tag| tag.is_some_and(|tag| calls.contains(&tag)));
    let params = asked.params.raw().unwrap_or_else(|| ObjectWriter::new().finish());
    let Asked { method, call_off, .. } = asked;
    let question = Question { id: 0, call, calls, carrier, server, method, params, call_off };
    let (question, answer) = match dialog.questions.add(question) {
        Ok(added) => added,
        Err(AddError::TooMany) => return refused("too many open questions"),
        Err(AddError::CallEnded) => return refused("the call that asks this has ended"),
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

fn refused(reason: &'static str) -> Answering {
    Box::pin(async move { Err(RpcError::internal(reason)) })
}

/// A question that nobody waits for any more is not shown to anybody.
struct OpenQuestion {
    dialog: Arc<Inner>,
    id: u64,
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        self.dialog.questions.remove(self.id);
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
    fn dis_40_a_root_is_the_folder_as_a_uri() {
        let roots = roots(Path::new("/tmp/a b"));
        assert_eq!(roots.text(), r#"{"roots":[{"uri":"file:///tmp/a%20b","name":"a b"}]}"#);
    }
}
