//! Fetches the keys of an OAuth issuer and verifies signatures.
//!
//! Signatures are verified with `ring`. The crate `jsonwebtoken` (11.1) offers two providers of cryptography: aws-lc,
//! which `deny.toml` bans, and RustCrypto, whose `rsa` has the advisory RUSTSEC-2023-0071. A provider for `ring` would
//! be a global of the process: an embedding program that installs another one first would decide which keys and
//! signatures are accepted. Its JWK type does not check the size of EC coordinates.

use std::time::Duration;

use ring::signature::{
    self, ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RsaParameters,
    RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use serde::Deserialize;
use toolcrib_upstream::transport::{FetchError, Tls, fetch_document};
use url::Url;

use super::VerificationError;
use super::jwt::{Jwt, decode_base64url};

/// Maximum size of a fetched document.
const MAX_DOCUMENT_SIZE: usize = 1 << 20;

/// Timeout for each document.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

/// Why the keys of an issuer cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyDiscoveryError {
    #[error("untrusted issuer URL `{0}`: it must use https or a loopback address")]
    Address(String),
    #[error("cannot fetch the issuer's metadata or keys")]
    Fetch(#[source] FetchError),
    #[error("cannot parse the issuer's metadata or keys")]
    Content(#[source] serde_json::Error),
    #[error("the metadata of issuer `{0}` names another issuer: `{1}`")]
    Another(String, String),
}

/// Usable keys of an issuer.
#[derive(Debug, Default)]
pub(super) struct IssuerKeys(Vec<VerificationKey>);

#[derive(Debug)]
struct VerificationKey {
    id: Option<String>,
    algorithm: Option<String>,
    kind: KeyKind,
}

#[derive(Debug)]
enum KeyKind {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

#[derive(Deserialize)]
struct IssuerMetadata {
    issuer: String,
    jwks_uri: String,
}

#[derive(Deserialize)]
struct JwkSet {
    keys: Vec<Jwk>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

/// Fetches the keys, found through OpenID or OAuth metadata.
pub(super) async fn discover_keys(
    issuer: &str,
    tls: &Tls,
) -> Result<IssuerKeys, KeyDiscoveryError> {
    let url =
        parse_trusted_url(issuer).ok_or_else(|| KeyDiscoveryError::Address(issuer.to_owned()))?;
    let mut metadata = fetch_metadata(&openid_metadata_url(&url), tls).await;
    if metadata.is_err() {
        metadata = fetch_metadata(&oauth_metadata_url(&url), tls).await;
    }
    let metadata = metadata?;
    if metadata.issuer != issuer {
        return Err(KeyDiscoveryError::Another(issuer.to_owned(), metadata.issuer));
    }
    let keys = parse_trusted_url(&metadata.jwks_uri);
    let keys = keys.ok_or_else(|| KeyDiscoveryError::Address(metadata.jwks_uri.clone()))?;
    let set = fetch_document(&keys, tls, MAX_DOCUMENT_SIZE, FETCH_TIMEOUT)
        .await
        .map_err(KeyDiscoveryError::Fetch)?;
    let set: JwkSet = serde_json::from_slice(&set).map_err(KeyDiscoveryError::Content)?;
    Ok(IssuerKeys(set.keys.into_iter().filter_map(VerificationKey::from_jwk).collect()))
}

async fn fetch_metadata(url: &Url, tls: &Tls) -> Result<IssuerMetadata, KeyDiscoveryError> {
    let text = fetch_document(url, tls, MAX_DOCUMENT_SIZE, FETCH_TIMEOUT)
        .await
        .map_err(KeyDiscoveryError::Fetch)?;
    serde_json::from_slice(&text).map_err(KeyDiscoveryError::Content)
}

/// Accepts https and loopback URLs only, because keys from an unencrypted connection may be forged.
fn parse_trusted_url(address: &str) -> Option<Url> {
    let url = Url::parse(address).ok()?;
    let is_here = match url.host()? {
        url::Host::Domain(name) => name == "localhost",
        url::Host::Ipv4(ip) => ip.is_loopback(),
        url::Host::Ipv6(ip) => ip.is_loopback(),
    };
    (url.scheme() == "https" || (url.scheme() == "http" && is_here)).then_some(url)
}

fn openid_metadata_url(issuer: &Url) -> Url {
    let path = format!("{}/.well-known/openid-configuration", issuer.path().trim_end_matches('/'));
    with_path(issuer, &path)
}

fn oauth_metadata_url(issuer: &Url) -> Url {
    let path = issuer.path().trim_end_matches('/');
    with_path(issuer, &format!("/.well-known/oauth-authorization-server{path}"))
}

fn with_path(issuer: &Url, path: &str) -> Url {
    let mut url = issuer.clone();
    url.set_path(path);
    url.set_query(None);
    url.set_fragment(None);
    url
}

impl IssuerKeys {
    /// Returns whether a key may have signed the token.
    pub(super) fn has_key_for(&self, token: &Jwt) -> bool {
        self.0.iter().any(|key| key.may_have_signed(token))
    }

    pub(super) fn verify(&self, token: &Jwt) -> Result<(), VerificationError> {
        let mut fitting = self.0.iter().filter(|key| key.may_have_signed(token)).peekable();
        fitting.peek().ok_or(VerificationError::NoKey)?;
        match fitting.any(|key| key.verifies(token)) {
            true => Ok(()),
            false => Err(VerificationError::Signature),
        }
    }
}

impl VerificationKey {
    /// Skips keys for other uses and of unknown types.
    fn from_jwk(jwk: Jwk) -> Option<Self> {
        if jwk.usage.as_deref().is_some_and(|usage| usage != "sig") {
            return None;
        }
        let part = |text: &Option<String>| decode_base64url(text.as_deref()?);
        let point = |size: usize| {
            let (x, y) = (part(&jwk.x)?, part(&jwk.y)?);
            (x.len() == size && y.len() == size).then(|| [&[4], &x[..], &y[..]].concat())
        };
        let kind = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
            ("RSA", _) => KeyKind::Rsa { n: part(&jwk.n)?, e: part(&jwk.e)? },
            ("EC", Some("P-256")) => KeyKind::P256(point(32)?),
            ("EC", Some("P-384")) => KeyKind::P384(point(48)?),
            ("OKP", Some("Ed25519")) => KeyKind::Ed25519(part(&jwk.x)?),
            _ => return None,
        };
        Some(VerificationKey { id: jwk.kid, algorithm: jwk.alg, kind })
    }

    fn may_have_signed(&self, token: &Jwt) -> bool {
        let is_named = token.key.is_none() || self.id == token.key;
        let is_meant = self.algorithm.as_ref().is_none_or(|it| *it == token.algorithm);
        is_named && is_meant
    }

    /// The key decides which algorithms are allowed, so that a public key is never used as an HMAC secret.
    fn verifies(&self, token: &Jwt) -> bool {
        let by = |algorithm: &'static dyn VerificationAlgorithm, key: &[u8]| {
            UnparsedPublicKey::new(algorithm, key).verify(&token.signed, &token.signature).is_ok()
        };
        match (&self.kind, token.algorithm.as_str()) {
            (KeyKind::Rsa { n, e }, algorithm) => {
                rsa_parameters(algorithm).is_some_and(|parameters| {
                    let key = RsaPublicKeyComponents {
                        n: strip_leading_zeros(n),
                        e: strip_leading_zeros(e),
                    };
                    key.verify(parameters, &token.signed, &token.signature).is_ok()
                })
            }
            (KeyKind::P256(point), "ES256") => by(&ECDSA_P256_SHA256_FIXED, point),
            (KeyKind::P384(point), "ES384") => by(&ECDSA_P384_SHA384_FIXED, point),
            (KeyKind::Ed25519(key), "EdDSA" | "Ed25519") => by(&ED25519, key),
            _ => false,
        }
    }
}

fn rsa_parameters(algorithm: &str) -> Option<&'static RsaParameters> {
    Some(match algorithm {
        "RS256" => &signature::RSA_PKCS1_2048_8192_SHA256,
        "RS384" => &signature::RSA_PKCS1_2048_8192_SHA384,
        "RS512" => &signature::RSA_PKCS1_2048_8192_SHA512,
        "PS256" => &signature::RSA_PSS_2048_8192_SHA256,
        "PS384" => &signature::RSA_PSS_2048_8192_SHA384,
        "PS512" => &signature::RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}

/// Some issuers write leading zeros, which `ring` rejects.
fn strip_leading_zeros(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    number.get(zeros..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use data_encoding::BASE64URL_NOPAD;
    use ring::hmac;
    use ring::rand::SystemRandom;
    use ring::signature::{Ed25519KeyPair, KeyPair};
    use serde_json::json;

    use super::*;

    // Key and signatures of another implementation. The key is used for nothing else.
    const N: &str = concat!(
        "wFfE_ZQ6eMLi5xoZl7ErprfQ0R4RHyAJLfwGyQzze07ZRn2oi77ccNC3a-fKHFj6ZYODNh8R_b-awMFpLT5bxUsDeJVWpQNYerLv",
        "l3LJqiC157eqkWrYbFsqZD4J4Lq64dOQTJ5Na7IIGAGhNIXNyRETOzgi7A8UhWwmsavfq53l01BM1Azr5dqy6DBKv_WAf9klDzK5",
        "vZgzjAPs4nnCit1wZAXie3YnNSMKvg6Rk8XwaifqCNhd9JRfzUmqdijm4tHEu7YsKrQjP39Vyh0du34lcgT_afHv3oJmvJGohKyw",
        "iM2tXU2ks54IMnxpJwj_H45zUg9_ENkoPS9aWPB8XQ",
    );
    const RS256: &str = concat!(
        "eyJhbGciOiJSUzI1NiIsImtpZCI6InIifQ.eyJzdWIiOiJhZGEifQ.NihW0g92kavkRbkBmCaEsLMhADk-jIY9k3jejZvfF4JKal",
        "Q9vW7jgBVACjqtvXuxmxdW-Tz8D40bfLJdIsHfLrwVc6vOUQZsiLDej-cnYtsQ6L1vnWEZgSrkZb9bn4FSIiur8Is_-9J2sP5Tlh",
        "ZLlURYLLteVXbi15LzHF6_mVdis-Qt6kYraD_Nz_4zSkjmFIJ3wOu4jl4pAcMYxyKx8rCUPGySiB-QucqER6VxPpZyU3mrjSnFhp",
        "CinhKDNnWSlQ4MLKk2mSHgHVNwNwrPCm23Xy-W2L2V_DT5aPduELM9qQjIgdSgwMHjRPZ2DTEIq76Ke6ddJnGjFAfwWZFWtg",
    );
    const PS256: &str = concat!(
        "eyJhbGciOiJQUzI1NiIsImtpZCI6InIifQ.eyJzdWIiOiJhZGEifQ.Cr2Wpw4tNO-DXyawE7tpedhdK9UsxxeQUOgxzDEisRqr5m",
        "ubwLTW71V8n1nU9le8H3kC-4emU7Md45ncnlqnelmzlHZyr8eOc7LOintMLeYFhR9L5655HUlM3fHbt3zqoAYhV4-Fbg8r19-TOP",
        "QAkqpxErqsqNgJg_5Md6M_0TVK_N06SexHc9tY-ArLoWM5evc4cpod5jMhw-tIoA-mo1PLiWQqU7gmmXMSGLCKUHeJ0Jpanj5yuH",
        "hCngYOE1ialZOjt-S5H2IEqTvxsA4vB6eTQub9gRW_N5h4jNS-vtueaHjF5nc-keBnbawWyET8usHzXVDwQQHOMGeEm-hLlg",
    );

    fn keys(more: &str) -> IssuerKeys {
        let written = format!(r#"{{"kty":"RSA","kid":"r","n":"{N}","e":"AQAB"{more}}}"#);
        IssuerKeys(
            VerificationKey::from_jwk(serde_json::from_str(&written).unwrap())
                .into_iter()
                .collect(),
        )
    }

    #[test]
    fn signatures_of_another_implementation_verify() {
        for text in [RS256, PS256] {
            let token = Jwt::parse(text).unwrap();
            assert!(keys("").verify(&token).is_ok(), "{}", token.algorithm);
            let mut other = Jwt::parse(text).unwrap();
            other.signed.push(b'x');
            assert!(matches!(keys("").verify(&other), Err(VerificationError::Signature)));
        }
        let mut token = Jwt::parse(RS256).unwrap();
        for more in [r#","alg":"PS256""#, r#","use":"enc""#] {
            assert!(matches!(keys(more).verify(&token), Err(VerificationError::NoKey)), "{more}");
        }
        // A public key must not verify an HMAC.
        token.algorithm = "HS256".to_owned();
        assert!(matches!(keys("").verify(&token), Err(VerificationError::Signature)));
    }

    fn key_from(value: serde_json::Value) -> Option<VerificationKey> {
        VerificationKey::from_jwk(serde_json::from_value(value).unwrap())
    }

    #[test]
    fn key_type_determines_the_accepted_algorithms() {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        let pair = Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap();
        let public = pair.public_key().as_ref();
        let jwk = json!({"kty": "OKP", "crv": "Ed25519", "x": BASE64URL_NOPAD.encode(public)});
        let keys = IssuerKeys(key_from(jwk).into_iter().collect());
        let verify = |algorithm: &str, sign: &dyn Fn(&[u8]) -> Vec<u8>| {
            let header = json!({"alg": algorithm}).to_string();
            let signed = format!("{}.e30", BASE64URL_NOPAD.encode(header.as_bytes()));
            let signature = BASE64URL_NOPAD.encode(&sign(signed.as_bytes()));
            keys.verify(&Jwt::parse(&format!("{signed}.{signature}")).unwrap())
        };
        let sign = |text: &[u8]| pair.sign(text).as_ref().to_vec();
        for algorithm in ["EdDSA", "Ed25519"] {
            assert!(verify(algorithm, &sign).is_ok(), "{algorithm}");
        }
        for algorithm in ["none", "", "eddsa", "ES256", "RS256", "HS256"] {
            let refused = verify(algorithm, &sign);
            assert!(matches!(refused, Err(VerificationError::Signature)), "{algorithm}");
        }
        let unsigned = verify("none", &|_| Vec::new());
        assert!(matches!(unsigned, Err(VerificationError::Signature)));
        // Key confusion: the public key as an HMAC secret.
        let secret = hmac::Key::new(hmac::HMAC_SHA256, public);
        let confused = verify("HS256", &|text| hmac::sign(&secret, text).as_ref().to_vec());
        assert!(matches!(confused, Err(VerificationError::Signature)));
    }

    #[test]
    fn incomplete_and_unsuitable_keys_are_skipped() {
        let coordinate = |size: usize| BASE64URL_NOPAD.encode(&vec![1; size]);
        let ec = |x: usize, y: usize| json!({"kty": "EC", "crv": "P-256", "x": coordinate(x), "y": coordinate(y)});
        assert!(key_from(ec(32, 32)).is_some());
        for bad in [
            ec(31, 33),
            ec(33, 31),
            ec(48, 48),
            json!({"kty": "EC", "crv": "P-521", "x": coordinate(66), "y": coordinate(66)}),
            json!({"kty": "RSA", "n": N}),
            json!({"kty": "RSA", "n": "+/=", "e": "AQAB"}),
            json!({"kty": "oct", "k": "AAAA"}),
            json!({"kty": "RSA", "n": N, "e": "AQAB", "use": "enc"}),
            json!({}),
        ] {
            assert!(key_from(bad.clone()).is_none(), "{bad}");
        }
    }

    #[test]
    fn keys_are_fetched_over_https_or_loopback() {
        for (address, is_good) in [
            ("https://issuer.example/realm", true),
            ("http://127.0.0.1:1/realm", true),
            ("http://localhost", true),
            ("http://[::1]:9/", true),
            ("http://issuer.example", false),
            ("http://127.0.0.1.evil.example", false),
            ("file:///keys", false),
            ("issuer", false),
        ] {
            assert_eq!(parse_trusted_url(address).is_some(), is_good, "{address}");
        }
        let issuer = Url::parse("https://a.example/realm/").unwrap();
        assert_eq!(openid_metadata_url(&issuer).path(), "/realm/.well-known/openid-configuration");
        assert_eq!(
            oauth_metadata_url(&issuer).path(),
            "/.well-known/oauth-authorization-server/realm"
        );
    }
}
