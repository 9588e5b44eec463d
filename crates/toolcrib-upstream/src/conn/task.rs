//! Task of one connection. It feeds events into [`step`] and performs the effects; no other code changes the state.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use toolcrib_config::model::transport::FramingMode;
use toolcrib_wire::Notification;

use super::catalog::{Catalog, is_relevant_change};
use super::catalog_diff::diff_catalogs;
use super::connect::{CLOSE_GRACE, FailedAttempt, OpenedSession, PendingWork, connect};
use super::failure::{Failure, FailureKind};
use super::handle::{ConnCommand, ConnListener, ConnUpdate, ConnView};
use super::list_reader;
use super::list_subscription::ListSubscription;
use super::peer::{self, MailboxReceiver};
use super::server_limit::ServerPermit;
use super::session::Session;
use super::setup::{ConnSetup, ContentLengthAttempt};
use super::state::{ConnLifecycle, MonotonicTime, SessionNumber};
use super::step::{ConnEvent, Effect, step};
use super::usage::SessionUsage;
use crate::process::StderrTail;

pub(super) struct ConnTask {
    setup: Arc<ConnSetup>,
    inbox: mpsc::Receiver<ConnCommand>,
    state_sender: watch::Sender<ConnView>,
    usage: Arc<SessionUsage>,
    listener: Arc<dyn ConnListener>,
    started_at: Instant,
    lifecycle: ConnLifecycle,
    jobs: JoinSet<JobOutcome>,
    connecting: Option<PendingConnect>,
    /// A connect that waits for preceding closes.
    next: Option<PendingConnect>,
    /// Claim on the `Content-Length` attempt that the next step may start.
    content_length_attempt: Option<ContentLengthAttempt>,
    /// Number of sessions and attempts that are closing.
    closing: usize,
    live: Option<LiveSession>,
    catalog: Option<Arc<Catalog>>,
    /// Lists that changed while one dialog has the connection for itself.
    dialog_catalog: Option<Arc<Catalog>>,
    /// Opening time of the session, until its lists are read again.
    unrefreshed_since: Option<Instant>,
    /// List change notifications since the last reading, one of each kind.
    announced: Vec<Notification>,
    stderr: Option<StderrTail>,
    /// Slot in the server limit, while connected or connecting.
    permit: Option<ServerPermit>,
}

struct PendingConnect {
    number: SessionNumber,
    /// `None` before the start and after a cancellation.
    cancel: Option<oneshot::Sender<()>>,
    /// Set for the `Content-Length` attempt.
    content_length_attempt: Option<ContentLengthAttempt>,
}

/// An open or draining session.
struct LiveSession {
    number: SessionNumber,
    session: Session,
    events: MailboxReceiver<peer::PeerEvent>,
    list_subscription: ListSubscription,
    /// Requests at the start of the session. They end with it.
    _startup_requests: JoinSet<()>,
}

/// Result of a background job.
enum JobOutcome {
    Connected(SessionNumber, Result<OpenedSession, FailedAttempt>),
    Diagnosed(SessionNumber, Failure),
    Closed,
    CatalogRead(SessionNumber, Result<Catalog, Failure>),
    CatalogCompared(SessionNumber, Result<Catalog, Failure>),
    Done,
}

impl ConnTask {
    pub(super) fn new(
        setup: Arc<ConnSetup>,
        inbox: mpsc::Receiver<ConnCommand>,
        state_sender: watch::Sender<ConnView>,
        usage: Arc<SessionUsage>,
        listener: Arc<dyn ConnListener>,
    ) -> Self {
        let first = state_sender.borrow().clone();
        ConnTask {
            setup,
            inbox,
            state_sender,
            usage,
            listener,
            started_at: first.started_at,
            lifecycle: first.lifecycle,
            jobs: JoinSet::new(),
            connecting: None,
            next: None,
            content_length_attempt: None,
            closing: 0,
            live: None,
            catalog: None,
            dialog_catalog: None,
            unrefreshed_since: None,
            announced: Vec::new(),
            stderr: None,
            permit: None,
        }
    }

