//! Remote servers: allowed URLs, and the headers of every request.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use tokio::time::timeout;
use toolcrib_config::model::auth::Auth;
use toolcrib_config::model::transport::{Remote, Transport, UrlPolicy};
use toolcrib_config::{Reference, SecretString};
use url::{Host, Url};

use super::http_fault::HttpFault;
use super::open::{OpenContext, OpenError, text};
use super::token_provider::TokenProvider;

/// Resolved credentials for a server.
#[derive(Clone, Debug, Default)]
pub enum Credentials {
    #[default]
    None,
    Bearer(SecretString),
    ApiKey {
        header: String,
        key: SecretString,
    },
    /// Tokens that are obtained and renewed while the connection lives.
    Tokens(Arc<dyn TokenProvider>),
}

/// URL, headers and token provider of a remote server.
#[derive(Clone)]
pub(super) struct RemoteTarget {
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) tokens: Option<Arc<dyn TokenProvider>>,
}

impl Credentials {
    /// Resolves configured credentials. OAuth tokens are obtained, not configured.
    pub fn from_auth(
        auth: &Auth,
        find: &dyn Fn(&Reference) -> Option<String>,
    ) -> Result<Self, Reference> {
        Ok(match auth {
            Auth::None | Auth::OAuth(_) => Self::None,
            Auth::Bearer { token } => Self::Bearer(token.resolve(find)?),
            Auth::ApiKey { key, header } => {
                Self::ApiKey { header: header.clone(), key: key.resolve(find)? }
            }
        })
    }

    fn header(&self) -> Option<(&str, String)> {
        match self {
            Self::None | Self::Tokens(_) => None,
            Self::Bearer(token) => {
                Some((AUTHORIZATION.as_str(), format!("Bearer {}", token.reveal())))
            }
            Self::ApiKey { header, key } => Some((header, key.reveal().to_owned())),
        }
    }
}

impl RemoteTarget {
    /// `schemes` are those of the transport: without and with TLS.
    pub(super) fn resolve(
        remote: &Remote,
        schemes: [&str; 2],
        context: &OpenContext<'_>,
    ) -> Result<Self, OpenError> {
        if !context.permissions.network {
            return Err(OpenError::NetworkForbidden);
        }
        let (url, headers) =
            resolve_with_credentials(remote, schemes, &context.credentials, &context.lookup)?;
        let tokens = match &context.credentials {
            Credentials::Tokens(tokens) => Some(Arc::clone(tokens)),
            _ => None,
        };
        Ok(Self { url, headers, tokens })
    }
}

/// Resolves the URL and all headers, credentials included.
pub(crate) fn resolve_with_credentials(
    remote: &Remote,
    schemes: [&str; 2],
    credentials: &Credentials,
    find: &dyn Fn(&Reference) -> Option<String>,
) -> Result<(Url, HeaderMap), OpenError> {
    let (url, mut headers) = resolve_remote(remote, schemes, find)?;
    if let Some((name, value)) = credentials.header() {
        insert_header(&mut headers, name, &value)?;
    }
    Ok((url, headers))
}

/// Resolves the URL and the configured headers, without credentials.
pub(crate) fn resolve_remote(
    remote: &Remote,
    schemes: [&str; 2],
    find: &dyn Fn(&Reference) -> Option<String>,
) -> Result<(Url, HeaderMap), OpenError> {
    let shown = || redact_url(&remote.url.display_text());
    let url = Url::parse(&text(&remote.url.0, find)?).ok();
    let url = url.filter(|url| url.has_host() && schemes.contains(&url.scheme()));
    let url = url.ok_or_else(|| OpenError::BadUrl(shown()))?;
    if !is_url_allowed(&url, schemes[1], remote.url_policy) {
        return Err(OpenError::UrlNotAllowed(shown()));
    }
    let mut headers = HeaderMap::new();
    for (name, value) in &remote.headers {
        insert_header(&mut headers, name, &text(value, find)?)?;
    }
    Ok((url, headers))
}

/// The remote settings of a server that is reached over HTTP.
pub(crate) fn http_remote(transport: &Transport) -> Option<&Remote> {
    match transport {
        Transport::StreamableHttp(http) => Some(&http.remote),
        Transport::Sse(remote) => Some(remote),
        Transport::Stdio(_) | Transport::WebSocket(_) | Transport::DockerExec(_) => None,
    }
}

fn insert_header(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), OpenError> {
    let refused = || OpenError::BadHeader(name.to_owned());
    let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| refused())?;
    let mut value = HeaderValue::from_str(value).map_err(|_| refused())?;
    value.set_sensitive(true);
    headers.insert(key, value);
    Ok(())
}

fn is_url_allowed(url: &Url, secure: &str, policy: UrlPolicy) -> bool {
    match policy {
        UrlPolicy::Any => true,
        UrlPolicy::HttpsOrLoopback => url.scheme() == secure || is_loopback(url),
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// Fails if `work` exceeds the timeout. Zero means no limit.
pub(super) async fn with_timeout<T>(
    connect_timeout: Duration,
    work: impl Future<Output = Result<T, HttpFault>>,
) -> Result<T, HttpFault> {
    if connect_timeout.is_zero() {
        return work.await;
    }
    let done = timeout(connect_timeout, work).await;
    done.unwrap_or(Err(HttpFault::ResponseTimeout(connect_timeout)))
}

/// Removes query, fragment and user info, where people put keys and passwords.
pub(super) fn redact_url(address: &str) -> String {
    let plain = address.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = plain.split_once("://").unwrap_or(("", plain));
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit('@').next().unwrap_or_default();
    if scheme.is_empty() { format!("{host}{path}") } else { format!("{scheme}://{host}{path}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn https_or_loopback_policy_allows_plain_http_only_to_loopback() {
        for (url, admitted) in [
            ("https://example.com/mcp", true),
            ("http://example.com/mcp", false),
            ("http://localhost:1/mcp", true),
            ("http://127.0.0.9:1/mcp", true),
            ("http://[::1]:1/mcp", true),
            ("http://localhost.example.com/", false),
            ("http://127.0.0.1.example.com/", false),
            ("http://0.0.0.0/", false),
        ] {
            let url = Url::parse(url).unwrap();
            assert_eq!(
                is_url_allowed(&url, "https", UrlPolicy::HttpsOrLoopback),
                admitted,
                "{url}"
            );
            assert!(is_url_allowed(&url, "https", UrlPolicy::Any));
        }
    }

    #[test]
    fn redacted_url_has_no_query_or_password() {
        for (address, shown) in [
            ("https://a.example/mcp?key=s3cret#s3cret", "https://a.example/mcp"),
            ("https://me:s3cret@a.example:1/x@y", "https://a.example:1/x@y"),
            ("s3cret@host", "host"),
            ("", ""),
        ] {
            assert_eq!(redact_url(address), shown);
        }
    }
}
