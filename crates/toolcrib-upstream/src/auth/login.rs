//! User login at an issuer: authorization URL, verification of the response, and logout.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use toolcrib_config::SecretString;
use toolcrib_config::model::auth::OAuthGrant;
use toolcrib_wire::handshake::{Implementation, InitializeParams};
use toolcrib_wire::view::ClientCapabilities;
use toolcrib_wire::{Id, Version, build, method};
use url::Url;

use super::accounts::{Accounts, ProtectedServer, unix_now};
use super::challenge::BearerChallenge;
use super::discovery::{Discovery, discover, fetch_resource_metadata};
use super::error::AuthError;
use super::issuer_client::{IssuerClient, parse_json};
use super::login_record::{Account, LoginRecord, StoredTokens};
use super::oauth_client::{ClientSource, OAuthClient, RegistrationResponse, registration_request};
use super::pkce::{code_challenge, random_token};
use super::scopes::{needs_consent, requested_scopes, union, with_offline_access};
use super::token_endpoint::{TokenGrant, error_from_response, excerpt};

/// Result of starting a login.
#[derive(Debug)]
pub enum LoginStart {
    /// The user has to open a URL in a browser.
    Browser(Box<Login>),
    /// The host got a token without the user.
    Done(LoginOutcome),
}

/// A login that waits for the issuer's response. Dropping it changes nothing.
pub struct Login {
    accounts: Accounts,
    server: ProtectedServer,
    issuer_client: IssuerClient,
    address: Url,
    account: Account,
    expected: ExpectedResponse,
    verifier: SecretString,
    redirect: String,
}

/// Result of a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginOutcome {
    /// The issuer of the token.
    pub issuer: String,
    /// The granted scopes.
    pub scopes: Vec<String>,
    /// In seconds.
    pub expires_in: Option<u64>,
    /// True if the token can be renewed without the user.
    pub is_lasting: bool,
}

/// Result of a logout.
#[derive(Debug)]
pub struct LogoutOutcome {
    /// True if there was a login.
    pub was_known: bool,
    /// Result of revoking the tokens. `None` if the issuer has no revocation endpoint.
    pub revoked: Option<Result<(), AuthError>>,
}

/// Expected properties of the response.
#[derive(Debug)]
struct ExpectedResponse {
    issuer: String,
    /// True if the response must contain `iss`.
    requires_iss: bool,
    state: SecretString,
}

impl Accounts {
    /// Starts a login. The issuer sends its response to `redirect`, where the caller listens.
    pub async fn start_login(
        &self,
        server: &ProtectedServer,
        redirect: &str,
    ) -> Result<LoginStart, AuthError> {
        if server.client.grant == OAuthGrant::ClientCredentials {
            let tokens = self.renew(&Arc::new(server.clone()), None, None).await?;
            let record = self.load_record(server).await?;
            let account = record.account(server.issuer()).ok_or(AuthError::HostClosing)?;
            return Ok(LoginStart::Done(LoginOutcome::new(account, &tokens)));
        }
        let issuer_client = self.issuer_client(server).await?;
        let record = self.load_record(server).await?;
        let challenge = login_challenge(&issuer_client, server, &record).await?;
        let known = record.account(server.issuer());
        let issuer = known.map(|account| account.issuer.as_str());
        let discovery =
            discover(&issuer_client, &server.url, challenge.as_ref(), server.issuer(), issuer)
                .await?;
        let login = self
            .prepare_login(server, issuer_client, &record, &discovery, challenge.as_ref(), redirect)
            .await?;
        Ok(LoginStart::Browser(Box::new(login)))
    }

