//! Who is asking. Nothing outside of this module decides that.
//!
//! The socket in the state folder is the owner's. Over an address, a bearer token says who it is: one of the
//! configuration, one that was made with `toolcrib token new`, or one of an issuer (`oauth/`). Where there are none
//! of these and only this machine can reach the address, everybody is the agent `default`.

pub mod gate;
mod limits;
mod listen;
pub(crate) mod namespace;
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
use toolcrib_config::Config;
use toolcrib_config::model::host::{Gateway, Token};
use toolcrib_config::model::security::Protection;
use toolcrib_upstream::signals::chain;

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
    #[error(
        "the gateway's configuration is invalid, so nothing is served here; `toolcrib check` on its machine tells why"
    )]
    Closed,
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

    /// Who may come in over TCP, by the configuration and by the tokens that were made.
    pub fn protection(&self, config: &Config) -> Protection {
        match config.security.protection {
            Protection::Open if self.tokens.as_ref().is_some_and(Tokens::is_protected) => {
                Protection::Protected
            }
            protection => protection,
        }
    }

    /// Who sends a request with these headers, from an address where there is one.
    pub async fn who(
        &self,
        config: &Config,
        headers: &dyn Headers,
        door: Door,
        peer: Option<IpAddr>,
    ) -> Result<Principal, Refused> {
        let gateway = &config.gateway;
        let who = match (door, bearer(headers)) {
            (Door::Socket, _) => Ok(Principal::owner("the command line")),
            _ if config.security.protection == Protection::Invalid => Err(Refused::Closed),
            (_, Some(token)) => self.bearer_from(gateway, token, peer).await,
            (Door::Tcp, None) if self.protection(config) == Protection::Open => {
                Ok(self.everybody.clone())
            }
            (_, None) => Err(Refused::NoToken),
        }?;
        if door.is_paced() {
            self.pace.count(&who.id, &gateway.limits)?;
        }
        Ok(who)
    }

    /// The tokens that were made; `None` where they cannot be read. Reading them also notes that the host is protected:
    /// the state folder may be deleted later.
    pub(crate) fn issued_tokens(&self) -> Option<Arc<Vec<Issued>>> {
        self.tokens.as_ref()?.list().ok()
    }

    /// Counts requests that come on another way than one at a time.
    pub(crate) fn pace(&self) -> Pace {
        self.pace.clone()
    }

    /// Validates first, then counts: wrong tokens from an address never lock out a valid one from there.
    async fn bearer_from(
        &self,
        gateway: &Gateway,
        token: &str,
        peer: Option<IpAddr>,
    ) -> Result<Principal, Refused> {
        let who = self.bearer_of(gateway, token, &Hash::of(token)).await;
        let most = gateway.limits.wrong_tokens;
        match (&who, peer) {
            (Err(Refused::BadToken), Some(peer))
                if most > 0 && !self.strikes.count_wrong(peer, most) =>
            {
                Err(Refused::TooManyWrong(most))
            }
            _ => who,
        }
    }

    async fn bearer_of(
        &self,
        gateway: &Gateway,
        token: &str,
        hash: &Hash,
    ) -> Result<Principal, Refused> {
        if self.fresh.lock().unwrap_or_else(PoisonError::into_inner).contains(hash) {
            return Ok(Principal::owner("the console"));
        }
        let mut written = gateway.tokens.iter().flatten();
        let written = written.find(|it| Hash::read(&it.sha256) == Some(*hash));
        if let Some(token) = written {
            return Ok(Principal::of_token(
                &token_id(hash),
                &token.agent,
                &token.agent,
                token.owner,
            ));
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

    /// Whether a token does not stand any more for whom it stood for. While nobody can tell, it does.
    pub(crate) async fn has_lapsed(&self, config: &Config, token: &str, who: &Principal) -> bool {
        if config.security.protection == Protection::Invalid {
            return true;
        }
        match self.bearer_of(&config.gateway, token, &Hash::of(token)).await {
            Ok(now) => now != *who,
            Err(refused) => refused == Refused::BadToken,
        }
    }

    /// The agent that a principal with a token of the configuration is now; none for any other principal, and for one
    /// that may choose its agent.
    pub(crate) fn configured_agent<'a>(gateway: &'a Gateway, principal: &str) -> Option<&'a str> {
        let is = |token: &&Token| {
            !token.owner
                && Hash::read(&token.sha256).is_some_and(|hash| token_id(&hash) == principal)
        };
        gateway.tokens.iter().flatten().find(is).map(|token| token.agent.as_str())
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

    fn owner(name: &str) -> Self {
        let id = namespace::OWNER.into();
        Principal { is_owner: true, id, name: name.into(), ..Principal::default() }
    }

    /// Whether this principal may use what was begun by a principal of this id as this agent. Rights are those of
    /// now: a principal whose agent has changed is another one.
    pub(crate) fn may_use(&self, id: &str, agent: &str) -> bool {
        *self.id == *id && (self.chooses || *self.agent == *agent)
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

/// The id of the principal behind a token of the configuration.
fn token_id(hash: &Hash) -> String {
    format!("token:{}", hash.hex().get(..16).unwrap_or_default())
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
