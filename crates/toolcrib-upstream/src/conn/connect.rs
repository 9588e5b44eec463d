//! Opens a session: link, handshake and lists. A failed attempt leaves nothing behind.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep, sleep, timeout_at};
use toolcrib_config::model::choice::Protocol;
use toolcrib_config::model::transport::{self, Transport};
use toolcrib_wire::handshake::{InitializeParams, discover_params};
use toolcrib_wire::meta::RequestMeta;
use toolcrib_wire::view::ClientCapabilities;
use toolcrib_wire::{Body, Era, ObjectWriter, RawJson, RpcError, Version, method};

use super::catalog::Catalog;
use super::era_probe::{
    AgreedProtocol, DISCOVER_SILENCE_TIMEOUT, EraProbe, EraProbeError, ProbeAction, ProbeEvent,
};
use super::failure::{Failure, FailureKind};
use super::list_reader;
use super::list_subscription::ListSubscription;
use super::peer::{CallOptions, MailboxReceiver, Peer, PeerCallError, PeerEvent, PeerSettings};
use super::session::Session;
use super::setup::{ConnSetup, DeliveredConfig, ServerTraits};
use crate::process::StderrTail;
use crate::secrets::ResolvedSecrets;
use crate::signals::SecretMask;
use crate::transport::{CloseReason, HttpFault, diagnose, open, probe};

/// Time limit for sending queued messages when a session closes.
pub(super) const CLOSE_GRACE: Duration = Duration::from_secs(1);

/// A session that is ready for calls.
pub(super) struct OpenedSession {
    pub(super) session: Session,
    /// `None` if the lists were already known.
    pub(super) catalog: Option<Catalog>,
    pub(super) events: MailboxReceiver<PeerEvent>,
    pub(super) list_subscription: ListSubscription,
}

/// A failed attempt, with the output that the server wrote meanwhile.
pub(super) struct FailedAttempt {
    pub(super) failure: Failure,
    pub(super) stderr: Option<StderrTail>,
    /// The startup timeout expired and the server wrote nothing. It may expect `Content-Length` framing (C8 of the
    /// dialects).
    pub(super) may_want_content_length: bool,
    /// Closes the link. The failure is reported without waiting for it.
    pub(super) closing: Option<PendingWork<()>>,
    pub(super) diagnosis: Option<PendingWork<Failure>>,
}

/// A started future that its owner has to finish.
pub(super) type PendingWork<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl From<Failure> for FailedAttempt {
    fn from(failure: Failure) -> Self {
        FailedAttempt {
            failure,
            stderr: None,
            may_want_content_length: false,
            closing: None,
            diagnosis: None,
        }
    }
}

/// Opens a session within the startup timeout unless the attempt is cancelled. `framing` overrides the known traits.
pub(super) async fn connect(
    setup: Arc<ConnSetup>,
    framing: Option<transport::FramingMode>,
    mut cancelled: oneshot::Receiver<()>,
) -> Result<OpenedSession, FailedAttempt> {
    let started_at = Instant::now();
    let mut attempt =
        Attempt { setup, peer: None, framing, secrets: None, mask: SecretMask::default() };
    let outcome = tokio::select! {
        outcome = attempt.run() => outcome,
        _ = &mut cancelled => {
            attempt.close_link().await;
            return Err(cancelled_failure().into());
        }
    };
    let failure = match outcome {
        Ok(opened) => return Ok(opened),
        Err(failure) => failure,
    };
    let mut failed = attempt.build_failed_attempt(failure);
    tokio::select! {
        () = failed.finish_within_limits(started_at, &attempt.setup) => {}
        _ = cancelled => {
            if let Some(closing) = failed.closing.take() {
                closing.await;
            }
        }
    }
    Err(failed)
}

fn cancelled_failure() -> Failure {
    Failure::new(FailureKind::Connection, "connecting was cancelled")
}

