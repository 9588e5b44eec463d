//! A signed token, taken apart and checked; who signed it is decided elsewhere.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value};
use toolcrib_wire::base64;

use super::NotVerified;

/// The longest token that is looked at.
const LONGEST: usize = 16 << 10;

/// How far clocks may differ.
const LEEWAY: Duration = Duration::from_secs(60);

/// A token whose signature has not been checked.
pub(super) struct Token {
    pub(super) algorithm: String,
    /// Which of the issuer's keys it is.
    pub(super) key: Option<String>,
    /// What was signed.
    pub(super) signed: Vec<u8>,
    pub(super) signature: Vec<u8>,
    claims: Map<String, Value>,
}

impl Token {
    pub(super) fn read(text: &str) -> Result<Self, NotVerified> {
        let bad = NotVerified::Malformed;
        if text.len() > LONGEST {
            return Err(bad("it is too long"));
        }
        let (signed, signature) = text.rsplit_once('.').ok_or(bad("it has no signature"))?;
        let (head, claims) = signed.split_once('.').ok_or(bad("it has no claims"))?;
        let head = object(head).ok_or(bad("its head cannot be read"))?;
        // What must be understood (RFC 7515) and is not: there is nothing that is.
        if head.contains_key("crit") {
            return Err(bad("it wants something that is not known here"));
        }
        let text_of = |key: &str| head.get(key).and_then(Value::as_str).map(str::to_owned);
        Ok(Token {
            algorithm: text_of("alg").ok_or(bad("it names no algorithm"))?,
            key: text_of("kid"),
            signed: signed.as_bytes().to_vec(),
            signature: decode(signature).ok_or(bad("its signature cannot be read"))?,
            claims: object(claims).ok_or(bad("its claims cannot be read"))?,
        })
    }

    /// Whose, for whom, and when. It must end some day.
    pub(super) fn check(
        &self,
        issuer: &str,
        audience: &str,
        now: SystemTime,
    ) -> Result<(), NotVerified> {
        let bad = |why| Err(NotVerified::Claim(why));
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        if self.claims.get("iss").and_then(Value::as_str) != Some(issuer) {
            return bad("it is another issuer's");
        }
        if !self.is_for(audience) {
            return bad("it is for somebody else");
        }
        match self.time("exp") {
            Some(end) if end + LEEWAY > now => {}
            Some(_) => return bad("its time is over"),
            None => return bad("it has no end"),
        }
        match self.claims.contains_key("nbf").then(|| self.time("nbf")) {
            None => Ok(()),
            Some(Some(begin)) if begin <= now + LEEWAY => Ok(()),
            Some(_) => bad("its time has not come"),
        }
    }

    pub(super) fn claim(&self, name: &str) -> Option<String> {
        let text = self.claims.get(name)?.as_str()?;
        (!text.is_empty()).then(|| text.to_owned())
    }

    fn is_for(&self, audience: &str) -> bool {
        match self.claims.get("aud") {
            Some(Value::String(one)) => one == audience,
            Some(Value::Array(several)) => several.iter().any(|one| one == audience),
            _ => false,
        }
    }

    fn time(&self, name: &str) -> Option<Duration> {
        let seconds = self.claims.get(name)?.as_f64()?;
        Duration::try_from_secs_f64(seconds).ok()
    }
}

fn object(part: &str) -> Option<Map<String, Value>> {
    serde_json::from_slice(&decode(part)?).ok()
}

/// Base64 in its form for addresses, without padding.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    if text.contains(['+', '/', '=']) {
        return None;
    }
    let mut text = text.replace('-', "+").replace('_', "/");
    while !text.len().is_multiple_of(4) {
        text.push('=');
    }
    base64::decode(&text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn part(value: &Value) -> String {
        let text = base64::encode(value.to_string().as_bytes());
        text.trim_end_matches('=').replace('+', "-").replace('/', "_")
    }

    fn token(head: &Value, claims: &Value) -> Result<Token, NotVerified> {
        Token::read(&format!("{}.{}.AAAA", part(head), part(claims)))
    }

    #[test]
    fn claims_are_checked() {
        let now = UNIX_EPOCH + Duration::from_secs(1_000_000);
        let good = json!({"iss": "i", "aud": ["x", "a"], "exp": 1_000_100, "nbf": 999_999});
        for (key, value, is_good) in [
            ("iss", json!("i"), true),
            ("iss", json!("j"), false),
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
            assert_eq!(token.check("i", "a", now).is_ok(), is_good, "{key} {value}");
        }
    }

    #[test]
    fn what_is_no_token_is_refused() {
        for text in ["", ".", "..", "a.b", "a.b.c", "####.####.####", &"x".repeat(20_000)] {
            assert!(matches!(Token::read(text), Err(NotVerified::Malformed(_))), "{text}");
        }
        assert!(token(&json!({"alg": "ES256", "crit": ["b64"]}), &json!({})).is_err());
        assert!(token(&json!({"kid": "a"}), &json!({})).is_err());
        assert!(token(&json!({"alg": "ES256"}), &json!([])).is_err());
    }
}
