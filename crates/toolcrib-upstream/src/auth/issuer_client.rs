//! HTTP client for issuers: size and time limits, and protection against server-side request forgery.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION};
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, Response};
use serde::de::DeserializeOwned;
use tokio::net::lookup_host;
use tokio::time::timeout;
use url::form_urlencoded::Serializer;
use url::{Host, Url};

use super::error::AuthError;
use crate::transport::{Denial, Tls};

/// Timeout of one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of a response. Metadata and token responses have a few thousand bytes.
const MAX_RESPONSE: usize = 256 * 1024;
const MAX_REDIRECTS: usize = 3;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const FORM: HeaderValue = HeaderValue::from_static("application/x-www-form-urlencoded");
const JSON_OR_EVENTS: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");

/// Network scope of requests, derived from the server's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NetworkScope {
    /// The server is on this machine or in a private network, so private addresses are allowed.
    Private,
    /// The server is public, so every address that it names must be public and encrypted.
    Public,
}

/// Client for the issuers of one server.
#[derive(Debug)]
pub(super) struct IssuerClient {
    scope: NetworkScope,
    /// Follows a few redirects within the network scope.
    follow_client: Client,
    /// Follows no redirects, because request bodies hold secrets.
    post_client: Client,
}

/// A response of any status.
pub(super) struct IssuerResponse {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

impl IssuerClient {
    pub(super) async fn for_server(server: &Url, tls: &Tls) -> Result<Self, AuthError> {
        Self::new(network_scope(server).await, server.scheme() == "http", tls)
    }

    fn new(scope: NetworkScope, is_plain: bool, tls: &Tls) -> Result<Self, AuthError> {
        let config = match tls.config() {
            // A machine without root certificates can still reach plain HTTP servers.
            Err(_) if is_plain => Tls::without_authorities(),
            config => config.map(|config| (*config).clone()),
        }
        .map_err(AuthError::Tls)?;
        let client = |policy| {
            let mut client = Client::builder()
                .tls_backend_preconfigured(config.clone())
                .user_agent(concat!("toolcrib/", env!("CARGO_PKG_VERSION")))
                .redirect(policy)
                .referer(false)
                .no_proxy();
            if scope == NetworkScope::Public {
                client = client.dns_resolver(Arc::new(PublicResolver));
            }
            client.build().map_err(AuthError::Client)
        };
        Ok(Self {
            scope,
            follow_client: client(redirect_policy(scope))?,
            post_client: client(Policy::none())?,
        })
    }

    /// Checks that an untrusted URL may be requested or shown to the user.
    pub(super) fn check_url(&self, address: &Url) -> Result<(), AuthError> {
        match url_objection(self.scope, address) {
            None => Ok(()),
            Some(reason) => {
                Err(AuthError::AddressForbidden { address: display_url(address), reason })
            }
        }
    }

    /// Fetches a JSON document. Returns `None` for 4xx responses.
    pub(super) async fn get_document<T: DeserializeOwned>(
        &self,
        address: &Url,
    ) -> Result<Option<T>, AuthError> {
        self.check_url(address)?;
        let request = self.follow_client.get(address.clone()).header(ACCEPT, JSON);
        let answer = send_request(request, address).await?;
        match answer.status {
            200..=299 => parse_json(address, &answer.body).map(Some),
            400..=499 => Ok(None),
            status => Err(AuthError::Status { address: display_url(address), status }),
        }
    }

    pub(super) async fn post_json(
        &self,
        address: &Url,
        body: &serde_json::Value,
    ) -> Result<IssuerResponse, AuthError> {
        self.check_url(address)?;
        let request = self.post_client.post(address.clone()).header(ACCEPT, JSON);
        send_request(request.header(CONTENT_TYPE, JSON).body(body.to_string()), address).await
    }

    pub(super) async fn post_form(
        &self,
        address: &Url,
        form: &[(&str, String)],
        authorization: Option<HeaderValue>,
    ) -> Result<IssuerResponse, AuthError> {
        self.check_url(address)?;
        let body = Serializer::new(String::new()).extend_pairs(form).finish();
        let mut request = self.post_client.post(address.clone()).header(ACCEPT, JSON);
        if let Some(authorization) = authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        send_request(request.header(CONTENT_TYPE, FORM).body(body), address).await
    }