    async fn prepare_login(
        &self,
        server: &ProtectedServer,
        issuer_client: IssuerClient,
        record: &LoginRecord,
        discovery: &Discovery,
        challenge: Option<&BearerChallenge>,
        redirect: &str,
    ) -> Result<Login, AuthError> {
        let issuer = &discovery.issuer;
        let lacking =
            |feature| AuthError::MissingFeature { issuer: issuer.issuer.clone(), feature };
        let endpoint = issuer.authorization_endpoint.clone();
        let endpoint = endpoint.ok_or_else(|| lacking("authorization endpoint"))?;
        if !issuer.has_s256() {
            return Err(lacking("protection of codes (PKCE with S256)"));
        }
        let known = record.account(Some(&issuer.issuer));
        let scopes = requested_scopes(
            &server.client.scopes,
            challenge,
            discovery,
            &earlier_scopes(record, known),
        );
        let scopes = with_offline_access(scopes, discovery);
        let source =
            server.client.choose_client(issuer, known.map(|known| &known.client), redirect)?;
        let client = obtain_client(&issuer_client, source, discovery, redirect).await?;
        let (verifier, state) = (random_token(32)?, random_token(16)?);
        let account = Account::new(discovery, client, scopes)?;
        Ok(Login {
            address: build_authorization_url(
                endpoint,
                &account,
                redirect,
                &state,
                &code_challenge(&verifier),
            ),
            expected: ExpectedResponse {
                issuer: issuer.issuer.clone(),
                requires_iss: issuer.authorization_response_iss_parameter_supported,
                state: SecretString::new(state),
            },
            accounts: self.clone(),
            server: server.clone(),
            issuer_client,
            account,
            verifier: SecretString::new(verifier),
            redirect: redirect.to_owned(),
        })
    }

    /// Returns the redirect URI of the last registration, so that it can be reused.
    pub async fn registered_redirect(&self, server: &ProtectedServer) -> Option<String> {
        let record = self.load_record(server).await.ok()?;
        record.account(server.issuer())?.client.redirect.clone()
    }

    /// Revokes and deletes the tokens. Deletes them even if the issuer is unreachable.
    pub async fn logout(&self, server: &ProtectedServer) -> Result<LogoutOutcome, AuthError> {
        let _lock = self.lock_record(server).await?;
        let record = match self.load_record(server).await {
            // An unreadable record can still be deleted.
            Err(AuthError::CorruptRecord(_)) => LoginRecord::default(),
            record => record?,
        };
        let mut revoked = None;
        for account in &record.accounts {
            let outcome = self.revoke(server, account).await;
            if !matches!(revoked, Some(Err(_))) {
                revoked = outcome.or(revoked);
            }
        }
        self.remove_record(server).await?;
        let was_known = record.accounts.iter().any(|account| account.tokens.is_some());
        Ok(LogoutOutcome { was_known, revoked })
    }

    async fn revoke(
        &self,
        server: &ProtectedServer,
        account: &Account,
    ) -> Option<Result<(), AuthError>> {
        let (endpoint, tokens) = (account.revocation_endpoint.as_ref()?, account.tokens.as_ref()?);
        let work = async {
            let issuer_client = self.issuer_client(server).await?;
            let client =
                super::token_endpoint::TokenClient { endpoint, ..account.token_client(server) };
            if let Some(refresh) = &tokens.refresh {
                client.revoke(&issuer_client, refresh, "refresh_token", unix_now()).await?;
            }
            client.revoke(&issuer_client, &tokens.access, "access_token", unix_now()).await
        };
        Some(work.await)
    }
}

impl Login {
    /// The URL that the user opens in a browser.
    pub fn authorization_url(&self) -> &Url {
        &self.address
    }

    /// Returns whether a response belongs to this login.
    pub fn is_response(&self, response: &str) -> bool {
        let params = parse_query(response);
        params.get("state").map(String::as_str) == Some(self.expected.state.reveal())
    }

