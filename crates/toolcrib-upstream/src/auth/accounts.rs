//! The host's OAuth accounts: storage of logins, and token renewal by one process at a time.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reqwest::header::{AUTHORIZATION, HeaderMap};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::timeout;
use toolcrib_config::model::auth::{Auth, OAuthGrant};
use toolcrib_config::model::transport::Transport;
use toolcrib_config::{Reference, SecretString, ServerSpec};
use url::Url;

use super::challenge::BearerChallenge;
use super::discovery::{Discovery, discover};
use super::error::AuthError;
use super::issuer_client::IssuerClient;
use super::login_record::{Account, LoginRecord, StoredTokens};
use super::metadata::canonical_url;
use super::oauth_client::ClientSettings;
use super::scopes::{requested_scopes, union};
use super::token_endpoint::{TokenClient, TokenGrant};
use super::token_source::TokenSource;
use crate::secrets::{CredentialLock, CredentialStore};
use crate::transport::{
    HTTP_SCHEMES, OpenError, Permissions, Tls, TokenProvider, http_remote, resolve_remote,
};

/// Timeout of the record lock. A renewal in another process takes a few requests, whose timeouts bound it.
const LOCK_TIMEOUT: Duration = Duration::from_secs(60);

/// A token that is refused within this many seconds after its receipt is not refused for its age.
const MIN_REJECTED_AGE: u64 = 10;

/// The host's accounts at issuers. Clones and other processes with the same credential store share them.
#[derive(Clone)]
pub struct Accounts {
    inner: Arc<AccountsInner>,
    /// True if network access is allowed.
    network: bool,
}

struct AccountsInner {
    store: CredentialStore,
    tls: Tls,
    /// Running renewals. They run detached from calls, because a cancelled renewal could lose a rotated
    /// refresh token.
    renewals: Mutex<JoinSet<()>>,
}

/// A server that may require tokens.
#[derive(Clone, Debug)]
pub struct ProtectedServer {
    /// Id of the server in the configuration.
    pub id: String,
    /// URL of the server.
    pub url: Url,
    /// Additional headers of every request; their values are marked as sensitive.
    pub headers: HeaderMap,
    /// True if the server uses HTTP+SSE, where the first request is a GET.
    pub is_sse: bool,
    /// The agent that owns the account, if agents have separate accounts.
    pub agent: Option<String>,
    /// OAuth client settings.
    pub client: ClientSettings,
}

impl Accounts {
    /// Creates accounts whose logins live in `store`.
    pub fn new(store: CredentialStore, tls: Tls) -> Self {
        let inner = Arc::new(AccountsInner { store, tls, renewals: Mutex::new(JoinSet::new()) });
        Self { inner, network: true }
    }

    /// Restricts the accounts to the given permissions.
    #[must_use]
    pub fn with_permissions(self, permissions: Permissions) -> Self {
        Self { network: permissions.network, ..self }
    }

    /// Returns the token provider of one server.
    pub fn tokens(&self, server: ProtectedServer) -> Arc<dyn TokenProvider> {
        Arc::new(TokenSource::new(self.clone(), server))
    }

    /// Waits for running renewals, for at most `limit`.
    pub async fn wait_for_renewals(&self, limit: Duration) {
        let mut work = std::mem::take(&mut *self.renewals());
        // A renewal that is still running then has no response from the issuer.
        let _ = timeout(limit, async { while work.join_next().await.is_some() {} }).await;
    }

    pub(super) async fn issuer_client(
        &self,
        server: &ProtectedServer,
    ) -> Result<IssuerClient, AuthError> {
        match self.network {
            true => IssuerClient::for_server(&server.url, &self.inner.tls).await,
            false => Err(AuthError::NetworkForbidden),
        }
    }

    pub(super) async fn load_record(
        &self,
        server: &ProtectedServer,
    ) -> Result<LoginRecord, AuthError> {
        match self
            .inner
            .store
            .read(&server.record_name())
            .await
            .map_err(AuthError::CredentialStore)?
        {
            Some(text) => serde_json::from_str(text.reveal()).map_err(corrupt_record),
            None => Ok(LoginRecord::default()),
        }
    }

    pub(super) async fn save_record(
        &self,
        server: &ProtectedServer,
        record: &LoginRecord,
    ) -> Result<(), AuthError> {
        let text = SecretString::new(serde_json::to_string(record).map_err(corrupt_record)?);
        self.inner
            .store
            .write(&server.record_name(), &text)
            .await
            .map_err(AuthError::CredentialStore)
    }

    pub(super) async fn remove_record(&self, server: &ProtectedServer) -> Result<(), AuthError> {
        self.inner.store.remove(&server.record_name()).await.map_err(AuthError::CredentialStore)
    }

    /// Locks a record for a read-modify-write.
    pub(super) async fn lock_record(
        &self,
        server: &ProtectedServer,
    ) -> Result<CredentialLock, AuthError> {
        self.inner
            .store
            .lock(&server.record_name(), LOCK_TIMEOUT)
            .await
            .map_err(AuthError::CredentialStore)
    }