    /// Sends an unauthenticated request to the server; returns its refusal. The URL is configured and
    /// therefore trusted.
    pub(super) async fn probe_server(
        &self,
        server: &Url,
        mut headers: HeaderMap,
        opening: Option<String>,
    ) -> Result<Option<Denial>, AuthError> {
        let request = match opening {
            Some(message) => {
                headers.insert(CONTENT_TYPE, JSON);
                headers.insert(ACCEPT, JSON_OR_EVENTS);
                self.post_client.post(server.clone()).body(message)
            }
            None => {
                headers.insert(ACCEPT, EVENTS);
                self.post_client.get(server.clone())
            }
        };
        let answer = timeout(REQUEST_TIMEOUT, request.headers(headers).send()).await;
        let response =
            answer.map_err(|_| timeout_error(server))?.map_err(unreachable_error(server))?;
        Ok((response.status().as_u16() == 401)
            .then(|| Denial::from_response(401, response.headers())))
    }
}

pub(super) fn parse_json<T: DeserializeOwned>(address: &Url, body: &[u8]) -> Result<T, AuthError> {
    let failed = |cause: serde_json::Error| AuthError::Malformed {
        address: display_url(address),
        cause: cause.into(),
    };
    serde_json::from_slice(body).map_err(failed)
}

/// Formats a URL without credentials and query.
pub(super) fn display_url(address: &Url) -> String {
    super::metadata::canonical_url(address)
}

async fn send_request(request: RequestBuilder, address: &Url) -> Result<IssuerResponse, AuthError> {
    let exchange = async {
        let response = request.send().await.map_err(unreachable_error(address))?;
        if response.status().is_redirection() {
            let reason = "it is the target of a redirect that is not followed";
            return Err(AuthError::AddressForbidden {
                address: redirect_target(&response, address),
                reason,
            });
        }
        let status = response.status().as_u16();
        Ok(IssuerResponse { status, body: read_body(response, address).await? })
    };
    timeout(REQUEST_TIMEOUT, exchange).await.map_err(|_| timeout_error(address))?
}

async fn read_body(mut response: Response, address: &Url) -> Result<Vec<u8>, AuthError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(unreachable_error(address))? {
        if body.len() + chunk.len() > MAX_RESPONSE {
            return Err(AuthError::TooLarge { address: display_url(address), limit: MAX_RESPONSE });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn redirect_target(response: &Response, asked: &Url) -> String {
    let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
    let target = location.and_then(|location| asked.join(location).ok());
    target.as_ref().map_or_else(|| display_url(asked), display_url)
}

fn unreachable_error(address: &Url) -> impl Fn(reqwest::Error) -> AuthError {
    move |cause| AuthError::Unreachable {
        address: display_url(address),
        cause: cause.without_url(),
    }
}

fn timeout_error(address: &Url) -> AuthError {
    AuthError::Timeout { address: display_url(address), limit: REQUEST_TIMEOUT }
}

fn redirect_policy(scope: NetworkScope) -> Policy {
    Policy::custom(move |attempt| {
        let followed = attempt.previous().len() <= MAX_REDIRECTS;
        if followed && url_objection(scope, attempt.url()).is_none() {
            attempt.follow()
        } else {
            attempt.stop()
        }
    })
}

/// Returns why a URL must not be requested. Checks the URL only; [`PublicResolver`] checks the addresses of
/// host names.
fn url_objection(scope: NetworkScope, address: &Url) -> Option<&'static str> {
    let ip = match address.host() {
        Some(Host::Ipv4(ip)) => Some(IpAddr::V4(ip)),
        Some(Host::Ipv6(ip)) => Some(IpAddr::V6(ip)),
        Some(Host::Domain(_)) => None,
        None => return Some("it has no host"),
    };
    if ip.is_some_and(is_link_local) {
        return Some("it is a link-local address");
    }
    let is_private_host =
        ip.map_or_else(|| address.host_str().is_some_and(is_private_name), is_private);
    if !address.username().is_empty() || address.password().is_some() {
        return Some("it contains credentials");
    }
    match (address.scheme(), scope) {
        (_, NetworkScope::Public) if is_private_host => {
            Some("a public server must not lead to a private address")
        }
        ("https", _) => None,
        ("http", NetworkScope::Private) if is_private_host => None,
        ("http", _) => Some("it is not encrypted"),
        _ => Some("its scheme is not HTTP or HTTPS"),
    }
}

async fn network_scope(server: &Url) -> NetworkScope {
    let is_private_host = match server.host() {
        Some(Host::Ipv4(ip)) => is_private(IpAddr::V4(ip)),
        Some(Host::Ipv6(ip)) => is_private(IpAddr::V6(ip)),
        Some(Host::Domain(name)) if is_private_name(name) => true,
        // Host names of private networks resolve to private addresses.
        Some(Host::Domain(name)) => match timeout(REQUEST_TIMEOUT, lookup_host((name, 0))).await {
            Ok(Ok(mut found)) => found.any(|found| is_private(found.ip())),
            _ => false,
        },
        None => false,
    };
    if is_private_host { NetworkScope::Private } else { NetworkScope::Public }
}

/// Returns whether a host name has a meaning only on this machine or in its network.
fn is_private_name(name: &str) -> bool {
    let name = name.trim_end_matches('.');
    let ends = [".localhost", ".local", ".internal", ".lan", ".home.arpa"];
    !name.contains('.') || ends.iter().any(|end| name.ends_with(end))
}

/// Returns whether an address is link-local. Cloud metadata services serve secrets there.
fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => match embedded_ipv4(ip) {
            Some(ip) => ip.is_link_local(),
            None => ip.segments()[0] & 0xffc0 == 0xfe80,
        },
    }
}

