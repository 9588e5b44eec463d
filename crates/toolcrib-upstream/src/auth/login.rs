//! A person's login at an issuer: the address to open, what may come back, and what is kept of it.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use toolcrib_config::Hidden;
use toolcrib_config::model::auth::OAuthGrant;
use toolcrib_wire::handshake::{Implementation, Initialize};
use toolcrib_wire::view::ClientCapabilities;
use toolcrib_wire::{Id, Version, build, method};
use url::Url;

use super::account::{Account, Kept, Record};
use super::accounts::{Accounts, Protected, now};
use super::challenge::Challenge;
use super::client::{Client, Registered, Way, registration};
use super::discover::{Found, discover, resource};
use super::error::AuthError;
use super::grant::{Grant, excerpt, refusal};
use super::pkce::{challenge, random};
use super::scope::{needs_consent, offline, scopes, union};
use super::web::{Web, read};

/// How a login begins.
#[derive(Debug)]
pub enum Begun {
    /// A person has to open an address.
    Ask(Box<Login>),
    /// The host got a token by itself.
    Done(LoggedIn),
}

/// A login that waits for its answer. Dropped, it has changed nothing.
pub struct Login {
    accounts: Accounts,
    server: Protected,
    web: Web,
    address: Url,
    account: Account,
    expects: Expected,
    verifier: Hidden,
    redirect: String,
}

/// What a login gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedIn {
    pub issuer: String,
    pub scopes: Vec<String>,
    /// In seconds.
    pub expires_in: Option<u64>,
    /// Whether it can be renewed without a person.
    pub is_lasting: bool,
}

/// What a logout did.
#[derive(Debug)]
pub struct LoggedOut {
    /// Whether there was anything to forget.
    pub was_known: bool,
    /// Whether the issuer took its tokens back; what kept it from that, or nothing where it has no way to.
    pub revoked: Option<Result<(), AuthError>>,
}

/// What the answer to a login must be like.
#[derive(Debug)]
struct Expected {
    issuer: String,
    /// Whether the issuer always says who it is.
    names_itself: bool,
    state: Hidden,
}

impl Accounts {
    /// Begins a login. The answer goes to `redirect`, which is where the caller listens.
    pub async fn begin_login(
        &self,
        server: &Protected,
        redirect: &str,
    ) -> Result<Begun, AuthError> {
        if server.client.grant == OAuthGrant::ClientCredentials {
            let kept = self.renew(&Arc::new(server.clone()), None, None).await?;
            let record = self.record(server).await?;
            let account = record.account(server.issuer()).ok_or(AuthError::Ended)?;
            return Ok(Begun::Done(LoggedIn::of(account, &kept)));
        }
        let web = self.web(server).await?;
        let record = self.record(server).await?;
        let challenge = why(&web, server, &record).await?;
        let known = record.account(server.issuer());
        let issuer = known.map(|account| account.issuer.as_str());
        let found =
            discover(&web, &server.url, challenge.as_ref(), server.issuer(), issuer).await?;
        let login =
            self.ask_for(server, web, &record, &found, challenge.as_ref(), redirect).await?;
        Ok(Begun::Ask(Box::new(login)))
    }

    async fn ask_for(
        &self,
        server: &Protected,
        web: Web,
        record: &Record,
        found: &Found,
        asked: Option<&Challenge>,
        redirect: &str,
    ) -> Result<Login, AuthError> {
        let issuer = &found.issuer;
        let lacking = |what| AuthError::Lacking { issuer: issuer.issuer.clone(), what };
        let endpoint = issuer.authorization_endpoint.clone();
        let endpoint = endpoint.ok_or_else(|| lacking("authorization endpoint"))?;
        if !issuer.has_s256() {
            return Err(lacking("protection of codes (PKCE with S256)"));
        }
        let known = record.account(Some(&issuer.issuer));
        let scopes = scopes(&server.client.scopes, asked, found, &before(record, known));
        let scopes = offline(scopes, found);
        let way = server.client.way(issuer, known.map(|known| &known.client), redirect)?;
        let client = become_client(&web, way, found, redirect).await?;
        let (verifier, state) = (random(32)?, random(16)?);
        let account = Account::new(found, client, scopes)?;
        Ok(Login {
            address: address(endpoint, &account, redirect, &state, &challenge(&verifier)),
            expects: Expected {
                issuer: issuer.issuer.clone(),
                names_itself: issuer.authorization_response_iss_parameter_supported,
                state: Hidden::new(state),
            },
            accounts: self.clone(),
            server: server.clone(),
            web,
            account,
            verifier: Hidden::new(verifier),
            redirect: redirect.to_owned(),
        })
    }

