//! Rejects requests for foreign host names and from foreign web pages.

use std::net::IpAddr;

use hyper::header::{HOST, ORIGIN};

use super::bearer_token;
use crate::front::headers::Headers;

const FETCH_SITE: &str = "sec-fetch-site";
const FETCH_MODE: &str = "sec-fetch-mode";

/// Host names and page origins that are allowed besides loopback ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct AllowedNames<'a> {
    /// The public address that the host listens on.
    pub address: Option<IpAddr>,
    /// `gateway.hosts`.
    pub hosts: &'a [String],
    /// `gateway.origins`.
    pub origins: &'a [String],
}

/// Request headers that show the origin.
#[derive(Clone, Copy, Debug, Default)]
struct OriginClaims<'a> {
    host: Option<&'a str>,
    origin: Option<&'a str>,
    /// `Sec-Fetch-Site`, which browsers set and pages cannot change.
    site: Option<&'a str>,
    /// True if `Sec-Fetch-Mode` is `navigate`.
    navigates: bool,
    has_token: bool,
}

/// Returns whether host and origin of a request are allowed.
pub fn is_allowed(names: AllowedNames<'_>, headers: &dyn Headers) -> bool {
    let header = |name: &str| headers.single(name);
    match (header(HOST.as_str()), header(ORIGIN.as_str()), header(FETCH_SITE)) {
        // The usual request, which no browser sent.
        (Ok(host), Ok(None), Ok(None)) => host.is_some_and(|host| names.matches_host(host)),
        (Ok(host), Ok(origin), Ok(site)) => check_claims(
            names,
            OriginClaims {
                host,
                origin,
                site,
                navigates: header(FETCH_MODE) == Ok(Some("navigate")),
                has_token: bearer_token(headers).is_some(),
            },
        ),
        // Repeated or unreadable headers are rejected.
        _ => false,
    }
}

/// Protects against DNS rebinding with `Host`, and against foreign pages with `Origin`. Browsers send no `Origin` with
/// simple GET requests; `Sec-Fetch-Site` covers those.
fn check_claims(names: AllowedNames<'_>, claims: OriginClaims<'_>) -> bool {
    let Some(host) = claims.host.filter(|host| names.matches_host(host)) else { return false };
    match claims.origin {
        Some(origin) if names.lists_origin(origin) => true,
        Some(origin) => names.matches_origin(origin, host) && !is_foreign(claims),
        None => !is_foreign(claims),
    }
}

/// Returns whether a foreign page caused a request without a token. Pages on another port of the same name are
/// `same-site`, and only their links may lead here.
fn is_foreign(claims: OriginClaims<'_>) -> bool {
    let is_foreign = match claims.site {
        Some(site) if site.eq_ignore_ascii_case("cross-site") => true,
        Some(site) if site.eq_ignore_ascii_case("same-site") => {
            claims.origin.is_none() && !claims.navigates
        }
        _ => false,
    };
    is_foreign && !claims.has_token
}

impl AllowedNames<'_> {
    /// Returns whether the configuration lists an origin.
    fn lists_origin(self, origin: &str) -> bool {
        self.origins.iter().any(|listed| listed.trim_end_matches('/').eq_ignore_ascii_case(origin))
    }

    /// Returns whether an origin is this host: an allowed name with the port of the request. Another port is another
    /// program. Names of `gateway.hosts` may belong to a proxy on the default port of the scheme.
    fn matches_origin(self, origin: &str, host: &str) -> bool {
        let (authority, scheme_port) = match origin.split_once("://") {
            Some(("http", authority)) => (authority, 80),
            Some(("https", authority)) => (authority, 443),
            _ => return false,
        };
        let Some((name, port)) = split_authority(authority) else { return false };
        let Some((_, own)) = split_authority(host) else { return false };
        let is_own_port = port.unwrap_or(scheme_port) == own.unwrap_or(scheme_port);
        let is_default = port.is_none_or(|port| port == scheme_port);
        self.matches_host(authority) && (is_own_port || is_default && self.is_configured(name))
    }

    fn is_configured(self, name: &str) -> bool {
        self.hosts.iter().any(|known| known.eq_ignore_ascii_case(name))
    }

    /// Returns whether an authority, with or without a port, names this host. IP addresses cannot be rebound, so any is
    /// allowed when listening on all addresses.
    fn matches_host(self, authority: &str) -> bool {
        let Some((name, _)) = split_authority(authority) else { return false };
        // Checks the usual spelling first, because parsing an address is slow.
        if name == "127.0.0.1" {
            return true;
        }
        if let Ok(address) = name.parse::<IpAddr>() {
            return address.is_loopback()
                || self.address.is_some_and(|own| own.is_unspecified() || own == address);
        }
        name.eq_ignore_ascii_case("localhost") || self.is_configured(name)
    }
}

