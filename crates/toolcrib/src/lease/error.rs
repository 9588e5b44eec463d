//! Why a call got no session.

use std::error::Error;
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TakeError<E: Error + 'static> {
    #[error("every session of server `{server}` is in use, and too many calls wait for one")]
    Full { server: Arc<str> },
    #[error("no session of server `{server}` became free in time")]
    NoneFree { server: Arc<str> },
    #[error("no session with server `{server}` could be opened in time")]
    Slow { server: Arc<str> },
    #[error("cannot open a session with server `{server}`")]
    Failed {
        server: Arc<str>,
        #[source]
        cause: E,
    },
    #[error("the opening of a session with server `{server}` was broken off")]
    BrokenOff { server: Arc<str> },
    #[error("server `{server}` is being removed or replaced")]
    Retired { server: Arc<str> },
    #[error("the dialog ended while it waited for a session of server `{server}`")]
    DialogEnded { server: Arc<str> },
}

impl<E: Error> TakeError<E> {
    /// Whether others had taken what there is, so that it may go better later.
    pub fn is_resource(&self) -> bool {
        matches!(self, Self::Full { .. } | Self::NoneFree { .. })
    }
}