fn is_private(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_private_v4(ip),
        IpAddr::V6(ip) => match embedded_ipv4(ip) {
            Some(ip) => is_private_v4(ip),
            None => {
                let first = ip.segments()[0];
                ip.is_loopback()
                    || ip.is_unspecified()
                    || ip.is_multicast()
                    || first & 0xfe00 == 0xfc00
                    || is_link_local(IpAddr::V6(ip))
            }
        },
    }
}

fn is_private_v4(ip: Ipv4Addr) -> bool {
    let [first, second, ..] = ip.octets();
    ip.is_loopback()
        || ip.is_private()
        || ip.is_link_local()
        || ip.is_broadcast()
        || ip.is_multicast()
        || first == 0
        // Carrier-grade NAT (RFC 6598).
        || (first == 100 && second & 0xc0 == 64)
}

/// Returns the IPv4 address in an IPv4-mapped or NAT64 address.
fn embedded_ipv4(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, high, low] = ip.segments();
    let is_translated = [a, b, c, d, e, f] == [0x64, 0xff9b, 0, 0, 0, 0];
    let [[one, two], [three, four]] = [high.to_be_bytes(), low.to_be_bytes()];
    let translated = is_translated.then(|| Ipv4Addr::new(one, two, three, four));
    ip.to_ipv4_mapped().or(translated)
}

/// DNS resolver that rejects private addresses.
#[derive(Debug)]
struct PublicResolver;

impl Resolve for PublicResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found: Vec<_> = lookup_host((name.as_str(), 0)).await?.collect();
            // Rejects the whole name if one address is private: DNS rebinding mixes public and private
            // addresses.
            if found.iter().any(|found| is_private(found.ip())) {
                let reason = "the name resolves to a private address";
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason).into());
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_servers_lead_only_to_public_encrypted_addresses() {
        for (address, from_near, from_public) in [
            ("https://id.example.com/x", true, true),
            ("http://id.example.com/x", false, false),
            ("http://127.0.0.1:1/x", true, false),
            ("https://127.0.0.1:1/x", true, false),
            ("http://localhost:1/x", true, false),
            ("http://LOCALHOST./x", true, false),
            ("https://keycloak/x", true, false),
            ("https://a.internal/x", true, false),
            ("https://10.0.0.1/x", true, false),
            ("https://0x7f.1/x", true, false),
            ("https://169.254.169.254/latest", false, false),
            ("https://[::ffff:169.254.169.254]/", false, false),
            ("https://100.64.0.1/", true, false),
            ("https://[::1]/", true, false),
            ("https://[::ffff:10.0.0.1]/", true, false),
            ("https://[64:ff9b::7f00:1]/", true, false),
            ("https://[fd00::1]/", true, false),
            ("https://[fe80::1]/", false, false),
            ("https://8.8.8.8/", true, true),
            ("https://[2001:4860:4860::8888]/", true, true),
            ("https://me:pw@id.example.com/", false, false),
            ("ftp://id.example.com/", false, false),
            ("file:///etc/passwd", false, false),
        ] {
            let url = Url::parse(address).unwrap();
            let permitted = |scope| url_objection(scope, &url).is_none();
            assert_eq!(permitted(NetworkScope::Private), from_near, "{address} from near");
            assert_eq!(
                permitted(NetworkScope::Public),
                from_public,
                "{address} from a public server"
            );
        }
    }

    #[tokio::test]
    async fn server_address_determines_the_network_scope() {
        for (server, scope) in [
            ("http://127.0.0.1:1/mcp", NetworkScope::Private),
            ("http://localhost:1/mcp", NetworkScope::Private),
            ("https://192.168.1.1/mcp", NetworkScope::Private),
            ("https://8.8.8.8/mcp", NetworkScope::Public),
            ("https://nowhere.invalid/mcp", NetworkScope::Public),
        ] {
            assert_eq!(network_scope(&Url::parse(server).unwrap()).await, scope, "{server}");
        }
    }

    #[tokio::test]
    async fn names_resolving_to_private_addresses_are_rejected() {
        let found = PublicResolver.resolve("localhost".parse().unwrap()).await;
        let error = found.err().unwrap().to_string();
        assert!(error.contains("private address"), "{error}");
    }

    #[tokio::test]
    async fn public_servers_cannot_trigger_local_requests() {
        let web = IssuerClient::new(NetworkScope::Public, true, &Tls::default()).unwrap();
        let inside = Url::parse("https://127.0.0.1:9/x").unwrap();
        for refused in [
            web.get_document::<serde_json::Value>(&inside).await.err(),
            web.post_form(&inside, &[], None).await.err(),
            web.post_json(&inside, &serde_json::Value::Null).await.err(),
        ] {
            assert!(matches!(refused, Some(AuthError::AddressForbidden { .. })), "{refused:?}");
        }
    }
}
