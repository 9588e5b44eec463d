//! Requests to the token and revocation endpoints, and their responses.

use data_encoding::BASE64;
use reqwest::header::HeaderValue;
use serde::Deserialize;
use serde_json::Value;
use toolcrib_config::SecretString;
use url::Url;
use url::form_urlencoded::byte_serialize;

use super::client_assertion::client_assertion;
use super::error::AuthError;
use super::issuer_client::{IssuerClient, IssuerResponse, display_url, parse_json};
use super::oauth_client::{ClientAuthMethod, ClientSettings, OAuthClient};

const ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// Maximum length of an issuer's text in an error.
const MAX_EXCERPT: usize = 200;

/// Grant of a token request.
pub(super) enum TokenGrant<'a> {
    Code { code: &'a str, verifier: &'a str, redirect: &'a str },
    Refresh(&'a SecretString),
    ClientCredentials { scopes: &'a [String] },
}

/// A successful token response.
#[derive(Debug)]
pub(super) struct TokenResponse {
    pub(super) access: SecretString,
    pub(super) refresh: Option<SecretString>,
    /// In seconds.
    pub(super) expires_in: Option<u64>,
    pub(super) scopes: Option<Vec<String>>,
}

/// Client of a token endpoint: the endpoint, the OAuth client, and its settings.
pub(super) struct TokenClient<'a> {
    pub(super) endpoint: &'a Url,
    pub(super) issuer: &'a str,
    pub(super) client: &'a OAuthClient,
    pub(super) settings: &'a ClientSettings,
}

type Form = Vec<(&'static str, String)>;

impl TokenClient<'_> {
    pub(super) async fn request_token(
        &self,
        issuer_client: &IssuerClient,
        grant: TokenGrant<'_>,
        resource: &str,
        now: u64,
    ) -> Result<TokenResponse, AuthError> {
        let mut form = grant.form();
        form.push(("resource", resource.to_owned()));
        let answer = self.post(issuer_client, form, now).await?;
        parse_token_response(self.endpoint, &answer)
            .map_err(|error| error.mask_secrets(&self.sent_secrets(grant.secrets())))
    }

    /// Revokes a token. The issuer also reports success for an unknown or expired token (RFC 7009).
    pub(super) async fn revoke(
        &self,
        issuer_client: &IssuerClient,
        token: &SecretString,
        hint: &str,
        now: u64,
    ) -> Result<(), AuthError> {
        let hidden = token.clone();
        let token = ("token", token.reveal().to_owned());
        let answer = self
            .post(issuer_client, vec![token, ("token_type_hint", hint.to_owned())], now)
            .await?;
        if (200..=299).contains(&answer.status) {
            Ok(())
        } else {
            let secrets = self.sent_secrets(vec![hidden]);
            Err(error_from_response(self.endpoint, &answer).mask_secrets(&secrets))
        }
    }

    /// Secrets of the request, to mask in errors.
    fn sent_secrets(&self, mut secrets: Vec<SecretString>) -> Vec<SecretString> {
        secrets.extend(self.settings.client_secret.clone());
        secrets.extend(self.client.secret.clone());
        secrets
    }

    async fn post(
        &self,
        issuer_client: &IssuerClient,
        mut form: Form,
        now: u64,
    ) -> Result<IssuerResponse, AuthError> {
        let OAuthClient { id, secret, method, .. } = self.client;
        // The configured secret may have changed since the login.
        let secret = self.settings.client_secret.as_ref().or(secret.as_ref());
        let mut header = None;
        match (method, secret, &self.settings.private_key) {
            (ClientAuthMethod::ClientSecretBasic, Some(secret), _) => {
                header = Some(basic_header(id, secret)?)
            }
            (ClientAuthMethod::ClientSecretPost, Some(secret), _) => {
                form.push(("client_id", id.clone()));
                form.push(("client_secret", secret.reveal().to_owned()));
            }
            (ClientAuthMethod::PrivateKeyJwt, _, Some(key)) => {
                let assertion = client_assertion(key, id, self.issuer, now)?;
                form.push(("client_id", id.clone()));
                form.push(("client_assertion_type", ASSERTION.to_owned()));
                form.push(("client_assertion", assertion.reveal().to_owned()));
            }
            (ClientAuthMethod::PrivateKeyJwt, _, None) => {
                return Err(AuthError::BadKey("no key is configured any more"));
            }
            _ => form.push(("client_id", id.clone())),
        }
        issuer_client.post_form(self.endpoint, &form, header).await
    }
}

impl TokenGrant<'_> {
    fn secrets(&self) -> Vec<SecretString> {
        match self {
            Self::Code { code, verifier, .. } => {
                vec![SecretString::new(*code), SecretString::new(*verifier)]
            }
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
struct TokenResponseBody {
    access_token: String,
    token_type: Option<String>,
    #[serde(default)]
    expires_in: Value,
    refresh_token: Option<String>,
    scope: Option<String>,
}

#[derive(Deserialize)]
struct ErrorResponseBody {
    error: String,
    error_description: Option<String>,
}

fn parse_token_response(
    address: &Url,
    answer: &IssuerResponse,
) -> Result<TokenResponse, AuthError> {
    if !(200..=299).contains(&answer.status) {
        return Err(error_from_response(address, answer));
    }
    let body: TokenResponseBody = parse_json(address, &answer.body)?;
    let refused = |what: &str| AuthError::Refused { error: what.to_owned(), description: None };
    if body.token_type.as_deref().is_some_and(|kind| !kind.eq_ignore_ascii_case("bearer")) {
        return Err(refused("it issued a token that is not a bearer token"));
    }
    let is_sendable = HeaderValue::from_str(&body.access_token).is_ok();
    if body.access_token.is_empty() || !is_sendable {
        return Err(refused("it issued a token that cannot be sent"));
    }
    Ok(TokenResponse {
        access: SecretString::new(body.access_token),
        refresh: body.refresh_token.filter(|token| !token.is_empty()).map(SecretString::new),
        expires_in: parse_seconds(&body.expires_in),
        scopes: body.scope.map(|scope| scope.split_whitespace().map(str::to_owned).collect()),
    })
}

pub(super) fn error_from_response(address: &Url, answer: &IssuerResponse) -> AuthError {
    const PASSING: [&str; 3] = ["temporarily_unavailable", "server_error", "slow_down"];
    let refusal = parse_json::<ErrorResponseBody>(address, &answer.body).ok();
    match refusal.filter(|_| (400..=499).contains(&answer.status) && answer.status != 429) {
        Some(ErrorResponseBody { error, error_description })
            if !PASSING.contains(&error.as_str()) =>
        {
            let description = error_description.map(|text| excerpt(&text));
            AuthError::Refused { error: excerpt(&error), description }
        }
        _ => AuthError::Status { address: display_url(address), status: answer.status },
    }
}

/// Truncates an issuer's text and removes control characters.
pub(super) fn excerpt(text: &str) -> String {
    text.chars().map(|char| if char.is_control() { ' ' } else { char }).take(MAX_EXCERPT).collect()
}

/// Parses a duration in seconds. Some issuers write it as a string or with a fraction.
fn parse_seconds(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64().or_else(|| Some(number.as_f64()? as u64)),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

/// Builds a Basic header. RFC 6749, section 2.3.1: both parts are form-encoded before they are joined.
fn basic_header(id: &str, secret: &SecretString) -> Result<HeaderValue, AuthError> {
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

    fn parse(status: u16, body: &str) -> Result<TokenResponse, AuthError> {
        let address = Url::parse("https://i.example/token").unwrap();
        parse_token_response(&address, &IssuerResponse { status, body: body.as_bytes().to_vec() })
    }

    #[test]
    fn token_response_accepts_every_form_of_expires_in() {
        for (time, expected) in
            [("3600", Some(3600)), ("\"60\"", Some(60)), ("59.9", Some(59)), ("null", None)]
        {
            let body = format!(r#"{{"access_token":"a","expires_in":{time},"scope":"x  y"}}"#);
            let granted = parse(200, &body).unwrap();
            assert_eq!((granted.access.reveal(), granted.expires_in), ("a", expected));
            assert_eq!(granted.scopes.unwrap(), ["x", "y"]);
            assert!(granted.refresh.is_none());
        }
    }

    #[test]
    fn unusable_tokens_are_rejected() {
        for body in [
            r#"{"access_token":""}"#,
            r#"{"access_token":"a\r\nHost: evil"}"#,
            r#"{"access_token":"a","token_type":"DPoP"}"#,
            r#"{"token_type":"Bearer"}"#,
            "<html>",
            "",
        ] {
            assert!(parse(200, body).is_err(), "{body}");
        }
    }

    #[test]
    fn token_errors_hide_response_bodies_and_sent_secrets() {
        for body in [
            r#""t0ken""#,
            r#"{"access_token":["t0ken"]}"#,
            r#"{"access_token":"a","scope":5,"t0ken"#,
        ] {
            let error = crate::signals::chain(&parse(200, body).unwrap_err());
            assert!(!error.contains("t0ken") && error.contains("line 1"), "{error}");
        }
        let said = r#"{"error":"invalid_grant","error_description":"r3fresh is not known"}"#;
        let secrets = [SecretString::new("r3fresh")];
        let error = parse(400, said).unwrap_err().mask_secrets(&secrets);
        assert!(error.is_final());
        assert_eq!(error.to_string(), "the issuer refuses: invalid_grant (*** is not known)");
    }

    #[test]
    fn only_definite_issuer_errors_are_final() {
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
            assert_eq!(parse(status, body).unwrap_err().is_final(), is_final, "{status} {body}");
        }
    }

    #[test]
    fn issuer_errors_are_shown_on_one_line() {
        let error = parse(400, "{\"error\":\"a\\u001b[31m\\nb\"}").unwrap_err().to_string();
        assert_eq!(error, "the issuer refuses: a [31m b");
    }

    #[test]
    fn basic_header_encodes_id_and_secret_before_joining() {
        let value = basic_header("a:b", &SecretString::new("c d%")).unwrap();
        assert!(value.is_sensitive());
        let encoded = BASE64.encode(b"a%3Ab:c+d%25");
        assert_eq!(value.to_str().unwrap(), format!("Basic {encoded}"));
    }
}
