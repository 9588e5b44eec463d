//! Authenticates the senders of requests.
//!
//! The socket in the state folder belongs to the owner. On a network address, a bearer token identifies the sender: one
//! from the configuration, one made with `toolcrib token new`, or one of an OAuth issuer (`oauth/`). Without any of
//! these, everyone on a loopback address is the agent `default`.

mod auth_failures;
mod limits;
mod listen_check;
pub(crate) mod namespace;
mod oauth;
pub mod origin_guard;
mod rate_limiter;
mod request_rate;
mod secret;
mod tokens;

use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::header;
use toolcrib::internal::DEFAULT_AGENT;
use toolcrib_config::Config;
use toolcrib_config::model::host::{GatewaySettings, GatewayToken};
use toolcrib_config::model::security::GatewayProtection;
use toolcrib_upstream::signals::chain;

pub(crate) use auth_failures::address_block;
pub use limits::PrincipalLimits;
pub use listen_check::{UnprotectedAddress, check_listen};
pub use oauth::{ResourceMetadata, VerificationError};
pub(crate) use request_rate::RequestRate;
pub use secret::random_id;
pub use tokens::{IssuedToken, TokenStore, TokenStoreError};

use crate::front::headers::Headers;
use auth_failures::AuthFailures;
use oauth::IssuerKeyCache;
use secret::TokenHash;

/// Entry point of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryPoint {
    /// A loopback address.
    Loopback,
    /// An address that other machines can reach.
    Network(IpAddr),
    /// The socket in the state folder, which only the owner can open.
    OwnerSocket,
}

impl EntryPoint {
    /// Returns whether requests from here are rate limited. The owner's are not, because the limit is the owner's own.
    pub(crate) fn is_rate_limited(self) -> bool {
        self != EntryPoint::OwnerSocket
    }
}

/// The authenticated sender of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// Unique id; sessions and dialogs are bound to it.
    pub id: Arc<str>,
    /// Name in logs and records.
    pub name: Arc<str>,
    /// The default agent.
    pub agent: Arc<str>,
    pub is_owner: bool,
    /// True if the principal may act as any agent.
    pub may_choose_agent: bool,
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessDenied {
    #[error(
        "the gateway's configuration is invalid, so all requests are refused; run `toolcrib check` on its machine"
    )]
    GatewayClosed,
    #[error("a bearer token is required")]
    MissingToken,
    #[error("unknown or revoked token")]
    UnknownToken,
    #[error("cannot verify the token: the issuer's keys are unavailable")]
    Unverified,
    #[error("the agent name is empty; omit it or name an agent")]
    EmptyAgentName,
    #[error("this principal may not act as the agent `{0}`")]
    AgentNotAllowed(String),
    #[error("more than {limit} requests per second (gateway.limits.rate); try again in {wait:.3?}")]
    RateLimited { limit: u32, wait: Duration },
    #[error(
        "more than {0} wrong tokens per minute from this address (gateway.limits.wrong_tokens)"
    )]
    TooManyFailures(u32),
}

/// All sources of authentication.
#[derive(Debug, Default)]
pub struct Identity {
    tokens: Option<TokenStore>,
    /// Owner tokens that are valid until this process ends.
    owner_tokens: Mutex<Vec<TokenHash>>,
    issuer_keys: IssuerKeyCache,
    request_rate: RequestRate,
    auth_failures: AuthFailures,
    /// The principal of unauthenticated requests; created once instead of per request.
    anonymous: Principal,
}

impl Identity {
    /// Uses the tokens of a state folder.
    pub fn with_tokens_in(state: &Path) -> Self {
        Identity { tokens: Some(TokenStore::in_folder(state)), ..Identity::default() }
    }

    /// Creates an owner token that is valid until this process ends.
    pub fn new_owner_token(&self) -> Result<String, TokenStoreError> {
        let token = secret::new_token().map_err(TokenStoreError::Random)?;
        self.owner_tokens
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(TokenHash::digest(&token));
        Ok(token)
    }

    /// Which TCP clients may connect, according to the configuration and the issued tokens.
    pub fn protection(&self, config: &Config) -> GatewayProtection {
        match config.security.protection {
            GatewayProtection::Open
                if self.tokens.as_ref().is_some_and(TokenStore::is_protected) =>
            {
                GatewayProtection::Protected
            }
            protection => protection,
        }
    }

    /// Authenticates a request. `peer` is the address of the sender, if it has one.
    pub async fn authenticate(
        &self,
        config: &Config,
        headers: &dyn Headers,
        entry_point: EntryPoint,
        peer: Option<IpAddr>,
    ) -> Result<Principal, AccessDenied> {
        let gateway = &config.gateway;
        let principal = match (entry_point, bearer_token(headers)) {
            (EntryPoint::OwnerSocket, _) => Ok(Principal::owner("the command line")),
            _ if config.security.protection == GatewayProtection::Invalid => {
                Err(AccessDenied::GatewayClosed)
            }
            (_, Some(token)) => self.authenticate_bearer(gateway, token, peer).await,
            (EntryPoint::Loopback, None) if self.protection(config) == GatewayProtection::Open => {
                Ok(self.anonymous.clone())
            }
            (_, None) => Err(AccessDenied::MissingToken),
        }?;
        if entry_point.is_rate_limited() {
            self.request_rate.count_request(&principal.id, &gateway.limits)?;
        }
        Ok(principal)
    }

    /// The issued tokens; `None` if they cannot be read. Reading also records that the host is protected, because the
    /// state folder may be deleted later.
    pub(crate) fn issued_tokens(&self) -> Option<Arc<Vec<IssuedToken>>> {
        self.tokens.as_ref()?.list().ok()
    }

