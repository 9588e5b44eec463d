//! Tokens of an issuer: its keys are found, kept, and looked for again when a token names one that is not known.

mod jwt;
mod keys;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwapOption;
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use toolcrib::transport::Tls;
use toolcrib_config::model::host::GatewayOAuth;
use url::Url;

use jwt::Token;
use keys::{FindError, Keys, find};

/// Keys are looked for at most this often, whoever names others.
const SELDOM: Duration = Duration::from_secs(10);

/// Keys that are older are looked for again: one of them may have been withdrawn.
const OLD: Duration = Duration::from_secs(3600);

/// What whoever looks for a token's issuer is told (RFC 9728).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Metadata {
    pub resource: String,
    pub authorization_servers: Vec<String>,
    pub bearer_methods_supported: [&'static str; 1],
    pub resource_name: &'static str,
}

/// Why a token is not taken.
#[derive(Debug, thiserror::Error)]
pub enum NotVerified {
    #[error("no issuer's tokens are taken here")]
    NoIssuer,
    #[error("gateway.oauth.audience is not set, so nobody's tokens are for this host")]
    NoAudience,
    #[error("it is no token of an issuer: {0}")]
    Malformed(&'static str),
    #[error("the issuer has no such key")]
    NoKey,
    #[error("the signature is wrong")]
    Signature,
    #[error("the token is not valid here: {0}")]
    Claim(&'static str),
    #[error("the issuer's keys cannot be found")]
    Keys(#[source] Arc<FindError>),
}

/// The issuer that the configuration names, and its keys.
#[derive(Debug)]
pub(super) struct Issuers {
    known: ArcSwapOption<Known>,
    /// Whoever looks for keys; all others wait for what is found.
    looking: Semaphore,
    tls: Tls,
}

#[derive(Debug)]
struct Known {
    issuer: String,
    keys: Result<Keys, Arc<FindError>>,
    at: Instant,
}

impl Default for Issuers {
    fn default() -> Self {
        Issuers { known: ArcSwapOption::empty(), looking: Semaphore::new(1), tls: Tls::default() }
    }
}

impl Issuers {
    /// Whose token it is, and which agent that is.
    pub(super) async fn agent_of(
        &self,
        oauth: &GatewayOAuth,
        token: &str,
    ) -> Result<(String, String), NotVerified> {
        let issuer = oauth.issuer.as_deref().ok_or(NotVerified::NoIssuer)?;
        let audience = oauth.audience.as_deref().ok_or(NotVerified::NoAudience)?;
        let token = Token::read(token)?;
        let known = self.keys_for(issuer, &token).await;
        let keys = known.keys.as_ref().map_err(|error| NotVerified::Keys(Arc::clone(error)))?;
        keys.verify(&token)?;
        token.check(issuer, audience, SystemTime::now())?;
        let subject = token.claim("sub").ok_or(NotVerified::Claim("it has no subject"))?;
        let agent = token.claim(&oauth.agent_claim);
        Ok((subject, agent.ok_or(NotVerified::Claim("it names no agent"))?))
    }

    /// The keys among which the token's should be.
    async fn keys_for(&self, issuer: &str, token: &Token) -> Arc<Known> {
        if let Some(known) = self.good(issuer, token) {
            return known;
        }
        // An error would mean that it was closed, and nobody closes it.
        let _one = self.looking.acquire().await;
        if let Some(known) = self.good(issuer, token) {
            return known;
        }
        let keys = find(issuer, &self.tls).await.map_err(Arc::new);
        let known = Arc::new(Known { issuer: issuer.to_owned(), keys, at: Instant::now() });
        self.known.store(Some(Arc::clone(&known)));
        known
    }

    /// What is known, unless it is worth looking again.
    fn good(&self, issuer: &str, token: &Token) -> Option<Arc<Known>> {
        let known = self.known.load_full().filter(|known| known.issuer == issuer)?;
        let has_key = known.keys.as_ref().is_ok_and(|keys| keys.has_for(token));
        let age = known.at.elapsed();
        (age < SELDOM || (has_key && age < OLD)).then_some(known)
    }
}

impl Metadata {
    /// `host` is how the client calls this host. Nothing where no issuer's tokens are taken.
    pub fn of(oauth: &GatewayOAuth, host: &str) -> Option<Self> {
        Some(Metadata {
            resource: resource(oauth, host),
            authorization_servers: vec![oauth.issuer.clone()?],
            bearer_methods_supported: ["header"],
            resource_name: "Toolcrib",
        })
    }

    /// Where the metadata is, as `WWW-Authenticate` tells it.
    pub fn address(oauth: &GatewayOAuth, host: &str) -> Option<String> {
        oauth.issuer.as_ref()?;
        let url = Url::parse(&resource(oauth, host)).ok()?;
        let path = url.path().trim_end_matches('/');
        let origin = url.origin().ascii_serialization();
        Some(format!("{origin}/.well-known/oauth-protected-resource{path}"))
    }
}

/// The audience where it is an address: then it is the one that clients know, whatever stands between.
fn resource(oauth: &GatewayOAuth, host: &str) -> String {
    let named = oauth.audience.as_deref().and_then(|audience| Url::parse(audience).ok());
    match named.filter(|url| matches!(url.scheme(), "http" | "https")) {
        Some(url) => url.to_string(),
        None => format!("http://{host}/mcp"),
    }
}
