//! Who answers what a server asks on its main connection.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use toolcrib_config::ServerSpec;

use super::asking::{self, Answers};
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
    calling: BTreeMap<u64, Arc<Inner>>,
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
        let capabilities = asking::capabilities(&self.spec.policy.client, answers);
        Caller { capabilities, handler: Arc::clone(self) as _ }
    }

    pub(super) fn lend_to(&self, dialog: Option<&Arc<Inner>>) {
        self.who().lessee = dialog.map(Arc::downgrade);
    }

    pub(super) fn calling(self: &Arc<Self>, dialog: &Arc<Inner>, call: u64) -> Calling {
        self.who().calling.insert(call, Arc::clone(dialog));
        Calling { desk: Arc::clone(self), call }
    }

    /// The oldest call of a dialog that is under way.
    pub(super) fn call_of(&self, dialog: &Arc<Inner>) -> Option<u64> {
        let who = self.who();
        let mut calls = who.calling.iter().filter(|(_, of)| Arc::ptr_eq(of, dialog));
        calls.next().map(|(call, _)| *call)
    }

    /// Whose question it must be; nobody's where several could have caused it.
    fn whose(&self, asked: &Asked) -> Option<Arc<Inner>> {
        let who = self.who();
        if asked.on.is_some() {
            // The stream tells. If its call has gone, nobody is left to be asked.
            return asked.tag.and_then(|call| who.calling.get(&call).cloned());
        }
        if let Some(lessee) = who.lessee.as_ref().and_then(Weak::upgrade) {
            return Some(lessee);
        }
        let first = who.calling.values().next()?;
        who.calling.values().all(|other| Arc::ptr_eq(first, other)).then(|| Arc::clone(first))
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
        let call = |dialog| asked.tag.or_else(|| self.call_of(dialog));
        let whose = dialog.as_ref().map(|dialog| (dialog, call(dialog)));
        asking::take(whose, cwd, &self.spec, asked)
    }
}

impl std::fmt::Debug for Desk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Desk").field("server", &self.spec.id).finish_non_exhaustive()
    }
}