    /// The request counter, for requests that do not arrive one by one over HTTP.
    pub(crate) fn request_rate(&self) -> RequestRate {
        self.request_rate.clone()
    }

    /// Validates before counting, so that wrong tokens never lock out a valid one from the same address.
    async fn authenticate_bearer(
        &self,
        gateway: &GatewaySettings,
        token: &str,
        peer: Option<IpAddr>,
    ) -> Result<Principal, AccessDenied> {
        let result = self.resolve_bearer(gateway, token, &TokenHash::digest(token)).await;
        let limit = gateway.limits.wrong_tokens;
        match (&result, peer) {
            (Err(AccessDenied::UnknownToken), Some(peer))
                if limit > 0 && !self.auth_failures.record(peer, limit) =>
            {
                Err(AccessDenied::TooManyFailures(limit))
            }
            _ => result,
        }
    }

    async fn resolve_bearer(
        &self,
        gateway: &GatewaySettings,
        token: &str,
        hash: &TokenHash,
    ) -> Result<Principal, AccessDenied> {
        if self.owner_tokens.lock().unwrap_or_else(PoisonError::into_inner).contains(hash) {
            return Ok(Principal::owner("the console"));
        }
        let mut configured = gateway.tokens.iter().flatten();
        let configured = configured.find(|it| TokenHash::parse_hex(&it.sha256) == Some(*hash));
        if let Some(token) = configured {
            return Ok(Principal::from_token(
                &token_id(hash),
                &token.agent,
                &token.agent,
                token.owner,
            ));
        }
        if let Some(issued) = self.find_issued(hash) {
            let id = format!("token:{}", issued.id);
            return Ok(Principal::from_token(&id, &issued.name, &issued.agent, issued.owner));
        }
        match self.issuer_keys.verify(&gateway.oauth, token).await {
            Ok((subject, agent)) => {
                Ok(Principal::from_token(&format!("oauth:{subject}"), &subject, &agent, false))
            }
            Err(error) => {
                tracing::debug!("token refused: {}", chain(&error));
                Err(match error {
                    VerificationError::Keys(_) => AccessDenied::Unverified,
                    _ => AccessDenied::UnknownToken,
                })
            }
        }
    }

    /// Returns whether a token is no longer valid for this principal. An unreachable issuer does not expire a token.
    pub(crate) async fn has_expired(
        &self,
        config: &Config,
        token: &str,
        principal: &Principal,
    ) -> bool {
        if config.security.protection == GatewayProtection::Invalid {
            return true;
        }
        match self.resolve_bearer(&config.gateway, token, &TokenHash::digest(token)).await {
            Ok(now) => now != *principal,
            Err(refused) => refused == AccessDenied::UnknownToken,
        }
    }

    /// The current agent of a principal with a configured token; `None` for other principals and for those that may
    /// choose their agent.
    pub(crate) fn configured_agent<'a>(
        gateway: &'a GatewaySettings,
        principal: &str,
    ) -> Option<&'a str> {
        let is = |token: &&GatewayToken| {
            !token.owner
                && TokenHash::parse_hex(&token.sha256)
                    .is_some_and(|hash| token_id(&hash) == principal)
        };
        gateway.tokens.iter().flatten().find(is).map(|token| token.agent.as_str())
    }

    fn find_issued(&self, hash: &TokenHash) -> Option<IssuedToken> {
        self.tokens.as_ref()?.find_by_hash(hash).unwrap_or_else(|error| {
            tracing::warn!("cannot read the token file: {}", chain(&error));
            None
        })
    }
}

impl Principal {
    /// The agent to act as.
    pub fn choose_agent(&self, requested: Option<&str>) -> Result<Arc<str>, AccessDenied> {
        match requested {
            None => Ok(Arc::clone(&self.agent)),
            // An empty agent name is refused even if any agent is allowed.
            Some(requested) if requested.trim().is_empty() => Err(AccessDenied::EmptyAgentName),
            Some(requested) if self.may_choose_agent || requested == &*self.agent => {
                Ok(requested.into())
            }
            Some(requested) => Err(AccessDenied::AgentNotAllowed(requested.to_owned())),
        }
    }

    fn owner(name: &str) -> Self {
        let id = namespace::OWNER.into();
        Principal { is_owner: true, id, name: name.into(), ..Principal::default() }
    }

    /// Returns whether this principal may use what this id created as this agent. A principal whose agent has changed
    /// counts as another one.
    pub(crate) fn may_use(&self, id: &str, agent: &str) -> bool {
        *self.id == *id && (self.may_choose_agent || *self.agent == *agent)
    }

    fn from_token(id: &str, name: &str, agent: &str, is_owner: bool) -> Self {
        Principal {
            id: id.into(),
            name: name.into(),
            agent: agent.into(),
            is_owner,
            may_choose_agent: is_owner,
        }
    }
}

/// The principal id of a configured token.
fn token_id(hash: &TokenHash) -> String {
    format!("token:{}", hash.hex().get(..16).unwrap_or_default())
}

/// The principal of unauthenticated requests.
impl Default for Principal {
    fn default() -> Self {
        Principal {
            id: DEFAULT_AGENT.into(),
            name: DEFAULT_AGENT.into(),
            agent: DEFAULT_AGENT.into(),
            is_owner: false,
            may_choose_agent: true,
        }
    }
}

/// The bearer token of a request.
pub(crate) fn bearer_token(headers: &dyn Headers) -> Option<&str> {
    let (scheme, token) = headers.text(header::AUTHORIZATION.as_str())?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
