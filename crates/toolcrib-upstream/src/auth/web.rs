//! The way to issuers: small documents and answers, within limits, and never to where a server must not send us.

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

/// One question takes no longer.
const LIMIT: Duration = Duration::from_secs(10);
/// Metadata and tokens are a few thousand bytes.
const MOST: usize = 256 * 1024;
const REDIRECTS: usize = 3;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const FORM: HeaderValue = HeaderValue::from_static("application/x-www-form-urlencoded");
const JSON_OR_EVENTS: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");

/// Where questions may go, by where the server is that caused them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// The server is on this machine or in this network, and so may be what belongs to it.
    Near,
    /// The server is anywhere: what it names must be public, and encrypted.
    Public,
}

/// What asks issuers on behalf of one server.
#[derive(Debug)]
pub(super) struct Web {
    reach: Reach,
    /// Follows a few redirects, each within reach.
    reader: Client,
    /// Follows none: what is posted is secret.
    writer: Client,
}

/// An answer, whatever it says.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

impl Web {
    pub(super) async fn towards(server: &Url, tls: &Tls) -> Result<Self, AuthError> {
        Self::within(reach_of(server).await, server.scheme() == "http", tls)
    }

    fn within(reach: Reach, is_plain: bool, tls: &Tls) -> Result<Self, AuthError> {
        let config = match tls.config() {
            // A machine without certificates can still use what is on it.
            Err(_) if is_plain => Tls::unused(),
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
            if reach == Reach::Public {
                client = client.dns_resolver(Arc::new(PublicOnly));
            }
            client.build().map_err(AuthError::Client)
        };
        Ok(Self { reach, reader: client(within_reach(reach))?, writer: client(Policy::none())? })
    }

    /// Whether an address that somebody named may be asked, or shown to a person.
    pub(super) fn permits(&self, address: &Url) -> Result<(), AuthError> {
        match objection(self.reach, address) {
            None => Ok(()),
            Some(why) => Err(AuthError::Forbidden { address: shown(address), why }),
        }
    }

    /// A document; none where there is none at this address.
    pub(super) async fn document<T: DeserializeOwned>(
        &self,
        address: &Url,
    ) -> Result<Option<T>, AuthError> {
        self.permits(address)?;
        let request = self.reader.get(address.clone()).header(ACCEPT, JSON);
        let answer = ask(request, address).await?;
        match answer.status {
            200..=299 => read(address, &answer.body).map(Some),
            400..=499 => Ok(None),
            status => Err(AuthError::Status { address: shown(address), status }),
        }
    }

    pub(super) async fn post_json(
        &self,
        address: &Url,
        body: &serde_json::Value,
    ) -> Result<Answer, AuthError> {
        self.permits(address)?;
        let request = self.writer.post(address.clone()).header(ACCEPT, JSON);
        ask(request.header(CONTENT_TYPE, JSON).body(body.to_string()), address).await
    }

    pub(super) async fn post_form(
        &self,
        address: &Url,
        form: &[(&str, String)],
        authorization: Option<HeaderValue>,
    ) -> Result<Answer, AuthError> {
        self.permits(address)?;
        let body = Serializer::new(String::new()).extend_pairs(form).finish();
        let mut request = self.writer.post(address.clone()).header(ACCEPT, JSON);
        if let Some(authorization) = authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        ask(request.header(CONTENT_TYPE, FORM).body(body), address).await
    }

    /// Whether the server itself refuses someone without a token, and how. Its address is the person's own.
    pub(super) async fn knock(
        &self,
        server: &Url,
        mut headers: HeaderMap,
        opening: Option<String>,
    ) -> Result<Option<Denial>, AuthError> {
        let request = match opening {
            Some(message) => {
                headers.insert(CONTENT_TYPE, JSON);
                headers.insert(ACCEPT, JSON_OR_EVENTS);
                self.writer.post(server.clone()).body(message)
            }
            None => {
                headers.insert(ACCEPT, EVENTS);
                self.writer.get(server.clone())
            }
        };
        let answer = timeout(LIMIT, request.headers(headers).send()).await;
        let response = answer.map_err(|_| late(server))?.map_err(unreachable(server))?;
        Ok((response.status().as_u16() == 401).then(|| Denial::of(401, response.headers())))
    }
}

