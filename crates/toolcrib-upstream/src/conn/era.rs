//! Which era a server speaks: what to say first, and what each answer means.

use std::time::Duration;

use toolcrib_config::model::choice::Protocol;
use toolcrib_wire::handshake::{DiscoverResult, InitializeResult};
use toolcrib_wire::view::{Flaw, ServerCapabilities};
use toolcrib_wire::{Channel, Era, Raw, RpcError, Version};

use super::failure::FailureKind;

/// How long a stream may be silent after `server/discover` before `initialize` is said as well.
pub const SILENCE: Duration = Duration::from_secs(2);

/// The opening of one connection. It only says what to do; whoever does it bounds the whole by its own limit.
#[derive(Debug, Clone)]
pub struct Probe {
    plan: Plan,
    channel: Channel,
    discover: Asked,
    initialize: Asked,
    /// The versions that `server/discover` was tried with.
    tried: Vec<Version>,
    respawned: bool,
    over: bool,
}

/// What was heard.
#[derive(Debug, Clone)]
pub enum Heard {
    /// The channel is there: at the start, after a respawn, and when the event stream has opened.
    Open,
    Discovered(Result<Raw, RpcError>),
    Initialized(Result<Raw, RpcError>),
    /// [`SILENCE`] has passed since `server/discover`.
    Silence,
    /// HTTP refused the POST with 400, 404 or 405, and no JSON-RPC error was in the body.
    Refused,
    /// There is no event stream behind the address either.
    NoStream,
    /// The server ended.
    Exited,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    Discover(Version),
    Initialize(Version),
    /// Start the server once more and say [`Heard::Open`].
    Respawn,
    /// GET the address as HTTP+SSE; from then on it is a stream.
    OpenStream,
    Wait,
    Decided(Agreed),
    Failed(ProbeError),
}

