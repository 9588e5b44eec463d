//! The owner mark in a child's environment, by which a later host recognises the children of a killed one.

use std::fmt;
use std::io;

/// The environment variable that holds the mark.
pub const OWNER_VARIABLE: &str = "TOOLCRIB_OWNER";

/// Identifies one run of the host. 128 random bits, so that ids are unguessable and unique.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostInstanceId(u128);

/// `<instance>:<session>`: identifies the host run that started a process, and the child.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerMark {
    /// The run of the host that started the process.
    pub instance: HostInstanceId,
    /// Number of the child within the instance. Never reused.
    pub session: u64,
}

impl HostInstanceId {
    pub(crate) fn random() -> io::Result<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)?;
        Ok(Self(u128::from_ne_bytes(bytes)))
    }

    /// Parses exactly the format of `Display`. Signs, upper-case digits and missing zeros are rejected.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != 32 || !text.bytes().all(hex) {
            return None;
        }
        u128::from_str_radix(text, 16).ok().map(Self)
    }
}

impl OwnerMark {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (instance, session) = text.split_once(':')?;
        if !session.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        Some(Self { instance: HostInstanceId::parse(instance)?, session: session.parse().ok()? })
    }
}

impl fmt::Display for HostInstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Display for OwnerMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.instance, self.session)
    }
}

impl fmt::Debug for HostInstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for OwnerMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owner_mark_round_trips() {
        let mark = OwnerMark { instance: HostInstanceId::random().unwrap(), session: 7 };
        assert_eq!(OwnerMark::parse(&mark.to_string()), Some(mark));
    }

    #[test]
    fn malformed_owner_marks_are_rejected() {
        let id = "0123456789abcdef0123456789abcdef";
        for text in
            ["", ":", "1:1", id, &format!("{id}:"), &format!("{id}:+1"), &format!("{id}:1:2")]
        {
            assert_eq!(OwnerMark::parse(text), None, "{text}");
        }
        assert_eq!(HostInstanceId::parse(&id.to_uppercase()), None);
        assert_eq!(HostInstanceId::parse(&format!("+{}", &id[1..])), None);
    }

    #[test]
    fn instance_ids_are_unique() {
        assert_ne!(HostInstanceId::random().unwrap(), HostInstanceId::random().unwrap());
    }
}