    /// Where the last registration expects answers, so that it can be used again.
    pub async fn last_redirect(&self, server: &Protected) -> Option<String> {
        let record = self.record(server).await.ok()?;
        record.account(server.issuer())?.client.redirect.clone()
    }

    /// Gives tokens back and forgets them, whether the issuer can be reached or not.
    pub async fn logout(&self, server: &Protected) -> Result<LoggedOut, AuthError> {
        let _lock = self.lock(server).await?;
        let record = match self.record(server).await {
            // What cannot be read can still be forgotten.
            Err(AuthError::Record(_)) => Record::default(),
            record => record?,
        };
        let mut revoked = None;
        for account in &record.accounts {
            let outcome = self.revoke(server, account).await;
            if !matches!(revoked, Some(Err(_))) {
                revoked = outcome.or(revoked);
            }
        }
        self.remove(server).await?;
        let was_known = record.accounts.iter().any(|account| account.tokens.is_some());
        Ok(LoggedOut { was_known, revoked })
    }

    async fn revoke(&self, server: &Protected, account: &Account) -> Option<Result<(), AuthError>> {
        let (endpoint, kept) = (account.revocation_endpoint.as_ref()?, account.tokens.as_ref()?);
        let work = async {
            let web = self.web(server).await?;
            let desk = super::grant::Desk { endpoint, ..account.desk(server) };
            if let Some(refresh) = &kept.refresh {
                desk.revoke(&web, refresh, "refresh_token", now()).await?;
            }
            desk.revoke(&web, &kept.access, "access_token", now()).await
        };
        Some(work.await)
    }
}

impl Login {
    /// What a person opens in a browser.
    pub fn address(&self) -> &Url {
        &self.address
    }

    /// Whether this is meant as the answer to this login, and not a stranger's.
    pub fn is_answer(&self, answer: &str) -> bool {
        let said = said(answer);
        said.get("state").map(String::as_str) == Some(self.expects.state.reveal())
    }

    /// Ends the login with the address, or its query, that the issuer sent the person to.
    pub async fn finish(self, answer: &str) -> Result<LoggedIn, AuthError> {
        let code = self.expects.code(answer)?;
        let grant = Grant::Code {
            code: code.reveal(),
            verifier: self.verifier.reveal(),
            redirect: &self.redirect,
        };
        let Self { accounts, server, web, mut account, .. } = self;
        // Before the code is spent: what it gives must not be lost because others hold what is kept.
        let _lock = accounts.lock(&server).await?;
        let desk = account.desk(&server);
        let granted = desk.ask(&web, grant, &account.resource, now()).await?;
        let given = granted.scopes.clone();
        let kept = Kept::of(granted, None, now());
        // What was given beyond what was asked for is not lost with the next login either.
        account.scopes = union(&account.scopes, given.as_deref().unwrap_or_default());
        account.tokens = Some(kept.clone());
        let told = LoggedIn {
            scopes: given.unwrap_or_else(|| account.scopes.clone()),
            ..LoggedIn::of(&account, &kept)
        };
        let mut record = accounts.record(&server).await.or_else(|error| match error {
            AuthError::Record(_) => Ok(Record::default()),
            error => Err(error),
        })?;
        record.take(account);
        accounts.save(&server, &record).await?;
        Ok(told)
    }
}

impl LoggedIn {
    fn of(account: &Account, kept: &Kept) -> Self {
        Self {
            issuer: account.issuer.clone(),
            scopes: account.scopes.clone(),
            expires_in: kept.expires_at.map(|end| end.saturating_sub(kept.received_at)),
            is_lasting: kept.refresh.is_some(),
        }
    }
}

impl Expected {
    /// The code in an answer, if it is the answer to this login, and of the issuer that was asked.
    fn code(&self, answer: &str) -> Result<Hidden, AuthError> {
        let said = said(answer);
        // First of all: what a stranger says is not even shown.
        match said.get("iss") {
            Some(found) if *found != self.issuer => {
                let (expected, found) = (self.issuer.clone(), excerpt(found));
                return Err(AuthError::ForeignAnswer { expected, found });
            }
            None if self.names_itself => {
                return Err(AuthError::UnsignedAnswer(self.issuer.clone()));
            }
            _ => {}
        }
        if said.get("state").map(String::as_str) != Some(self.state.reveal()) {
            return Err(AuthError::OtherLogin);
        }
        if let Some(error) = said.get("error") {
            let description = said.get("error_description").map(|text| excerpt(text));
            return Err(AuthError::Refused { error: excerpt(error), description });
        }
        said.get("code").map(Hidden::new).ok_or(AuthError::NoCode)
    }
}

