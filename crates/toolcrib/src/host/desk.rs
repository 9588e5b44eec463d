//! Who answers what a server asks on its main connection.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use toolcrib_config::ServerSpec;

use super::answers::{Answers, capabilities};
use super::asking::{self, Whose};
use super::dialog::Inner;
use crate::conn::Caller;
use crate::conn::peer::{Answering, Asked, Handler};

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
    answers: Option<Answers>,
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
    call: u64,
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
        let made = Made { dialog: Arc::clone(call.dialog), answers: call.answers };
        self.who().calling.insert(call.number, made);
        Calling { desk: Arc::clone(self), call: call.number }
    }

    /// Which call of a dialog is asked: the one that the stream tells, or of those of the session the likeliest.
    pub(super) fn whose_of<'a>(&self, dialog: &'a Arc<Inner>, asked: &Asked) -> Whose<'a> {
        let who = self.who();
        let is_own = |call: &u64| {
            who.calling.get(call).is_some_and(|made| Arc::ptr_eq(&made.dialog, dialog))
        };
        let own = asked.calls().rev().filter(is_own);
        let call = asked.tag.or_else(|| dialog.questions.likeliest(own));
        let answers = call.and_then(|call| who.calling.get(&call)?.answers);
        let answers = answers.unwrap_or_else(|| dialog.answers.get());
        Whose { dialog, call, answers }
    }

    /// Whose question it must be; nobody's where several could have caused it.
    fn whose(&self, asked: &Asked) -> Option<Arc<Inner>> {
        let who = self.who();
        if asked.on.is_some() {
            // The stream tells. If its call has gone, nobody is left to be asked.
            return asked.tag.and_then(|call| Some(Arc::clone(&who.calling.get(&call)?.dialog)));
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
