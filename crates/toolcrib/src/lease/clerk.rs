//! The clerk of one server's leases: opens and closes sessions as the book says, and looks for idle ones.

use std::collections::HashMap;
use std::error::Error;
use std::future::{self, Future};
use std::sync::Arc;

use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};
use toolcrib_wire::Era;

use super::event::Event;
use super::instance::InstanceId;
use super::shared::{Shared, Work};

/// Who can open and close sessions with one server.
pub trait Sessions: Send + Sync + 'static {
    /// A handle: clones are the same session.
    type Session: Clone + Send + 'static;
    type Error: Error + Clone + Send + Sync + 'static;

    /// Opens one. It may be dropped halfway, and then leaves nothing behind.
    fn make(&self, order: Order)
    -> impl Future<Output = Result<Self::Session, Self::Error>> + Send;

    /// Closes one, also if it has ended already. It counts against the limit until this returns, so it must.
    fn end(&self, session: Self::Session) -> impl Future<Output = ()> + Send;
}

/// A session that is to be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// By this name it can be told that it was lost.
    pub instance: InstanceId,
    /// Whose it will be; nobody's where it is shared.
    pub dialog: Option<Arc<str>>,
    pub era: Era,
}

/// Runs as long as the server is wanted. Dropped, it drops every session and refuses every caller.
#[derive(Debug)]
pub struct Clerk<T: Clone, E: Error + Clone + 'static> {
    shared: Arc<Shared<T, E>>,
}

impl<T, E> Clerk<T, E>
where
    T: Clone + Send + 'static,
    E: Error + Clone + Send + Sync + 'static,
{
    /// Until the server is retired and nothing of it is left.
    pub async fn run<S: Sessions<Session = T, Error = E>>(self, sessions: Arc<S>) {
        let mut desk =
            Desk { shared: &self.shared, sessions, tasks: JoinSet::new(), at: HashMap::new() };
        while let Some((work, due)) = self.shared.work() {
            work.into_iter().for_each(|work| desk.begin(work));
            tokio::select! {
                () = self.shared.bell.notified() => {}
                Some(ended) = desk.tasks.join_next_with_id() => desk.ended(ended),
                () = reached(due) => self.shared.apply(Event::Tick),
            }
        }
    }
}

impl<T: Clone, E: Error + Clone + 'static> Clerk<T, E> {
    pub(super) fn new(shared: Arc<Shared<T, E>>) -> Self {
        Self { shared }
    }
}

impl<T: Clone, E: Error + Clone + 'static> Drop for Clerk<T, E> {
    fn drop(&mut self) {
        self.shared.close();
    }
}

/// What is being done.
struct Desk<'a, S: Sessions> {
    shared: &'a Arc<Shared<S::Session, S::Error>>,
    sessions: Arc<S>,
    tasks: JoinSet<Done<S>>,
    /// Which session each task is about, and how to stop its opening.
    at: HashMap<Id, (InstanceId, Option<AbortHandle>)>,
}

enum Done<S: Sessions> {
    Made(Result<S::Session, S::Error>),
    Ended,
}

impl<S: Sessions> Desk<'_, S> {
    fn begin(&mut self, work: Work<S::Session>) {
        match work {
            Work::Make(order) => {
                let (sessions, instance) = (self.sessions.clone(), order.instance);
                let make = async move { Done::Made(sessions.make(order).await) };
                let task = self.tasks.spawn(make);
                self.at.insert(task.id(), (instance, Some(task)));
            }
            Work::End(instance, Some(session)) => self.end(instance, session),
            Work::End(instance, None) => {
                let openings = self.at.values().filter(|(of, _)| *of == instance);
                openings.filter_map(|(_, opening)| opening.as_ref()).for_each(AbortHandle::abort);
            }
        }
    }

    fn end(&mut self, instance: InstanceId, session: S::Session) {
        let sessions = self.sessions.clone();
        let end = async move {
            sessions.end(session).await;
            Done::Ended
        };
        let task = self.tasks.spawn(end);
        self.at.insert(task.id(), (instance, None));
    }

    fn ended(&mut self, ended: Result<(Id, Done<S>), JoinError>) {
        let id = ended.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
        let Some((instance, _)) = self.at.remove(&id) else {
            return;
        };
        match ended {
            Ok((_, Done::Made(Ok(session)))) => {
                if let Some(unwanted) = self.shared.made(instance, session) {
                    self.end(instance, unwanted);
                }
            }
            Ok((_, Done::Made(Err(cause)))) => self.shared.failed(instance, Some(&cause)),
            Ok((_, Done::Ended)) => self.shared.apply(Event::Gone(instance)),
            // Stopped as it was told to, or it panicked: nothing is left of it either way.
            Err(_) => self.shared.failed(instance, None),
        }
    }
}

async fn reached(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => future::pending().await,
    }
}