    /// Finishes the login with the redirect URL, or its query.
    pub async fn finish(self, response: &str) -> Result<LoginOutcome, AuthError> {
        let code = self.expected.authorization_code(response)?;
        let grant = TokenGrant::Code {
            code: code.reveal(),
            verifier: self.verifier.reveal(),
            redirect: &self.redirect,
        };
        let Self { accounts, server, issuer_client, mut account, .. } = self;
        // Locks before redeeming the code, so that a lock timeout cannot lose the tokens.
        let _lock = accounts.lock_record(&server).await?;
        let client = account.token_client(&server);
        let granted =
            client.request_token(&issuer_client, grant, &account.resource, unix_now()).await?;
        let granted_scopes = granted.scopes.clone();
        let tokens = StoredTokens::from_response(granted, None, unix_now());
        // Later logins also request scopes that were granted without a request.
        account.scopes = union(&account.scopes, granted_scopes.as_deref().unwrap_or_default());
        account.tokens = Some(tokens.clone());
        let outcome = LoginOutcome {
            scopes: granted_scopes.unwrap_or_else(|| account.scopes.clone()),
            ..LoginOutcome::new(&account, &tokens)
        };
        let mut record = accounts.load_record(&server).await.or_else(|error| match error {
            AuthError::CorruptRecord(_) => Ok(LoginRecord::default()),
            error => Err(error),
        })?;
        record.add_account(account);
        accounts.save_record(&server, &record).await?;
        Ok(outcome)
    }
}

impl LoginOutcome {
    fn new(account: &Account, tokens: &StoredTokens) -> Self {
        Self {
            issuer: account.issuer.clone(),
            scopes: account.scopes.clone(),
            expires_in: tokens.expires_at.map(|end| end.saturating_sub(tokens.received_at)),
            is_lasting: tokens.refresh.is_some(),
        }
    }
}

impl ExpectedResponse {
    /// Returns the code if the response belongs to this login and comes from the expected issuer.
    fn authorization_code(&self, response: &str) -> Result<SecretString, AuthError> {
        let params = parse_query(response);
        // Checked first: errors from another issuer are not even shown.
        match params.get("iss") {
            Some(found) if *found != self.issuer => {
                let (expected, found) = (self.issuer.clone(), excerpt(found));
                return Err(AuthError::ResponseFromOtherIssuer { expected, found });
            }
            None if self.requires_iss => {
                return Err(AuthError::ResponseWithoutIssuer(self.issuer.clone()));
            }
            _ => {}
        }
        if params.get("state").map(String::as_str) != Some(self.state.reveal()) {
            return Err(AuthError::StateMismatch);
        }
        if let Some(error) = params.get("error") {
            let description = params.get("error_description").map(|text| excerpt(text));
            return Err(AuthError::Refused { error: excerpt(error), description });
        }
        params.get("code").map(SecretString::new).ok_or(AuthError::MissingCode)
    }
}

/// Parses the query of a response, which may be a whole URL.
fn parse_query(response: &str) -> HashMap<String, String> {
    let query = response.trim();
    let query = query.split_once('?').map_or(query, |(_, query)| query);
    let query = query.split('#').next().unwrap_or_default();
    url::form_urlencoded::parse(query.as_bytes()).into_owned().collect()
}

/// Returns the challenge for a login: the server's current one, or the pending one. Fails if no login is
/// needed.
async fn login_challenge(
    issuer_client: &IssuerClient,
    server: &ProtectedServer,
    record: &LoginRecord,
) -> Result<Option<BearerChallenge>, AuthError> {
    let denial = issuer_client
        .probe_server(&server.url, server.headers.clone(), initialize_message(server))
        .await?;
    let wanted = record.wanted.clone().map(|wanted| BearerChallenge {
        resource_metadata: wanted.resource_metadata,
        scopes: wanted.scopes,
        error: None,
    });
    match denial {
        Some(denial) => Ok(BearerChallenge::from_headers(&denial.challenges).or(wanted)),
        None if wanted.is_some() => Ok(wanted),
        None if server.client.is_configured => Ok(None),
        // Some servers accept anonymous clients and require a token only later.
        None => match fetch_resource_metadata(issuer_client, &server.url, None).await? {
            Some(_) => Ok(None),
            None => Err(AuthError::LoginNotNeeded),
        },
    }
}

