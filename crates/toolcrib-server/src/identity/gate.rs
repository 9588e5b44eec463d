//! Who may come in: only requests that are meant for this machine and come from no foreign page.

use std::net::IpAddr;

/// A page whose name was made to point here names itself in `Host`, and a foreign page in `Origin`.
pub fn admits(host: Option<&str>, origin: Option<&str>) -> bool {
    host.is_some_and(is_here) && origin.is_none_or(is_from_here)
}

fn is_from_here(origin: &str) -> bool {
    let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    authority.is_some_and(is_here)
}

/// Whether a host, with or without a port, is this machine by a name that nobody else can give.
fn is_here(authority: &str) -> bool {
    let (name, port) = match authority.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((name, "")) => (name, None),
            Some((name, port)) => (name, Some(port.strip_prefix(':').unwrap_or("no port"))),
            None => return false,
        },
        None => match authority.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (authority, None),
        },
    };
    let is_loopback = name.parse().is_ok_and(|address: IpAddr| address.is_loopback());
    (is_loopback || name.eq_ignore_ascii_case("localhost"))
        && port.is_none_or(|port| port.parse::<u16>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(admits(Some(host), None), here, "{host:?}");
        }
        assert!(!admits(None, None));
    }

    #[test]
    fn a_foreign_page_is_kept_out_and_a_program_is_not() {
        let from = |origin| admits(Some("localhost:7421"), origin);
        assert!(from(None) && from(Some("http://localhost:3000")) && from(Some("https://[::1]")));
        for origin in ["", "null", "http://evil.example", "localhost", "file://localhost"] {
            assert!(!from(Some(origin)), "{origin:?}");
        }
        assert!(!admits(Some("evil.example"), Some("http://localhost")));
    }
}
