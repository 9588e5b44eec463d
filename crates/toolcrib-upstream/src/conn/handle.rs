//! One server's connection as others see it: tell it what is wanted, and see where it stands.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use toolcrib_config::Problem;
use toolcrib_wire::Notification;

use super::catalog::Catalog;
use super::changes::Change;
use super::failure::{Failure, FailureKind};
use super::peer::{Odd, Oddity};
use super::session::{Hold, Session};
use super::setup::Setup;
use super::state::{Life, Outlook, State};
use super::step::{Event, Want};
use super::task::Task;
use super::usage::{Usage, Used};
use crate::process::StderrTail;

/// Commands that wait for the task; whoever sends more waits.
const INBOX: usize = 16;

/// Handle to one connection's task. Clones share the task; when the last one is dropped, it ends at once with all
/// that it started.
#[derive(Clone, Debug)]
pub struct Conn {
    setup: Arc<Setup>,
    inbox: mpsc::Sender<Command>,
    view: watch::Receiver<View>,
    usage: Arc<Usage>,
    _task: Arc<JoinSet<()>>,
}

/// Where a connection stands.
#[derive(Clone, Debug)]
pub struct View {
    pub life: Life,
    /// The moments of the life are counted from here.
    pub began: Instant,
    /// While it is up.
    pub session: Option<Session>,
    /// What the server offers, or last offered.
    pub catalog: Option<Arc<Catalog>>,
    /// What it lists since a dialog has the connection for itself, where that has changed: it is that dialog's alone.
    pub own: Option<Arc<Catalog>>,
    /// Since when its session is open, where the lists have not been read again since.
    pub fresh: Option<Instant>,
    /// What the newest session's server wrote to its stderr, where that is seen; also of a failed start.
    pub stderr: Option<StderrTail>,
}

/// What happens to a connection. Whoever is told must not block.
pub trait Listener: Send + Sync {
    fn hear(&self, news: News);
}

/// Something that others may want to know.
#[derive(Debug)]
pub enum News {
    /// State, attempts or the last error changed.
    State(View),
    /// The lists were read; what differs from before.
    Listed {
        catalog: Arc<Catalog>,
        changes: Vec<Change>,
        /// Whether it is only for the dialog that has the connection for itself.
        is_own: bool,
        /// What the server said of it, where it did.
        announced: Vec<Notification>,
    },
    /// The server's lists differ from those that are used, which stay until somebody refreshes them.
    Differs {
        changes: Vec<Change>,
    },
    /// Any other notification of the server.
    Told {
        notification: Notification,
        /// Whether a call has heard it already.
        in_call: bool,
    },
    Odd(Odd),
}

/// The right to use a session: while it lives the session is not idle, and a retiring one waits for it.
#[derive(Debug)]
pub struct Ticket {
    pub session: Session,
    _hold: Hold,
    _used: Used,
}

/// What the task is told.
pub(super) struct Command {
    pub(super) event: Event,
    /// Dropped when the event has had its effect.
    pub(super) done: oneshot::Sender<()>,
}

impl Conn {
    pub fn start(setup: Setup, listener: Arc<dyn Listener>) -> Conn {
        let setup = Arc::new(setup);
        let (inbox, commands) = mpsc::channel(INBOX);
        let began = Instant::now();
        let first = View {
            life: Life::new(setup.spec.policy.enabled),
            began,
            session: None,
            catalog: None,
            own: None,
            fresh: None,
            stderr: None,
        };
        let (publish, view) = watch::channel(first);
        let usage = Arc::new(Usage::new(began));
        let task = Task::new(Arc::clone(&setup), commands, publish, Arc::clone(&usage), listener);
        let mut tasks = JoinSet::new();
        tasks.spawn(task.run());
        Conn { setup, inbox, view, usage, _task: Arc::new(tasks) }
    }

    /// Tells the task and waits until it has taken it in, not until it has had all its consequences.
    pub async fn tell(&self, event: Event) {
        let (done, taken) = oneshot::channel();
        if self.inbox.send(Command { event, done }).await.is_ok() {
            // The sender is dropped, never used: the error is the news.
            let _ = taken.await;
        }
    }

    /// Connects because somebody says so, however often it failed before. Twice is an error.
    pub async fn connect(&self) -> Result<(), Failure> {
        if self.view.borrow().life.outlook() == Outlook::Up {
            return Err(Failure::new(FailureKind::Config, "already connected"));
        }
        self.tell(Event::Connect).await;
        self.first_try(Want::Call).await.map(drop)
    }

    /// A session to call on: connects where policy says so, and waits for as long as one is coming.
    pub async fn ready(&self, want: Want) -> Result<Ticket, Failure> {
        self.wait_for(want, |life| life.outlook()).await
    }

    /// The same, if there is one now.
    pub fn ready_now(&self) -> Option<Ticket> {
        let used = Used::new(&self.usage);
        let (session, hold) = up(&self.view.borrow()).flatten()?;
        Some(Ticket { session, _hold: hold, _used: used })
    }

