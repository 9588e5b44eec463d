//! State machine that detects the protocol era of a server during the handshake.

use std::time::Duration;

use toolcrib_config::model::choice::Protocol;
use toolcrib_wire::handshake::{DiscoverResult, InitializeResult};
use toolcrib_wire::view::{FieldError, ServerCapabilities};
use toolcrib_wire::{Channel, Era, RawJson, RpcError, Version};

use super::failure::FailureKind;

/// Silence after `server/discover` on a stream before `initialize` is sent as well.
pub const DISCOVER_SILENCE_TIMEOUT: Duration = Duration::from_secs(2);

/// Detects the era on one connection. It performs no I/O; the caller executes its actions and enforces the time limit.
#[derive(Debug, Clone)]
pub struct EraProbe {
    plan: ProbePlan,
    channel: Channel,
    discover: RequestState,
    initialize: RequestState,
    /// Versions that were sent with `server/discover`.
    tried: Vec<Version>,
    was_respawned: bool,
    is_over: bool,
}

/// Input of the state machine.
#[derive(Debug, Clone)]
pub enum ProbeEvent {
    /// The channel is open: at the start, after a respawn, and when the event stream has opened.
    Open,
    Discovered(Result<RawJson, RpcError>),
    Initialized(Result<RawJson, RpcError>),
    /// [`DISCOVER_SILENCE_TIMEOUT`] has passed since `server/discover`.
    Silence,
    /// The server answered the POST with 400, 404 or 405 and without a JSON-RPC error in the body.
    HttpRefused,
    /// The address serves no event stream either.
    NoEventStream,
    /// The server exited.
    Exited,
}

/// Next action for the caller.
#[derive(Debug, Clone, PartialEq)]
pub enum ProbeAction {
    Discover(Version),
    Initialize(Version),
    /// Start the server again, then report [`ProbeEvent::Open`].
    Respawn,
    /// Open the address as HTTP+SSE. The channel is a stream from then on.
    OpenEventStream,
    Wait,
    Decided(AgreedProtocol),
    Failed(EraProbeError),
}

/// Protocol that both sides use. In the legacy era the caller sends `notifications/initialized` next.
#[derive(Debug, Clone, PartialEq)]
pub struct AgreedProtocol {
    pub era: Era,
    pub version: Version,
    pub capabilities: ServerCapabilities,
    /// The complete deciding response.
    pub answer: RawJson,
}

/// Reason why no era could be agreed on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EraProbeError {
    #[error("unknown protocol version `{0}`")]
    UnknownVersion(String),
    #[error("the server answered with protocol version `{answered}`, which {reason}")]
    Version { answered: String, reason: &'static str },
    #[error("no common protocol version: the server supports {0}")]
    NoCommonVersion(String),
    #[error("the server refused `{method}`")]
    Refused {
        method: &'static str,
        #[source]
        cause: RpcError,
    },
    #[error("cannot parse the server's response to `{method}`")]
    Unreadable {
        method: &'static str,
        #[source]
        cause: FieldError,
    },
    #[error("the address accepts neither POST requests nor an event stream GET")]
    NoEndpoint,
    #[error("the server exited during the handshake")]
    Exited,
}

impl AgreedProtocol {
    /// Returns whether each request carries its own client, so that several clients can use one session. A legacy
    /// session has one client.
    pub fn carries_client_per_request(&self) -> bool {
        self.era == Era::Modern
    }

    /// Returns whether the server receives notifications of the client outside of requests.
    pub fn accepts_client_notifications(&self) -> bool {
        self.era == Era::Legacy
    }

    /// Returns whether a resource subscription is a request that stays open.
    pub fn subscribes_by_open_request(&self) -> bool {
        self.era == Era::Modern
    }

    /// Returns whether a client of this era can use the session without translation. The modern era serves clients of
    /// an unknown era too.
    pub fn fits_client(&self, era: Option<Era>) -> bool {
        era != Some(Era::Legacy) || self.era == Era::Legacy
    }
}

