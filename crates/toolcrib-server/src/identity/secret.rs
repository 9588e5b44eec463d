//! Bearer tokens as they are made and compared: only their hashes are kept.

use std::{fmt, io};

use sha2::{Digest, Sha256};

/// Words of our own, so that a leaked token is known for what it is.
const PREFIX: &str = "toolcrib_";

/// The SHA-256 of a token.
#[derive(Clone, Copy)]
pub(super) struct Hash([u8; 32]);

impl Hash {
    pub(super) fn of(token: &str) -> Self {
        Hash(Sha256::digest(token.as_bytes()).into())
    }

    /// From hexadecimal, of either case.
    pub(super) fn read(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        let mut bytes = [0; 32];
        if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Hash(bytes))
    }

    pub(super) fn hex(&self) -> String {
        hex(&self.0)
    }
}

/// In the same time wherever they differ.
impl PartialEq for Hash {
    fn eq(&self, other: &Self) -> bool {
        let differ = self.0.iter().zip(&other.0).fold(0, |differ, (a, b)| differ | (a ^ b));
        std::hint::black_box(differ) == 0
    }
}

impl Eq for Hash {}

impl std::hash::Hash for Hash {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

/// It is no secret, but nobody needs it in a log.
impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hash")
    }
}

/// A token that nobody can guess.
pub(super) fn fresh() -> Result<String, getrandom::Error> {
    Ok(format!("{PREFIX}{}", random::<32>()?))
}

/// Thirty-two digits that nobody can guess.
pub fn random_name() -> io::Result<String> {
    Ok(random::<16>()?)
}

/// So many random bytes, in hexadecimal.
pub(super) fn random<const N: usize>() -> Result<String, getrandom::Error> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)?;
    Ok(hex(&bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_known_by_its_hash_alone() {
        let (one, other) = (fresh().unwrap(), fresh().unwrap());
        assert_ne!(one, other);
        let hash = Hash::of(&one);
        assert_eq!(Hash::read(&hash.hex().to_uppercase()), Some(hash));
        assert_ne!(Hash::of(&other), hash);
        assert_eq!(
            Hash::of("abc").hex(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        for bad in ["", "xy", &"é".repeat(32), &"+1".repeat(32)] {
            assert!(Hash::read(bad).is_none(), "{bad}");
        }
    }
}
