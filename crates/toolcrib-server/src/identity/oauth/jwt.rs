//! Parses JSON Web Tokens and checks their claims; `keys.rs` verifies signatures.
//!
//! The crate `jsonwebtoken` (11.1) cannot replace this file without losing checks or features:
//!
//! - Its `Validation` cannot read `exp` and `nbf`: serde_json with `arbitrary_precision`, which this workspace
//!   uses, passes numbers as maps, and the crate's visitor accepts only `u64` and `f64`. It would reject every token.
//! - Its `Validation` accepts a list as `iss`, and always reads the system clock.
//! - Its `Header` accepts `"crit": null`, and its `Algorithm` lacks `Ed25519` (RFC 9864).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use data_encoding::BASE64URL_NOPAD;
use serde_json::{Map, Value};

use super::VerificationError;

/// Maximum token size.
const MAX_TOKEN_SIZE: usize = 16 << 10;

/// Allowed clock difference.
const CLOCK_SKEW: Duration = Duration::from_secs(60);

/// A parsed token with an unverified signature.
pub(super) struct Jwt {
    pub(super) algorithm: String,
    /// Key id.
    pub(super) key: Option<String>,
    /// The signed bytes.
    pub(super) signed: Vec<u8>,
    pub(super) signature: Vec<u8>,
    claims: Map<String, Value>,
}

impl Jwt {
    pub(super) fn parse(text: &str) -> Result<Self, VerificationError> {
        let bad = VerificationError::Malformed;
        if text.len() > MAX_TOKEN_SIZE {
            return Err(bad("the token is too long"));
        }
        let (signed, signature) = text.rsplit_once('.').ok_or(bad("the token has no signature"))?;
        let (head, claims) = signed.split_once('.').ok_or(bad("the token has no claims"))?;
        let head = decode_object(head).ok_or(bad("cannot parse the token's header"))?;
        // RFC 7515 requires support for the extensions in `crit`, and none is supported.
        if head.contains_key("crit") {
            return Err(bad("the token requires unsupported extensions (`crit`)"));
        }
        let text_of = |key: &str| head.get(key).and_then(Value::as_str).map(str::to_owned);
        Ok(Jwt {
            algorithm: text_of("alg").ok_or(bad("the token names no algorithm"))?,
            key: text_of("kid"),
            signed: signed.as_bytes().to_vec(),
            signature: decode_base64url(signature)
                .ok_or(bad("cannot decode the token's signature"))?,
            claims: decode_object(claims).ok_or(bad("cannot parse the token's claims"))?,
        })
    }

    /// Checks issuer, audience and validity period. An expiry is required.
    pub(super) fn check_claims(
        &self,
        issuer: &str,
        audience: &str,
        now: SystemTime,
    ) -> Result<(), VerificationError> {
        let bad = |why| Err(VerificationError::Claim(why));
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        if self.claims.get("iss").and_then(Value::as_str) != Some(issuer) {
            return bad("another issuer");
        }
        if !self.has_audience(audience) {
            return bad("another audience");
        }
        match self.time_claim("exp") {
            Some(end) if end + CLOCK_SKEW > now => {}
            Some(_) => return bad("the token has expired"),
            None => return bad("the token has no expiry"),
        }
        match self.claims.contains_key("nbf").then(|| self.time_claim("nbf")) {
            None => Ok(()),
            Some(Some(begin)) if begin <= now + CLOCK_SKEW => Ok(()),
            Some(_) => bad("the token is not valid yet"),
        }
    }

    pub(super) fn claim(&self, name: &str) -> Option<String> {
        let text = self.claims.get(name)?.as_str()?;
        (!text.is_empty()).then(|| text.to_owned())
    }

    fn has_audience(&self, audience: &str) -> bool {
        match self.claims.get("aud") {
            Some(Value::String(one)) => one == audience,
            Some(Value::Array(several)) => several.iter().any(|one| one == audience),
            _ => false,
        }
    }

    fn time_claim(&self, name: &str) -> Option<Duration> {
        let seconds = self.claims.get(name)?.as_f64()?;
        Duration::try_from_secs_f64(seconds).ok()
    }
}

fn decode_object(part: &str) -> Option<Map<String, Value>> {
    serde_json::from_slice(&decode_base64url(part)?).ok()
}

/// Decodes base64url without padding. Rejects non-canonical encodings (RFC 4648, section 3.5).
pub(super) fn decode_base64url(text: &str) -> Option<Vec<u8>> {
    BASE64URL_NOPAD.decode(text.as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn part(value: &Value) -> String {
        BASE64URL_NOPAD.encode(value.to_string().as_bytes())
    }

    fn token(head: &Value, claims: &Value) -> Result<Jwt, VerificationError> {
        Jwt::parse(&format!("{}.{}.AAAA", part(head), part(claims)))
    }

    #[test]
    fn claims_are_checked() {
        let now = UNIX_EPOCH + Duration::from_secs(1_000_000);
        let good = json!({"iss": "i", "aud": ["x", "a"], "exp": 1_000_100, "nbf": 999_999});
        for (key, value, is_good) in [
            ("iss", json!("i"), true),
            ("iss", json!("j"), false),
            ("iss", json!(["i"]), false),
            ("iss", Value::Null, false),
            ("aud", json!("a"), true),
            ("aud", json!("b"), false),
            ("aud", json!({}), false),
            ("exp", json!(999_990), true),
            ("exp", json!(999_000), false),
            ("exp", json!("later"), false),
            ("exp", json!(1e300), false),
            ("exp", Value::Null, false),
            ("nbf", json!(1_000_050), true),
            ("nbf", json!(1_000_090), false),
            ("nbf", json!("x"), false),
        ] {
            let mut claims = good.clone();
            claims[key] = value.clone();
            let token = token(&json!({"alg": "ES256"}), &claims).unwrap();
            assert_eq!(token.check_claims("i", "a", now).is_ok(), is_good, "{key} {value}");
        }
    }

    #[test]
    fn base64url_is_canonical_and_unpadded() {
        assert_eq!(decode_base64url("_-8").as_deref(), Some(&[0xff, 0xef][..]));
        for bad in ["_-8=", "/+8", "_-9", "_", "_-8\n"] {
            assert_eq!(decode_base64url(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn malformed_tokens_are_rejected() {
        for text in ["", ".", "..", "a.b", "a.b.c", "####.####.####", &"x".repeat(20_000)] {
            assert!(matches!(Jwt::parse(text), Err(VerificationError::Malformed(_))), "{text}");
        }
        for crit in [json!(["b64"]), json!([]), Value::Null] {
            assert!(token(&json!({"alg": "ES256", "crit": crit}), &json!({})).is_err(), "{crit}");
        }
        assert!(token(&json!({"alg": ["none"]}), &json!({})).is_err());
        assert!(token(&json!({"kid": "a"}), &json!({})).is_err());
        assert!(token(&json!({"alg": "ES256"}), &json!([])).is_err());
    }
}
