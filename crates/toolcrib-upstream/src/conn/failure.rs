//! Failure of a session, with its kind, code, message and fix.

use std::time::Duration;

use super::catalog::CatalogError;
use super::era_probe::EraProbeError;
use super::peer::PeerCallError;
use crate::secrets::SecretError;
use crate::signals::{SecretMask, chain};
use crate::transport::{CloseReason, HttpFault, LinkFault, OpenError, TokenErrorKind};

/// Reason why a session could not be opened or has ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    pub kind: FailureKind,
    /// Stable problem code.
    pub code: &'static str,
    /// Text for users, without secrets.
    pub message: String,
    /// Suggested fix for the user.
    pub fix: Option<String>,
    /// `Retry-After` of the server.
    pub retry_after: Option<Duration>,
    /// Tool that the failure concerns, by the server's own name.
    pub tool: Option<Box<str>>,
}

/// Category of a failure.
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
    /// Creates a failure with the default code of its kind.
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

    /// Failure to resolve a value of the server's configuration.
    pub(super) fn from_unresolved(error: &SecretError, server: &str) -> Self {
        let kind = match error.is_transient() {
            true => FailureKind::Connection,
            false => FailureKind::Config,
        };
        let fix = Some(error.fix(server));
        Failure { code: error.code(), fix, ..Failure::new(kind, chain(error)) }
    }

    /// Returns whether a retry can succeed. A rate-limited server with `Retry-After` counts.
    pub fn is_transient(&self) -> bool {
        match self.kind {
            FailureKind::Connection | FailureKind::Timeout => true,
            FailureKind::Resource => self.retry_after.is_some(),
            FailureKind::Config | FailureKind::Authentication | FailureKind::Protocol => false,
        }
    }

    /// Returns whether the cause is still unclear, so that a diagnosis helps.
    pub(super) fn needs_diagnosis(&self) -> bool {
        match self.kind {
            FailureKind::Connection | FailureKind::Timeout | FailureKind::Protocol => true,
            FailureKind::Config | FailureKind::Authentication | FailureKind::Resource => false,
        }
    }

    /// Returns whether the server is reachable and only the session is unknown to it.
    pub fn is_session_gone(&self) -> bool {
        self.code == SESSION_GONE
    }

    /// Masks secrets in the message, because a server may repeat what it received.
    pub(super) fn masked(self, mask: &SecretMask) -> Self {
        Failure { message: mask.mask_excerpt(self.message), ..self }
    }

    /// Prefixes the message with the operation that failed.
    pub(super) fn with_context(self, operation: &str) -> Self {
        Failure { message: format!("{operation}: {}", self.message), ..self }
    }
}

impl FailureKind {
    /// Stable name of the category.
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
        let base = match error {
            OpenError::Connect(fault) => Failure::from(fault),
            OpenError::Spawn(_) => Failure::new(FailureKind::Connection, ""),
            _ => Failure::new(FailureKind::Config, ""),
        };
        let (code, fix) = match (&base.fix, error) {
            // The fault has a more specific code and fix.
            (Some(fix), OpenError::Connect(_)) => (base.code, fix.clone()),
            _ => (error.code(), error.fix()),
        };
        Failure { code, message: chain(error), fix: Some(fix), ..base }
    }
}

impl From<&EraProbeError> for Failure {
    fn from(error: &EraProbeError) -> Self {
        Failure::new(error.kind(), chain(error))
    }
}

impl From<&CatalogError> for Failure {
    fn from(error: &CatalogError) -> Self {
        let failure = Failure::new(error.kind(), chain(error));
        match error {
            CatalogError::InvalidSchema { tool, .. } => Failure {
                code: INVALID_SCHEMA,
                fix: Some(
                    "fix the schema at the server, filter the tool out, or set `discovery.invalid_schemas`"
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
            Some(HttpFault::Token(error)) => match error.kind {
                TokenErrorKind::Denied => (FailureKind::Authentication, None),
                TokenErrorKind::Transient => (FailureKind::Connection, None),
                TokenErrorKind::Local => (FailureKind::Config, None),
            },
            Some(
                HttpFault::RateLimited { retry_after: wait @ Some(_) }
                | HttpFault::Status { retry_after: wait @ Some(_), .. },
            ) => (FailureKind::Resource, *wait),
            Some(HttpFault::ReadTimeout(_) | HttpFault::ResponseTimeout(_)) => {
                (FailureKind::Timeout, None)
            }
            Some(HttpFault::TooLarge { .. }) => (FailureKind::Resource, None),
            Some(
                HttpFault::Redirected { .. }
                | HttpFault::ContentType(_)
                | HttpFault::ForeignEndpoint(_),
            ) => (FailureKind::Protocol, None),
            Some(HttpFault::BadHeader(_)) => (FailureKind::Config, None),
            // Other client errors will not change on a retry.
            Some(HttpFault::Status { status: 400..=499, .. }) => (FailureKind::Protocol, None),
            _ => (FailureKind::Connection, None),
        };
        let failure = Failure { retry_after, ..Failure::new(kind, chain(fault)) };
        match fault.http() {
            Some(HttpFault::SessionGone) => Failure { code: SESSION_GONE, ..failure },
            Some(HttpFault::Token(error)) => {
                Failure { code: error.code, fix: Some(error.fix.clone()), ..failure }
            }
            _ => failure,
        }
    }
}

impl From<&PeerCallError> for Failure {
    fn from(error: &PeerCallError) -> Self {
        let base = match error {
            PeerCallError::Closed(reason) | PeerCallError::Unsent(reason) => Failure::from(reason),
            PeerCallError::Failed(fault) => Failure::from(fault),
            PeerCallError::Timeout { .. } => Failure::new(FailureKind::Timeout, ""),
            PeerCallError::TooLarge { .. } => Failure::new(FailureKind::Resource, ""),
            PeerCallError::Refused(_)
            | PeerCallError::Malformed(_)
            | PeerCallError::EndedByServer
            | PeerCallError::Unanswered { .. }
            | PeerCallError::TooManyRounds(_) => Failure::new(FailureKind::Protocol, ""),
        };
        Failure { message: chain(error), ..base }
    }
}