    /// Returns a newer token than `used`. Another process may have stored one already.
    pub(super) async fn renew(
        &self,
        server: &Arc<ProtectedServer>,
        used: Option<SecretString>,
        challenge: Option<BearerChallenge>,
    ) -> Result<StoredTokens, AuthError> {
        let (accounts, server) = (self.clone(), Arc::clone(server));
        self.run_detached(async move {
            let _lock = accounts.lock_record(&server).await?;
            let record = accounts.load_record(&server).await?;
            let known = record.account(server.issuer()).and_then(|account| account.tokens.clone());
            let is_refused = |tokens: &StoredTokens| used.as_ref() == Some(&tokens.access);
            if let Some(tokens) =
                known.filter(|tokens| !is_refused(tokens) && !tokens.needs_renewal(unix_now()))
            {
                return Ok(tokens);
            }
            match server.client.grant {
                OAuthGrant::Code => accounts.refresh(&server, record, used.as_ref()).await,
                OAuthGrant::ClientCredentials => {
                    accounts.request_client_token(&server, record, challenge).await
                }
            }
        })
        .await
    }

    /// Refreshes a token. The caller holds the record lock. The record changes only if the issuer returns
    /// tokens or declares the refresh token invalid.
    async fn refresh(
        &self,
        server: &ProtectedServer,
        mut record: LoginRecord,
        used: Option<&SecretString>,
    ) -> Result<StoredTokens, AuthError> {
        let login = || AuthError::LoginRequired { scopes: Vec::new() };
        let account = record.account_mut(server.issuer()).ok_or_else(login)?;
        let tokens = account.tokens.clone().ok_or_else(login)?;
        let is_fresh = unix_now() < tokens.received_at.saturating_add(MIN_REJECTED_AGE)
            && !tokens.needs_renewal(unix_now());
        if is_fresh && used == Some(&tokens.access) {
            return Err(login());
        }
        let refresh = tokens.refresh.clone().ok_or_else(login)?;
        let issuer_client = self.issuer_client(server).await?;
        let client = account.token_client(server);
        match client
            .request_token(
                &issuer_client,
                TokenGrant::Refresh(&refresh),
                &account.resource,
                unix_now(),
            )
            .await
        {
            Ok(granted) => {
                let renewed = StoredTokens::from_response(granted, Some(refresh), unix_now());
                account.tokens = Some(renewed.clone());
                // Stored before its first use: the issuer has invalidated the old refresh token.
                self.save_record(server, &record).await?;
                Ok(renewed)
            }
            Err(error) if error.is_final() => {
                tracing::warn!(server = %server.id, error = %error, "the issuer has ended the login");
                account.tokens = Some(StoredTokens { refresh: None, ..tokens });
                self.save_record(server, &record).await?;
                Err(login())
            }
            Err(error) => Err(error),
        }
    }

    /// Requests a token with the client credentials grant. The caller holds the record lock. Requests the
    /// earlier scopes and those of the challenge.
    async fn request_client_token(
        &self,
        server: &ProtectedServer,
        mut record: LoginRecord,
        challenge: Option<BearerChallenge>,
    ) -> Result<StoredTokens, AuthError> {
        let known = record.account(server.issuer());
        let is_refused = challenge.is_some();
        let before = known.map(|account| account.scopes.clone()).unwrap_or_default();
        let added = challenge.as_ref().and_then(|challenge| challenge.scopes.clone());
        let wants_more = added.is_some_and(|added| union(&before, &added) != before);
        let tokens = known.and_then(|account| account.tokens.as_ref());
        if is_refused
            && !wants_more
            && tokens.is_some_and(|tokens| unix_now() < tokens.received_at + MIN_REJECTED_AGE)
        {
            return Err(AuthError::StillRefused);
        }
        let issuer_client = self.issuer_client(server).await?;
        let issuer = known.map(|account| account.issuer.as_str());
        let discovery =
            discover(&issuer_client, &server.url, challenge.as_ref(), server.issuer(), issuer)
                .await?;
        let mut requested =
            requested_scopes(&server.client.scopes, challenge.as_ref(), &discovery, &before);
        if wants_more && let Some(challenge) = &challenge {
            requested = union(&requested, challenge.scopes.as_deref().unwrap_or_default());
        }
        let mut account = server.client_account(&discovery, requested)?;
        let grant = TokenGrant::ClientCredentials { scopes: &account.scopes };
        let client = account.token_client(server);
        let granted =
            client.request_token(&issuer_client, grant, &account.resource, unix_now()).await?;
        let tokens = StoredTokens::from_response(granted, None, unix_now());
        account.tokens = Some(tokens.clone());
        record.add_account(account);
        self.save_record(server, &record).await?;
        Ok(tokens)
    }