/// Splits an authority into host and port; `None` if it is malformed.
fn split_authority(authority: &str) -> Option<(&str, Option<u16>)> {
    let (name, port) = match authority.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((name, "")) => (name, None),
            Some((name, port)) => (name, Some(port.strip_prefix(':').unwrap_or("no port"))),
            None => return None,
        },
        None => match authority.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (authority, None),
        },
    };
    match port {
        Some(port) => port.parse().ok().map(|port| (name, Some(port))),
        None => Some((name, None)),
    }
}

#[cfg(test)]
mod tests {
    use hyper::HeaderMap;
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn ambiguous_origin_header_is_rejected() {
        let mut headers = HeaderMap::new();
        assert!(!is_allowed(AllowedNames::default(), &headers));
        headers.insert(HOST, HeaderValue::from_static("localhost"));
        assert!(is_allowed(AllowedNames::default(), &headers));
        headers.insert(ORIGIN, HeaderValue::from_static("http://localhost"));
        assert!(is_allowed(AllowedNames::default(), &headers));
        headers.append(ORIGIN, HeaderValue::from_static("http://evil.example"));
        assert!(!is_allowed(AllowedNames::default(), &headers));
        headers.insert(ORIGIN, HeaderValue::from_bytes(b"http://\xe9vil.example").unwrap());
        assert!(!is_allowed(AllowedNames::default(), &headers));
        headers.remove(ORIGIN);
        headers.insert(FETCH_SITE, HeaderValue::from_static("none"));
        assert!(is_allowed(AllowedNames::default(), &headers));
        headers.append(FETCH_SITE, HeaderValue::from_static("cross-site"));
        assert!(!is_allowed(AllowedNames::default(), &headers));
        headers.insert(FETCH_SITE, HeaderValue::from_static("cross-site"));
        assert!(!is_allowed(AllowedNames::default(), &headers));
        headers.insert("authorization", HeaderValue::from_static("Bearer x"));
        assert!(is_allowed(AllowedNames::default(), &headers));
    }

    fn allows_host(names: AllowedNames<'_>, host: Option<&str>, origin: Option<&str>) -> bool {
        check_claims(names, OriginClaims { host, origin, ..OriginClaims::default() })
    }

    #[test]
    fn other_local_port_is_foreign_unless_configured() {
        let origins = ["http://localhost:3000".to_owned(), "https://App.example/".to_owned()];
        let listed = AllowedNames { origins: &origins, ..AllowedNames::default() };
        for (host, origin, alone, is_listed) in [
            ("localhost:7420", "http://localhost:7420", true, true),
            ("127.0.0.1:7420", "http://localhost:7420", true, true),
            ("localhost", "http://localhost", true, true),
            ("localhost", "http://localhost:80", true, true),
            ("localhost:443", "https://localhost", true, true),
            ("localhost:7420", "http://localhost", false, false),
            ("localhost:7420", "http://localhost:3000", false, true),
            ("localhost:7420", "http://127.0.0.1:3000", false, false),
            ("localhost:7420", "https://localhost:3000", false, false),
            ("localhost:7420", "https://app.example", false, true),
            ("evil.example:7420", "http://localhost:3000", false, false),
        ] {
            let named = |names| allows_host(names, Some(host), Some(origin));
            assert_eq!(
                (named(AllowedNames::default()), named(listed)),
                (alone, is_listed),
                "{origin}"
            );
        }
    }

