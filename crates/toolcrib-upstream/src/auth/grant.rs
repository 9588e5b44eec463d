//! The token endpoint: what is asked for, how the host shows who it is, and what an answer means.

use data_encoding::BASE64;
use reqwest::header::HeaderValue;
use serde::Deserialize;
use serde_json::Value;
use toolcrib_config::Hidden;
use url::Url;
use url::form_urlencoded::byte_serialize;

use super::client::{Client, ClientSettings, Method};
use super::error::AuthError;
use super::jwt::assertion;
use super::web::{Answer, Web, read, shown};

const ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// An issuer's words are shown this far.
const EXCERPT: usize = 200;

/// What a token is asked for with.
pub(super) enum Grant<'a> {
    Code { code: &'a str, verifier: &'a str, redirect: &'a str },
    Refresh(&'a Hidden),
    ClientCredentials { scopes: &'a [String] },
}

/// What an issuer gave.
#[derive(Debug)]
pub(super) struct Granted {
    pub(super) access: Hidden,
    pub(super) refresh: Option<Hidden>,
    /// In seconds.
    pub(super) expires_in: Option<u64>,
    pub(super) scopes: Option<Vec<String>>,
}

/// Where a token is asked for, and as whom.
pub(super) struct Desk<'a> {
    pub(super) endpoint: &'a Url,
    pub(super) issuer: &'a str,
    pub(super) client: &'a Client,
    pub(super) settings: &'a ClientSettings,
}

type Form = Vec<(&'static str, String)>;

impl Desk<'_> {
    pub(super) async fn ask(
        &self,
        web: &Web,
        grant: Grant<'_>,
        resource: &str,
        now: u64,
    ) -> Result<Granted, AuthError> {
        let mut form = grant.form();
        form.push(("resource", resource.to_owned()));
        let answer = self.send(web, form, now).await?;
        granted(self.endpoint, &answer).map_err(|error| error.hiding(&self.told(grant.secrets())))
    }

    /// Takes a token back. An issuer answers success to anything that is worth nothing now (RFC 7009).
    pub(super) async fn revoke(
        &self,
        web: &Web,
        token: &Hidden,
        hint: &str,
        now: u64,
    ) -> Result<(), AuthError> {
        let hidden = token.clone();
        let token = ("token", token.reveal().to_owned());
        let answer = self.send(web, vec![token, ("token_type_hint", hint.to_owned())], now).await?;
        if (200..=299).contains(&answer.status) {
            Ok(())
        } else {
            let told = self.told(vec![hidden]);
            Err(refusal(self.endpoint, &answer).hiding(&told))
        }
    }

    /// What an answer must not be shown with.
    fn told(&self, mut secrets: Vec<Hidden>) -> Vec<Hidden> {
        secrets.extend(self.settings.client_secret.clone());
        secrets.extend(self.client.secret.clone());
        secrets
    }

    async fn send(&self, web: &Web, mut form: Form, now: u64) -> Result<Answer, AuthError> {
        let Client { id, secret, method, .. } = self.client;
        // What is configured may have changed since the login.
        let secret = self.settings.client_secret.as_ref().or(secret.as_ref());
        let mut header = None;
        match (method, secret, &self.settings.private_key) {
            (Method::ClientSecretBasic, Some(secret), _) => header = Some(basic(id, secret)?),
            (Method::ClientSecretPost, Some(secret), _) => {
                form.push(("client_id", id.clone()));
                form.push(("client_secret", secret.reveal().to_owned()));
            }
            (Method::PrivateKeyJwt, _, Some(key)) => {
                let assertion = assertion(key, id, self.issuer, now)?;
                form.push(("client_id", id.clone()));
                form.push(("client_assertion_type", ASSERTION.to_owned()));
                form.push(("client_assertion", assertion.reveal().to_owned()));
            }
            (Method::PrivateKeyJwt, _, None) => {
                return Err(AuthError::BadKey("none is configured any more"));
            }
            _ => form.push(("client_id", id.clone())),
        }
        web.post_form(self.endpoint, &form, header).await
    }
}

impl Grant<'_> {
    fn secrets(&self) -> Vec<Hidden> {
        match self {
            Self::Code { code, verifier, .. } => vec![Hidden::new(*code), Hidden::new(*verifier)],
            Self::Refresh(token) => vec![(*token).clone()],
            Self::ClientCredentials { .. } => Vec::new(),
        }
    }

    fn form(&self) -> Form {
        match self {
            Self::Code { code, verifier, redirect } => vec![
                ("grant_type", "authorization_code".to_owned()),
                ("code", (*code).to_owned()),
                ("redirect_uri", (*redirect).to_owned()),
                ("code_verifier", (*verifier).to_owned()),
            ],
            Self::Refresh(token) => vec![
                ("grant_type", "refresh_token".to_owned()),
                ("refresh_token", token.reveal().to_owned()),
            ],
            Self::ClientCredentials { scopes } => {
                let mut form = vec![("grant_type", "client_credentials".to_owned())];
                if !scopes.is_empty() {
                    form.push(("scope", scopes.join(" ")));
                }
                form
            }
        }
    }
}

#[derive(Deserialize)]
struct Given {
    access_token: String,
    token_type: Option<String>,
    #[serde(default)]
    expires_in: Value,
    refresh_token: Option<String>,
    scope: Option<String>,
}

#[derive(Deserialize)]
struct Refusal {
    error: String,
    error_description: Option<String>,
}