impl FailedAttempt {
    /// Waits for the diagnosis and for the rest of stderr within the remaining time limits. An expired timeout leaves
    /// no time for either (HOL-45).
    async fn finish_within_limits(&mut self, started_at: Instant, setup: &ConnSetup) {
        if self.failure.kind == FailureKind::Timeout {
            return;
        }
        let connect = Some(setup.spec.policy.timeouts.connect.0).filter(|limit| !limit.is_zero());
        let limit = setup.startup_limit().into_iter().chain(connect).min();
        let end = limit.and_then(|limit| started_at.checked_add(limit));
        let (closing, diagnosis) = (&mut self.closing, &mut self.diagnosis);
        let both = async { tokio::join!(finish_work(closing), finish_work(diagnosis)) };
        let diagnosed = match end {
            Some(end) => timeout_at(end, both).await.ok().and_then(|(_, diagnosed)| diagnosed),
            None => both.await.1,
        };
        self.failure = diagnosed.unwrap_or_else(|| self.failure.clone());
    }
}

/// Awaits the work, if there is any, and clears it.
async fn finish_work<T>(work: &mut Option<PendingWork<T>>) -> Option<T> {
    let done = work.as_mut()?.await;
    *work = None;
    Some(done)
}

struct Attempt {
    setup: Arc<ConnSetup>,
    /// The open link, so that it can be closed wherever the attempt ends.
    peer: Option<Peer>,
    framing: Option<transport::FramingMode>,
    /// Resolved references of the server's configuration.
    secrets: Option<Arc<ResolvedSecrets>>,
    /// Masks every secret that the server has received so far.
    mask: SecretMask,
}

impl Attempt {
    async fn run(&mut self) -> Result<OpenedSession, Failure> {
        let known_traits = self.setup.context.traits.get(self.setup.spec.hash);
        self.framing = self.framing.or(known_traits.framing);
        let outcome = self.connect_within_limit().await;
        outcome.inspect_err(|failure| self.forget_wrong_traits(known_traits, failure))
    }

    /// Drops traits that may have caused the failure, so that the next attempt detects them again. A silent server
    /// gives no other hint.
    fn forget_wrong_traits(&self, known_traits: ServerTraits, failure: &Failure) {
        let ConnSetup { spec, context, protocol, .. } = &*self.setup;
        if known_traits == ServerTraits::default() || *protocol != spec.policy.protocol {
            return;
        }
        let is_local = spec.transport.remote().is_none();
        match failure.kind {
            FailureKind::Timeout if self.is_silent() => context.traits.remove(spec.hash),
            // The server may exit because it no longer speaks the known era.
            FailureKind::Connection if is_local => {
                context.traits.insert(spec.hash, ServerTraits { era: None, ..known_traits });
            }
            _ => {}
        }
    }

    fn is_silent(&self) -> bool {
        self.peer.as_ref().is_some_and(|peer| peer.framing().is_none())
    }

    /// Builds the failure together with the work that is left.
    fn build_failed_attempt(&mut self, failure: Failure) -> FailedAttempt {
        let may_want_content_length = failure.kind == FailureKind::Timeout
            && self.is_silent()
            && self.framing.is_none()
            && self.setup.detects_framing();
        let fix = match &failure.fix {
            Some(fix) if may_want_content_length => {
                Some(format!("{fix}; if it speaks `Content-Length`, set `framing: content_length`"))
            }
            fix => fix.clone(),
        };
        let failure = Failure { fix, ..failure }.masked(&self.mask);
        let peer = self.peer.take();
        let stderr = peer.as_ref().and_then(|peer| peer.link_info().stderr.clone());
        let closing = peer.map(|peer| -> PendingWork<()> {
            Box::pin(async move { peer.close(CLOSE_GRACE).await })
        });
        // If a secret could not be resolved, no connection was tried, so there is nothing to diagnose.
        let secrets = self.secrets.clone().filter(|_| failure.needs_diagnosis());
        let is_remote = self.setup.spec.transport.remote().is_some();
        let diagnosis = secrets.filter(|_| is_remote).map(|secrets| -> PendingWork<Failure> {
            let (setup, mask) = (Arc::clone(&self.setup), self.mask.clone());
            Box::pin(diagnose_failure(setup, secrets, mask, failure.clone()))
        });
        FailedAttempt { failure, stderr, may_want_content_length, closing, diagnosis }
    }

