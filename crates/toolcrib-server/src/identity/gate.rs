//! Who may come in: only requests that are meant for this machine and come from no foreign page.

use std::net::IpAddr;

use hyper::header::{HOST, ORIGIN};

use super::bearer;
use crate::front::headers::Headers;

const FETCH_SITE: &str = "sec-fetch-site";
const FETCH_MODE: &str = "sec-fetch-mode";

/// By what names, besides those of this machine alone, a host may be called, and which pages may use it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Names<'a> {
    /// The address that others reach it by.
    pub address: Option<IpAddr>,
    /// `gateway.hosts`.
    pub hosts: &'a [String],
    /// `gateway.origins`.
    pub origins: &'a [String],
}

/// What the head of a request says of where it comes from.
#[derive(Clone, Copy, Debug, Default)]
struct Claims<'a> {
    host: Option<&'a str>,
    origin: Option<&'a str>,
    /// `Sec-Fetch-Site`, which browsers add and pages cannot change.
    site: Option<&'a str>,
    /// Whether it is a navigation, as `Sec-Fetch-Mode` says.
    navigates: bool,
    has_token: bool,
}

/// Whether a request may come in, by what its head says.
pub fn lets_in(names: Names<'_>, headers: &dyn Headers) -> bool {
    let said = |name: &str| headers.sole(name);
    match (said(HOST.as_str()), said(ORIGIN.as_str()), said(FETCH_SITE)) {
        // Nearly every request: no browser sent it.
        (Ok(host), Ok(None), Ok(None)) => host.is_some_and(|host| names.are(host)),
        (Ok(host), Ok(origin), Ok(site)) => admits(
            names,
            Claims {
                host,
                origin,
                site,
                navigates: said(FETCH_MODE) == Ok(Some("navigate")),
                has_token: bearer(headers).is_some(),
            },
        ),
        // Who says it twice, or in a way that is passed over, has said it.
        _ => false,
    }
}

/// A page whose name was made to point here names itself in `Host`, and a foreign page in `Origin`. A browser sends no
/// `Origin` with plain GET requests of a page; there `Sec-Fetch-Site` tells that the page is foreign.
fn admits(names: Names<'_>, claims: Claims<'_>) -> bool {
    let Some(host) = claims.host.filter(|host| names.are(host)) else { return false };
    match claims.origin {
        Some(origin) if names.lists(origin) => true,
        Some(origin) => names.are_of(origin, host) && !is_foreign(claims),
        None => !is_foreign(claims),
    }
}

/// Whether a browser says that a foreign page caused a request that has no token. Pages of another port of the same
/// name are `same-site`; only links may lead from there to here.
fn is_foreign(claims: Claims<'_>) -> bool {
    let is_foreign = match claims.site {
        Some(site) if site.eq_ignore_ascii_case("cross-site") => true,
        Some(site) if site.eq_ignore_ascii_case("same-site") => {
            claims.origin.is_none() && !claims.navigates
        }
        _ => false,
    };
    is_foreign && !claims.has_token
}

