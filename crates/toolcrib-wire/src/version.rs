//! Protocol versions, the two eras they fall into, and what changed from one to the next.

use std::fmt;
use std::sync::Arc;

/// A version of the protocol. One that is not known is kept as it was written.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Version {
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
    V2026_07_28,
    Unknown(Arc<str>),
}

/// How two peers come to an understanding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Era {
    /// `initialize` opens a session, and either side may send requests.
    Legacy,
    /// Each request stands for itself and says in `_meta` what it needs to.
    Modern,
}

/// What messages travel on, as far as duties differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// One stream for everything: stdio, a socket, HTTP+SSE.
    Shared,
    /// Streamable HTTP: each request has its own answer stream.
    Http,
}

/// How a call is abandoned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancel {
    /// By `notifications/cancelled`.
    Notify,
    /// By closing the answer stream; a notification would be an error.
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
    /// The newest version of all.
    pub const NEWEST: Version = Version::V2026_07_28;
    /// What an HTTP request without a version header speaks.
    pub const WITHOUT_HEADER: Version = Version::V2025_03_26;

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

    /// The era. Versions are dates, so one that is not known still falls before or after the change; what
    /// is not even a date falls nowhere.
    pub fn era(&self) -> Option<Era> {
        match self {
            Version::Unknown(text) if !is_date(text) => None,
            version if version.as_str() < Version::V2026_07_28.as_str() => Some(Era::Legacy),
            _ => Some(Era::Modern),
        }
    }

    /// Whether this version is known and at least as new as another.
    pub fn is_since(&self, other: &Version) -> bool {
        !matches!(self, Version::Unknown(_)) && self.as_str() >= other.as_str()
    }

    /// Only this version has batches. Reading them is harmless everywhere, since some peers never looked.
    pub fn has_batches(&self) -> bool {
        *self == Version::V2025_03_26
    }

    /// Whether HTTP requests name their version in a header (after the handshake, where there is one).
    pub fn has_version_header(&self) -> bool {
        self.is_since(&Version::V2025_06_18)
    }

    /// Whether Streamable HTTP has sessions, a GET stream and resumption by `Last-Event-ID`.
    pub fn has_http_sessions(&self) -> bool {
        self.is_since(&Version::V2025_03_26) && self.era() == Some(Era::Legacy)
    }

    /// Whether HTTP requests repeat method and name in headers, and every result says its `resultType`.
    pub fn is_modern(&self) -> bool {
        self.era() == Some(Era::Modern)
    }

    /// Whether tools may have an output schema and results structured content.
    pub fn has_structured_content(&self) -> bool {
        self.is_since(&Version::V2025_06_18)
    }

    /// What a server of the legacy era answers to a client that asks for this version: the same, if it
    /// is one of that era, or the newest of it.
    pub fn negotiate_legacy(&self) -> Version {
        match self {
            Version::Unknown(_) | Version::V2026_07_28 => Version::NEWEST_LEGACY,
            known => known.clone(),
        }
    }
}

impl Era {
    pub fn cancel(self, channel: Channel) -> Cancel {
        match (self, channel) {
            (Era::Modern, Channel::Http) => Cancel::CloseStream,
            _ => Cancel::Notify,
        }
    }

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
    fn a_version_reads_back_as_it_was_written_and_falls_into_its_era() {
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
    fn duties_come_and_go_with_the_versions() {
        let having = |duty: fn(&Version) -> bool| -> Vec<_> {
            Version::KNOWN.into_iter().filter(duty).map(|version| version.to_string()).collect()
        };
        assert_eq!(having(Version::has_batches), ["2025-03-26"]);
        assert_eq!(having(Version::has_version_header), ["2025-06-18", "2025-11-25", "2026-07-28"]);
        assert_eq!(having(Version::has_http_sessions), ["2025-03-26", "2025-06-18", "2025-11-25"]);
        assert_eq!(having(Version::is_modern), ["2026-07-28"]);
    }

    #[test]
    fn a_server_of_the_legacy_era_never_answers_with_what_it_cannot_speak() {
        for (asked, answered) in [
            ("2024-11-05", "2024-11-05"),
            ("2026-07-28", "2025-11-25"),
            ("1999-01-01", "2025-11-25"),
        ] {
            assert_eq!(Version::from(asked).negotiate_legacy().as_str(), answered);
        }
    }

    #[test]
    fn only_modern_http_cancels_by_closing() {
        assert_eq!(Era::Modern.cancel(Channel::Http), Cancel::CloseStream);
        assert_eq!(Era::Modern.cancel(Channel::Shared), Cancel::Notify);
        assert_eq!(Era::Legacy.cancel(Channel::Http), Cancel::Notify);
    }
}