    async fn connect_within_limit(&mut self) -> Result<OpenedSession, Failure> {
        let Some(limit) = self.setup.startup_limit() else {
            return self.connect_with_known_traits().await;
        };
        let clock = Arc::clone(&self.setup.clock);
        let outcome =
            clock.run_until(clock.deadline_after(limit), self.connect_with_known_traits()).await;
        outcome.unwrap_or_else(|| {
            let text = format!("the server was not ready within {} s", limit.as_secs_f64());
            let fix = "check the server's log, or raise `timeouts.startup`".to_owned();
            Err(Failure { fix: Some(fix), ..Failure::new(FailureKind::Timeout, text) })
        })
    }

    /// Tries the known era first. If the server no longer speaks it, probes again.
    async fn connect_with_known_traits(&mut self) -> Result<OpenedSession, Failure> {
        let (traits, hash) = (&self.setup.context.traits, self.setup.spec.hash);
        // A configured protocol overrides the known era.
        let is_free = self.setup.protocol == Protocol::Auto;
        let remembered = traits.get(hash).era.filter(|_| is_free);
        match self.connect_once(remembered).await {
            Err(failure) if remembered.is_some() && failure.kind == FailureKind::Protocol => {
                self.setup.context.traits.remove(hash);
                self.close_link().await;
                self.connect_once(None).await
            }
            outcome => outcome,
        }
    }

    async fn connect_once(&mut self, era: Option<Era>) -> Result<OpenedSession, Failure> {
        let secrets = Arc::new(self.setup.resolve_references().await?);
        self.mask = SecretMask::new(self.setup.server_secrets(&secrets));
        self.secrets = Some(Arc::clone(&secrets));
        let config = self.setup.resolve_config(&self.setup.reference_resolver(&secrets));
        let config = config.map_err(|error| Failure::from(&error))?;
        let transport = self.setup.transport_with_framing(self.framing);
        let mut events = self.open_link(&transport, &config).await?;
        let capabilities = self.setup.declared_capabilities(config.handshake.as_ref());
        let agreed = self
            .run_handshake(&transport, &config, &capabilities, era, &mut events)
            .await
            .map_err(|failure| failure.with_context("failed to connect"))?;
        let session = self.start_session(agreed, capabilities).await?;
        // Subscribe before reading the lists, so that no change in between is missed.
        let list_subscription = ListSubscription::start(&session).await;
        let catalog = match &self.setup.catalog {
            Some(known) => {
                session.set_param_headers(known);
                None
            }
            None => {
                let read = list_reader::read_catalog(&session).await;
                Some(read.map_err(|failure| failure.with_context("failed to discover tools"))?)
            }
        };
        // A protocol that differs from the configured one says nothing about the server's preference.
        if self.setup.protocol == self.setup.spec.policy.protocol {
            let known_traits =
                ServerTraits { era: Some(session.agreed().era), framing: self.framing };
            self.setup.context.traits.insert(self.setup.spec.hash, known_traits);
        }
        Ok(OpenedSession { session, catalog, events, list_subscription })
    }

    async fn open_link(
        &mut self,
        transport: &Transport,
        config: &DeliveredConfig,
    ) -> Result<MailboxReceiver<PeerEvent>, Failure> {
        let failed = |error: &_| Failure::from(error).with_context("failed to create transport");
        let secrets = self.secrets.clone().unwrap_or_default();
        let find = self.setup.reference_resolver(&secrets);
        let opening = self.setup.link_opening(&config.env, &find, &self.mask);
        let opening = opening.map_err(|error| failed(&error))?;
        let mut link = open(transport, &opening).await.map_err(|error| failed(&error))?;
        link.set_mask(self.mask.clone());
        let settings = PeerSettings {
            server: self.setup.spec.id.clone(),
            handler: Arc::clone(&self.setup.client.handler),
            masks_results: self.setup.spec.policy.results.mask_secrets,
        };
        let (peer, events) = Peer::start(link, settings);
        self.peer = Some(peer);
        Ok(events)
    }

