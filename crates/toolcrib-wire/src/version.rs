//! Protocol versions, their eras, and the differences between them.

use std::fmt;
use std::sync::Arc;

/// A protocol version. An unknown version keeps its text.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Version {
    /// Version 2024-11-05.
    V2024_11_05,
    /// Version 2025-03-26.
    V2025_03_26,
    /// Version 2025-06-18.
    V2025_06_18,
    /// Version 2025-11-25.
    V2025_11_25,
    /// Version 2026-07-28, the first of the modern era.
    V2026_07_28,
    /// An unknown version with its text.
    Unknown(Arc<str>),
}

/// The two generations of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Era {
    /// `initialize` opens a session, and both sides may send requests.
    Legacy,
    /// Each request is self-contained and carries its context in `_meta`.
    Modern,
}

/// The kind of connection, as far as it affects the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// One stream for everything: stdio, a socket, HTTP+SSE.
    Shared,
    /// Streamable HTTP: each request has its own response stream.
    Http,
}

/// Method of cancelling a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelMethod {
    /// By `notifications/cancelled`.
    Notify,
    /// By closing the response stream. A notification would be an error.
    CloseStream,
}

impl Version {
    /// All known versions, oldest first.
    pub const KNOWN: [Version; 5] = [
        Version::V2024_11_05,
        Version::V2025_03_26,
        Version::V2025_06_18,
        Version::V2025_11_25,
        Version::V2026_07_28,
    ];
    /// The newest version that opens with `initialize`.
    pub const NEWEST_LEGACY: Version = Version::V2025_11_25;
    /// The newest version.
    pub const NEWEST: Version = Version::V2026_07_28;

    /// Returns the text of the version.
    pub fn as_str(&self) -> &str {
        match self {
            Version::V2024_11_05 => "2024-11-05",
            Version::V2025_03_26 => "2025-03-26",
            Version::V2025_06_18 => "2025-06-18",
            Version::V2025_11_25 => "2025-11-25",
            Version::V2026_07_28 => "2026-07-28",
            Version::Unknown(text) => text,
        }
    }

    /// Returns the era. Versions are dates, so an unknown date still has an era; other texts have none.
    pub fn era(&self) -> Option<Era> {
        match self {
            Version::Unknown(text) if !is_date(text) => None,
            version if version.as_str() < Version::V2026_07_28.as_str() => Some(Era::Legacy),
            _ => Some(Era::Modern),
        }
    }

    /// Returns whether this version is known and not older than `other`.
    pub fn is_since(&self, other: &Version) -> bool {
        !matches!(self, Version::Unknown(_)) && self.as_str() >= other.as_str()
    }

    /// Returns whether HTTP requests carry a version header (after the handshake, if there is one).
    pub fn has_version_header(&self) -> bool {
        self.is_since(&Version::V2025_06_18)
    }

    /// Returns whether HTTP requests repeat method and name in headers, and every result has a `resultType`.
    pub fn is_modern(&self) -> bool {
        self.era() == Some(Era::Modern)
    }

    /// Returns the version with which a server of the legacy era answers a request for this version: the same version
    /// if it is a legacy version, otherwise the newest legacy version.
    pub fn negotiate_legacy(&self) -> Version {
        match self {
            Version::Unknown(_) | Version::V2026_07_28 => Version::NEWEST_LEGACY,
            known => known.clone(),
        }
    }
}

impl Era {
    /// Returns the method of cancelling a request on this kind of connection.
    pub fn cancel_method(self, channel: Channel) -> CancelMethod {
        match (self, channel) {
            (Era::Modern, Channel::Http) => CancelMethod::CloseStream,
            _ => CancelMethod::Notify,
        }
    }

    /// Returns the name of the era.
    pub fn name(self) -> &'static str {
        match self {
            Era::Legacy => "legacy",
            Era::Modern => "modern",
        }
    }
}

fn is_date(text: &str) -> bool {
    let digits =
        |part: &str, length| part.len() == length && part.bytes().all(|byte| byte.is_ascii_digit());
    match text.split('-').collect::<Vec<_>>()[..] {
        [year, month, day] => digits(year, 4) && digits(month, 2) && digits(day, 2),
        _ => false,
    }
}

impl From<&str> for Version {
    fn from(text: &str) -> Self {
        let known = Version::KNOWN.into_iter().find(|version| version.as_str() == text);
        known.unwrap_or_else(|| Version::Unknown(text.into()))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_round_trips_and_has_an_era() {
        for (text, era) in [
            ("2024-11-05", Some(Era::Legacy)),
            ("2025-11-25", Some(Era::Legacy)),
            ("2026-07-28", Some(Era::Modern)),
            ("2024-10-07", Some(Era::Legacy)),
            ("2027-01-01", Some(Era::Modern)),
            ("DRAFT-2026-v1", None),
            ("", None),
        ] {
            assert_eq!(Version::from(text).as_str(), text);
            assert_eq!(Version::from(text).era(), era, "{text}");
        }
    }

    #[test]
    fn features_depend_on_the_version() {
        let having = |duty: fn(&Version) -> bool| -> Vec<_> {
            Version::KNOWN.into_iter().filter(duty).map(|version| version.to_string()).collect()
        };
        assert_eq!(having(Version::has_version_header), ["2025-06-18", "2025-11-25", "2026-07-28"]);
        assert_eq!(having(Version::is_modern), ["2026-07-28"]);
    }

    #[test]
    fn legacy_negotiation_never_returns_a_modern_version() {
        for (asked, answered) in [
            ("2024-11-05", "2024-11-05"),
            ("2026-07-28", "2025-11-25"),
            ("1999-01-01", "2025-11-25"),
        ] {
            assert_eq!(Version::from(asked).negotiate_legacy().as_str(), answered);
        }
    }

    #[test]
    fn only_modern_http_cancels_by_closing_the_stream() {
        assert_eq!(Era::Modern.cancel_method(Channel::Http), CancelMethod::CloseStream);
        assert_eq!(Era::Modern.cancel_method(Channel::Shared), CancelMethod::Notify);
        assert_eq!(Era::Legacy.cancel_method(Channel::Http), CancelMethod::Notify);
    }
}
