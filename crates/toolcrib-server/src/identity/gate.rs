//! Who may come in: only requests that are meant for this machine and come from no foreign page.

use std::net::IpAddr;

use hyper::header::{HOST, HeaderName, ORIGIN};

use crate::front::headers::Headers;

/// By what names, besides those of this machine alone, a host may be called.
#[derive(Clone, Copy, Debug, Default)]
pub struct Names<'a> {
    /// The address that others reach it by.
    pub address: Option<IpAddr>,
    /// What the configuration says.
    pub hosts: &'a [String],
}

/// Whether a request may come in, by what its head says.
pub fn lets_in(names: Names<'_>, headers: &dyn Headers) -> bool {
    let said = |name: HeaderName| headers.sole(name.as_str());
    match (said(HOST), said(ORIGIN)) {
        (Ok(host), Ok(origin)) => admits(names, host, origin),
        // Who says it twice, or in a way that is passed over, has said it.
        _ => false,
    }
}

/// A page whose name was made to point here names itself in `Host`, and a foreign page in `Origin`.
fn admits(names: Names<'_>, host: Option<&str>, origin: Option<&str>) -> bool {
    host.is_some_and(|host| names.are(host)) && origin.is_none_or(|origin| names.are_of(origin))
}

impl Names<'_> {
    fn are_of(self, origin: &str) -> bool {
        let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        authority.is_some_and(|authority| self.are(authority))
    }

    /// Whether a host, with or without a port, is this one by a name that nobody else can give. Addresses cannot
    /// be made to point elsewhere, so any will do where any is listened on.
    fn are(self, authority: &str) -> bool {
        let Some(name) = name_of(authority) else { return false };
        // As nearly everybody calls it; to read an address is dear.
        if name == "127.0.0.1" {
            return true;
        }
        if let Ok(address) = name.parse::<IpAddr>() {
            return address.is_loopback()
                || self.address.is_some_and(|own| own.is_unspecified() || own == address);
        }
        let mut known = self.hosts.iter().map(String::as_str).chain(["localhost"]);
        known.any(|known| known.eq_ignore_ascii_case(name))
    }
}

/// The host of an authority, if that is well-formed.
fn name_of(authority: &str) -> Option<&str> {
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
    port.is_none_or(|port| port.parse::<u16>().is_ok()).then_some(name)
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
            assert_eq!(admits(Names::default(), Some(host), None), here, "{host:?}");
        }
        assert!(!admits(Names::default(), None, None));
    }

    #[test]
    fn a_foreign_page_is_kept_out_and_a_program_is_not() {
        let names = Names::default();
        let from = |origin| admits(names, Some("localhost:7421"), origin);
        assert!(from(None) && from(Some("http://localhost:3000")) && from(Some("https://[::1]")));
        for origin in ["", "null", "http://evil.example", "localhost", "file://localhost"] {
            assert!(!from(Some(origin)), "{origin:?}");
        }
        assert!(!admits(names, Some("evil.example"), Some("http://localhost")));
    }

    #[test]
    fn elsewhere_the_address_and_the_names_of_the_configuration_count() {
        let hosts = ["crib.example".to_owned()];
        let one = Names { address: "192.0.2.1".parse().ok(), hosts: &hosts };
        let any = Names { address: "::".parse().ok(), hosts: &[] };
        for (names, host, is_good) in [
            (one, "192.0.2.1:7420", true),
            (one, "192.0.2.2:7420", false),
            (one, "Crib.Example", true),
            (one, "other.example", false),
            (any, "192.0.2.2:7420", true),
            (any, "[2001:db8::1]", true),
            (any, "crib.example", false),
        ] {
            assert_eq!(admits(names, Some(host), None), is_good, "{host}");
            let origin = format!("https://{host}");
            assert_eq!(admits(names, Some("localhost"), Some(&origin)), is_good, "{host}");
        }
    }
}
