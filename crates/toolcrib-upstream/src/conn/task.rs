//! The task of one connection: it feeds [`step`] and does what it says. Nothing else changes a connection's state.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use toolcrib_config::model::transport::Framing;
use toolcrib_wire::Notification;

use super::catalog::{Catalog, heeds};
use super::changes::changes;
use super::connect::{FAREWELL, Failed, Opened, Pending, connect};
use super::failure::{Failure, FailureKind};
use super::handle::{Command, Listener, News, View};
use super::listening::Listening;
use super::listing;
use super::peer::{self, Receiver};
use super::server_limit::Permit;
use super::session::Session;
use super::setup::{FramingAttempt, Setup};
use super::state::{Life, Link, Moment};
use super::step::{Effect, Event, step};
use super::usage::Usage;
use crate::process::StderrTail;

pub(super) struct Task {
    setup: Arc<Setup>,
    inbox: mpsc::Receiver<Command>,
    publish: watch::Sender<View>,
    usage: Arc<Usage>,
    listener: Arc<dyn Listener>,
    began: Instant,
    life: Life,
    jobs: JoinSet<Report>,
    connecting: Option<Connecting>,
    /// A connect that waits until what was before it has ended.
    next: Option<Connecting>,
    /// The right to the attempt that a step is about to decide on.
    framing_attempt: Option<FramingAttempt>,
    /// Sessions, and attempts at one, that are being ended.
    closing: usize,
    live: Option<Live>,
    catalog: Option<Arc<Catalog>>,
    /// What the dialog has made of it that has the connection for itself.
    own: Option<Arc<Catalog>>,
    /// Since when the session is open, until its lists are read again.
    fresh: Option<Instant>,
    /// Words of changes that came since the lists were last read, each kind once.
    announced: Vec<Notification>,
    stderr: Option<StderrTail>,
    /// The server's right to be connected, while it is or is about to be.
    permit: Option<Permit>,
}

struct Connecting {
    link: Link,
    /// Nothing before it has begun, and once it is called off.
    call_off: Option<oneshot::Sender<()>>,
    /// Set where it is the attempt with `Content-Length`.
    framing_attempt: Option<FramingAttempt>,
}

/// A session that serves, or drains.
struct Live {
    link: Link,
    session: Session,
    events: Receiver<peer::Event>,
    listening: Listening,
    /// What is said at its beginning, and ends with it.
    _opening: JoinSet<()>,
}

/// How a job ended.
enum Report {
    Connected(Link, Result<Opened, Failed>),
    Diagnosed(Link, Failure),
    Closed,
    Listed(Link, Result<Catalog, Failure>),
    Compared(Link, Result<Catalog, Failure>),
    Done,
}

impl Task {
    pub(super) fn new(
        setup: Arc<Setup>,
        inbox: mpsc::Receiver<Command>,
        publish: watch::Sender<View>,
        usage: Arc<Usage>,
        listener: Arc<dyn Listener>,
    ) -> Self {
        let first = publish.borrow().clone();
        Task {
            setup,
            inbox,
            publish,
            usage,
            listener,
            began: first.began,
            life: first.life,
            jobs: JoinSet::new(),
            connecting: None,
            next: None,
            framing_attempt: None,
            closing: 0,
            live: None,
            catalog: None,
            own: None,
            fresh: None,
            announced: Vec::new(),
            stderr: None,
            permit: None,
        }
    }

    pub(super) async fn run(mut self) {
        while !(self.life.is_over() && self.closing == 0) {
            let wake = self.life.wake(&self.setup.settings).map(|at| self.began + at.0);
            tokio::select! {
                command = self.inbox.recv() => match command {
                    Some(command) => {
                        self.take(command.event);
                        drop(command.done);
                    }
                    None => return,
                },
                Some(report) = self.jobs.join_next() => match report {
                    Ok(report) => self.report(report),
                    Err(_) => self.fallen(),
                },
                () = self.usage.unused() => self.look(),
                (link, event) = next_event(&mut self.live) => self.heard(link, event),
                () = until(wake) => self.tick(),
            }
        }
    }

    fn take(&mut self, event: Event) {
        self.look();
        self.step(event);
    }

