//! Who is asking. Nothing outside of this module decides that.

pub mod gate;
mod limits;

use std::sync::Arc;

use axum::http::HeaderMap;
use toolcrib::access::DEFAULT_AGENT;

pub use limits::Limits;

/// Where a request came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// An address, which others may reach too.
    Tcp,
    /// The socket in the state folder, which only the owner can open.
    Socket,
}

/// Whoever sends a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// What tells one from all others; sessions and dialogs are bound to it.
    pub id: Arc<str>,
    /// How others are told of what it did.
    pub name: Arc<str>,
    /// The agent that it is where it chooses none.
    pub agent: Arc<str>,
    pub is_owner: bool,
    /// Whether it may be any agent.
    pub chooses: bool,
}

/// Why somebody is not let in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("a bearer token is wanted")]
    NoToken,
    #[error("this token is not known here")]
    BadToken,
    #[error("this principal may not be the agent `{0}`")]
    NotThatAgent(String),
}

/// What is known of those who may ask.
#[derive(Debug, Default)]
pub struct Identity {}

impl Identity {
    /// Who sends a request with these headers.
    pub fn who(&self, _headers: &HeaderMap, door: Door) -> Result<Principal, Refused> {
        let named = |id: &str, name: &str, is_owner| Principal {
            id: id.into(),
            name: name.into(),
            agent: DEFAULT_AGENT.into(),
            is_owner,
            chooses: true,
        };
        Ok(match door {
            Door::Socket => named("owner", "the command line", true),
            Door::Tcp => named("default", "default", false),
        })
    }
}

impl Principal {
    /// The agent that it asks as.
    pub fn agent(&self, asked: Option<&str>) -> Result<Arc<str>, Refused> {
        match asked {
            None => Ok(Arc::clone(&self.agent)),
            Some(asked) if self.chooses || asked == &*self.agent => Ok(asked.into()),
            Some(asked) => Err(Refused::NotThatAgent(asked.to_owned())),
        }
    }
}
