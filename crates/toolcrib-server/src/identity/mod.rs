//! Who is asking. Nothing outside of this module decides that.
//!
//! The socket in the state folder is the owner's. Over an address, a bearer token says who it is: one of the
//! configuration, one that was made with `toolcrib token new`, or one of an issuer (`oauth/`). Where there are none
//! of these and only this machine can reach the address, everybody is the agent `default`.

pub mod gate;
mod limits;
mod listen;
mod oauth;
mod pace;
mod rate;
mod secret;
mod strikes;
mod tokens;

use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::header;
use toolcrib::access::DEFAULT_AGENT;
use toolcrib::signals::chain;
use toolcrib_config::model::host::Gateway;

pub use limits::Limits;
pub use listen::{Unsafe, check_listen};
pub use oauth::{Metadata, NotVerified};
pub(crate) use pace::Pace;
pub use secret::random_name;
pub(crate) use strikes::block;
pub use tokens::{Issued, Tokens, TokensError};

use crate::front::headers::Headers;
use oauth::Issuers;
use secret::Hash;
use strikes::Strikes;

/// Where a request came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// An address that only this machine can reach.
    Tcp,
    /// An address that others can reach, too.
    Net(IpAddr),
    /// The socket in the state folder, which only the owner can open.
    Socket,
}

impl Door {
    /// Whether what comes in there is counted. The owner is on his own machine, and the limit is his.
    pub(crate) fn is_paced(self) -> bool {
        self != Door::Socket
    }
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
    #[error("nobody can tell now whose token this is: the issuer's keys cannot be found")]
    Unverified,
    #[error("the agent's name is empty: leave it out, or name one")]
    NoAgent,
    #[error("this principal may not be the agent `{0}`")]
    NotThatAgent(String),
    #[error("more requests than {most} in a second (gateway.limits.rate); try again in {wait:.3?}")]
    TooFast { most: u32, wait: Duration },
    #[error("more than {0} wrong tokens in a minute come from there (gateway.limits.wrong_tokens)")]
    TooManyWrong(u32),
}

/// What is known of those who may ask.
#[derive(Debug, Default)]
pub struct Identity {
    tokens: Option<Tokens>,
    /// Tokens of the owner that end with this process.
    fresh: Mutex<Vec<Hash>>,
    issuers: Issuers,
    pace: Pace,
    strikes: Strikes,
    /// Whoever asks where nobody is told apart; made once, not for each request.
    everybody: Principal,
}

impl Identity {
    /// Of a state folder, where tokens are kept.
    pub fn of(state: &Path) -> Self {
        Identity { tokens: Some(Tokens::of(state)), ..Identity::default() }
    }

    /// A token of the owner that nobody can know before and that ends with this process.
    pub fn fresh_owner_token(&self) -> Result<String, TokensError> {
        let token = secret::fresh().map_err(TokensError::Random)?;
        self.fresh.lock().unwrap_or_else(PoisonError::into_inner).push(Hash::of(&token));
        Ok(token)
    }

    /// Whether anybody is told apart by tokens of ours. A file of them that cannot be read does that, too:
    /// nobody comes in by a mistake.
    pub fn has_tokens(&self, gateway: &Gateway) -> bool {
        let kept = self.tokens.as_ref().map(Tokens::list);
        let is_none = kept.is_none_or(|kept| kept.is_ok_and(|all| all.is_empty()));
        !gateway.tokens.is_empty() || !is_none
    }

    /// Who sends a request with these headers, from an address where there is one.
    pub async fn who(
        &self,
        gateway: &Gateway,
        headers: &dyn Headers,
        door: Door,
        peer: Option<IpAddr>,
    ) -> Result<Principal, Refused> {
        let who = match (door, bearer(headers)) {
            (Door::Socket, _) => Ok(Principal::owner("owner", "the command line")),
            (_, Some(token)) => self.bearer_from(gateway, token, peer).await,
            (Door::Tcp, None) if !self.is_guarded(gateway) => Ok(self.everybody.clone()),
            (_, None) => Err(Refused::NoToken),
        }?;
        if door.is_paced() {
            self.pace.count(&who.id, &gateway.limits)?;
        }
        Ok(who)
    }

    /// Counts requests that come on another way than one at a time.
    pub(crate) fn pace(&self) -> Pace {
        self.pace.clone()
    }

