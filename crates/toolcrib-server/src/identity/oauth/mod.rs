//! Tokens of an issuer: its keys are found, kept, and looked for again when a token names one that is not known.

mod jwt;
mod keys;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwapOption;
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use toolcrib_config::model::host::GatewayOAuth;
use toolcrib_upstream::transport::Tls;
use url::Url;

use jwt::Token;
use keys::{FindError, Keys, find};

/// Keys are looked for at most this often, whoever names others.
const SELDOM: Duration = Duration::from_secs(10);

/// Keys that are older are looked for again: one of them may have been withdrawn.
const OLD: Duration = Duration::from_secs(3600);

/// For so long keys are good although their issuer cannot be asked again: its absence locks nobody out.
const STALE: Duration = Duration::from_secs(24 * 3600);

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
    keys: Result<Arc<Keys>, Arc<FindError>>,
    /// When these keys were found, and when somebody last looked.
    found: Instant,
    looked: Instant,
}

impl Known {
    /// What is known after a look. What was found before outlasts one that fails.
    fn after(
        before: Option<&Known>,
        issuer: &str,
        found: Result<Keys, FindError>,
        now: Instant,
    ) -> Self {
        let before = before.filter(|known| known.issuer == issuer && now < known.found + STALE);
        let (keys, found) = match (found, before) {
            (Ok(keys), _) => (Ok(Arc::new(keys)), now),
            (Err(_), Some(Known { keys: Ok(keys), found, .. })) => (Ok(Arc::clone(keys)), *found),
            (Err(error), _) => (Err(Arc::new(error)), now),
        };
        Known { issuer: issuer.to_owned(), keys, found, looked: now }
    }

    /// Whether nobody has to look again.
    fn is_good(&self, issuer: &str, has_key: impl Fn(&Keys) -> bool, now: Instant) -> bool {
        let has_key = self.keys.as_ref().is_ok_and(|keys| has_key(keys));
        let is_young = now < self.looked + SELDOM || (has_key && now < self.found + OLD);
        self.issuer == issuer && is_young
    }
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
        // First: an expired token is refused at once, also while its issuer cannot be reached.
        token.check(issuer, audience, SystemTime::now())?;
        let known = self.keys_for(issuer, &token).await;
        let keys = known.keys.as_ref().map_err(|error| NotVerified::Keys(Arc::clone(error)))?;
        keys.verify(&token)?;
        let subject = token.claim("sub").ok_or(NotVerified::Claim("it has no subject"))?;
        let agent = token.claim(&oauth.agent_claim).filter(|agent| !agent.trim().is_empty());
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
        let (before, found) = (self.known.load_full(), find(issuer, &self.tls).await);
        let known = Arc::new(Known::after(before.as_deref(), issuer, found, Instant::now()));
        self.known.store(Some(Arc::clone(&known)));
        known
    }

    /// What is known, unless it is worth looking again.
    fn good(&self, issuer: &str, token: &Token) -> Option<Arc<Known>> {
        let now = Instant::now();
        self.known.load_full().filter(|known| known.is_good(issuer, |it| it.has_for(token), now))
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

#[cfg(test)]
mod tests {
    use super::*;

    const ISSUER: &str = "https://issuer.example";

    fn away() -> Result<Keys, FindError> {
        Err(FindError::Address(ISSUER.to_owned()))
    }

    #[test]
    fn an_issuer_that_is_away_makes_no_good_key_bad() {
        let begun = Instant::now();
        let good = Known::after(None, ISSUER, Ok(Keys::default()), begun);
        let later = begun + 2 * OLD;
        let missed = Known::after(Some(&good), ISSUER, away(), later);
        assert!(missed.keys.is_ok());
        let is_good = |at| missed.is_good(ISSUER, |_| true, at);
        assert!(is_good(later) && !is_good(later + SELDOM), "it is asked again, but seldom");
        let again = Known::after(Some(&missed), ISSUER, away(), begun + STALE);
        assert!(again.keys.is_err(), "not for ever");
        let other = Known::after(Some(&good), "https://other.example", away(), later);
        assert!(other.keys.is_err(), "not for another");
        assert!(Known::after(None, ISSUER, away(), begun).keys.is_err());
    }

    #[test]
    fn keys_are_looked_for_when_one_is_missing_or_they_are_old() {
        let begun = Instant::now();
        let known = Known::after(None, ISSUER, Ok(Keys::default()), begun);
        for (has_key, after, is_good) in [
            (false, SELDOM / 2, true),
            (false, SELDOM, false),
            (true, OLD / 2, true),
            (true, OLD, false),
        ] {
            assert_eq!(known.is_good(ISSUER, |_| has_key, begun + after), is_good, "{after:?}");
        }
        assert!(!known.is_good("https://other.example", |_| true, begun));
    }
}