    async fn run_handshake(
        &mut self,
        transport: &Transport,
        config: &DeliveredConfig,
        capabilities: &ClientCapabilities,
        era: Option<Era>,
        events: &mut MailboxReceiver<PeerEvent>,
    ) -> Result<AgreedProtocol, Failure> {
        let peer = self.current_peer()?;
        let mut probe = EraProbe::new(&self.setup.protocol, peer.link_info().channel, era);
        let mut requests = HandshakeRequests::default();
        let mut event = ProbeEvent::Open;
        loop {
            let next = probe.handle(event);
            match next {
                ProbeAction::Discover(version) => {
                    requests.send_discover(
                        self.current_peer()?,
                        &self.setup,
                        capabilities,
                        version,
                    );
                }
                ProbeAction::Initialize(version) => {
                    requests.send_initialize(
                        self.current_peer()?,
                        &self.setup,
                        capabilities,
                        version,
                    );
                }
                ProbeAction::Respawn | ProbeAction::OpenEventStream => {
                    let again = next == ProbeAction::Respawn;
                    requests = HandshakeRequests::default();
                    self.close_link().await;
                    let event_stream = as_event_stream(transport);
                    let transport_to_open = if again { transport } else { &event_stream };
                    event = match self.open_link(transport_to_open, config).await {
                        Ok(opened) => {
                            *events = opened;
                            ProbeEvent::Open
                        }
                        Err(failure) if again || failure.kind != FailureKind::Protocol => {
                            return Err(failure);
                        }
                        Err(_) => ProbeEvent::NoEventStream,
                    };
                    continue;
                }
                ProbeAction::Wait => {}
                ProbeAction::Decided(agreed) => return Ok(agreed),
                ProbeAction::Failed(EraProbeError::Exited) => {
                    return Err(self.exit_failure(&requests));
                }
                ProbeAction::Failed(error) => return Err(Failure::from(&error)),
            }
            event = requests.next().await?;
        }
    }

    fn exit_failure(&self, requests: &HandshakeRequests) -> Failure {
        let failure = Failure::from(&EraProbeError::Exited);
        let reason = requests.closed.as_ref().map(|reason| Failure::from(reason).message);
        let fix = "check the server's log for the reason".to_owned();
        let message = match reason {
            Some(reason) => format!("{}: {reason}", failure.message),
            None => failure.message,
        };
        Failure { message, fix: Some(fix), ..failure }
    }

    async fn start_session(
        &self,
        agreed: AgreedProtocol,
        capabilities: ClientCapabilities,
    ) -> Result<Session, Failure> {
        let peer = self.current_peer()?.clone();
        let era = agreed.era;
        let session = Session::new(Arc::clone(&self.setup), peer.clone(), agreed, capabilities);
        if era == Era::Legacy {
            let sent = peer.notify(method::INITIALIZED, None).await;
            sent.map_err(|error| Failure::from(&error).with_context("failed to connect"))?;
        }
        Ok(session)
    }

    fn current_peer(&self) -> Result<&Peer, Failure> {
        let none = || Failure::new(FailureKind::Connection, "the connection was closed");
        self.peer.as_ref().ok_or_else(none)
    }

    async fn close_link(&mut self) {
        if let Some(peer) = self.peer.take() {
            peer.close(CLOSE_GRACE).await;
        }
    }
}

/// Probes the address and adds the diagnosis to the failure.
async fn diagnose_failure(
    setup: Arc<ConnSetup>,
    secrets: Arc<ResolvedSecrets>,
    mask: SecretMask,
    failure: Failure,
) -> Failure {
    let find = setup.reference_resolver(&secrets);
    let opening = setup.link_opening(&[], &find, &mask);
    let sight = match &opening {
        Ok(opening) => probe(&setup.spec.transport, opening).await,
        Err(_) => None,
    };
    let Some(diagnosis) = sight.map(diagnose) else { return failure };
    let message = format!("{}; likely cause: {}", failure.message, diagnosis.cause);
    Failure { message, fix: Some(diagnosis.step.to_owned()), ..failure }
}

/// The same address with the HTTP+SSE transport of 2024-11-05.
fn as_event_stream(transport: &Transport) -> Transport {
    match transport {
        Transport::StreamableHttp(http) => Transport::Sse(http.remote.clone()),
        other => other.clone(),
    }
}