pub(super) fn read<T: DeserializeOwned>(address: &Url, body: &[u8]) -> Result<T, AuthError> {
    let failed = |cause: serde_json::Error| AuthError::Malformed {
        address: shown(address),
        cause: cause.into(),
    };
    serde_json::from_slice(body).map_err(failed)
}

/// An address as it may be shown.
pub(super) fn shown(address: &Url) -> String {
    super::metadata::canonical(address)
}

async fn ask(request: RequestBuilder, address: &Url) -> Result<Answer, AuthError> {
    let answered = async {
        let response = request.send().await.map_err(unreachable(address))?;
        if response.status().is_redirection() {
            let why = "it is redirected to from where redirects are not followed";
            return Err(AuthError::Forbidden { address: target(&response, address), why });
        }
        let status = response.status().as_u16();
        Ok(Answer { status, body: whole(response, address).await? })
    };
    timeout(LIMIT, answered).await.map_err(|_| late(address))?
}

async fn whole(mut response: Response, address: &Url) -> Result<Vec<u8>, AuthError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(unreachable(address))? {
        if body.len() + chunk.len() > MOST {
            return Err(AuthError::TooLarge { address: shown(address), limit: MOST });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn target(response: &Response, asked: &Url) -> String {
    let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
    let target = location.and_then(|location| asked.join(location).ok());
    target.as_ref().map_or_else(|| shown(asked), shown)
}

fn unreachable(address: &Url) -> impl Fn(reqwest::Error) -> AuthError {
    move |cause| AuthError::Unreachable { address: shown(address), cause: cause.without_url() }
}

fn late(address: &Url) -> AuthError {
    AuthError::Late { address: shown(address), limit: LIMIT }
}

fn within_reach(reach: Reach) -> Policy {
    Policy::custom(move |attempt| {
        let followed = attempt.previous().len() <= REDIRECTS;
        if followed && objection(reach, attempt.url()).is_none() {
            attempt.follow()
        } else {
            attempt.stop()
        }
    })
}

/// Why an address is not asked, from what it says itself. Names are looked at again when they are resolved.
fn objection(reach: Reach, address: &Url) -> Option<&'static str> {
    let ip = match address.host() {
        Some(Host::Ipv4(ip)) => Some(IpAddr::V4(ip)),
        Some(Host::Ipv6(ip)) => Some(IpAddr::V6(ip)),
        Some(Host::Domain(_)) => None,
        None => return Some("it names no host"),
    };
    if ip.is_some_and(is_of_link) {
        return Some("what answers there is the machine's own affair");
    }
    let is_near = ip.map_or_else(|| address.host_str().is_some_and(is_near_name), is_private);
    if !address.username().is_empty() || address.password().is_some() {
        return Some("it holds a password");
    }
    match (address.scheme(), reach) {
        (_, Reach::Public) if is_near => Some("a public server must not lead to a private address"),
        ("https", _) => None,
        ("http", Reach::Near) if is_near => None,
        ("http", _) => Some("it is not encrypted"),
        _ => Some("it is no address of the web"),
    }
}

async fn reach_of(server: &Url) -> Reach {
    let is_near = match server.host() {
        Some(Host::Ipv4(ip)) => is_private(IpAddr::V4(ip)),
        Some(Host::Ipv6(ip)) => is_private(IpAddr::V6(ip)),
        Some(Host::Domain(name)) if is_near_name(name) => true,
        // Names of a network resolve to addresses in it.
        Some(Host::Domain(name)) => match timeout(LIMIT, lookup_host((name, 0))).await {
            Ok(Ok(mut found)) => found.any(|found| is_private(found.ip())),
            _ => false,
        },
        None => false,
    };
    if is_near { Reach::Near } else { Reach::Public }
}

/// Names that only mean something on this machine or in its network.
fn is_near_name(name: &str) -> bool {
    let name = name.trim_end_matches('.');
    let ends = [".localhost", ".local", ".internal", ".lan", ".home.arpa"];
    !name.contains('.') || ends.iter().any(|end| name.ends_with(end))
}

/// Addresses that are never routed: clouds tell a machine its secrets there.
fn is_of_link(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => match embedded(ip) {
            Some(ip) => ip.is_link_local(),
            None => ip.segments()[0] & 0xffc0 == 0xfe80,
        },
    }
}