    pub(super) async fn run(mut self) {
        while !(self.lifecycle.is_over() && self.closing == 0) {
            let wake = self.lifecycle.wake(&self.setup.settings).map(|at| self.started_at + at.0);
            tokio::select! {
                command = self.inbox.recv() => match command {
                    Some(command) => {
                        self.handle_event(command.event);
                        drop(command.done);
                    }
                    None => return,
                },
                Some(job_outcome) = self.jobs.join_next() => match job_outcome {
                    Ok(job_outcome) => self.handle_job(job_outcome),
                    Err(_) => self.handle_panicked_job(),
                },
                () = self.usage.all_released() => self.record_usage(),
                (number, event) = next_event(&mut self.live) => self.handle_session_event(number, event),
                () = sleep_until_wake(wake) => self.handle_tick(),
            }
        }
    }

    fn handle_event(&mut self, event: ConnEvent) {
        self.record_usage();
        self.step(event);
    }

    /// Calls do not notify the task, so the usage is polled before each event.
    fn record_usage(&mut self) {
        let (count, last) = self.usage.observe();
        self.step(ConnEvent::LastUsed(MonotonicTime(last)));
        self.step(ConnEvent::InFlight(count));
    }

    fn step(&mut self, event: ConnEvent) {
        let now = MonotonicTime(self.started_at.elapsed());
        let lifecycle = std::mem::take(&mut self.lifecycle);
        let (lifecycle, effects) =
            step(lifecycle, event, &self.setup.settings, now, random_share());
        self.lifecycle = lifecycle;
        if !self.lifecycle.is_connected_or_coming() {
            self.permit = None;
        }
        for effect in effects {
            self.perform(effect);
        }
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Connect(number) => self.start_connect(number, None),
            Effect::ConnectWithContentLength(number) => {
                let attempt = self.content_length_attempt.take();
                self.start_connect(number, attempt);
            }
            Effect::Close(number) => self.close(number),
            Effect::Kill(number) => self.kill(number),
            Effect::Ping(number) => self.ping(number),
            Effect::ReadCatalog(number) => self.read_catalog(number),
            Effect::CompareCatalog(number) => self.compare_catalog(number),
            Effect::Announce => self.announce_state(),
        }
    }

    fn start_connect(
        &mut self,
        number: SessionNumber,
        content_length_attempt: Option<ContentLengthAttempt>,
    ) {
        let connecting = PendingConnect { number, cancel: None, content_length_attempt };
        match self.acquire_permit() {
            Ok(()) if self.closing > 0 => self.next = Some(connecting),
            Ok(()) => self.connect(connecting),
            Err(failure) => self.reject_connect(number, failure),
        }
    }

    fn connect(&mut self, connecting: PendingConnect) {
        let (cancel, called_off) = oneshot::channel();
        let number = connecting.number;
        let framing =
            connecting.content_length_attempt.as_ref().map(|_| FramingMode::ContentLength);
        self.connecting = Some(PendingConnect { cancel: Some(cancel), ..connecting });
        let setup = Arc::clone(&self.setup);
        self.jobs.spawn(async move {
            JobOutcome::Connected(number, connect(setup, framing, called_off).await)
        });
    }

    /// Acquires a slot in the server limit unless the server has one.
    fn acquire_permit(&mut self) -> Result<(), Failure> {
        if self.permit.is_none() {
            let ConnSetup { spec, context, .. } = &*self.setup;
            self.permit = Some(context.server_limit.acquire(&spec.key())?);
        }
        Ok(())
    }

    /// Reports a rejected connect like a failed one.
    fn reject_connect(&mut self, number: SessionNumber, failure: Failure) {
        let (cancel, _) = oneshot::channel();
        self.connecting =
            Some(PendingConnect { number, cancel: Some(cancel), content_length_attempt: None });
        self.jobs.spawn(async move { JobOutcome::Connected(number, Err(failure.into())) });
    }

    fn close(&mut self, number: SessionNumber) {
        self.next.take_if(|next| next.number == number);
        if let Some(connecting) = self.connecting.as_mut().filter(|it| it.number == number)
            && let Some(cancel) = connecting.cancel.take()
        {
            // The cancelled attempt reports its end through its job.
            let _ = cancel.send(());
            self.closing += 1;
        }
        if let Some(live) = self.live.take_if(|live| live.number == number) {
            self.closing += 1;
            self.publish_view();
            // The session was unused at the decision. Callers that came since then may finish.
            let was_unused = self.lifecycle.in_flight() == 0;
            let limit = self.setup.settings.drain_kill;
            self.jobs.spawn(async move {
                if was_unused {
                    live.session.wait_until_released(limit).await;
                }
                live.session.peer().close(CLOSE_GRACE).await;
                JobOutcome::Closed
            });
        }
    }

    fn kill(&mut self, number: SessionNumber) {
        if let Some(live) = self.live.take_if(|live| live.number == number) {
            live.session.peer().kill();
            self.publish_view();
        } else {
            self.close(number);
        }
    }

    fn ping(&mut self, number: SessionNumber) {
        if let Some(session) = self.live_session(number) {
            let limit = self.setup.settings.ping_every;
            self.jobs.spawn(async move {
                // Any traffic counts, which the next tick checks.
                let _ = session.ping(limit).await;
                JobOutcome::Done
            });
        }
    }

    fn read_catalog(&mut self, number: SessionNumber) {
        if let Some(session) = self.live_session(number) {
            self.jobs.spawn(async move {
                JobOutcome::CatalogRead(number, list_reader::read_catalog(&session).await)
            });
        }
    }

    fn compare_catalog(&mut self, number: SessionNumber) {
        if let Some(session) = self.live_session(number) {
            self.jobs.spawn(async move {
                JobOutcome::CatalogCompared(number, list_reader::fetch_catalog(&session).await)
            });
        }
    }

    fn live_session(&self, number: SessionNumber) -> Option<Session> {
        self.live.as_ref().filter(|live| live.number == number).map(|live| live.session.clone())
    }

    fn handle_job(&mut self, job_outcome: JobOutcome) {
        match job_outcome {
            JobOutcome::Connected(number, outcome) => self.handle_connect_result(number, outcome),
            JobOutcome::CatalogRead(number, outcome) => {
                let is_dialog_only = self.usage.is_lent();
                self.unrefreshed_since = self.unrefreshed_since.filter(|_| outcome.is_err());
                let outcome = outcome.map(|catalog| self.set_catalog(catalog, is_dialog_only));
                self.handle_event(ConnEvent::CatalogRead(number, outcome));
            }
            JobOutcome::CatalogCompared(number, outcome) => {
                // A failed reading is reported by the next refresh.
                if let Ok(catalog) = outcome {
                    let before = self.dialog_catalog.as_ref().or(self.catalog.as_ref());
                    let changes =
                        before.map(|before| diff_catalogs(before, &catalog)).unwrap_or_default();
                    self.listener.on_update(ConnUpdate::CatalogDiffers { changes });
                }
                self.handle_event(ConnEvent::CatalogCompared(number));
            }
            JobOutcome::Diagnosed(number, failure) => {
                self.handle_event(ConnEvent::Diagnosed(number, failure))
            }
            JobOutcome::Closed => self.handle_closed(),
            JobOutcome::Done => {}
        }
    }

    fn handle_connect_result(
        &mut self,
        number: SessionNumber,
        outcome: Result<OpenedSession, FailedAttempt>,
    ) {
        let connecting = self.connecting.take_if(|it| it.number == number);
        let was_cancelled = connecting.as_ref().is_none_or(|it| it.cancel.is_none());
        let content_length_attempt = connecting.and_then(|it| it.content_length_attempt);
        match outcome {
            Ok(opened) if was_cancelled => {
                // The cancellation came too late; close the open session.
                self.jobs.spawn(async move {
                    opened.session.peer().close(CLOSE_GRACE).await;
                    JobOutcome::Closed
                });
            }
            Ok(opened) => self.start_session(number, opened),
            Err(failed) if was_cancelled => self.finish_cancelled(failed.closing),
            Err(failed) => self.handle_failed_attempt(number, failed, content_length_attempt),
        }
    }

    /// A cancelled attempt has ended when everything it started has.
    fn finish_cancelled(&mut self, closing: Option<PendingWork<()>>) {
        match closing {
            Some(closing) => self.spawn_closing(closing),
            None => self.handle_closed(),
        }
    }

    fn spawn_closing(&mut self, closing: PendingWork<()>) {
        self.jobs.spawn(async move {
            closing.await;
            JobOutcome::Closed
        });
    }

    /// Publishes the failure first. The rest of the session closes in the background, the next connect waits for that,
    /// and the diagnosis follows.
    fn handle_failed_attempt(
        &mut self,
        number: SessionNumber,
        failed: FailedAttempt,
        content_length_attempt: Option<ContentLengthAttempt>,
    ) {
        if let Some(closing) = failed.closing {
            self.closing += 1;
            self.spawn_closing(closing);
        }
        if let Some(diagnosis) = failed.diagnosis {
            self.jobs.spawn(async move { JobOutcome::Diagnosed(number, diagnosis.await) });
        }
        match content_length_attempt {
            Some(attempt) => attempt.finish(),
            None => self.stderr = failed.stderr,
        }
        if failed.may_want_content_length {
            let ConnSetup { spec, context, .. } = &*self.setup;
            self.content_length_attempt = ContentLengthAttempt::claim(context, spec.hash);
        }
        match self.content_length_attempt {
            Some(_) => self.report_silent_start(number, failed.failure),
            None => self.report_down(number, failed.failure),
        }
        self.content_length_attempt = None;
    }

    fn report_silent_start(&mut self, number: SessionNumber, failure: Failure) {
        let server = &self.setup.spec.id;
        tracing::warn!(%server, error = %failure.message, "the server wrote nothing; trying Content-Length");
        self.handle_event(ConnEvent::SilentStart(number, failure));
    }

    fn start_session(&mut self, number: SessionNumber, opened: OpenedSession) {
        let OpenedSession { session, catalog, events, list_subscription } = opened;
        self.stderr = session.peer().link_info().stderr.clone();
        let logging_session = session.clone();
        let mut startup_requests = JoinSet::new();
        startup_requests.spawn(async move { logging_session.apply_configured_log_level().await });
        self.live = Some(LiveSession {
            number,
            session,
            events,
            list_subscription,
            _startup_requests: startup_requests,
        });
        (self.dialog_catalog, self.unrefreshed_since) = (None, Some(Instant::now()));
        // No call has been made, so these lists are valid for all dialogs.
        match catalog {
            Some(catalog) => self.set_catalog(catalog, false),
            None => self.catalog.clone_from(&self.setup.catalog),
        }
        self.handle_event(ConnEvent::Connected(number));
        self.publish_view();
    }

    fn report_down(&mut self, number: SessionNumber, failure: Failure) {
        let server = &self.setup.spec.id;
        tracing::warn!(%server, error = %failure.message, "the server is down");
        self.handle_event(ConnEvent::Down(number, failure));
    }

    /// Handles a panicked job, so that callers do not wait for it forever.
    fn handle_panicked_job(&mut self) {
        if let Some(connecting) = self.connecting.take() {
            let failure = Failure::new(
                FailureKind::Connection,
                "connecting failed because of an internal error",
            );
            self.report_down(connecting.number, failure);
        }
        if self.closing > 0 {
            self.handle_closed();
        }
    }

    fn handle_closed(&mut self) {
        self.closing = self.closing.saturating_sub(1);
        if self.closing == 0
            && let Some(next) = self.next.take()
        {
            self.connect(next);
        }
    }

    fn set_catalog(&mut self, catalog: Catalog, is_dialog_only: bool) {
        let before =
            self.dialog_catalog.take().or_else(|| self.catalog.clone()).unwrap_or_default();
        let changes = diff_catalogs(&before, &catalog);
        // Keeps the identical catalog if nothing changed.
        let catalog = if changes.is_empty() && before.defects == catalog.defects {
            before
        } else {
            Arc::new(catalog)
        };
        let target = if is_dialog_only { &mut self.dialog_catalog } else { &mut self.catalog };
        *target = Some(Arc::clone(&catalog));
        self.publish_view();
        let announced = std::mem::take(&mut self.announced);
        self.listener.on_update(ConnUpdate::CatalogRead {
            catalog,
            changes,
            is_dialog_only,
            announced,
        });
    }

    fn handle_session_event(&mut self, number: SessionNumber, event: SessionEvent) {
        match event {
            SessionEvent::ListChanged => self.handle_event(ConnEvent::ListChanged(number)),
            SessionEvent::Peer(peer::PeerEvent::Notification { notification, in_call }) => {
                let policy = &self.setup.spec.policy;
                let declared = self.live.as_ref().map(|live| &live.session.agreed().capabilities);
                let is_relevant = declared.is_some_and(|declared| {
                    is_relevant_change(&notification.method, &policy.discovery, declared)
                });
                if is_relevant {
                    let is_same = |it: &Notification| it.method == notification.method;
                    if !self.announced.iter().any(is_same) {
                        self.announced.push(notification);
                    }
                    self.handle_event(ConnEvent::ListChanged(number));
                } else {
                    self.listener.on_update(ConnUpdate::Notification { notification, in_call });
                }
            }
            SessionEvent::Peer(peer::PeerEvent::Anomaly(anomaly)) => {
                self.listener.on_update(ConnUpdate::Anomaly(anomaly))
            }
            SessionEvent::Peer(peer::PeerEvent::Closed(reason)) => {
                self.report_down(number, Failure::from(&reason));
            }
        }
    }

    fn handle_tick(&mut self) {
        if let Some(live) = &self.live {
            let last_received =
                live.session.peer().last_received().saturating_duration_since(self.started_at);
            let number = live.number;
            self.step(ConnEvent::Traffic(number, MonotonicTime(last_received)));
        }
        self.handle_event(ConnEvent::Tick);
    }

    fn announce_state(&mut self) {
        self.publish_view();
        self.listener.on_update(ConnUpdate::StateChanged(self.state_sender.borrow().clone()));
    }

    fn publish_view(&self) {
        self.state_sender.send_modify(|view| {
            view.lifecycle = self.lifecycle.clone();
            view.session = self.live.as_ref().map(|live| live.session.clone());
            view.catalog.clone_from(&self.catalog);
            view.unrefreshed_since = self.unrefreshed_since;
            view.dialog_catalog = self.dialog_catalog.clone().filter(|_| self.live.is_some());
            view.stderr.clone_from(&self.stderr);
        });
    }
}

/// Event of the open session.
enum SessionEvent {
    Peer(peer::PeerEvent),
    ListChanged,
}

async fn next_event(live: &mut Option<LiveSession>) -> (SessionNumber, SessionEvent) {
    let Some(live) = live else {
        return std::future::pending().await;
    };
    let event = tokio::select! {
        Some(event) = live.events.next() => SessionEvent::Peer(event),
        Some(()) = live.list_subscription.changed() => SessionEvent::ListChanged,
        else => return std::future::pending().await,
    };
    (live.number, event)
}

async fn sleep_until_wake(wake: Option<Instant>) {
    match wake {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Returns a random number from 0 to 1. Without a random source it returns 1, the longest delay.
fn random_share() -> f64 {
    let number = getrandom::u32().unwrap_or(u32::MAX);
    f64::from(number) / f64::from(u32::MAX)
}
