//! The mark that every child carries in its environment, so that it can be recognised after its host has died.

use std::fmt;
use std::io;

/// The environment variable that holds the mark.
pub const OWNER_VARIABLE: &str = "TOOLCRIB_OWNER";

/// One run of the host. Random, so that nobody can guess it and no two runs ever share it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceId(u128);

/// `<instance>:<session>`: whose child a process is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mark {
    pub instance: InstanceId,
    /// Counts the children of the instance; never used twice.
    pub session: u64,
}

impl InstanceId {
    pub(crate) fn random() -> io::Result<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)?;
        Ok(Self(u128::from_ne_bytes(bytes)))
    }

    /// Accepts only what `Display` writes: a sign, an upper-case digit or a missing zero is somebody else's text.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != 32 || !text.bytes().all(hex) {
            return None;
        }
        u128::from_str_radix(text, 16).ok().map(Self)
    }
}

impl Mark {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (instance, session) = text.split_once(':')?;
        if !session.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        Some(Self { instance: InstanceId::parse(instance)?, session: session.parse().ok()? })
    }
}

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.instance, self.session)
    }
}

impl fmt::Debug for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_reads_back_as_written() {
        let mark = Mark { instance: InstanceId::random().unwrap(), session: 7 };
        assert_eq!(Mark::parse(&mark.to_string()), Some(mark));
    }

    #[test]
    fn anything_else_is_not_a_mark() {
        let id = "0123456789abcdef0123456789abcdef";
        for text in
            ["", ":", "1:1", id, &format!("{id}:"), &format!("{id}:+1"), &format!("{id}:1:2")]
        {
            assert_eq!(Mark::parse(text), None, "{text}");
        }
        assert_eq!(InstanceId::parse(&id.to_uppercase()), None);
        assert_eq!(InstanceId::parse(&format!("+{}", &id[1..])), None);
    }

    #[test]
    fn two_instances_differ() {
        assert_ne!(InstanceId::random().unwrap(), InstanceId::random().unwrap());
    }
}