/// What both sides will speak. In the legacy era `notifications/initialized` is to follow at once.
#[derive(Debug, Clone, PartialEq)]
pub struct Agreed {
    pub era: Era,
    pub version: Version,
    pub capabilities: ServerCapabilities,
    /// The whole answer that decided.
    pub answer: Raw,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProbeError {
    #[error("protocol version `{0}` is not known here")]
    NotOurs(String),
    #[error("the server answers with protocol version `{answered}`, which {reason}")]
    Version { answered: String, reason: &'static str },
    #[error("the server speaks {0}, and none of these versions can be used")]
    NothingInCommon(String),
    #[error("the server refused `{method}`")]
    Refused {
        method: &'static str,
        #[source]
        cause: RpcError,
    },
    #[error("the server's answer to `{method}` cannot be read")]
    Unreadable {
        method: &'static str,
        #[source]
        cause: Flaw,
    },
    #[error("the address takes neither a POST nor a GET of an event stream")]
    NoEndpoint,
    #[error("the server ended during the handshake")]
    Exited,
}

impl ProbeError {
    pub fn kind(&self) -> FailureKind {
        match self {
            ProbeError::NotOurs(_) => FailureKind::Config,
            ProbeError::Exited => FailureKind::Connection,
            _ => FailureKind::Protocol,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Plan {
    /// Modern if it can, else legacy.
    Either,
    Legacy {
        /// No other version will do.
        only: Option<Version>,
    },
    Modern {
        only: Option<Version>,
    },
    /// Configured to something that does not exist.
    Unknown(String),
}

#[derive(Debug, Clone, PartialEq)]
enum Asked {
    Not,
    Pending,
    Failed(ProbeError),
}

impl Probe {
    /// `remembered` is what the same server spoke before; who finds it wrong forgets it and asks again.
    pub fn new(protocol: &Protocol, channel: Channel, remembered: Option<Era>) -> Probe {
        Probe {
            plan: plan(protocol, remembered),
            channel,
            discover: Asked::Not,
            initialize: Asked::Not,
            tried: Vec::new(),
            respawned: false,
            over: false,
        }
    }

    pub fn hear(&mut self, heard: Heard) -> Next {
        if self.over {
            return Next::Wait;
        }
        let next = match heard {
            Heard::Open => self.open(),
            Heard::Discovered(answer) => self.discovered(answer),
            Heard::Initialized(answer) => self.initialized(answer),
            Heard::Silence => self.silence(),
            Heard::Refused => self.refused(),
            Heard::NoStream => Next::Failed(ProbeError::NoEndpoint),
            Heard::Exited => self.exited(),
        };
        self.over = matches!(next, Next::Decided(_) | Next::Failed(_));
        next
    }

    fn open(&mut self) -> Next {
        match &self.plan {
            Plan::Unknown(version) => Next::Failed(ProbeError::NotOurs(version.clone())),
            Plan::Legacy { .. } => self.say_initialize(),
            // The first server that ended may have done so because of the first question.
            Plan::Either if self.respawned => self.say_initialize(),
            Plan::Modern { only: Some(only) } => self.say_discover(only.clone()),
            Plan::Either | Plan::Modern { only: None } => self.say_discover(Version::NEWEST),
        }
    }

    fn say_discover(&mut self, version: Version) -> Next {
        self.discover = Asked::Pending;
        self.tried.push(version.clone());
        Next::Discover(version)
    }

    fn say_initialize(&mut self) -> Next {
        self.initialize = Asked::Pending;
        Next::Initialize(match &self.plan {
            Plan::Legacy { only: Some(only) } => only.clone(),
            _ => Version::NEWEST_LEGACY,
        })
    }

    fn discovered(&mut self, answer: Result<Raw, RpcError>) -> Next {
        if self.discover != Asked::Pending {
            return Next::Wait;
        }
        match answer {
            Ok(raw) => match DiscoverResult::read(raw) {
                Ok(result) => self.choose(&result),
                Err(cause) => self.not_discovered(unreadable("server/discover", cause)),
            },
            Err(error) if error.proves_modern() => self.negotiate(error),
            Err(error) => self.not_discovered(refused("server/discover", error)),
        }
    }

    fn choose(&mut self, result: &DiscoverResult) -> Next {
        let wanted = match &self.plan {
            Plan::Modern { only: Some(only) } => result.versions().iter().find(|v| *v == only),
            _ => result.newest_modern(),
        };
        match wanted {
            Some(version) => Next::Decided(Agreed {
                era: Era::Modern,
                version: version.clone(),
                capabilities: result.capabilities(),
                answer: result.raw().clone(),
            }),
            None => self.no_modern_version(result.versions()),
        }
    }

    /// A server that speaks the modern era, only not this version of it, says which. One that names the very
    /// version that it refused is taken at its word, once.
    fn negotiate(&mut self, error: RpcError) -> Next {
        let offered = error.supported_versions();
        let refusals =
            |version: &Version| self.tried.iter().filter(|tried| *tried == version).count();
        let wanted = offered
            .iter()
            .filter(|version| version.is_since(&Version::V2026_07_28) && self.plan.admits(version))
            .filter(|version| refusals(version) < 2)
            .max_by_key(|version| (refusals(version) == 0, version.as_str()));
        match wanted {
            Some(version) => self.say_discover(version.clone()),
            None if offered.is_empty() => Next::Failed(refused("server/discover", error)),
            None => self.no_modern_version(&offered),
        }
    }

    /// What is modern but of no use may still have the legacy era beside it, if it says so.
    fn no_modern_version(&mut self, offered: &[Version]) -> Next {
        let error = ProbeError::NothingInCommon(names(offered));
        if offered.iter().any(is_legacy) { self.not_discovered(error) } else { Next::Failed(error) }
    }

    /// Whatever the error: servers of the legacy era answer what they like to a method that they do not know.
    fn not_discovered(&mut self, error: ProbeError) -> Next {
        self.discover = Asked::Failed(error.clone());
        match (&self.plan, &self.initialize) {
            (Plan::Either, Asked::Not) => self.say_initialize(),
            (Plan::Either, Asked::Pending) => Next::Wait,
            (Plan::Either, Asked::Failed(error)) => Next::Failed(error.clone()),
            _ => Next::Failed(error),
        }
    }

    fn initialized(&mut self, answer: Result<Raw, RpcError>) -> Next {
        if self.initialize != Asked::Pending {
            return Next::Wait;
        }
        let agreed = match answer {
            Ok(raw) => InitializeResult::read(raw)
                .map_err(|cause| unreadable("initialize", cause))
                .and_then(|result| self.accept(&result)),
            Err(error) => Err(refused("initialize", error)),
        };
        match (agreed, &self.discover) {
            (Ok(agreed), _) => Next::Decided(agreed),
            (Err(error), Asked::Pending) => {
                self.initialize = Asked::Failed(error);
                Next::Wait
            }
            (Err(error), _) => Next::Failed(error),
        }
    }

    fn accept(&self, result: &InitializeResult) -> Result<Agreed, ProbeError> {
        let version = result.version();
        let reason = match &self.plan {
            Plan::Legacy { only: Some(only) } if version != only => {
                Some("is not the one that is configured")
            }
            _ if matches!(version, Version::Unknown(_)) => Some("is not known here"),
            _ if !is_legacy(version) => Some("does not begin with `initialize`"),
            _ => None,
        };
        match reason {
            Some(reason) => Err(ProbeError::Version { answered: clip(version.as_str()), reason }),
            None => Ok(Agreed {
                era: Era::Legacy,
                version: version.clone(),
                capabilities: result.capabilities(),
                answer: result.raw().clone(),
            }),
        }
    }

    /// On a stream both questions may be open at a time, and nobody is given up for being slow. Over HTTP
    /// each has its own answer, so there is nothing to hurry.
    fn silence(&mut self) -> Next {
        let silent = self.discover == Asked::Pending && self.initialize == Asked::Not;
        if silent && self.plan == Plan::Either && self.channel == Channel::Shared {
            self.say_initialize()
        } else {
            Next::Wait
        }
    }

    fn refused(&mut self) -> Next {
        match (&self.plan, &self.initialize) {
            (Plan::Either, Asked::Not) => {
                self.discover = Asked::Failed(ProbeError::NoEndpoint);
                self.say_initialize()
            }
            (Plan::Either | Plan::Legacy { .. }, Asked::Pending)
                if self.channel == Channel::Http =>
            {
                self.become_stream()
            }
            _ => Next::Failed(ProbeError::NoEndpoint),
        }
    }

    /// What travels on HTTP+SSE may be of either era, so it is asked from the beginning.
    fn become_stream(&mut self) -> Next {
        self.channel = Channel::Shared;
        self.forget_questions();
        Next::OpenStream
    }

    fn exited(&mut self) -> Next {
        let asked = self.discover != Asked::Not;
        if self.plan == Plan::Either && asked && !self.respawned {
            self.respawned = true;
            self.forget_questions();
            Next::Respawn
        } else {
            Next::Failed(ProbeError::Exited)
        }
    }

    fn forget_questions(&mut self) {
        self.discover = Asked::Not;
        self.initialize = Asked::Not;
        self.tried.clear();
    }
}

impl Plan {
    fn admits(&self, version: &Version) -> bool {
        match self {
            Plan::Either | Plan::Modern { only: None } => true,
            Plan::Modern { only: Some(only) } => version == only,
            Plan::Legacy { .. } | Plan::Unknown(_) => false,
        }
    }
}

fn plan(protocol: &Protocol, remembered: Option<Era>) -> Plan {
    match (protocol, remembered) {
        (Protocol::Auto, None) => Plan::Either,
        (Protocol::Auto, Some(Era::Legacy)) | (Protocol::Legacy, _) => Plan::Legacy { only: None },
        (Protocol::Auto, Some(Era::Modern)) | (Protocol::Modern, _) => Plan::Modern { only: None },
        (Protocol::Version(text), _) => match Version::from(text.as_str()) {
            Version::Unknown(_) => Plan::Unknown(text.clone()),
            version if is_legacy(&version) => Plan::Legacy { only: Some(version) },
            version => Plan::Modern { only: Some(version) },
        },
    }
}

/// Known, and of the era that begins with `initialize`.
fn is_legacy(version: &Version) -> bool {
    !matches!(version, Version::Unknown(_)) && version.era() == Some(Era::Legacy)
}

fn refused(method: &'static str, cause: RpcError) -> ProbeError {
    ProbeError::Refused { method, cause }
}

fn unreadable(method: &'static str, cause: Flaw) -> ProbeError {
    ProbeError::Unreadable { method, cause }
}

fn names(versions: &[Version]) -> String {
    let names: Vec<_> =
        versions.iter().take(8).map(|version| format!("`{}`", clip(version.as_str()))).collect();
    names.join(", ")
}

/// A foreign text in an error is no longer than a version could be.
fn clip(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
#[path = "era_tests.rs"]
mod tests;