    /// Stores a challenge, so that the next login requests its scopes.
    pub(super) async fn record_challenge(
        &self,
        server: &Arc<ProtectedServer>,
        challenge: BearerChallenge,
    ) -> Result<(), AuthError> {
        let (accounts, server) = (self.clone(), Arc::clone(server));
        self.run_detached(async move {
            let _lock = accounts.lock_record(&server).await?;
            let mut record = accounts.load_record(&server).await?;
            match record.add_challenge(&challenge) {
                true => accounts.save_record(&server, &record).await,
                false => Ok(()),
            }
        })
        .await
    }

    /// Runs `work` to completion, even if the caller is cancelled.
    async fn run_detached<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, AuthError>> + Send + 'static,
    ) -> Result<T, AuthError> {
        let (done, outcome) = oneshot::channel();
        {
            let mut all = self.renewals();
            while all.try_join_next().is_some() {}
            all.spawn(async move {
                // The caller may have been cancelled.
                let _ = done.send(work.await);
            });
        }
        outcome.await.unwrap_or(Err(AuthError::HostClosing))
    }

    fn renewals(&self) -> std::sync::MutexGuard<'_, JoinSet<()>> {
        self.inner.renewals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ProtectedServer {
    /// Builds a protected server from a spec. Returns `None` unless the server uses HTTP and has no other
    /// credentials.
    pub fn from_spec(
        spec: &ServerSpec,
        find: &dyn Fn(&Reference) -> Option<String>,
    ) -> Result<Option<Self>, OpenError> {
        let client =
            ClientSettings::from_auth(&spec.policy.auth, find).map_err(OpenError::Missing)?;
        let (Some(client), Some(remote)) = (client, http_remote(&spec.transport)) else {
            return Ok(None);
        };
        let (url, headers) = resolve_remote(remote, HTTP_SCHEMES, find)?;
        // A configured `Authorization` header takes precedence.
        if headers.contains_key(AUTHORIZATION) {
            return Ok(None);
        }
        Ok(Some(Self {
            id: spec.id.to_string(),
            url,
            headers,
            is_sse: matches!(spec.transport, Transport::Sse(_)),
            agent: spec.agent.as_deref().map(str::to_owned),
            client,
        }))
    }

    /// Returns whether a server with this `auth` setting may require OAuth tokens.
    pub fn may_need_token(spec: &ServerSpec, auth: &Auth) -> bool {
        let has_others = matches!(auth, Auth::Bearer { .. } | Auth::ApiKey { .. });
        http_remote(&spec.transport).is_some() && !has_others
    }

    /// Returns the arguments that identify this account on the command line of `login` and `logout`.
    pub fn login_args(&self) -> String {
        login_args(&self.id, self.agent.as_deref())
    }

    /// Credential name of the logins at this server. Keyed by URL, so that two folders with the same server
    /// share them and two servers of the same name do not.
    fn record_name(&self) -> String {
        let agent = self.agent.as_ref().map(|agent| format!("{agent}@")).unwrap_or_default();
        format!("oauth:{agent}{}", canonical_url(&self.url))
    }

    /// The only issuer that may be used, if configured.
    pub(super) fn issuer(&self) -> Option<&str> {
        self.client.issuer.as_deref()
    }

    /// Builds the account of the client credentials grant.
    fn client_account(
        &self,
        discovery: &Discovery,
        scopes: Vec<String>,
    ) -> Result<Account, AuthError> {
        let no_client = || AuthError::NoRegistration(discovery.issuer.issuer.clone());
        let client = self.client.configured_client(&discovery.issuer).ok_or_else(no_client)?;
        Account::new(discovery, client, scopes)
    }
}

impl Account {
    pub(super) fn new(
        discovery: &Discovery,
        client: super::oauth_client::OAuthClient,
        scopes: Vec<String>,
    ) -> Result<Self, AuthError> {
        let issuer = discovery.issuer.issuer.clone();
        let no_endpoint =
            || AuthError::MissingFeature { issuer: issuer.clone(), feature: "token endpoint" };
        Ok(Self {
            token_endpoint: discovery.issuer.token_endpoint.clone().ok_or_else(no_endpoint)?,
            revocation_endpoint: discovery.issuer.revocation_endpoint.clone(),
            client,
            resource: discovery.resource.clone(),
            scopes,
            tokens: None,
            issuer,
        })
    }

    pub(super) fn token_client<'a>(&'a self, server: &'a ProtectedServer) -> TokenClient<'a> {
        TokenClient {
            endpoint: &self.token_endpoint,
            issuer: &self.issuer,
            client: &self.client,
            settings: &server.client,
        }
    }
}

/// Returns the command line arguments that identify the account at a server.
pub fn login_args(server: &str, agent: Option<&str>) -> String {
    let agent = agent.map(|agent| format!(" --agent {agent}")).unwrap_or_default();
    format!("{server}{agent}")
}

fn corrupt_record(error: serde_json::Error) -> AuthError {
    AuthError::CorruptRecord(error.into())
}

/// Returns seconds since 1970.
pub(super) fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

impl fmt::Debug for Accounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Accounts").field("store", &self.inner.store).finish_non_exhaustive()
    }
}
