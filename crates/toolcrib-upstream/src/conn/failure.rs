//! Why a session did not come to be or ended, from whatever went wrong.

use std::time::Duration;

use super::catalog::ListError;
use super::era::ProbeError;
use super::peer::CallError;
use crate::secrets::Unresolved;
use crate::signals::{SecretMask, chain};
use crate::transport::{CloseReason, HttpFault, LinkFault, OpenError, Trouble};

/// Why a session did not come to be, or ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    pub kind: FailureKind,
    /// Stable, for machines.
    pub code: &'static str,
    /// For people; without secrets.
    pub message: String,
    /// What a person can do.
    pub fix: Option<String>,
    /// When the server wants to be asked again.
    pub retry_after: Option<Duration>,
    /// The tool that it is about, by the server's own name.
    pub tool: Option<Box<str>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    Config,
    Connection,
    Authentication,
    Protocol,
    Timeout,
    Resource,
}

const SESSION_GONE: &str = "session.gone";

const INVALID_SCHEMA: &str = "tool.schema.invalid";

impl Failure {
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Failure {
            kind,
            code: kind.code(),
            message: message.into(),
            fix: None,
            retry_after: None,
            tool: None,
        }
    }

    /// A value of the server's configuration could not be had.
    pub(super) fn of_values(error: &Unresolved, server: &str) -> Self {
        let kind = match error.is_passing() {
            true => FailureKind::Connection,
            false => FailureKind::Config,
        };
        let fix = Some(error.fix(server));
        Failure { code: error.code(), fix, ..Failure::new(kind, chain(error)) }
    }

    /// Whether the same again may end otherwise. A server that is full and says until when is worth it.
    pub fn is_passing(&self) -> bool {
        match self.kind {
            FailureKind::Connection | FailureKind::Timeout => true,
            FailureKind::Resource => self.retry_after.is_some(),
            FailureKind::Config | FailureKind::Authentication | FailureKind::Protocol => false,
        }
    }

    /// Whether what is known leaves open what is wrong with the server.
    pub(super) fn is_open(&self) -> bool {
        match self.kind {
            FailureKind::Connection | FailureKind::Timeout | FailureKind::Protocol => true,
            FailureKind::Config | FailureKind::Authentication | FailureKind::Resource => false,
        }
    }

    /// Whether the server is there, and only the session is not.
    pub fn is_session_gone(&self) -> bool {
        self.code == SESSION_GONE
    }

    /// The same without secrets: a server may say what it was given.
    pub(super) fn masked(self, mask: &SecretMask) -> Self {
        Failure { message: mask.mask_excerpt(self.message), ..self }
    }

    /// The same, told as part of a larger undertaking.
    pub(super) fn while_it(self, what: &str) -> Self {
        Failure { message: format!("{what}: {}", self.message), ..self }
    }
}

impl FailureKind {
    pub fn as_str(self) -> &'static str {
        match self {
            FailureKind::Config => "config",
            FailureKind::Connection => "connection",
            FailureKind::Authentication => "authentication",
            FailureKind::Protocol => "protocol",
            FailureKind::Timeout => "timeout",
            FailureKind::Resource => "resource",
        }
    }

    fn code(self) -> &'static str {
        match self {
            FailureKind::Config => "server.config",
            FailureKind::Connection => "server.unreachable",
            FailureKind::Authentication => "auth.denied",
            FailureKind::Protocol => "server.protocol",
            FailureKind::Timeout => "server.timeout",
            FailureKind::Resource => "server.limit",
        }
    }
}

impl From<&OpenError> for Failure {
    fn from(error: &OpenError) -> Self {
        let told = match error {
            OpenError::Connect(fault) => Failure::from(fault),
            OpenError::Spawn(_) => Failure::new(FailureKind::Connection, ""),
            _ => Failure::new(FailureKind::Config, ""),
        };
        let (code, fix) = match (&told.fix, error) {
            // What is known of the fault tells more than that there was one.
            (Some(fix), OpenError::Connect(_)) => (told.code, fix.clone()),
            _ => (error.code(), error.fix()),
        };
        Failure { code, message: chain(error), fix: Some(fix), ..told }
    }
}

impl From<&ProbeError> for Failure {
    fn from(error: &ProbeError) -> Self {
        Failure::new(error.kind(), chain(error))
    }
}

impl From<&ListError> for Failure {
    fn from(error: &ListError) -> Self {
        let failure = Failure::new(error.kind(), chain(error));
        match error {
            ListError::InvalidSchema { tool, .. } => Failure {
                code: INVALID_SCHEMA,
                fix: Some(
                    "mend the schema at the server, filter the tool out, or set `discovery.invalid_schemas`"
                        .to_owned(),
                ),
                tool: Some(tool.as_str().into()),
                ..failure
            },
            _ => failure,
        }
    }
}

impl From<&CloseReason> for Failure {
    fn from(reason: &CloseReason) -> Self {
        match reason {
            CloseReason::Broken(fault) => Failure::from(fault),
            _ => Failure::new(FailureKind::Connection, chain(reason)),
        }
    }
}

impl From<&LinkFault> for Failure {
    fn from(fault: &LinkFault) -> Self {
        let (kind, retry_after) = match fault.http() {
            Some(HttpFault::Denied { .. }) => (FailureKind::Authentication, None),
            Some(HttpFault::NoToken(why)) => match why.trouble {
                Trouble::Denied => (FailureKind::Authentication, None),
                Trouble::Passing => (FailureKind::Connection, None),
                Trouble::Here => (FailureKind::Config, None),
            },
            Some(
                HttpFault::TooMany { retry_after: wait @ Some(_) }
                | HttpFault::Status { retry_after: wait @ Some(_), .. },
            ) => (FailureKind::Resource, *wait),
            Some(HttpFault::Silent(_) | HttpFault::Unanswered(_)) => (FailureKind::Timeout, None),
            Some(HttpFault::TooLarge { .. }) => (FailureKind::Resource, None),
            Some(
                HttpFault::Redirected { .. }
                | HttpFault::ContentType(_)
                | HttpFault::ForeignEndpoint(_),
            ) => (FailureKind::Protocol, None),
            Some(HttpFault::BadHeader(_)) => (FailureKind::Config, None),
            // A client error that nothing more is known of will be the same the next time.
            Some(HttpFault::Status { status: 400..=499, .. }) => (FailureKind::Protocol, None),
            _ => (FailureKind::Connection, None),
        };
        let failure = Failure { retry_after, ..Failure::new(kind, chain(fault)) };
        match fault.http() {
            Some(HttpFault::SessionGone) => Failure { code: SESSION_GONE, ..failure },
            Some(HttpFault::NoToken(why)) => {
                Failure { code: why.code, fix: Some(why.fix.clone()), ..failure }
            }
            _ => failure,
        }
    }
}

impl From<&CallError> for Failure {
    fn from(error: &CallError) -> Self {
        let told = match error {
            CallError::Closed(reason) | CallError::Unsent(reason) => Failure::from(reason),
            CallError::Failed(fault) => Failure::from(fault),
            CallError::Timeout { .. } => Failure::new(FailureKind::Timeout, ""),
            CallError::TooLarge { .. } => Failure::new(FailureKind::Resource, ""),
            CallError::Refused(_)
            | CallError::Malformed(_)
            | CallError::EndedByServer
            | CallError::Unanswered { .. }
            | CallError::TooManyRounds(_) => Failure::new(FailureKind::Protocol, ""),
        };
        Failure { message: chain(error), ..told }
    }
}