impl EraProbeError {
    /// Failure kind of this error.
    pub fn kind(&self) -> FailureKind {
        match self {
            EraProbeError::UnknownVersion(_) => FailureKind::Config,
            EraProbeError::Exited => FailureKind::Connection,
            _ => FailureKind::Protocol,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
enum ProbePlan {
    /// Modern if the server supports it, else legacy.
    Either,
    Legacy {
        /// The only accepted version.
        only: Option<Version>,
    },
    Modern {
        only: Option<Version>,
    },
    /// The configured version does not exist.
    Unknown(String),
}

#[derive(Debug, Clone, PartialEq)]
enum RequestState {
    NotSent,
    Pending,
    Failed(EraProbeError),
}

impl EraProbe {
    /// `remembered` is the era that worked before. A caller that finds it wrong drops it and probes again.
    pub fn new(protocol: &Protocol, channel: Channel, remembered: Option<Era>) -> EraProbe {
        EraProbe {
            plan: plan_for(protocol, remembered),
            channel,
            discover: RequestState::NotSent,
            initialize: RequestState::NotSent,
            tried: Vec::new(),
            was_respawned: false,
            is_over: false,
        }
    }

    /// Applies an event and returns the next action.
    pub fn handle(&mut self, event: ProbeEvent) -> ProbeAction {
        if self.is_over {
            return ProbeAction::Wait;
        }
        let next = match event {
            ProbeEvent::Open => self.handle_open(),
            ProbeEvent::Discovered(answer) => self.handle_discover_response(answer),
            ProbeEvent::Initialized(answer) => self.handle_initialize_response(answer),
            ProbeEvent::Silence => self.handle_silence(),
            ProbeEvent::HttpRefused => self.handle_http_refusal(),
            ProbeEvent::NoEventStream => ProbeAction::Failed(EraProbeError::NoEndpoint),
            ProbeEvent::Exited => self.handle_exit(),
        };
        self.is_over = matches!(next, ProbeAction::Decided(_) | ProbeAction::Failed(_));
        next
    }

    fn handle_open(&mut self) -> ProbeAction {
        match &self.plan {
            ProbePlan::Unknown(version) => {
                ProbeAction::Failed(EraProbeError::UnknownVersion(version.clone()))
            }
            ProbePlan::Legacy { .. } => self.send_initialize(),
            // The first process may have exited because of `server/discover`.
            ProbePlan::Either if self.was_respawned => self.send_initialize(),
            ProbePlan::Modern { only: Some(only) } => self.send_discover(only.clone()),
            ProbePlan::Either | ProbePlan::Modern { only: None } => {
                self.send_discover(Version::NEWEST)
            }
        }
    }

    fn send_discover(&mut self, version: Version) -> ProbeAction {
        self.discover = RequestState::Pending;
        self.tried.push(version.clone());
        ProbeAction::Discover(version)
    }

    fn send_initialize(&mut self) -> ProbeAction {
        self.initialize = RequestState::Pending;
        ProbeAction::Initialize(match &self.plan {
            ProbePlan::Legacy { only: Some(only) } => only.clone(),
            _ => Version::NEWEST_LEGACY,
        })
    }

    fn handle_discover_response(&mut self, answer: Result<RawJson, RpcError>) -> ProbeAction {
        if self.discover != RequestState::Pending {
            return ProbeAction::Wait;
        }
        match answer {
            Ok(raw) => match DiscoverResult::read(raw) {
                Ok(result) => self.choose_version(&result),
                Err(cause) => self.handle_discover_failure(unreadable("server/discover", cause)),
            },
            Err(error) if error.proves_modern() => self.negotiate_version(error),
            Err(error) => self.handle_discover_failure(refused("server/discover", error)),
        }
    }

    fn choose_version(&mut self, result: &DiscoverResult) -> ProbeAction {
        let wanted = match &self.plan {
            ProbePlan::Modern { only: Some(only) } => result.versions().iter().find(|v| *v == only),
            _ => result.newest_modern(),
        };
        match wanted {
            Some(version) => ProbeAction::Decided(AgreedProtocol {
                era: Era::Modern,
                version: version.clone(),
                capabilities: result.capabilities(),
                answer: result.raw().clone(),
            }),
            None => self.handle_no_modern_version(result.versions()),
        }
    }

    /// A modern server names its supported versions in the error. A server that names the version it just refused gets
    /// that version once more, but not twice.
    fn negotiate_version(&mut self, error: RpcError) -> ProbeAction {
        let offered = error.supported_versions();
        let refusals =
            |version: &Version| self.tried.iter().filter(|tried| *tried == version).count();
        let wanted = offered
            .iter()
            .filter(|version| version.is_since(&Version::V2026_07_28) && self.plan.admits(version))
            .filter(|version| refusals(version) < 2)
            .max_by_key(|version| (refusals(version) == 0, version.as_str()));
        match wanted {
            Some(version) => self.send_discover(version.clone()),
            None if offered.is_empty() => ProbeAction::Failed(refused("server/discover", error)),
            None => self.handle_no_modern_version(&offered),
        }
    }

    /// A modern server without a common version may still support the legacy era, if it lists a legacy version.
    fn handle_no_modern_version(&mut self, offered: &[Version]) -> ProbeAction {
        let error = EraProbeError::NoCommonVersion(version_names(offered));
        if offered.iter().any(is_legacy) {
            self.handle_discover_failure(error)
        } else {
            ProbeAction::Failed(error)
        }
    }

    /// Any error leads to `initialize`, because legacy servers answer unknown methods in many ways.
    fn handle_discover_failure(&mut self, error: EraProbeError) -> ProbeAction {
        self.discover = RequestState::Failed(error.clone());
        match (&self.plan, &self.initialize) {
            (ProbePlan::Either, RequestState::NotSent) => self.send_initialize(),
            (ProbePlan::Either, RequestState::Pending) => ProbeAction::Wait,
            (ProbePlan::Either, RequestState::Failed(error)) => ProbeAction::Failed(error.clone()),
            _ => ProbeAction::Failed(error),
        }
    }

    fn handle_initialize_response(&mut self, answer: Result<RawJson, RpcError>) -> ProbeAction {
        if self.initialize != RequestState::Pending {
            return ProbeAction::Wait;
        }
        let agreed = match answer {
            Ok(raw) => InitializeResult::read(raw)
                .map_err(|cause| unreadable("initialize", cause))
                .and_then(|result| self.accept_version(&result)),
            Err(error) => Err(refused("initialize", error)),
        };
        match (agreed, &self.discover) {
            (Ok(agreed), _) => ProbeAction::Decided(agreed),
            (Err(error), RequestState::Pending) => {
                self.initialize = RequestState::Failed(error);
                ProbeAction::Wait
            }
            (Err(error), _) => ProbeAction::Failed(error),
        }
    }

    fn accept_version(&self, result: &InitializeResult) -> Result<AgreedProtocol, EraProbeError> {
        let version = result.version();
        let reason = match &self.plan {
            ProbePlan::Legacy { only: Some(only) } if version != only => {
                Some("is not the configured one")
            }
            _ if matches!(version, Version::Unknown(_)) => Some("is unknown"),
            _ if !is_legacy(version) => Some("does not use `initialize`"),
            _ => None,
        };
        match reason {
            Some(reason) => {
                Err(EraProbeError::Version { answered: clip_version(version.as_str()), reason })
            }
            None => Ok(AgreedProtocol {
                era: Era::Legacy,
                version: version.clone(),
                capabilities: result.capabilities(),
                answer: result.raw().clone(),
            }),
        }
    }

    /// On a stream both requests may be pending, so a slow server is not given up. Over HTTP each request has its own
    /// response, so there is no need to send both.
    fn handle_silence(&mut self) -> ProbeAction {
        let silent =
            self.discover == RequestState::Pending && self.initialize == RequestState::NotSent;
        if silent && self.plan == ProbePlan::Either && self.channel == Channel::Shared {
            self.send_initialize()
        } else {
            ProbeAction::Wait
        }
    }

    fn handle_http_refusal(&mut self) -> ProbeAction {
        match (&self.plan, &self.initialize) {
            (ProbePlan::Either, RequestState::NotSent) => {
                self.discover = RequestState::Failed(EraProbeError::NoEndpoint);
                self.send_initialize()
            }
            (ProbePlan::Either | ProbePlan::Legacy { .. }, RequestState::Pending)
                if self.channel == Channel::Http =>
            {
                self.switch_to_event_stream()
            }
            _ => ProbeAction::Failed(EraProbeError::NoEndpoint),
        }
    }

    /// HTTP+SSE can carry either era, so the probe starts again.
    fn switch_to_event_stream(&mut self) -> ProbeAction {
        self.channel = Channel::Shared;
        self.reset_requests();
        ProbeAction::OpenEventStream
    }

    fn handle_exit(&mut self) -> ProbeAction {
        let was_sent = self.discover != RequestState::NotSent;
        if self.plan == ProbePlan::Either && was_sent && !self.was_respawned {
            self.was_respawned = true;
            self.reset_requests();
            ProbeAction::Respawn
        } else {
            ProbeAction::Failed(EraProbeError::Exited)
        }
    }

    fn reset_requests(&mut self) {
        self.discover = RequestState::NotSent;
        self.initialize = RequestState::NotSent;
        self.tried.clear();
    }
}

impl ProbePlan {
    fn admits(&self, version: &Version) -> bool {
        match self {
            ProbePlan::Either | ProbePlan::Modern { only: None } => true,
            ProbePlan::Modern { only: Some(only) } => version == only,
            ProbePlan::Legacy { .. } | ProbePlan::Unknown(_) => false,
        }
    }
}

fn plan_for(protocol: &Protocol, remembered: Option<Era>) -> ProbePlan {
    match (protocol, remembered) {
        (Protocol::Auto, None) => ProbePlan::Either,
        (Protocol::Auto, Some(Era::Legacy)) | (Protocol::Legacy, _) => {
            ProbePlan::Legacy { only: None }
        }
        (Protocol::Auto, Some(Era::Modern)) | (Protocol::Modern, _) => {
            ProbePlan::Modern { only: None }
        }
        (Protocol::Version(text), _) => match Version::from(text.as_str()) {
            Version::Unknown(_) => ProbePlan::Unknown(text.clone()),
            version if is_legacy(&version) => ProbePlan::Legacy { only: Some(version) },
            version => ProbePlan::Modern { only: Some(version) },
        },
    }
}

/// Returns whether the version is known and starts with `initialize`.
fn is_legacy(version: &Version) -> bool {
    !matches!(version, Version::Unknown(_)) && version.era() == Some(Era::Legacy)
}

fn refused(method: &'static str, cause: RpcError) -> EraProbeError {
    EraProbeError::Refused { method, cause }
}

fn unreadable(method: &'static str, cause: FieldError) -> EraProbeError {
    EraProbeError::Unreadable { method, cause }
}

fn version_names(versions: &[Version]) -> String {
    let names: Vec<_> = versions
        .iter()
        .take(8)
        .map(|version| format!("`{}`", clip_version(version.as_str())))
        .collect();
    names.join(", ")
}

/// Limits foreign text in errors to the length of a version.
fn clip_version(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
#[path = "era_probe_tests.rs"]
mod tests;
