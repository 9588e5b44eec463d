//! Random words that nobody can guess, and what is shown of them beforehand (RFC 7636).

use data_encoding::BASE64URL_NOPAD;
use sha2::{Digest, Sha256};

use super::error::AuthError;

/// `bytes` random bytes as a word of letters, digits, `-` and `_`.
pub(super) fn random(bytes: usize) -> Result<String, AuthError> {
    let mut word = vec![0; bytes];
    getrandom::fill(&mut word).map_err(|_| AuthError::BadKey("there is no source of chance"))?;
    Ok(BASE64URL_NOPAD.encode(&word))
}

/// The challenge of a verifier, by S256.
pub(super) fn challenge(verifier: &str) -> String {
    BASE64URL_NOPAD.encode(&Sha256::digest(verifier.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_challenge_is_that_of_the_standard() {
        // RFC 7636, appendix B.
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        assert_eq!(challenge(verifier), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
        let (one, other) = (random(32).unwrap(), random(32).unwrap());
        assert_eq!(one.len(), 43);
        assert_ne!(one, other);
    }
}