fn granted(address: &Url, answer: &Answer) -> Result<Granted, AuthError> {
    if !(200..=299).contains(&answer.status) {
        return Err(refusal(address, answer));
    }
    let given: Given = read(address, &answer.body)?;
    let refused = |what: &str| AuthError::Refused { error: what.to_owned(), description: None };
    if given.token_type.as_deref().is_some_and(|kind| !kind.eq_ignore_ascii_case("bearer")) {
        return Err(refused("it gives a token that is no bearer token"));
    }
    let is_sendable = HeaderValue::from_str(&given.access_token).is_ok();
    if given.access_token.is_empty() || !is_sendable {
        return Err(refused("it gives a token that cannot be sent"));
    }
    Ok(Granted {
        access: Hidden::new(given.access_token),
        refresh: given.refresh_token.filter(|token| !token.is_empty()).map(Hidden::new),
        expires_in: seconds(&given.expires_in),
        scopes: given.scope.map(|scope| scope.split_whitespace().map(str::to_owned).collect()),
    })
}

pub(super) fn refusal(address: &Url, answer: &Answer) -> AuthError {
    const PASSING: [&str; 3] = ["temporarily_unavailable", "server_error", "slow_down"];
    let refusal = read::<Refusal>(address, &answer.body).ok();
    match refusal.filter(|_| (400..=499).contains(&answer.status) && answer.status != 429) {
        Some(Refusal { error, error_description }) if !PASSING.contains(&error.as_str()) => {
            let description = error_description.map(|text| excerpt(&text));
            AuthError::Refused { error: excerpt(&error), description }
        }
        _ => AuthError::Status { address: shown(address), status: answer.status },
    }
}

/// The beginning of an issuer's words, on one line.
pub(super) fn excerpt(text: &str) -> String {
    text.chars().map(|char| if char.is_control() { ' ' } else { char }).take(EXCERPT).collect()
}

/// Some issuers write the number as text, or with a fraction.
fn seconds(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64().or_else(|| Some(number.as_f64()? as u64)),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

/// RFC 6749, 2.3.1: both parts are encoded like a form before they are joined.
fn basic(id: &str, secret: &Hidden) -> Result<HeaderValue, AuthError> {
    let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
    let pair = format!("{}:{}", encoded(id), encoded(secret.reveal()));
    let value = HeaderValue::from_str(&format!("Basic {}", BASE64.encode(pair.as_bytes())));
    let mut value = value.map_err(|_| AuthError::BadKey("it cannot be sent"))?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: u16, body: &str) -> Result<Granted, AuthError> {
        let address = Url::parse("https://i.example/token").unwrap();
        granted(&address, &Answer { status, body: body.as_bytes().to_vec() })
    }

    #[test]
    fn a_token_is_read_however_its_time_is_written() {
        for (time, expected) in
            [("3600", Some(3600)), ("\"60\"", Some(60)), ("59.9", Some(59)), ("null", None)]
        {
            let body = format!(r#"{{"access_token":"a","expires_in":{time},"scope":"x  y"}}"#);
            let granted = of(200, &body).unwrap();
            assert_eq!((granted.access.reveal(), granted.expires_in), ("a", expected));
            assert_eq!(granted.scopes.unwrap(), ["x", "y"]);
            assert!(granted.refresh.is_none());
        }
    }

    #[test]
    fn what_can_not_be_a_token_is_none() {
        for body in [
            r#"{"access_token":""}"#,
            r#"{"access_token":"a\r\nHost: evil"}"#,
            r#"{"access_token":"a","token_type":"DPoP"}"#,
            r#"{"token_type":"Bearer"}"#,
            "<html>",
            "",
        ] {
            assert!(of(200, body).is_err(), "{body}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_not_repeated_and_neither_is_what_the_issuer_was_told() {
        for body in [
            r#""t0ken""#,
            r#"{"access_token":["t0ken"]}"#,
            r#"{"access_token":"a","scope":5,"t0ken"#,
        ] {
            let error = crate::signals::chain(&of(200, body).unwrap_err());
            assert!(!error.contains("t0ken") && error.contains("line 1"), "{error}");
        }
        let said = r#"{"error":"invalid_grant","error_description":"r3fresh is not known"}"#;
        let told = [Hidden::new("r3fresh")];
        let error = of(400, said).unwrap_err().hiding(&told);
        assert!(error.is_final());
        assert_eq!(error.to_string(), "the issuer refuses: invalid_grant (*** is not known)");
    }

    #[test]
    fn only_a_clear_word_of_the_issuer_ends_a_grant() {
        for (status, body, is_final) in [
            (400, r#"{"error":"invalid_grant"}"#, true),
            (401, r#"{"error":"invalid_client"}"#, true),
            (400, r#"{"error":"invalid_scope"}"#, false),
            (400, r#"{"error":"temporarily_unavailable"}"#, false),
            (429, r#"{"error":"invalid_grant"}"#, false),
            (500, r#"{"error":"invalid_grant"}"#, false),
            (502, "<html>", false),
            (400, "<html>", false),
        ] {
            assert_eq!(of(status, body).unwrap_err().is_final(), is_final, "{status} {body}");
        }
    }

    #[test]
    fn an_issuers_words_are_shown_on_one_line() {
        let error = of(400, "{\"error\":\"a\\u001b[31m\\nb\"}").unwrap_err().to_string();
        assert_eq!(error, "the issuer refuses: a [31m b");
    }

    #[test]
    fn name_and_password_are_encoded_before_they_are_joined() {
        let value = basic("a:b", &Hidden::new("c d%")).unwrap();
        assert!(value.is_sensitive());
        let encoded = BASE64.encode(b"a%3Ab:c+d%25");
        assert_eq!(value.to_str().unwrap(), format!("Basic {encoded}"));
    }
}
