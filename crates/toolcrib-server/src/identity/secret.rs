//! Creates bearer tokens and compares their hashes. Only hashes are stored.

use std::{fmt, io};

use sha2::{Digest, Sha256};

/// Prefix that identifies leaked tokens as Toolcrib's.
const TOKEN_PREFIX: &str = "toolcrib_";

/// SHA-256 of a token.
#[derive(Clone, Copy)]
pub(super) struct TokenHash([u8; 32]);

impl TokenHash {
    pub(super) fn digest(token: &str) -> Self {
        TokenHash(Sha256::digest(token.as_bytes()).into())
    }

    /// Parses hexadecimal digits of either case.
    pub(super) fn parse_hex(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        let mut bytes = [0; 32];
        if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(TokenHash(bytes))
    }

    pub(super) fn hex(&self) -> String {
        hex(&self.0)
    }
}

/// Compares in constant time.
impl PartialEq for TokenHash {
    fn eq(&self, other: &Self) -> bool {
        let differ = self.0.iter().zip(&other.0).fold(0, |differ, (a, b)| differ | (a ^ b));
        std::hint::black_box(differ) == 0
    }
}

impl Eq for TokenHash {}

impl std::hash::Hash for TokenHash {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

/// Hides the hash, which is of no use in a log.
impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hash")
    }
}

/// Creates a random token.
pub(super) fn new_token() -> Result<String, getrandom::Error> {
    Ok(format!("{TOKEN_PREFIX}{}", random_hex::<32>()?))
}

/// Creates a random id of 32 hexadecimal digits.
pub fn random_id() -> io::Result<String> {
    Ok(random_hex::<16>()?)
}

/// `N` random bytes in hexadecimal.
pub(super) fn random_hex<const N: usize>() -> Result<String, getrandom::Error> {
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
    fn token_hash_round_trips_through_hex() {
        let (one, other) = (new_token().unwrap(), new_token().unwrap());
        assert_ne!(one, other);
        let hash = TokenHash::digest(&one);
        assert_eq!(TokenHash::parse_hex(&hash.hex().to_uppercase()), Some(hash));
        assert_ne!(TokenHash::digest(&other), hash);
        assert_eq!(
            TokenHash::digest("abc").hex(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        for bad in ["", "xy", &"é".repeat(32), &"+1".repeat(32)] {
            assert!(TokenHash::parse_hex(bad).is_none(), "{bad}");
        }
    }
}