    fn is_guarded(&self, gateway: &Gateway) -> bool {
        gateway.oauth.issuer.is_some() || self.has_tokens(gateway)
    }

    /// Whoever has sent too many wrong tokens is not told any more whether the next one is wrong.
    async fn bearer_from(
        &self,
        gateway: &Gateway,
        token: &str,
        peer: Option<IpAddr>,
    ) -> Result<Principal, Refused> {
        let (hash, most) = (Hash::of(token), gateway.limits.wrong_tokens);
        let Some(peer) = peer.filter(|_| most > 0) else {
            return self.bearer_of(gateway, token, &hash).await;
        };
        if !self.strikes.admits(peer, &hash, most) {
            return Err(Refused::TooManyWrong(most));
        }
        let who = self.bearer_of(gateway, token, &hash).await;
        match &who {
            // Nobody has said that it is wrong.
            Err(Refused::Unverified) => {}
            who => self.strikes.note(peer, &hash, most, who.is_ok()),
        }
        who
    }

    async fn bearer_of(
        &self,
        gateway: &Gateway,
        token: &str,
        hash: &Hash,
    ) -> Result<Principal, Refused> {
        if self.fresh.lock().unwrap_or_else(PoisonError::into_inner).contains(hash) {
            return Ok(Principal::owner("owner", "the console"));
        }
        let written = gateway.tokens.iter().find(|it| Hash::read(&it.sha256) == Some(*hash));
        if let Some(token) = written {
            let id = format!("token:{}", hash.hex().get(..16).unwrap_or_default());
            return Ok(Principal::of_token(&id, &token.agent, &token.agent, token.owner));
        }
        if let Some(issued) = self.issued(hash) {
            let id = format!("token:{}", issued.id);
            return Ok(Principal::of_token(&id, &issued.name, &issued.agent, issued.owner));
        }
        match self.issuers.agent_of(&gateway.oauth, token).await {
            Ok((subject, agent)) => {
                Ok(Principal::of_token(&format!("oauth:{subject}"), &subject, &agent, false))
            }
            Err(error) => {
                tracing::debug!("a token was refused: {}", chain(&error));
                Err(match error {
                    NotVerified::Keys(_) => Refused::Unverified,
                    _ => Refused::BadToken,
                })
            }
        }
    }

    /// Whether a token that was good is so no more. While nobody can tell, it is.
    pub(crate) async fn has_lapsed(&self, gateway: &Gateway, token: &str) -> bool {
        let who = self.bearer_of(gateway, token, &Hash::of(token)).await;
        matches!(who, Err(Refused::BadToken))
    }

    fn issued(&self, hash: &Hash) -> Option<Issued> {
        self.tokens.as_ref()?.find(hash).unwrap_or_else(|error| {
            tracing::warn!("tokens cannot be read: {}", chain(&error));
            None
        })
    }
}

impl Principal {
    /// The agent that it asks as.
    pub fn agent(&self, asked: Option<&str>) -> Result<Arc<str>, Refused> {
        match asked {
            None => Ok(Arc::clone(&self.agent)),
            // Whoever may be anybody is still somebody.
            Some(asked) if asked.trim().is_empty() => Err(Refused::NoAgent),
            Some(asked) if self.chooses || asked == &*self.agent => Ok(asked.into()),
            Some(asked) => Err(Refused::NotThatAgent(asked.to_owned())),
        }
    }

    fn owner(id: &str, name: &str) -> Self {
        Principal { is_owner: true, id: id.into(), name: name.into(), ..Principal::default() }
    }

    fn of_token(id: &str, name: &str, agent: &str, is_owner: bool) -> Self {
        Principal {
            id: id.into(),
            name: name.into(),
            agent: agent.into(),
            is_owner,
            chooses: is_owner,
        }
    }
}

/// Everybody, where nobody is told apart.
impl Default for Principal {
    fn default() -> Self {
        Principal {
            id: DEFAULT_AGENT.into(),
            name: DEFAULT_AGENT.into(),
            agent: DEFAULT_AGENT.into(),
            is_owner: false,
            chooses: true,
        }
    }
}

/// What a request says whose it is.
pub(crate) fn bearer(headers: &dyn Headers) -> Option<&str> {
    let (scheme, token) = headers.text(header::AUTHORIZATION.as_str())?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
