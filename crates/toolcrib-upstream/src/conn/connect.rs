//! Opening a session: the link, the handshake of whichever era, and the lists. Complete, or nothing is left of it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep, sleep, timeout_at};
use toolcrib_config::model::choice::Protocol;
use toolcrib_config::model::transport::{self, Transport};
use toolcrib_wire::handshake::{Initialize, discover_params};
use toolcrib_wire::meta::RequestMeta;
use toolcrib_wire::view::ClientCapabilities;
use toolcrib_wire::{Body, Era, ObjectWriter, Raw, RpcError, Version, method};

use super::catalog::Catalog;
use super::era::{Agreed, Heard, Next, Probe, ProbeError, SILENCE};
use super::failure::{Failure, FailureKind};
use super::listening::Listening;
use super::listing;
use super::peer::{CallError, CallOptions, Event, Peer, PeerSettings, Receiver};
use super::session::Session;
use super::setup::{Config, Learned, Setup};
use crate::process::StderrTail;
use crate::secrets::Found;
use crate::signals::SecretMask;
use crate::transport::{CloseReason, HttpFault, diagnose, look, open};

/// How long what is queued may take to leave when a session is closed.
pub(super) const FAREWELL: Duration = Duration::from_secs(1);

/// A session that serves.
pub(super) struct Opened {
    pub(super) session: Session,
    /// Nothing where the lists were known already.
    pub(super) catalog: Option<Catalog>,
    pub(super) events: Receiver<Event>,
    pub(super) listening: Listening,
}

/// A session that did not come to be, and what the server wrote meanwhile.
pub(super) struct Failed {
    pub(super) failure: Failure,
    pub(super) stderr: Option<StderrTail>,
    /// The start-up limit passed and the server wrote nothing; it may wait for `Content-Length` (C8 of the dialects).
    pub(super) may_want_content_length: bool,
    /// Work that the failure does not wait for.
    pub(super) closing: Option<Pending<()>>,
    pub(super) diagnosis: Option<Pending<Failure>>,
}

/// Work that has begun and is to be finished by whoever has it.
pub(super) type Pending<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Self {
        Failed {
            failure,
            stderr: None,
            may_want_content_length: false,
            closing: None,
            diagnosis: None,
        }
    }
}

/// Opens a session, within its start-up limit, unless it is called off. `framing` overrides what is remembered.
pub(super) async fn connect(
    setup: Arc<Setup>,
    framing: Option<transport::Framing>,
    mut called_off: oneshot::Receiver<()>,
) -> Result<Opened, Failed> {
    let begun = Instant::now();
    let mut attempt =
        Attempt { setup, peer: None, framing, found: None, mask: SecretMask::default() };
    let outcome = tokio::select! {
        outcome = attempt.run() => outcome,
        _ = &mut called_off => {
            attempt.close().await;
            return Err(called_off_failure().into());
        }
    };
    let failure = match outcome {
        Ok(opened) => return Ok(opened),
        Err(failure) => failure,
    };
    let mut failed = attempt.fail(failure);
    tokio::select! {
        () = failed.finish_until(begun, &attempt.setup) => {}
        _ = called_off => {
            if let Some(closing) = failed.closing.take() {
                closing.await;
            }
        }
    }
    Err(failed)
}

fn called_off_failure() -> Failure {
    Failure::new(FailureKind::Connection, "connecting was called off")
}

impl Failed {
    /// Uses what is left of the limits: a diagnosis that is quick is part of the failure, and what a server that
    /// ended wrote last is read to its end. A limit that has passed leaves no time (HOL-45).
    async fn finish_until(&mut self, begun: Instant, setup: &Setup) {
        if self.failure.kind == FailureKind::Timeout {
            return;
        }
        let connect = Some(setup.spec.policy.timeouts.connect.0).filter(|limit| !limit.is_zero());
        let limit = setup.startup().into_iter().chain(connect).min();
        let end = limit.and_then(|limit| begun.checked_add(limit));
        let (closing, diagnosis) = (&mut self.closing, &mut self.diagnosis);
        let both = async { tokio::join!(finished(closing), finished(diagnosis)) };
        let diagnosed = match end {
            Some(end) => timeout_at(end, both).await.ok().and_then(|(_, diagnosed)| diagnosed),
            None => both.await.1,
        };
        self.failure = diagnosed.unwrap_or_else(|| self.failure.clone());
    }
}

/// Waits for work, if there is any, and takes it away once it is done.
async fn finished<T>(work: &mut Option<Pending<T>>) -> Option<T> {
    let done = work.as_mut()?.await;
    *work = None;
    Some(done)
}

