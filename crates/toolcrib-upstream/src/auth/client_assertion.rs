//! JWT client assertions (RFC 7523) for issuers that know the client's public key.
//!
//! Signed with `ring`: the crate `jsonwebtoken` signs only with a provider of cryptography that is global to the
//! process, and has none for `ring`.

use data_encoding::BASE64URL_NOPAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;
use serde_json::json;
use toolcrib_config::SecretString;

use super::error::AuthError;
use super::pkce::random_token;

/// Lifetime in seconds. Covers slow requests and clock skew.
const LIFETIME: u64 = 300;

/// Signs an assertion of `client` for `issuer`.
pub(super) fn client_assertion(
    key: &SecretString,
    client: &str,
    issuer: &str,
    now: u64,
) -> Result<SecretString, AuthError> {
    let key = SigningKey::from_pem(key)?;
    let header = json!({"alg": key.algorithm(), "typ": "JWT"});
    let claims = json!({
        "iss": client,
        "sub": client,
        "aud": issuer,
        "jti": random_token(16)?,
        "iat": now,
        "exp": now + LIFETIME,
    });
    let part = |value: &serde_json::Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
    let signed = format!("{}.{}", part(&header), part(&claims));
    let signature = BASE64URL_NOPAD.encode(&key.sign(signed.as_bytes())?);
    Ok(SecretString::new(format!("{signed}.{signature}")))
}

/// A signing key. Its kind determines the algorithm.
enum SigningKey {
    P256(EcdsaKeyPair),
    Rsa(RsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl SigningKey {
    fn from_pem(pem: &SecretString) -> Result<Self, AuthError> {
        let refused = || AuthError::BadKey("it is not a PKCS #8 key in PEM");
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem.reveal().as_bytes());
        let der = der.map_err(|_| refused())?;
        let der = der.secret_pkcs8_der();
        let random = SystemRandom::new();
        if let Ok(key) = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der, &random) {
            return Ok(Self::P256(key));
        }
        if let Ok(key) = RsaKeyPair::from_pkcs8(der) {
            return Ok(Self::Rsa(key));
        }
        let key = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der);
        key.map(Self::Ed25519).map_err(|_| AuthError::BadKey("its algorithm is not supported"))
    }

    fn algorithm(&self) -> &'static str {
        match self {
            Self::P256(_) => "ES256",
            Self::Rsa(_) => "RS256",
            Self::Ed25519(_) => "EdDSA",
        }
    }

    fn sign(&self, text: &[u8]) -> Result<Vec<u8>, AuthError> {
        let refused = |_| AuthError::BadKey("signing failed");
        let random = SystemRandom::new();
        match self {
            Self::P256(key) => key
                .sign(&random, text)
                .map(|signature| signature.as_ref().to_vec())
                .map_err(refused),
            Self::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, text, &mut signature).map_err(refused)?;
                Ok(signature)
            }
            Self::Ed25519(key) => Ok(key.sign(text).as_ref().to_vec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use ring::signature::{ECDSA_P256_SHA256_FIXED, ED25519, KeyPair, UnparsedPublicKey};
    use serde_json::Value;

    use super::*;

    fn pem(der: &[u8]) -> SecretString {
        let text = data_encoding::BASE64.encode(der);
        let lines: Vec<_> =
            text.as_bytes().chunks(64).map(|line| String::from_utf8_lossy(line)).collect();
        let lines = lines.join("\n");
        SecretString::new(format!(
            "-----BEGIN PRIVATE KEY-----\n{lines}\n-----END PRIVATE KEY-----\n"
        ))
    }

    fn claims(assertion: &SecretString) -> (Value, Value, String, Vec<u8>) {
        let text = assertion.reveal();
        let (signed, signature) = text.rsplit_once('.').unwrap();
        let (header, claims) = signed.split_once('.').unwrap();
        let decode = |part: &str| BASE64URL_NOPAD.decode(part.as_bytes()).unwrap();
        let read = |part: &str| serde_json::from_slice(&decode(part)).unwrap();
        (read(header), read(claims), signed.to_owned(), decode(signature))
    }

    #[test]
    fn assertion_names_client_and_issuer_and_is_signed() {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let der = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, der.as_ref(), &random).unwrap();
        let made = client_assertion(&pem(der.as_ref()), "me", "https://i.example", 1000).unwrap();
        let (header, parsed, signed, signature) = claims(&made);
        assert_eq!(header["alg"], "ES256");
        assert_eq!((&parsed["iss"], &parsed["sub"]), (&json!("me"), &json!("me")));
        assert_eq!(parsed["aud"], "https://i.example");
        assert_eq!((&parsed["iat"], &parsed["exp"]), (&json!(1000), &json!(1300)));
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, pair.public_key());
        public.verify(signed.as_bytes(), &signature).unwrap();
        let other = client_assertion(&pem(der.as_ref()), "me", "https://i.example", 1000).unwrap();
        assert_ne!(claims(&other).1["jti"], parsed["jti"]);
    }

    #[test]
    fn key_kind_determines_the_algorithm() {
        let der = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        let pair = Ed25519KeyPair::from_pkcs8(der.as_ref()).unwrap();
        let (header, _, signed, signature) =
            claims(&client_assertion(&pem(der.as_ref()), "me", "i", 0).unwrap());
        assert_eq!(header["alg"], "EdDSA");
        let public = UnparsedPublicKey::new(&ED25519, pair.public_key());
        public.verify(signed.as_bytes(), &signature).unwrap();
    }

    #[test]
    fn invalid_private_key_is_rejected_without_showing_it() {
        for key in ["", "s3cret", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"]
        {
            let error = client_assertion(&SecretString::new(key), "me", "i", 0).unwrap_err();
            assert!(matches!(error, AuthError::BadKey(_)));
            assert!(!format!("{error:?} {error}").contains("s3cret"));
        }
    }
}
