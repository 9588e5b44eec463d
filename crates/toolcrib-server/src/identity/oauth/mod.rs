//! Verifies tokens of an OAuth issuer with cached keys, and refetches them when a token names an unknown key.

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

use jwt::Jwt;
use keys::{IssuerKeys, KeyDiscoveryError, discover_keys};

/// Minimum interval between fetches, whatever keys tokens name.
const MIN_REFETCH_INTERVAL: Duration = Duration::from_secs(10);

/// Older keys are refetched, because one may have been revoked.
const REFRESH_AFTER: Duration = Duration::from_secs(3600);

/// Cached keys stay valid this long while the issuer is unreachable, so that an outage locks no user out.
const MAX_STALE: Duration = Duration::from_secs(24 * 3600);

/// OAuth metadata of a protected resource (RFC 9728).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ResourceMetadata {
    pub resource: String,
    pub authorization_servers: Vec<String>,
    pub bearer_methods_supported: [&'static str; 1],
    pub resource_name: &'static str,
}

/// Why a token is refused.
#[derive(Debug, thiserror::Error)]
pub enum VerificationError {
    #[error("no issuer is configured (gateway.oauth.issuer)")]
    NoIssuer,
    #[error("no audience is configured (gateway.oauth.audience)")]
    NoAudience,
    #[error("malformed token: {0}")]
    Malformed(&'static str),
    #[error("the issuer has no key for this token")]
    NoKey,
    #[error("invalid signature")]
    Signature,
    #[error("invalid claims: {0}")]
    Claim(&'static str),
    #[error("cannot get the issuer's keys")]
    Keys(#[source] Arc<KeyDiscoveryError>),
}

/// Cached keys of the configured issuer.
#[derive(Debug)]
pub(super) struct IssuerKeyCache {
    cached: ArcSwapOption<CachedKeys>,
    /// Allows one fetch at a time; other requests wait for its result.
    fetch_permit: Semaphore,
    tls: Tls,
}

#[derive(Debug)]
struct CachedKeys {
    issuer: String,
    keys: Result<Arc<IssuerKeys>, Arc<KeyDiscoveryError>>,
    /// When the keys were fetched, and when the last fetch was tried.
    fetched: Instant,
    last_fetch: Instant,
}

impl CachedKeys {
    /// The cache after a fetch. A failed fetch keeps older keys.
    fn after_fetch(
        before: Option<&CachedKeys>,
        issuer: &str,
        fetched: Result<IssuerKeys, KeyDiscoveryError>,
        now: Instant,
    ) -> Self {
        let before =
            before.filter(|cached| cached.issuer == issuer && now < cached.fetched + MAX_STALE);
        let (keys, fetched) = match (fetched, before) {
            (Ok(keys), _) => (Ok(Arc::new(keys)), now),
            (Err(_), Some(CachedKeys { keys: Ok(keys), fetched, .. })) => {
                (Ok(Arc::clone(keys)), *fetched)
            }
            (Err(error), _) => (Err(Arc::new(error)), now),
        };
        CachedKeys { issuer: issuer.to_owned(), keys, fetched, last_fetch: now }
    }

    /// Returns whether no fetch is necessary.
    fn is_usable(&self, issuer: &str, has_key: impl Fn(&IssuerKeys) -> bool, now: Instant) -> bool {
        let has_key = self.keys.as_ref().is_ok_and(|keys| has_key(keys));
        let is_young = now < self.last_fetch + MIN_REFETCH_INTERVAL
            || (has_key && now < self.fetched + REFRESH_AFTER);
        self.issuer == issuer && is_young
    }
}

impl Default for IssuerKeyCache {
    fn default() -> Self {
        IssuerKeyCache {
            cached: ArcSwapOption::empty(),
            fetch_permit: Semaphore::new(1),
            tls: Tls::default(),
        }
    }
}

impl IssuerKeyCache {
    /// Verifies a token. Returns its subject and agent.
    pub(super) async fn verify(
        &self,
        oauth: &GatewayOAuth,
        token: &str,
    ) -> Result<(String, String), VerificationError> {
        let issuer = oauth.issuer.as_deref().ok_or(VerificationError::NoIssuer)?;
        let audience = oauth.audience.as_deref().ok_or(VerificationError::NoAudience)?;
        let token = Jwt::parse(token)?;
        // Checked first, so that an expired token is refused even if the issuer is unreachable.
        token.check_claims(issuer, audience, SystemTime::now())?;
        let cached = self.keys_for(issuer, &token).await;
        let keys =
            cached.keys.as_ref().map_err(|error| VerificationError::Keys(Arc::clone(error)))?;
        keys.verify(&token)?;
        let subject =
            token.claim("sub").ok_or(VerificationError::Claim("the token has no subject"))?;
        let agent = token.claim(&oauth.agent_claim).filter(|agent| !agent.trim().is_empty());
        Ok((subject, agent.ok_or(VerificationError::Claim("the token names no agent"))?))
    }

    /// The keys that should include the token's key.
    async fn keys_for(&self, issuer: &str, token: &Jwt) -> Arc<CachedKeys> {
        if let Some(cached) = self.usable_keys(issuer, token) {
            return cached;
        }
        // The semaphore is never closed.
        let _permit = self.fetch_permit.acquire().await;
        if let Some(cached) = self.usable_keys(issuer, token) {
            return cached;
        }
        let (before, fetched) = (self.cached.load_full(), discover_keys(issuer, &self.tls).await);
        let cached =
            Arc::new(CachedKeys::after_fetch(before.as_deref(), issuer, fetched, Instant::now()));
        self.cached.store(Some(Arc::clone(&cached)));
        cached
    }

    /// The cached keys, unless a fetch may help.
    fn usable_keys(&self, issuer: &str, token: &Jwt) -> Option<Arc<CachedKeys>> {
        let now = Instant::now();
        self.cached
            .load_full()
            .filter(|cached| cached.is_usable(issuer, |it| it.has_key_for(token), now))
    }
}

impl ResourceMetadata {
    /// The metadata for clients that call this host `host`; `None` without an issuer.
    pub fn for_host(oauth: &GatewayOAuth, host: &str) -> Option<Self> {
        Some(ResourceMetadata {
            resource: resource_url(oauth, host),
            authorization_servers: vec![oauth.issuer.clone()?],
            bearer_methods_supported: ["header"],
            resource_name: "Toolcrib",
        })
    }

    /// URL of the metadata for `WWW-Authenticate`.
    pub fn metadata_url(oauth: &GatewayOAuth, host: &str) -> Option<String> {
        oauth.issuer.as_ref()?;
        let url = Url::parse(&resource_url(oauth, host)).ok()?;
        let path = url.path().trim_end_matches('/');
        let origin = url.origin().ascii_serialization();
        Some(format!("{origin}/.well-known/oauth-protected-resource{path}"))
    }
}

/// The audience, if it is a URL: clients know the host by it even behind a proxy.
fn resource_url(oauth: &GatewayOAuth, host: &str) -> String {
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

    fn unreachable_issuer() -> Result<IssuerKeys, KeyDiscoveryError> {
        Err(KeyDiscoveryError::Address(ISSUER.to_owned()))
    }

    #[test]
    fn unreachable_issuer_keeps_cached_keys_valid() {
        let start = Instant::now();
        let good = CachedKeys::after_fetch(None, ISSUER, Ok(IssuerKeys::default()), start);
        let later = start + 2 * REFRESH_AFTER;
        let missed = CachedKeys::after_fetch(Some(&good), ISSUER, unreachable_issuer(), later);
        assert!(missed.keys.is_ok());
        let is_usable = |at| missed.is_usable(ISSUER, |_| true, at);
        assert!(
            is_usable(later) && !is_usable(later + MIN_REFETCH_INTERVAL),
            "refetches are rate limited"
        );
        let again =
            CachedKeys::after_fetch(Some(&missed), ISSUER, unreachable_issuer(), start + MAX_STALE);
        assert!(again.keys.is_err(), "stale keys expire");
        let other = CachedKeys::after_fetch(
            Some(&good),
            "https://other.example",
            unreachable_issuer(),
            later,
        );
        assert!(other.keys.is_err(), "cached keys belong to one issuer");
        assert!(CachedKeys::after_fetch(None, ISSUER, unreachable_issuer(), start).keys.is_err());
    }

    #[test]
    fn missing_or_old_keys_are_refetched() {
        let start = Instant::now();
        let cached = CachedKeys::after_fetch(None, ISSUER, Ok(IssuerKeys::default()), start);
        for (has_key, after, is_usable) in [
            (false, MIN_REFETCH_INTERVAL / 2, true),
            (false, MIN_REFETCH_INTERVAL, false),
            (true, REFRESH_AFTER / 2, true),
            (true, REFRESH_AFTER, false),
        ] {
            assert_eq!(
                cached.is_usable(ISSUER, |_| has_key, start + after),
                is_usable,
                "{after:?}"
            );
        }
        assert!(!cached.is_usable("https://other.example", |_| true, start));
    }
}