    /// The same, but a first failure is taken for the answer, whatever policy does about it.
    pub async fn first_try(&self, want: Want) -> Result<Ticket, Failure> {
        let impatient = |life: &Life| match life.state() {
            State::Backoff => Outlook::Down,
            _ => life.outlook(),
        };
        self.wait_for(want, impatient).await
    }

    /// Waits for the end of the attempt with `Content-Length` that follows a silent start; the session, if it is up.
    pub(crate) async fn content_length_tried(&self) -> Option<Ticket> {
        let mut view = self.view.clone();
        // An error means that the task has gone, and the attempt with it.
        let _ = view.wait_for(|view| !view.life.is_trying_content_length()).await;
        self.ready_now()
    }

    async fn wait_for(
        &self,
        want: Want,
        outlook: impl Fn(&Life) -> Outlook,
    ) -> Result<Ticket, Failure> {
        let used = Used::new(&self.usage);
        let was_up = self.view.borrow().life.outlook() == Outlook::Up;
        if want == Want::List || !was_up {
            self.tell(Event::Wanted(want)).await;
        }
        // A session that was up and is lost meanwhile is wanted again, once.
        let mut may_want_again = was_up;
        let mut view = self.view.clone();
        loop {
            let (held, outlook) = {
                let seen = view.borrow_and_update();
                (up(&seen).flatten(), outlook(&seen.life))
            };
            match (held, outlook) {
                (Some((session, hold)), Outlook::Up) => {
                    return Ok(Ticket { session, _hold: hold, _used: used });
                }
                (_, Outlook::Down) if std::mem::take(&mut may_want_again) => {
                    self.tell(Event::Wanted(want)).await;
                    continue;
                }
                (_, Outlook::Down) => return Err(self.why_down(&view.borrow().life)),
                _ => {}
            }
            if view.changed().await.is_err() {
                return Err(self.why_down(&view.borrow().life));
            }
        }
    }

    /// Tells the task without waiting; false if it has too much to do to be told.
    pub fn nudge(&self, event: Event) -> bool {
        self.inbox.try_send(Command { event, done: oneshot::channel().0 }).is_ok()
    }

    pub fn state(&self) -> State {
        self.view.borrow().life.state()
    }

    pub fn view(&self) -> View {
        self.view.borrow().clone()
    }

    /// Sees every change of the view.
    pub fn watch(&self) -> watch::Receiver<View> {
        self.view.clone()
    }

    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// What is listed in its session, for whoever has that; and since when the session is open, where that was listed
    /// first of all.
    pub fn listed(&self) -> Option<(Arc<Catalog>, Option<Instant>)> {
        let view = self.view.borrow();
        let listed = view.own.clone().or_else(|| view.catalog.clone())?;
        Some((listed, view.fresh))
    }

    /// Lends it to one dialog alone, or takes it back; whether it was lent before. What changes in its lists while it is
    /// lent is the dialog's.
    pub fn lend(&self, lent: bool) -> bool {
        self.usage.lend(lent)
    }

    pub fn is_lent(&self) -> bool {
        self.usage.is_lent()
    }

    /// How many use it or wait for it.
    pub fn in_use(&self) -> u32 {
        self.usage.count()
    }

    /// Waits for the end of a connection that was told to retire.
    pub async fn ended(&self) {
        let mut view = self.view.clone();
        // An error means that the task has gone, which is the end as well.
        let _ = view.wait_for(|view| view.life.is_over()).await;
        self.inbox.closed().await;
    }

    fn why_down(&self, life: &Life) -> Failure {
        let failed = matches!(life.state(), State::Failed | State::Backoff);
        match life.last_error().filter(|_| failed) {
            Some((_, failure)) => failure.clone(),
            None => {
                let text = format!("Server not connected: it is {}", life.state().as_str());
                Failure::new(FailureKind::Connection, text)
            }
        }
    }
}

/// Of a view that is up, its session, held. The view is borrowed meanwhile, and whoever ends an unused session takes it
/// out of the view before it looks for holders: what is still there waits for this one. A session whose link has just
/// ended is none: its end is about to be known here, too.
fn up(view: &View) -> Option<Option<(Session, Hold)>> {
    let session = view.session.as_ref().filter(|session| !session.is_over());
    let held = || session.map(|session| (session.clone(), session.hold()));
    (view.life.outlook() == Outlook::Up).then(held)
}

impl View {
    /// What the server did that it should not, by kind.
    pub fn oddities(&self) -> Vec<Oddity> {
        self.session.as_ref().map(|session| session.peer().oddities()).unwrap_or_default()
    }

    /// What is wrong with the way to the server although it works.
    pub fn link_problems(&self) -> &[Problem] {
        self.session.as_ref().map_or(&[], |session| &session.peer().facts().problems)
    }
}
