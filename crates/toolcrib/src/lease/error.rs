//! Errors of acquiring a session.

use std::error::Error;
use std::sync::Arc;

/// The reason why a call got no session.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AcquireError<E: Error + 'static> {
    /// All sessions are in use and the queue is full.
    #[error("all sessions of server `{server}` are in use, and its queue of waiting calls is full")]
    QueueFull {
        /// The server's id.
        server: Arc<str>,
    },
    /// No session became free in time.
    #[error("no session of server `{server}` became free in time")]
    Timeout {
        /// The server's id.
        server: Arc<str>,
    },
    /// The session did not open in time.
    #[error("opening a session with server `{server}` timed out")]
    OpenTimeout {
        /// The server's id.
        server: Arc<str>,
    },
    /// The session could not be opened.
    #[error("cannot open a session with server `{server}`")]
    Failed {
        /// The server's id.
        server: Arc<str>,
        /// The error of the opening.
        #[source]
        cause: E,
    },
    /// The opening was aborted.
    #[error("opening a session with server `{server}` was aborted")]
    OpenAborted {
        /// The server's id.
        server: Arc<str>,
    },
    /// The server is retired.
    #[error("server `{server}` is being removed or replaced")]
    Retired {
        /// The server's id.
        server: Arc<str>,
    },
    /// The dialog has ended.
    #[error("the dialog ended while it waited for a session of server `{server}`")]
    DialogEnded {
        /// The server's id.
        server: Arc<str>,
    },
}

impl<E: Error> AcquireError<E> {
    /// Returns whether other calls used all sessions, so a later attempt may succeed.
    pub(crate) fn is_resource_exhausted(&self) -> bool {
        matches!(self, Self::QueueFull { .. } | Self::Timeout { .. })
    }
}