struct Attempt {
    setup: Arc<Setup>,
    /// What is open, so that it can be closed in good order wherever the attempt ends.
    peer: Option<Peer>,
    framing: Option<transport::Framing>,
    /// What the server's values refer to, while it is being reached.
    found: Option<Arc<Found>>,
    /// Masks all that the server was given so far.
    mask: SecretMask,
}

impl Attempt {
    async fn run(&mut self) -> Result<Opened, Failure> {
        let learned = self.setup.world.memory.of(self.setup.spec.hash);
        self.framing = self.framing.or(learned.framing);
        let outcome = self.within_limit().await;
        outcome.inspect_err(|failure| self.forget_what_failed(learned, failure))
    }

    /// What is remembered may be wrong, and without an answer nothing else would tell: the next attempt asks anew.
    fn forget_what_failed(&self, learned: Learned, failure: &Failure) {
        let Setup { spec, world, protocol, .. } = &*self.setup;
        if learned == Learned::default() || *protocol != spec.policy.protocol {
            return;
        }
        let is_local = spec.transport.remote().is_none();
        match failure.kind {
            FailureKind::Timeout if self.is_silent() => world.memory.forget(spec.hash),
            // It may end because it is asked in an era that it no longer speaks.
            FailureKind::Connection if is_local => {
                world.memory.learn(spec.hash, Learned { era: None, ..learned });
            }
            _ => {}
        }
    }

    fn is_silent(&self) -> bool {
        self.peer.as_ref().is_some_and(|peer| peer.framing().is_none())
    }

    /// The failure, with what is left to do.
    fn fail(&mut self, failure: Failure) -> Failed {
        let may_want_content_length = failure.kind == FailureKind::Timeout
            && self.is_silent()
            && self.framing.is_none()
            && self.setup.seeks_framing();
        let fix = match &failure.fix {
            Some(fix) if may_want_content_length => {
                Some(format!("{fix}; if it speaks `Content-Length`, set `framing: content_length`"))
            }
            fix => fix.clone(),
        };
        let failure = Failure { fix, ..failure }.masked(&self.mask);
        let peer = self.peer.take();
        let stderr = peer.as_ref().and_then(|peer| peer.facts().stderr.clone());
        let closing =
            peer.map(|peer| -> Pending<()> { Box::pin(async move { peer.close(FAREWELL).await }) });
        // Where a secret could not be had nobody has looked for the server yet.
        let found = self.found.clone().filter(|_| failure.is_open());
        let is_remote = self.setup.spec.transport.remote().is_some();
        let diagnosis = found.filter(|_| is_remote).map(|found| -> Pending<Failure> {
            let (setup, mask) = (Arc::clone(&self.setup), self.mask.clone());
            Box::pin(explain(setup, found, mask, failure.clone()))
        });
        Failed { failure, stderr, may_want_content_length, closing, diagnosis }
    }

    async fn within_limit(&mut self) -> Result<Opened, Failure> {
        let Some(limit) = self.setup.startup() else {
            return self.with_memory().await;
        };
        let clock = Arc::clone(&self.setup.clock);
        let outcome = clock.by(clock.late_after(limit), self.with_memory()).await;
        outcome.unwrap_or_else(|| {
            let text = format!("the server was not ready within {} s", limit.as_secs_f64());
            let fix = "look at its log, or raise `timeouts.startup`".to_owned();
            Err(Failure { fix: Some(fix), ..Failure::new(FailureKind::Timeout, text) })
        })
    }

    /// What the server spoke before is tried first; if it no longer does, everything is asked anew.
    async fn with_memory(&mut self) -> Result<Opened, Failure> {
        let (memory, hash) = (&self.setup.world.memory, self.setup.spec.hash);
        // Where something else is asked for, what it spoke before counts for nothing.
        let is_free = self.setup.protocol == Protocol::Auto;
        let remembered = memory.of(hash).era.filter(|_| is_free);
        match self.once(remembered).await {
            Err(failure) if remembered.is_some() && failure.kind == FailureKind::Protocol => {
                self.setup.world.memory.forget(hash);
                self.close().await;
                self.once(None).await
            }
            outcome => outcome,
        }
    }