/// Builds an `initialize` request, to which a protected server responds with a challenge.
fn initialize_message(server: &ProtectedServer) -> Option<String> {
    let client = Implementation::new("toolcrib", env!("CARGO_PKG_VERSION"));
    let version = Version::from("2025-11-25");
    let params = InitializeParams::build(&version, &ClientCapabilities::default(), &client);
    let message = build::request(&Id::Number(0), method::INITIALIZE, Some(params.json()));
    (!server.is_sse).then(|| message.text().to_owned())
}

/// Returns the scopes of earlier logins and of the pending challenge.
fn earlier_scopes(record: &LoginRecord, known: Option<&Account>) -> Vec<String> {
    let asked = known.map(|known| known.scopes.as_slice()).unwrap_or_default();
    let wanted = record.wanted.as_ref().and_then(|wanted| wanted.scopes.as_deref());
    union(asked, wanted.unwrap_or_default())
}

async fn obtain_client(
    issuer_client: &IssuerClient,
    source: ClientSource,
    discovery: &Discovery,
    redirect: &str,
) -> Result<OAuthClient, AuthError> {
    let endpoint = match source {
        ClientSource::Known(client) => return Ok(client),
        ClientSource::Register(endpoint) => endpoint,
    };
    let request = registration_request(&discovery.issuer, redirect);
    let answer = issuer_client.post_json(&endpoint, &request).await?;
    if !(200..=299).contains(&answer.status) {
        return Err(error_from_response(&endpoint, &answer));
    }
    Ok(parse_json::<RegistrationResponse>(&endpoint, &answer.body)?
        .into_client(&discovery.issuer, redirect))
}

fn build_authorization_url(
    mut endpoint: Url,
    account: &Account,
    redirect: &str,
    state: &str,
    challenge: &str,
) -> Url {
    let mut query = endpoint.query_pairs_mut();
    query
        .append_pair("response_type", "code")
        .append_pair("client_id", &account.client.id)
        .append_pair("redirect_uri", redirect)
        .append_pair("state", state)
        .append_pair("code_challenge", challenge)
        .append_pair("code_challenge_method", "S256")
        .append_pair("resource", &account.resource);
    if !account.scopes.is_empty() {
        query.append_pair("scope", &account.scopes.join(" "));
    }
    if needs_consent(&account.scopes) {
        query.append_pair("prompt", "consent");
    }
    drop(query);
    endpoint
}

/// Hides the URL, which holds secrets of this login.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("issuer", &self.expected.issuer).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(requires_iss: bool, response: &str) -> String {
        let state = SecretString::new("st");
        let expected =
            ExpectedResponse { issuer: "https://i.example".to_owned(), requires_iss, state };
        match expected.authorization_code(response) {
            Ok(code) => code.reveal().to_owned(),
            Err(error) => error.code().to_owned() + " " + &error.to_string(),
        }
    }

    #[test]
    fn response_must_match_issuer_and_state() {
        let iss = "iss=https%3A%2F%2Fi.example";
        let whole = format!("http://127.0.0.1:1/callback?code=c%2B1&state=st&{iss}#_");
        assert_eq!(code(true, &whole), "c+1");
        assert_eq!(code(false, "  code=c&state=st\n"), "c");
        assert_eq!(code(false, "?code=c&state=st"), "c");
        for (requires_iss, answer, expected) in [
            (true, "code=c&state=st", "auth.wrong_issuer"),
            (false, "code=c&state=st&iss=https://i.example/", "auth.wrong_issuer"),
            (true, "code=c&state=st&iss=https://evil.example", "auth.wrong_issuer"),
            (false, "code=c&state=other", "auth.refused the response does not belong"),
            (false, "code=c", "auth.refused the response does not belong"),
            (false, "state=st", "auth.refused the login response contains no code"),
            (false, "state=st&error=access_denied", "auth.refused the issuer refuses: access_"),
            (false, "", "auth.refused"),
        ] {
            let found = code(requires_iss, answer);
            assert!(found.starts_with(expected), "{answer}: {found}");
        }
    }

    #[test]
    fn errors_from_other_issuers_are_not_shown() {
        let found = code(false, "error=phish&error_description=call+me&state=st&iss=x");
        assert!(!found.contains("phish") && !found.contains("call me"), "{found}");
    }
}