fn is_private(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_private_v4(ip),
        IpAddr::V6(ip) => match embedded(ip) {
            Some(ip) => is_private_v4(ip),
            None => {
                let first = ip.segments()[0];
                ip.is_loopback()
                    || ip.is_unspecified()
                    || ip.is_multicast()
                    || first & 0xfe00 == 0xfc00
                    || is_of_link(IpAddr::V6(ip))
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
        // What providers put between their customers and the net.
        || (first == 100 && second & 0xc0 == 64)
}

/// The old address in a new one: mapped, or for a translator.
fn embedded(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, high, low] = ip.segments();
    let is_translated = [a, b, c, d, e, f] == [0x64, 0xff9b, 0, 0, 0, 0];
    let [[one, two], [three, four]] = [high.to_be_bytes(), low.to_be_bytes()];
    let translated = is_translated.then(|| Ipv4Addr::new(one, two, three, four));
    ip.to_ipv4_mapped().or(translated)
}

/// Finds only addresses that anybody can reach.
#[derive(Debug)]
struct PublicOnly;

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found: Vec<_> = lookup_host((name.as_str(), 0)).await?.collect();
            // All or nothing: one private address among public ones is how a name is made to lead inside.
            if found.iter().any(|found| is_private(found.ip())) {
                let why = "the name leads to a private address";
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, why).into());
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_server_leads_only_to_public_encrypted_addresses() {
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
            let permitted = |reach| objection(reach, &url).is_none();
            assert_eq!(permitted(Reach::Near), from_near, "{address} from near");
            assert_eq!(permitted(Reach::Public), from_public, "{address} from a public server");
        }
    }

    #[tokio::test]
    async fn where_a_server_is_decides_how_far_it_may_lead() {
        for (server, reach) in [
            ("http://127.0.0.1:1/mcp", Reach::Near),
            ("http://localhost:1/mcp", Reach::Near),
            ("https://192.168.1.1/mcp", Reach::Near),
            ("https://8.8.8.8/mcp", Reach::Public),
            ("https://nowhere.invalid/mcp", Reach::Public),
        ] {
            assert_eq!(reach_of(&Url::parse(server).unwrap()).await, reach, "{server}");
        }
    }

    #[tokio::test]
    async fn a_name_that_leads_inside_is_not_followed_there() {
        let found = PublicOnly.resolve("localhost".parse().unwrap()).await;
        let error = found.err().unwrap().to_string();
        assert!(error.contains("private address"), "{error}");
    }

    #[tokio::test]
    async fn from_a_public_server_nothing_on_this_machine_is_asked() {
        let web = Web::within(Reach::Public, true, &Tls::default()).unwrap();
        let inside = Url::parse("https://127.0.0.1:9/x").unwrap();
        for refused in [
            web.document::<serde_json::Value>(&inside).await.err(),
            web.post_form(&inside, &[], None).await.err(),
            web.post_json(&inside, &serde_json::Value::Null).await.err(),
        ] {
            assert!(matches!(refused, Some(AuthError::Forbidden { .. })), "{refused:?}");
        }
    }
}