/// What an answer says, whether it is a whole address or its query.
fn said(answer: &str) -> HashMap<String, String> {
    let query = answer.trim();
    let query = query.split_once('?').map_or(query, |(_, query)| query);
    let query = query.split('#').next().unwrap_or_default();
    url::form_urlencoded::parse(query.as_bytes()).into_owned().collect()
}

/// Why a login is wanted: what the server says now, or said to the host. An error if it is not wanted at all.
async fn why(
    web: &Web,
    server: &Protected,
    record: &Record,
) -> Result<Option<Challenge>, AuthError> {
    let denial = web.knock(&server.url, server.headers.clone(), opening(server)).await?;
    let wanted = record.wanted.clone().map(|wanted| Challenge {
        resource_metadata: wanted.resource_metadata,
        scopes: wanted.scopes,
        error: None,
    });
    match denial {
        Some(denial) => Ok(Challenge::of(&denial.challenges).or(wanted)),
        None if wanted.is_some() => Ok(wanted),
        None if server.client.is_configured => Ok(None),
        // Some let everybody in and want to know who it is only later.
        None => match resource(web, &server.url, None).await? {
            Some(_) => Ok(None),
            None => Err(AuthError::NotNeeded),
        },
    }
}

/// What a client says first; a server that minds says so.
fn opening(server: &Protected) -> Option<String> {
    let client = Implementation::new("toolcrib", env!("CARGO_PKG_VERSION"));
    let version = Version::from("2025-11-25");
    let params = Initialize::build(&version, &ClientCapabilities::default(), &client);
    let message = build::request(&Id::Number(0), method::INITIALIZE, Some(params.json()));
    (!server.is_sse).then(|| message.text().to_owned())
}

/// What was asked for before, and since.
fn before(record: &Record, known: Option<&Account>) -> Vec<String> {
    let asked = known.map(|known| known.scopes.as_slice()).unwrap_or_default();
    let wanted = record.wanted.as_ref().and_then(|wanted| wanted.scopes.as_deref());
    union(asked, wanted.unwrap_or_default())
}

async fn become_client(
    web: &Web,
    way: Way,
    found: &Found,
    redirect: &str,
) -> Result<Client, AuthError> {
    let endpoint = match way {
        Way::Known(client) => return Ok(client),
        Way::Register(endpoint) => endpoint,
    };
    let said = registration(&found.issuer, redirect);
    let answer = web.post_json(&endpoint, &said).await?;
    if !(200..=299).contains(&answer.status) {
        return Err(refusal(&endpoint, &answer));
    }
    Ok(read::<Registered>(&endpoint, &answer.body)?.client(&found.issuer, redirect))
}

fn address(
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

/// The address holds what only the person's browser may know.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("issuer", &self.expects.issuer).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(names_itself: bool, answer: &str) -> String {
        let state = Hidden::new("st");
        let expected = Expected { issuer: "https://i.example".to_owned(), names_itself, state };
        match expected.code(answer) {
            Ok(code) => code.reveal().to_owned(),
            Err(error) => error.code().to_owned() + " " + &error.to_string(),
        }
    }

    #[test]
    fn an_answer_counts_if_it_is_the_issuers_and_to_this_login() {
        let iss = "iss=https%3A%2F%2Fi.example";
        let whole = format!("http://127.0.0.1:1/callback?code=c%2B1&state=st&{iss}#_");
        assert_eq!(code(true, &whole), "c+1");
        assert_eq!(code(false, "  code=c&state=st\n"), "c");
        assert_eq!(code(false, "?code=c&state=st"), "c");
        for (names_itself, answer, expected) in [
            (true, "code=c&state=st", "auth.wrong_issuer"),
            (false, "code=c&state=st&iss=https://i.example/", "auth.wrong_issuer"),
            (true, "code=c&state=st&iss=https://evil.example", "auth.wrong_issuer"),
            (false, "code=c&state=other", "auth.refused the answer does not belong"),
            (false, "code=c", "auth.refused the answer does not belong"),
            (false, "state=st", "auth.refused the answer to the login holds no code"),
            (false, "state=st&error=access_denied", "auth.refused the issuer refuses: access_"),
            (false, "", "auth.refused"),
        ] {
            let found = code(names_itself, answer);
            assert!(found.starts_with(expected), "{answer}: {found}");
        }
    }

    #[test]
    fn a_strangers_words_are_not_shown() {
        let found = code(false, "error=phish&error_description=call+me&state=st&iss=x");
        assert!(!found.contains("phish") && !found.contains("call me"), "{found}");
    }
}