    #[test]
    fn cross_site_request_needs_a_token() {
        let origins = ["https://app.example".to_owned()];
        let names = AllowedNames { origins: &origins, ..AllowedNames::default() };
        let host = Some("localhost:7420");
        let own = Some("http://localhost:7420");
        let app = Some("https://app.example");
        for (site, origin, navigates, has_token, is_let_in) in [
            ("none", None, true, false, true),
            ("same-origin", None, false, false, true),
            ("same-origin", own, false, false, true),
            ("cross-site", None, false, false, false),
            ("Cross-Site", None, true, false, false),
            ("cross-site", own, false, false, false),
            ("cross-site", None, false, true, true),
            ("cross-site", app, false, false, true),
            ("cross-site", Some("https://evil.example"), false, true, false),
            ("same-site", None, false, false, false),
            ("same-site", None, true, false, true),
            ("same-site", None, false, true, true),
        ] {
            let claims = OriginClaims { host, origin, site: Some(site), navigates, has_token };
            assert_eq!(check_claims(names, claims), is_let_in, "{claims:?}");
        }
    }

    #[test]
    fn only_loopback_hosts_are_accepted_by_default() {
        for (host, here) in [
            ("localhost", true),
            ("LocalHost:7421", true),
            ("127.0.0.1:1", true),
            ("127.8.0.1", true),
            ("[::1]:7421", true),
            ("[::1]", true),
            ("", false),
            ("evil.example", false),
            ("localhost.evil.example:7421", false),
            ("127.0.0.1.evil.example", false),
            ("evil.example:7421", false),
            ("10.0.0.1:7421", false),
            ("localhost:7421:1", false),
            ("localhost@evil.example", false),
            ("localhost:evil.example", false),
            ("[::1]evil.example", false),
            ("[::1", false),
            ("[::2]:1", false),
        ] {
            assert_eq!(allows_host(AllowedNames::default(), Some(host), None), here, "{host:?}");
        }
        assert!(!allows_host(AllowedNames::default(), None, None));
    }

    #[test]
    fn foreign_origin_is_rejected_and_missing_origin_allowed() {
        let names = AllowedNames::default();
        let from = |origin| allows_host(names, Some("localhost:7421"), origin);
        assert!(
            from(None) && from(Some("http://localhost:7421")) && from(Some("https://[::1]:7421"))
        );
        for origin in ["", "null", "http://evil.example", "localhost", "file://localhost"] {
            assert!(!from(Some(origin)), "{origin:?}");
        }
        assert!(!allows_host(names, Some("evil.example"), Some("http://localhost")));
    }

    #[test]
    fn public_address_accepts_its_ip_and_configured_hosts() {
        let hosts = ["crib.example".to_owned()];
        let one = AllowedNames { address: "192.0.2.1".parse().ok(), hosts: &hosts, origins: &[] };
        let any = AllowedNames { address: "::".parse().ok(), ..AllowedNames::default() };
        for (names, host, is_good) in [
            (one, "192.0.2.1:7420", true),
            (one, "192.0.2.2:7420", false),
            (one, "Crib.Example", true),
            (one, "other.example", false),
            (any, "192.0.2.2:7420", true),
            (any, "[2001:db8::1]", true),
            (any, "crib.example", false),
        ] {
            assert_eq!(allows_host(names, Some(host), None), is_good, "{host}");
            let origin = format!("https://{host}");
            assert_eq!(allows_host(names, Some(host), Some(&origin)), is_good, "{host}");
        }
        // A proxy may change `Host`, so configured names are allowed as origins.
        for (origin, is_good) in [
            ("https://crib.example", true),
            ("https://crib.example:443", true),
            ("https://crib.example:8443", false),
            ("https://192.0.2.1", false),
        ] {
            assert_eq!(allows_host(one, Some("localhost:7420"), Some(origin)), is_good, "{origin}");
        }
    }
}