    /// No use tells of itself, so it is looked up before it matters.
    fn look(&mut self) {
        let (count, last) = self.usage.look();
        self.step(Event::Used(Moment(last)));
        self.step(Event::InFlight(count));
    }

    fn step(&mut self, event: Event) {
        let now = Moment(self.began.elapsed());
        let life = std::mem::take(&mut self.life);
        let (life, effects) = step(life, event, &self.setup.settings, now, chance());
        self.life = life;
        if !self.life.is_connected_or_coming() {
            self.permit = None;
        }
        for effect in effects {
            self.perform(effect);
        }
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Connect(link) => self.begin_connect(link, None),
            Effect::ConnectContentLength(link) => {
                let attempt = self.framing_attempt.take();
                self.begin_connect(link, attempt);
            }
            Effect::Close(link) => self.close(link),
            Effect::Kill(link) => self.kill(link),
            Effect::Ping(link) => self.ping(link),
            Effect::Discover(link) => self.discover(link),
            Effect::Compare(link) => self.compare(link),
            Effect::Announce => self.announce(),
        }
    }

    fn begin_connect(&mut self, link: Link, framing_attempt: Option<FramingAttempt>) {
        let connecting = Connecting { link, call_off: None, framing_attempt };
        match self.permit() {
            Ok(()) if self.closing > 0 => self.next = Some(connecting),
            Ok(()) => self.connect(connecting),
            Err(failure) => self.refuse(link, failure),
        }
    }

    fn connect(&mut self, connecting: Connecting) {
        let (call_off, called_off) = oneshot::channel();
        let link = connecting.link;
        let framing = connecting.framing_attempt.as_ref().map(|_| Framing::ContentLength);
        self.connecting = Some(Connecting { call_off: Some(call_off), ..connecting });
        let setup = Arc::clone(&self.setup);
        self.jobs.spawn(async move {
            Report::Connected(link, connect(setup, framing, called_off).await)
        });
    }

    /// Takes one of the host's places for connected servers, unless the server has one.
    fn permit(&mut self) -> Result<(), Failure> {
        if self.permit.is_none() {
            let Setup { spec, world, .. } = &*self.setup;
            self.permit = Some(world.connections.acquire(&spec.key())?);
        }
        Ok(())
    }

    /// A connect that is not even tried ends like any other that failed.
    fn refuse(&mut self, link: Link, failure: Failure) {
        let (call_off, _) = oneshot::channel();
        self.connecting =
            Some(Connecting { link, call_off: Some(call_off), framing_attempt: None });
        self.jobs.spawn(async move { Report::Connected(link, Err(failure.into())) });
    }

    fn close(&mut self, link: Link) {
        self.next.take_if(|next| next.link == link);
        if let Some(connecting) = self.connecting.as_mut().filter(|it| it.link == link)
            && let Some(call_off) = connecting.call_off.take()
        {
            // The attempt reports its end like any other.
            let _ = call_off.send(());
            self.closing += 1;
        }
        if let Some(live) = self.live.take_if(|live| live.link == link) {
            self.closing += 1;
            self.publish();
            // Nobody used it when this was decided; whoever came in between ends in peace.
            let was_unused = self.life.in_flight() == 0;
            let limit = self.setup.settings.drain_kill;
            self.jobs.spawn(async move {
                if was_unused {
                    live.session.let_go(limit).await;
                }
                live.session.peer().close(FAREWELL).await;
                Report::Closed
            });
        }
    }

    fn kill(&mut self, link: Link) {
        if let Some(live) = self.live.take_if(|live| live.link == link) {
            live.session.peer().kill();
            self.publish();
        } else {
            self.close(link);
        }
    }

    fn ping(&mut self, link: Link) {
        if let Some(session) = self.session(link) {
            let patience = self.setup.settings.ping_every;
            self.jobs.spawn(async move {
                // What counts is whether anything was heard, which is seen at the next tick.
                let _ = session.ping(patience).await;
                Report::Done
            });
        }
    }

    fn discover(&mut self, link: Link) {
        if let Some(session) = self.session(link) {
            self.jobs.spawn(async move { Report::Listed(link, listing::read(&session).await) });
        }
    }

    fn compare(&mut self, link: Link) {
        if let Some(session) = self.session(link) {
            self.jobs.spawn(async move { Report::Compared(link, listing::gather(&session).await) });
        }
    }

    fn session(&self, link: Link) -> Option<Session> {
        self.live.as_ref().filter(|live| live.link == link).map(|live| live.session.clone())
    }

    fn report(&mut self, report: Report) {
        match report {
            Report::Connected(link, outcome) => self.connected(link, outcome),
            Report::Listed(link, outcome) => {
                let is_own = self.usage.is_lent();
                self.fresh = self.fresh.filter(|_| outcome.is_err());
                let outcome = outcome.map(|catalog| self.learn(catalog, is_own));
                self.take(Event::Listed(link, outcome));
            }
            Report::Compared(link, outcome) => {
                // A list that cannot be read now is told of when it is refreshed.
                if let Ok(catalog) = outcome {
                    let before = self.own.as_ref().or(self.catalog.as_ref());
                    let changes =
                        before.map(|before| changes(before, &catalog)).unwrap_or_default();
                    self.listener.hear(News::Differs { changes });
                }
                self.take(Event::Compared(link));
            }
            Report::Diagnosed(link, failure) => self.take(Event::Diagnosed(link, failure)),
            Report::Closed => self.closed(),
            Report::Done => {}
        }
    }

    fn connected(&mut self, link: Link, outcome: Result<Opened, Failed>) {
        let connecting = self.connecting.take_if(|it| it.link == link);
        let was_called_off = connecting.as_ref().is_none_or(|it| it.call_off.is_none());
        let framing_attempt = connecting.and_then(|it| it.framing_attempt);
        match outcome {
            Ok(opened) if was_called_off => {
                // The calling off came too late: it is open, and has to be closed.
                self.jobs.spawn(async move {
                    opened.session.peer().close(FAREWELL).await;
                    Report::Closed
                });
            }
            Ok(opened) => self.up(link, opened),
            Err(failed) if was_called_off => self.called_off(failed.closing),
            Err(failed) => self.failed(link, failed, framing_attempt),
        }
    }

    /// What was called off has ended when all that it started has.
    fn called_off(&mut self, closing: Option<Pending<()>>) {
        match closing {
            Some(closing) => self.spawn_closing(closing),
            None => self.closed(),
        }
    }

    fn spawn_closing(&mut self, closing: Pending<()>) {
        self.jobs.spawn(async move {
            closing.await;
            Report::Closed
        });
    }

    /// The failure is published first. What is left of the session closes meanwhile, and the next connect waits for
    /// that; a diagnosis is added when it is there.
    fn failed(&mut self, link: Link, failed: Failed, framing_attempt: Option<FramingAttempt>) {
        if let Some(closing) = failed.closing {
            self.closing += 1;
            self.spawn_closing(closing);
        }
        if let Some(diagnosis) = failed.diagnosis {
            self.jobs.spawn(async move { Report::Diagnosed(link, diagnosis.await) });
        }
        match framing_attempt {
            Some(attempt) => attempt.finish(),
            None => self.stderr = failed.stderr,
        }
        if failed.may_want_content_length {
            let Setup { spec, world, .. } = &*self.setup;
            self.framing_attempt = FramingAttempt::begin(world, spec.hash);
        }
        match self.framing_attempt {
            Some(_) => self.silent(link, failed.failure),
            None => self.down(link, failed.failure),
        }
        self.framing_attempt = None;
    }

    fn silent(&mut self, link: Link, failure: Failure) {
        let server = &self.setup.spec.id;
        tracing::warn!(%server, error = %failure.message, "the server wrote nothing; trying Content-Length");
        self.take(Event::Silent(link, failure));
    }

    fn up(&mut self, link: Link, opened: Opened) {
        let Opened { session, catalog, events, listening } = opened;
        self.stderr = session.peer().facts().stderr.clone();
        let leveled = session.clone();
        let mut opening = JoinSet::new();
        opening.spawn(async move { leveled.set_log_level().await });
        self.live = Some(Live { link, session, events, listening, _opening: opening });
        (self.own, self.fresh) = (None, Some(Instant::now()));
        // Nobody has called yet: what is listed now is what everybody would be.
        match catalog {
            Some(catalog) => self.learn(catalog, false),
            None => self.catalog.clone_from(&self.setup.catalog),
        }
        self.take(Event::Connected(link));
        self.publish();
    }

    fn down(&mut self, link: Link, failure: Failure) {
        let server = &self.setup.spec.id;
        tracing::warn!(%server, error = %failure.message, "the server is down");
        self.take(Event::Down(link, failure));
    }

    /// A job that panicked: what waits for it must not wait for ever.
    fn fallen(&mut self) {
        if let Some(connecting) = self.connecting.take() {
            let failure = Failure::new(FailureKind::Connection, "connecting failed unexpectedly");
            self.down(connecting.link, failure);
        }
        if self.closing > 0 {
            self.closed();
        }
    }

    fn closed(&mut self) {
        self.closing = self.closing.saturating_sub(1);
        if self.closing == 0
            && let Some(next) = self.next.take()
        {
            self.connect(next);
        }
    }

    fn learn(&mut self, catalog: Catalog, is_own: bool) {
        let before = self.own.take().or_else(|| self.catalog.clone()).unwrap_or_default();
        let changes = changes(&before, &catalog);
        // What did not change stays the very same, to the byte.
        let catalog = if changes.is_empty() && before.oddities == catalog.oddities {
            before
        } else {
            Arc::new(catalog)
        };
        let place = if is_own { &mut self.own } else { &mut self.catalog };
        *place = Some(Arc::clone(&catalog));
        self.publish();
        let announced = std::mem::take(&mut self.announced);
        self.listener.hear(News::Listed { catalog, changes, is_own, announced });
    }

    fn heard(&mut self, link: Link, heard: Heard) {
        match heard {
            Heard::ListChanged => self.take(Event::ListChanged(link)),
            Heard::Peer(peer::Event::Notification { notification, in_call }) => {
                let policy = &self.setup.spec.policy;
                let declared = self.live.as_ref().map(|live| &live.session.agreed().capabilities);
                let heeded = declared.is_some_and(|declared| {
                    heeds(&notification.method, &policy.discovery, declared)
                });
                if heeded {
                    let is_same = |it: &Notification| it.method == notification.method;
                    if !self.announced.iter().any(is_same) {
                        self.announced.push(notification);
                    }
                    self.take(Event::ListChanged(link));
                } else {
                    self.listener.hear(News::Told { notification, in_call });
                }
            }
            Heard::Peer(peer::Event::Odd(odd)) => self.listener.hear(News::Odd(odd)),
            Heard::Peer(peer::Event::Closed(reason)) => {
                self.down(link, Failure::from(&reason));
            }
        }
    }

    fn tick(&mut self) {
        if let Some(live) = &self.live {
            let heard = live.session.peer().last_heard().saturating_duration_since(self.began);
            let link = live.link;
            self.step(Event::Traffic(link, Moment(heard)));
        }
        self.take(Event::Tick);
    }

    fn announce(&mut self) {
        self.publish();
        self.listener.hear(News::State(self.publish.borrow().clone()));
    }

    fn publish(&self) {
        self.publish.send_modify(|view| {
            view.life = self.life.clone();
            view.session = self.live.as_ref().map(|live| live.session.clone());
            view.catalog.clone_from(&self.catalog);
            view.fresh = self.fresh;
            view.own = self.own.clone().filter(|_| self.live.is_some());
            view.stderr.clone_from(&self.stderr);
        });
    }
}

/// What is heard of a live session.
enum Heard {
    Peer(peer::Event),
    ListChanged,
}

async fn next_event(live: &mut Option<Live>) -> (Link, Heard) {
    let Some(live) = live else {
        return std::future::pending().await;
    };
    let heard = tokio::select! {
        Some(event) = live.events.next() => Heard::Peer(event),
        Some(()) = live.listening.changed() => Heard::ListChanged,
        else => return std::future::pending().await,
    };
    (live.link, heard)
}

async fn until(wake: Option<Instant>) {
    match wake {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// A random number from 0 to 1; without a source of chance waits are as long as they can be.
fn chance() -> f64 {
    let number = getrandom::u32().unwrap_or(u32::MAX);
    f64::from(number) / f64::from(u32::MAX)
}