    async fn once(&mut self, era: Option<Era>) -> Result<Opened, Failure> {
        let found = Arc::new(self.setup.found().await?);
        self.mask = SecretMask::new(self.setup.secrets(&found));
        self.found = Some(Arc::clone(&found));
        let config = self.setup.config(&self.setup.find(&found));
        let config = config.map_err(|error| Failure::from(&error))?;
        let transport = self.setup.transport(self.framing);
        let mut events = self.open(&transport, &config).await?;
        let capabilities = self.setup.capabilities(config.handshake.as_ref());
        let agreed = self
            .shake_hands(&transport, &config, &capabilities, era, &mut events)
            .await
            .map_err(|failure| failure.while_it("failed to connect"))?;
        let session = self.begin(agreed, capabilities).await?;
        // Before the lists are read: else nobody would tell what changes in between.
        let listening = Listening::start(&session).await;
        let catalog = match &self.setup.catalog {
            Some(known) => {
                session.learn(known);
                None
            }
            None => {
                let read = listing::read(&session).await;
                Some(read.map_err(|failure| failure.while_it("failed to discover tools"))?)
            }
        };
        // Whoever asked for an era has learnt nothing of what the server would rather speak.
        if self.setup.protocol == self.setup.spec.policy.protocol {
            let learned = Learned { era: Some(session.agreed().era), framing: self.framing };
            self.setup.world.memory.learn(self.setup.spec.hash, learned);
        }
        Ok(Opened { session, catalog, events, listening })
    }

    async fn open(
        &mut self,
        transport: &Transport,
        config: &Config,
    ) -> Result<Receiver<Event>, Failure> {
        let failed = |error: &_| Failure::from(error).while_it("failed to create transport");
        let found = self.found.clone().unwrap_or_default();
        let find = self.setup.find(&found);
        let opening = self.setup.opening(&config.env, &find, &self.mask);
        let opening = opening.map_err(|error| failed(&error))?;
        let mut link = open(transport, &opening).await.map_err(|error| failed(&error))?;
        link.hide(self.mask.clone());
        let settings = PeerSettings {
            server: self.setup.spec.id.clone(),
            handler: Arc::clone(&self.setup.caller.handler),
            masks_results: self.setup.spec.policy.results.mask_secrets,
        };
        let (peer, events) = Peer::start(link, settings);
        self.peer = Some(peer);
        Ok(events)
    }

    async fn shake_hands(
        &mut self,
        transport: &Transport,
        config: &Config,
        capabilities: &ClientCapabilities,
        era: Option<Era>,
        events: &mut Receiver<Event>,
    ) -> Result<Agreed, Failure> {
        let peer = self.current()?;
        let mut probe = Probe::new(&self.setup.protocol, peer.facts().channel, era);
        let mut questions = Questions::default();
        let mut heard = Heard::Open;
        loop {
            let next = probe.hear(heard);
            match next {
                Next::Discover(version) => {
                    questions.discover(self.current()?, &self.setup, capabilities, version);
                }
                Next::Initialize(version) => {
                    questions.initialize(self.current()?, &self.setup, capabilities, version);
                }
                Next::Respawn | Next::OpenStream => {
                    let again = next == Next::Respawn;
                    questions = Questions::default();
                    self.close().await;
                    let event_stream = as_event_stream(transport);
                    let way = if again { transport } else { &event_stream };
                    heard = match self.open(way, config).await {
                        Ok(opened) => {
                            *events = opened;
                            Heard::Open
                        }
                        Err(failure) if again || failure.kind != FailureKind::Protocol => {
                            return Err(failure);
                        }
                        Err(_) => Heard::NoStream,
                    };
                    continue;
                }
                Next::Wait => {}
                Next::Decided(agreed) => return Ok(agreed),
                Next::Failed(ProbeError::Exited) => return Err(self.exited(&questions)),
                Next::Failed(error) => return Err(Failure::from(&error)),
            }
            heard = questions.next().await?;
        }
    }

    fn exited(&self, questions: &Questions) -> Failure {
        let failure = Failure::from(&ProbeError::Exited);
        let reason = questions.closed.as_ref().map(|reason| Failure::from(reason).message);
        let fix = "look at its log: it says why it ended".to_owned();
        let message = match reason {
            Some(reason) => format!("{}: {reason}", failure.message),
            None => failure.message,
        };
        Failure { message, fix: Some(fix), ..failure }
    }

    async fn begin(
        &self,
        agreed: Agreed,
        capabilities: ClientCapabilities,
    ) -> Result<Session, Failure> {
        let peer = self.current()?.clone();
        let era = agreed.era;
        let session = Session::new(Arc::clone(&self.setup), peer.clone(), agreed, capabilities);
        if era == Era::Legacy {
            let sent = peer.notify(method::INITIALIZED, None).await;
            sent.map_err(|error| Failure::from(&error).while_it("failed to connect"))?;
        }
        Ok(session)
    }

    fn current(&self) -> Result<&Peer, Failure> {
        let none = || Failure::new(FailureKind::Connection, "the connection was closed");
        self.peer.as_ref().ok_or_else(none)
    }

