//! PKCE (RFC 7636): random verifiers and their challenges.

use data_encoding::BASE64URL_NOPAD;
use sha2::{Digest, Sha256};

use super::error::AuthError;

/// Returns `bytes` random bytes in URL-safe base64.
pub(super) fn random_token(bytes: usize) -> Result<String, AuthError> {
    let mut token = vec![0; bytes];
    getrandom::fill(&mut token)
        .map_err(|_| AuthError::BadKey("the system provides no random numbers"))?;
    Ok(BASE64URL_NOPAD.encode(&token))
}

/// Returns the S256 challenge of a verifier.
pub(super) fn code_challenge(verifier: &str) -> String {
    BASE64URL_NOPAD.encode(&Sha256::digest(verifier.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_challenge_matches_rfc_7636() {
        // RFC 7636, appendix B.
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        assert_eq!(code_challenge(verifier), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
        let (one, other) = (random_token(32).unwrap(), random_token(32).unwrap());
        assert_eq!(one.len(), 43);
        assert_ne!(one, other);
    }
}