impl Names<'_> {
    /// Whether the configuration lists an origin.
    fn lists(self, origin: &str) -> bool {
        self.origins.iter().any(|listed| listed.trim_end_matches('/').eq_ignore_ascii_case(origin))
    }

    /// Whether an origin is this host itself: one of its names, and the port that the request came to. Another port of
    /// the same machine is another program. Names of `gateway.hosts` may be those of a proxy on the scheme's own port.
    fn are_of(self, origin: &str, host: &str) -> bool {
        let (authority, scheme_port) = match origin.split_once("://") {
            Some(("http", authority)) => (authority, 80),
            Some(("https", authority)) => (authority, 443),
            _ => return false,
        };
        let Some((name, port)) = split(authority) else { return false };
        let Some((_, own)) = split(host) else { return false };
        let is_own_port = port.unwrap_or(scheme_port) == own.unwrap_or(scheme_port);
        let is_default = port.is_none_or(|port| port == scheme_port);
        self.are(authority) && (is_own_port || is_default && self.is_configured(name))
    }

    fn is_configured(self, name: &str) -> bool {
        self.hosts.iter().any(|known| known.eq_ignore_ascii_case(name))
    }

    /// Whether a host, with or without a port, is this one by a name that nobody else can give. Addresses cannot
    /// be made to point elsewhere, so any will do where any is listened on.
    fn are(self, authority: &str) -> bool {
        let Some((name, _)) = split(authority) else { return false };
        // As nearly everybody calls it; to read an address is dear.
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

/// The host and the port of an authority, if that is well-formed.
fn split(authority: &str) -> Option<(&str, Option<u16>)> {
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
    fn an_origin_that_is_said_twice_or_is_no_text_is_foreign() {
        let mut headers = HeaderMap::new();
        assert!(!lets_in(Names::default(), &headers));
        headers.insert(HOST, HeaderValue::from_static("localhost"));
        assert!(lets_in(Names::default(), &headers));
        headers.insert(ORIGIN, HeaderValue::from_static("http://localhost"));
        assert!(lets_in(Names::default(), &headers));
        headers.append(ORIGIN, HeaderValue::from_static("http://evil.example"));
        assert!(!lets_in(Names::default(), &headers));
        headers.insert(ORIGIN, HeaderValue::from_bytes(b"http://\xe9vil.example").unwrap());
        assert!(!lets_in(Names::default(), &headers));
        headers.remove(ORIGIN);
        headers.insert(FETCH_SITE, HeaderValue::from_static("none"));
        assert!(lets_in(Names::default(), &headers));
        headers.append(FETCH_SITE, HeaderValue::from_static("cross-site"));
        assert!(!lets_in(Names::default(), &headers));
        headers.insert(FETCH_SITE, HeaderValue::from_static("cross-site"));
        assert!(!lets_in(Names::default(), &headers));
        headers.insert("authorization", HeaderValue::from_static("Bearer x"));
        assert!(lets_in(Names::default(), &headers));
    }

    fn admits_host(names: Names<'_>, host: Option<&str>, origin: Option<&str>) -> bool {
        admits(names, Claims { host, origin, ..Claims::default() })
    }

    #[test]
    fn another_port_of_this_machine_is_foreign_unless_it_is_listed() {
        let origins = ["http://localhost:3000".to_owned(), "https://App.example/".to_owned()];
        let listed = Names { origins: &origins, ..Names::default() };
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
            let named = |names| admits_host(names, Some(host), Some(origin));
            assert_eq!((named(Names::default()), named(listed)), (alone, is_listed), "{origin}");
        }
    }

    #[test]
    fn a_request_that_a_foreign_page_caused_needs_a_token() {
        let origins = ["https://app.example".to_owned()];
        let names = Names { origins: &origins, ..Names::default() };
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
            let claims = Claims { host, origin, site: Some(site), navigates, has_token };
            assert_eq!(admits(names, claims), is_let_in, "{claims:?}");
        }
    }

    #[test]
    fn this_machine_is_known_by_its_own_names_only() {
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
            assert_eq!(admits_host(Names::default(), Some(host), None), here, "{host:?}");
        }
        assert!(!admits_host(Names::default(), None, None));
    }

    #[test]
    fn a_foreign_page_is_kept_out_and_a_program_is_not() {
        let names = Names::default();
        let from = |origin| admits_host(names, Some("localhost:7421"), origin);
        assert!(
            from(None) && from(Some("http://localhost:7421")) && from(Some("https://[::1]:7421"))
        );
        for origin in ["", "null", "http://evil.example", "localhost", "file://localhost"] {
            assert!(!from(Some(origin)), "{origin:?}");
        }
        assert!(!admits_host(names, Some("evil.example"), Some("http://localhost")));
    }

    #[test]
    fn elsewhere_the_address_and_the_names_of_the_configuration_count() {
        let hosts = ["crib.example".to_owned()];
        let one = Names { address: "192.0.2.1".parse().ok(), hosts: &hosts, origins: &[] };
        let any = Names { address: "::".parse().ok(), ..Names::default() };
        for (names, host, is_good) in [
            (one, "192.0.2.1:7420", true),
            (one, "192.0.2.2:7420", false),
            (one, "Crib.Example", true),
            (one, "other.example", false),
            (any, "192.0.2.2:7420", true),
            (any, "[2001:db8::1]", true),
            (any, "crib.example", false),
        ] {
            assert_eq!(admits_host(names, Some(host), None), is_good, "{host}");
            let origin = format!("https://{host}");
            assert_eq!(admits_host(names, Some(host), Some(&origin)), is_good, "{host}");
        }
        // A proxy may change `Host`; a name of the configuration is its name.
        for (origin, is_good) in [
            ("https://crib.example", true),
            ("https://crib.example:443", true),
            ("https://crib.example:8443", false),
            ("https://192.0.2.1", false),
        ] {
            assert_eq!(admits_host(one, Some("localhost:7420"), Some(origin)), is_good, "{origin}");
        }
    }
}
