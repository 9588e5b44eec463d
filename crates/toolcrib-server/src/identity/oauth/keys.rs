//! The keys of an issuer: where they are, and whether one of them signed a token.

use std::time::Duration;

use ring::signature::{
    self, ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RsaParameters,
    RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use serde::Deserialize;
use toolcrib_upstream::transport::{FetchError, Tls, fetch};
use url::Url;

use super::NotVerified;
use super::jwt::{Token, decode};

/// The largest document of an issuer.
const LARGEST: usize = 1 << 20;

/// How long an issuer may take for each.
const LONGEST: Duration = Duration::from_secs(10);

/// Why there are no keys.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    #[error(
        "the issuer `{0}` is no address that can be trusted: it must be https, or on this machine"
    )]
    Address(String),
    #[error("what the issuer says of itself is not to be had")]
    Fetch(#[source] FetchError),
    #[error("what the issuer says of itself cannot be read")]
    Content(#[source] serde_json::Error),
    #[error("`{0}` says that it is `{1}`")]
    Another(String, String),
}

/// An issuer's keys that can be used here.
#[derive(Debug, Default)]
pub(super) struct Keys(Vec<Key>);

#[derive(Debug)]
struct Key {
    id: Option<String>,
    algorithm: Option<String>,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

#[derive(Deserialize)]
struct Discovered {
    issuer: String,
    jwks_uri: String,
}

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Written>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Written {
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

/// Finds the keys: by OpenID's description of the issuer, or by OAuth's.
pub(super) async fn find(issuer: &str, tls: &Tls) -> Result<Keys, FindError> {
    let url = trusted(issuer).ok_or_else(|| FindError::Address(issuer.to_owned()))?;
    let mut found = described(&openid(&url), tls).await;
    if found.is_err() {
        found = described(&oauth(&url), tls).await;
    }
    let found = found?;
    if found.issuer != issuer {
        return Err(FindError::Another(issuer.to_owned(), found.issuer));
    }
    let keys = trusted(&found.jwks_uri);
    let keys = keys.ok_or_else(|| FindError::Address(found.jwks_uri.clone()))?;
    let set = fetch(&keys, tls, LARGEST, LONGEST).await.map_err(FindError::Fetch)?;
    let set: KeySet = serde_json::from_slice(&set).map_err(FindError::Content)?;
    Ok(Keys(set.keys.into_iter().filter_map(Key::of).collect()))
}

async fn described(url: &Url, tls: &Tls) -> Result<Discovered, FindError> {
    let text = fetch(url, tls, LARGEST, LONGEST).await.map_err(FindError::Fetch)?;
    serde_json::from_slice(&text).map_err(FindError::Content)
}

/// Keys that came over an open line may be anybody's.
fn trusted(address: &str) -> Option<Url> {
    let url = Url::parse(address).ok()?;
    let is_here = match url.host()? {
        url::Host::Domain(name) => name == "localhost",
        url::Host::Ipv4(ip) => ip.is_loopback(),
        url::Host::Ipv6(ip) => ip.is_loopback(),
    };
    (url.scheme() == "https" || (url.scheme() == "http" && is_here)).then_some(url)
}

fn openid(issuer: &Url) -> Url {
    let path = format!("{}/.well-known/openid-configuration", issuer.path().trim_end_matches('/'));
    at(issuer, &path)
}

fn oauth(issuer: &Url) -> Url {
    let path = issuer.path().trim_end_matches('/');
    at(issuer, &format!("/.well-known/oauth-authorization-server{path}"))
}

fn at(issuer: &Url, path: &str) -> Url {
    let mut url = issuer.clone();
    url.set_path(path);
    url.set_query(None);
    url.set_fragment(None);
    url
}

impl Keys {
    /// Whether there is a key that may have signed it.
    pub(super) fn has_for(&self, token: &Token) -> bool {
        self.0.iter().any(|key| key.may_be_of(token))
    }

    pub(super) fn verify(&self, token: &Token) -> Result<(), NotVerified> {
        let mut fitting = self.0.iter().filter(|key| key.may_be_of(token)).peekable();
        fitting.peek().ok_or(NotVerified::NoKey)?;
        match fitting.any(|key| key.signed(token)) {
            true => Ok(()),
            false => Err(NotVerified::Signature),
        }
    }
}

impl Key {
    /// What is not for signatures or not of a known kind is left out.
    fn of(written: Written) -> Option<Self> {
        if written.usage.as_deref().is_some_and(|usage| usage != "sig") {
            return None;
        }
        let part = |text: &Option<String>| decode(text.as_deref()?);
        let point = |size: usize| {
            let (x, y) = (part(&written.x)?, part(&written.y)?);
            (x.len() == size && y.len() == size).then(|| [&[4], &x[..], &y[..]].concat())
        };
        let kind = match (written.kty.as_str(), written.crv.as_deref()) {
            ("RSA", _) => Kind::Rsa { n: part(&written.n)?, e: part(&written.e)? },
            ("EC", Some("P-256")) => Kind::P256(point(32)?),
            ("EC", Some("P-384")) => Kind::P384(point(48)?),
            ("OKP", Some("Ed25519")) => Kind::Ed25519(part(&written.x)?),
            _ => return None,
        };
        Some(Key { id: written.kid, algorithm: written.alg, kind })
    }

    fn may_be_of(&self, token: &Token) -> bool {
        let is_named = token.key.is_none() || self.id == token.key;
        let is_meant = self.algorithm.as_ref().is_none_or(|it| *it == token.algorithm);
        is_named && is_meant
    }

    /// The algorithm must fit the key, not the other way round: nobody signs with a public key.
    fn signed(&self, token: &Token) -> bool {
        let by = |algorithm: &'static dyn VerificationAlgorithm, key: &[u8]| {
            UnparsedPublicKey::new(algorithm, key).verify(&token.signed, &token.signature).is_ok()
        };
        match (&self.kind, token.algorithm.as_str()) {
            (Kind::Rsa { n, e }, algorithm) => rsa(algorithm).is_some_and(|parameters| {
                let key = RsaPublicKeyComponents { n: strip(n), e: strip(e) };
                key.verify(parameters, &token.signed, &token.signature).is_ok()
            }),
            (Kind::P256(point), "ES256") => by(&ECDSA_P256_SHA256_FIXED, point),
            (Kind::P384(point), "ES384") => by(&ECDSA_P384_SHA384_FIXED, point),
            (Kind::Ed25519(key), "EdDSA" | "Ed25519") => by(&ED25519, key),
            _ => false,
        }
    }
}

fn rsa(algorithm: &str) -> Option<&'static RsaParameters> {
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

/// Some write a number with zeros before it, and those are not taken.
fn strip(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    number.get(zeros..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    // A key and signatures of another implementation; the key signs nothing else.
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

    fn keys(more: &str) -> Keys {
        let written = format!(r#"{{"kty":"RSA","kid":"r","n":"{N}","e":"AQAB"{more}}}"#);
        Keys(Key::of(serde_json::from_str(&written).unwrap()).into_iter().collect())
    }

    #[test]
    fn signatures_of_another_implementation_are_understood() {
        for text in [RS256, PS256] {
            let token = Token::read(text).unwrap();
            assert!(keys("").verify(&token).is_ok(), "{}", token.algorithm);
            let mut other = Token::read(text).unwrap();
            other.signed.push(b'x');
            assert!(matches!(keys("").verify(&other), Err(NotVerified::Signature)));
        }
        let mut token = Token::read(RS256).unwrap();
        for more in [r#","alg":"PS256""#, r#","use":"enc""#] {
            assert!(matches!(keys(more).verify(&token), Err(NotVerified::NoKey)), "{more}");
        }
        // Nobody signs with a public key as if it were a secret.
        token.algorithm = "HS256".to_owned();
        assert!(matches!(keys("").verify(&token), Err(NotVerified::Signature)));
    }

    #[test]
    fn keys_come_over_lines_that_can_be_trusted() {
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
            assert_eq!(trusted(address).is_some(), is_good, "{address}");
        }
        let issuer = Url::parse("https://a.example/realm/").unwrap();
        assert_eq!(openid(&issuer).path(), "/realm/.well-known/openid-configuration");
        assert_eq!(oauth(&issuer).path(), "/.well-known/oauth-authorization-server/realm");
    }
}