    async fn close(&mut self) {
        if let Some(peer) = self.peer.take() {
            peer.close(FAREWELL).await;
        }
    }
}

/// Adds what a look at the address tells.
async fn explain(
    setup: Arc<Setup>,
    found: Arc<Found>,
    mask: SecretMask,
    failure: Failure,
) -> Failure {
    let find = setup.find(&found);
    let opening = setup.opening(&[], &find, &mask);
    let sight = match &opening {
        Ok(opening) => look(&setup.spec.transport, opening).await,
        Err(_) => None,
    };
    let Some(diagnosis) = sight.map(diagnose) else { return failure };
    let message = format!("{}; likely cause: {}", failure.message, diagnosis.cause);
    Failure { message, fix: Some(diagnosis.step.to_owned()), ..failure }
}

/// The same address, as the transport of 2024-11-05.
fn as_event_stream(transport: &Transport) -> Transport {
    match transport {
        Transport::StreamableHttp(http) => Transport::Sse(http.remote.clone()),
        other => other.clone(),
    }
}

type Answer = Pin<Box<dyn Future<Output = Result<Body, CallError>> + Send>>;

/// The opening questions that are not answered yet. Both stay open until one decides: to drop one would cancel it.
#[derive(Default)]
struct Questions {
    discover: Option<Answer>,
    initialize: Option<Answer>,
    silence: Option<Pin<Box<Sleep>>>,
    closed: Option<CloseReason>,
}

impl Questions {
    fn discover(
        &mut self,
        peer: &Peer,
        setup: &Setup,
        capabilities: &ClientCapabilities,
        version: Version,
    ) {
        let meta = RequestMeta {
            version: version.clone(),
            client: Some(setup.world.client.clone()),
            capabilities: capabilities.clone(),
            log_level: None,
        };
        self.discover = Some(ask(peer, method::DISCOVER, discover_params(&meta), Some(version)));
        self.silence = Some(Box::pin(sleep(SILENCE)));
    }

    fn initialize(
        &mut self,
        peer: &Peer,
        setup: &Setup,
        capabilities: &ClientCapabilities,
        version: Version,
    ) {
        let params = Initialize::build(&version, capabilities, &setup.world.client);
        self.initialize = Some(ask(peer, method::INITIALIZE, params, None));
    }

    async fn next(&mut self) -> Result<Heard, Failure> {
        let (answer, heard): (_, fn(_) -> Heard) = tokio::select! {
            answer = pending(&mut self.discover) => (answer, Heard::Discovered),
            answer = pending(&mut self.initialize) => (answer, Heard::Initialized),
            () = silence(&mut self.silence) => return Ok(Heard::Silence),
        };
        self.read(answer, heard)
    }

    fn read(
        &mut self,
        answer: Result<Body, CallError>,
        heard: fn(Result<Raw, RpcError>) -> Heard,
    ) -> Result<Heard, Failure> {
        match answer {
            Ok(body) => Ok(heard(Ok(body.raw().unwrap_or_else(|| ObjectWriter::new().finish())))),
            Err(CallError::Refused(error)) => Ok(heard(Err(error))),
            Err(
                CallError::Closed(CloseReason::Broken(fault))
                | CallError::Unsent(CloseReason::Broken(fault)),
            ) => Err(Failure::from(&fault)),
            Err(CallError::Closed(reason) | CallError::Unsent(reason)) => {
                self.closed = Some(reason);
                Ok(Heard::Exited)
            }
            Err(CallError::Failed(fault)) => match fault.http() {
                Some(HttpFault::Status { status: 400 | 404 | 405, .. }) => Ok(Heard::Refused),
                _ => Err(Failure::from(&fault)),
            },
            // An answer all the same: to a method that the server does not know it may say anything.
            Err(CallError::Malformed(_)) => Ok(heard(Err(RpcError::internal("malformed answer")))),
            Err(error) => Err(Failure::from(&error)),
        }
    }
}

fn ask(peer: &Peer, method: &'static str, params: Raw, version: Option<Version>) -> Answer {
    let peer = peer.clone();
    let options = CallOptions { version, ..CallOptions::default() };
    Box::pin(async move { peer.call(method, params, options).await })
}

async fn pending(question: &mut Option<Answer>) -> Result<Body, CallError> {
    match question {
        Some(answer) => {
            let answered = answer.await;
            *question = None;
            answered
        }
        None => std::future::pending().await,
    }
}

async fn silence(timer: &mut Option<Pin<Box<Sleep>>>) {
    match timer {
        Some(sleeping) => {
            sleeping.await;
            *timer = None;
        }
        None => std::future::pending().await,
    }
}