type ResponseFuture = Pin<Box<dyn Future<Output = Result<Body, PeerCallError>> + Send>>;

/// Handshake requests without a response. Both stay open until one decides, because dropping one would cancel it.
#[derive(Default)]
struct HandshakeRequests {
    discover: Option<ResponseFuture>,
    initialize: Option<ResponseFuture>,
    silence: Option<Pin<Box<Sleep>>>,
    closed: Option<CloseReason>,
}

impl HandshakeRequests {
    fn send_discover(
        &mut self,
        peer: &Peer,
        setup: &ConnSetup,
        capabilities: &ClientCapabilities,
        version: Version,
    ) {
        let meta = RequestMeta {
            version: version.clone(),
            client: Some(setup.context.client_info.clone()),
            capabilities: capabilities.clone(),
            log_level: None,
        };
        self.discover =
            Some(send_request(peer, method::DISCOVER, discover_params(&meta), Some(version)));
        self.silence = Some(Box::pin(sleep(DISCOVER_SILENCE_TIMEOUT)));
    }

    fn send_initialize(
        &mut self,
        peer: &Peer,
        setup: &ConnSetup,
        capabilities: &ClientCapabilities,
        version: Version,
    ) {
        let params = InitializeParams::build(&version, capabilities, &setup.context.client_info);
        self.initialize = Some(send_request(peer, method::INITIALIZE, params, None));
    }

    async fn next(&mut self) -> Result<ProbeEvent, Failure> {
        let (answer, event): (_, fn(_) -> ProbeEvent) = tokio::select! {
            answer = wait_for_response(&mut self.discover) => (answer, ProbeEvent::Discovered),
            answer = wait_for_response(&mut self.initialize) => (answer, ProbeEvent::Initialized),
            () = wait_for_silence(&mut self.silence) => return Ok(ProbeEvent::Silence),
        };
        self.interpret_response(answer, event)
    }

    fn interpret_response(
        &mut self,
        answer: Result<Body, PeerCallError>,
        event: fn(Result<RawJson, RpcError>) -> ProbeEvent,
    ) -> Result<ProbeEvent, Failure> {
        match answer {
            Ok(body) => Ok(event(Ok(body.raw().unwrap_or_else(|| ObjectWriter::new().finish())))),
            Err(PeerCallError::Refused(error)) => Ok(event(Err(error))),
            Err(
                PeerCallError::Closed(CloseReason::Broken(fault))
                | PeerCallError::Unsent(CloseReason::Broken(fault)),
            ) => Err(Failure::from(&fault)),
            Err(PeerCallError::Closed(reason) | PeerCallError::Unsent(reason)) => {
                self.closed = Some(reason);
                Ok(ProbeEvent::Exited)
            }
            Err(PeerCallError::Failed(fault)) => match fault.http() {
                Some(HttpFault::Status { status: 400 | 404 | 405, .. }) => {
                    Ok(ProbeEvent::HttpRefused)
                }
                _ => Err(Failure::from(&fault)),
            },
            // Counts as a response: a server may send anything for an unknown method.
            Err(PeerCallError::Malformed(_)) => {
                Ok(event(Err(RpcError::internal("malformed response"))))
            }
            Err(error) => Err(Failure::from(&error)),
        }
    }
}

fn send_request(
    peer: &Peer,
    method: &'static str,
    params: RawJson,
    version: Option<Version>,
) -> ResponseFuture {
    let peer = peer.clone();
    let options = CallOptions { version, ..CallOptions::default() };
    Box::pin(async move { peer.call(method, params, options).await })
}

async fn wait_for_response(request: &mut Option<ResponseFuture>) -> Result<Body, PeerCallError> {
    match request {
        Some(answer) => {
            let answered = answer.await;
            *request = None;
            answered
        }
        None => std::future::pending().await,
    }
}

async fn wait_for_silence(timer: &mut Option<Pin<Box<Sleep>>>) {
    match timer {
        Some(sleeping) => {
            sleeping.await;
            *timer = None;
        }
        None => std::future::pending().await,
    }
}
