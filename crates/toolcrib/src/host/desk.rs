//! Who answers what a server asks on its main connection.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use toolcrib_config::ServerSpec;
use toolcrib_upstream::conn::Caller;
use toolcrib_upstream::conn::peer::{Answering, Asked, Handler, Origin};

use super::answers::{Answers, capabilities};
use super::asking::{self, Cause, Whose};
use super::dialog::Inner;
use super::questions::CallEnd;

/// Answers what a server asks on its main connection: for the dialog that has it, or that alone is calling on it.
pub(super) struct Desk {
    spec: Arc<ServerSpec>,
    pub(super) cwd: PathBuf,
    who: Mutex<Who>,
}

#[derive(Default)]
struct Who {
    lessee: Option<Weak<Inner>>,
    /// Calls under way, the oldest first.
    calling: BTreeMap<u64, Made>,
}

/// What a desk keeps of a call.
struct Made {
    dialog: Arc<Inner>,
}

/// A call that is to be made.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    pub(super) dialog: &'a Arc<Inner>,
    pub(super) number: u64,
    /// What can be asked in it; what the dialog says where it says nothing itself.
    pub(super) answers: Option<Answers>,
}

/// While it lives, the dialog may be asked.
pub(super) struct Calling {
    desk: Arc<Desk>,
    dialog: Arc<Inner>,
    call: u64,
    end: CallEnd,
}

impl Calling {
    /// The server has answered the call.
    pub(super) fn answered(&mut self) {
        self.end = CallEnd::Answered;
    }
}

impl Desk {
    pub(super) fn new(spec: Arc<ServerSpec>, cwd: PathBuf) -> Arc<Self> {
        Arc::new(Desk { spec, cwd, who: Mutex::default() })
    }

    /// As the server's main connection sees the host.
    pub(super) fn caller(self: &Arc<Self>, answers: Answers) -> Caller {
        let capabilities = capabilities(&self.spec.policy.client, answers);
        Caller { capabilities, handler: Arc::clone(self) as _ }
    }

    pub(super) fn lend_to(&self, dialog: Option<&Arc<Inner>>) {
        self.who().lessee = dialog.map(Arc::downgrade);
    }

    pub(super) fn calling(self: &Arc<Self>, call: Call<'_>) -> Calling {
        let dialog = Arc::clone(call.dialog);
        self.who().calling.insert(call.number, Made { dialog: Arc::clone(&dialog) });
        dialog.questions.open_call(call.number, call.answers);
        Calling { desk: Arc::clone(self), dialog, call: call.number, end: CallEnd::GivenUp }
    }

    /// Which call of a dialog caused a question, or may have.
    pub(super) fn whose_of<'a>(&self, dialog: &'a Arc<Inner>, asked: &Asked) -> Whose<'a> {
        let cause = match asked.origin {
            Origin::Call(Some(call)) => Cause::Call(call),
            // A request of the host itself.
            Origin::Call(None) => Cause::OneOf(Vec::new()),
            Origin::Ended => Cause::Ended,
            Origin::Unknown => {
                let who = self.who();
                let is_own = |call: &u64| {
                    who.calling.get(call).is_some_and(|made| Arc::ptr_eq(&made.dialog, dialog))
                };
                match asked.calls().filter(is_own).collect::<Vec<u64>>()[..] {
                    [call] => Cause::Call(call),
                    ref calls => Cause::OneOf(calls.to_vec()),
                }
            }
        };
        let default = dialog.answers.get();
        let calls = match &cause {
            Cause::Call(call) => std::slice::from_ref(call),
            Cause::OneOf(calls) => calls,
            Cause::Ended => &[],
        };
        let can_ask =
            |answers: Answers| answers.refusal(&asked.method, asked.params.json()).is_none();
        let carrier = dialog.questions.likeliest(calls, default, can_ask);
        let answers = carrier.map_or(default, |(_, answers)| answers);
        Whose { dialog, carrier: carrier.map(|(call, _)| call), answers, cause }
    }

    /// Whose question it must be; nobody's where several could have caused it.
    fn whose(&self, asked: &Asked) -> Option<Arc<Inner>> {
        let who = self.who();
        match asked.origin {
            Origin::Call(Some(call)) => {
                return who.calling.get(&call).map(|made| Arc::clone(&made.dialog));
            }
            // Nobody is left to be asked.
            Origin::Call(None) | Origin::Ended => return None,
            Origin::Unknown => {}
        }
        if let Some(lessee) = who.lessee.as_ref().and_then(Weak::upgrade) {
            return Some(lessee);
        }
        let mut dialogs = who.calling.values().map(|made| &made.dialog);
        let first = dialogs.next()?;
        dialogs.all(|other| Arc::ptr_eq(first, other)).then(|| Arc::clone(first))
    }

    fn who(&self) -> MutexGuard<'_, Who> {
        self.who.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Calling {
    fn drop(&mut self) {
        // What may be the last of a dialog is dropped outside of the lock.
        let done = self.desk.who().calling.remove(&self.call);
        drop(done);
        self.dialog.questions.close_call(self.call, self.end, self.dialog.answers.get());
    }
}

impl Handler for Desk {
    fn take(&self, asked: Asked) -> Option<Answering> {
        let dialog = self.whose(&asked);
        let cwd = dialog.as_ref().map_or(&*self.cwd, |dialog| &dialog.cwd);
        let whose = dialog.as_ref().map(|dialog| self.whose_of(dialog, &asked));
        asking::take(whose, cwd, &self.spec, asked)
    }
}

impl std::fmt::Debug for Desk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Desk").field("server", &self.spec.id).finish_non_exhaustive()
    }
}
