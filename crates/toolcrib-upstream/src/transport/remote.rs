//! A server at an address: which addresses are accepted, and what every request to one carries.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use tokio::time::timeout;
use toolcrib_config::model::auth::Auth;
use toolcrib_config::model::transport::{Remote, Transport, UrlPolicy};
use toolcrib_config::{Hidden, Reference};
use url::{Host, Url};

use super::http_fault::HttpFault;
use super::open::{OpenError, Opening, text};
use super::tokens::Tokens;

/// How the host shows itself to a server: values, not references to them.
#[derive(Clone, Debug, Default)]
pub enum Credentials {
    #[default]
    None,
    Bearer(Hidden),
    ApiKey {
        header: String,
        key: Hidden,
    },
    /// They are obtained, and change while the connection lives.
    Tokens(Arc<dyn Tokens>),
}

/// An address and the headers of every request to it.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) tokens: Option<Arc<dyn Tokens>>,
}

impl Credentials {
    /// What the configuration says itself. Tokens of OAuth are not configured but obtained.
    pub fn configured(
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

impl Target {
    /// `schemes` are those of the transport: the plain one and the one over TLS.
    pub(super) fn of(
        remote: &Remote,
        schemes: [&str; 2],
        opening: &Opening<'_>,
    ) -> Result<Self, OpenError> {
        if !opening.permissions.network {
            return Err(OpenError::NetworkForbidden);
        }
        let (url, headers) = dressed(remote, schemes, &opening.credentials, &opening.find)?;
        let tokens = match &opening.credentials {
            Credentials::Tokens(tokens) => Some(Arc::clone(tokens)),
            _ => None,
        };
        Ok(Self { url, headers, tokens })
    }
}

/// An address and the headers of every request to it, credentials and all.
pub(crate) fn dressed(
    remote: &Remote,
    schemes: [&str; 2],
    credentials: &Credentials,
    find: &dyn Fn(&Reference) -> Option<String>,
) -> Result<(Url, HeaderMap), OpenError> {
    let (url, mut headers) = resolved(remote, schemes, find)?;
    if let Some((name, value)) = credentials.header() {
        put(&mut headers, name, &value)?;
    }
    Ok((url, headers))
}

/// The same with values instead of references, and without what is configured as credentials.
pub(crate) fn resolved(
    remote: &Remote,
    schemes: [&str; 2],
    find: &dyn Fn(&Reference) -> Option<String>,
) -> Result<(Url, HeaderMap), OpenError> {
    let shown = || without_secrets(&remote.url.shown());
    let url = Url::parse(&text(&remote.url.0, find)?).ok();
    let url = url.filter(|url| url.has_host() && schemes.contains(&url.scheme()));
    let url = url.ok_or_else(|| OpenError::BadUrl(shown()))?;
    if !is_admitted(&url, schemes[1], remote.url_policy) {
        return Err(OpenError::UrlNotAllowed(shown()));
    }
    let mut headers = HeaderMap::new();
    for (name, value) in &remote.headers {
        put(&mut headers, name, &text(value, find)?)?;
    }
    Ok((url, headers))
}

/// The address of a server that is reached over HTTP.
pub(crate) fn remote_of(transport: &Transport) -> Option<&Remote> {
    match transport {
        Transport::StreamableHttp(http) => Some(&http.remote),
        Transport::Sse(remote) => Some(remote),
        Transport::Stdio(_) | Transport::WebSocket(_) | Transport::DockerExec(_) => None,
    }
}

fn put(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), OpenError> {
    let refused = || OpenError::BadHeader(name.to_owned());
    let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| refused())?;
    let mut value = HeaderValue::from_str(value).map_err(|_| refused())?;
    value.set_sensitive(true);
    headers.insert(key, value);
    Ok(())
}

fn is_admitted(url: &Url, secure: &str, policy: UrlPolicy) -> bool {
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

/// Fails if the work is not done in the time that connecting may take; zero means without limit.
pub(super) async fn within<T>(
    connect_timeout: Duration,
    work: impl Future<Output = Result<T, HttpFault>>,
) -> Result<T, HttpFault> {
    if connect_timeout.is_zero() {
        return work.await;
    }
    let done = timeout(connect_timeout, work).await;
    done.unwrap_or(Err(HttpFault::Unanswered(connect_timeout)))
}

/// An address as it may be shown: people put keys into the query, and names with passwords before the host.
pub(super) fn without_secrets(address: &str) -> String {
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
    fn only_this_machine_may_be_reached_in_the_clear_where_the_policy_says_so() {
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
            assert_eq!(is_admitted(&url, "https", UrlPolicy::HttpsOrLoopback), admitted, "{url}");
            assert!(is_admitted(&url, "https", UrlPolicy::Any));
        }
    }

    #[test]
    fn a_shown_address_has_neither_query_nor_password() {
        for (address, shown) in [
            ("https://a.example/mcp?key=s3cret#s3cret", "https://a.example/mcp"),
            ("https://me:s3cret@a.example:1/x@y", "https://a.example:1/x@y"),
            ("s3cret@host", "host"),
            ("", ""),
        ] {
            assert_eq!(without_secrets(address), shown);
        }
    }
}
