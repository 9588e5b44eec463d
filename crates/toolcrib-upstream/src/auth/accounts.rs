//! The logins of a host: what is kept of them, and how a token is renewed by one process at a time.

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
use toolcrib_config::{Hidden, Reference, ServerSpec};
use url::Url;

use super::account::{Account, Kept, Record};
use super::challenge::Challenge;
use super::client::ClientSettings;
use super::discover::{Found, discover};
use super::error::AuthError;
use super::grant::{Desk, Grant};
use super::metadata::canonical;
use super::scope::{scopes, union};
use super::source::Source;
use super::web::Web;
use crate::secrets::{Keep, KeepLock};
use crate::transport::{OpenError, Permissions, SCHEMES, Tls, Tokens, remote_of, resolved};

/// Another process that renews needs a few requests; one that hangs is bounded by their limits.
const PATIENCE: Duration = Duration::from_secs(60);

/// A token that is refused this soon after it was given is not refused for its age, in seconds.
const FRESH: u64 = 10;

/// The accounts that a host has with issuers. Clones share them; so do other processes with the same keep.
#[derive(Clone)]
pub struct Accounts {
    shared: Arc<Shared>,
    /// Whether issuers may be asked at all.
    network: bool,
}

struct Shared {
    keep: Keep,
    tls: Tls,
    /// Renewals under way. They belong to nobody's call: one that is broken off may lose what the issuer gave.
    work: Mutex<JoinSet<()>>,
}

/// A server that may want tokens.
#[derive(Clone, Debug)]
pub struct Protected {
    pub id: String,
    pub url: Url,
    /// What every request to it carries besides; the values are marked as sensitive.
    pub headers: HeaderMap,
    /// Whether it speaks HTTP+SSE, where the first request is a GET.
    pub is_sse: bool,
    /// Whose account it is, where agents have their own.
    pub agent: Option<String>,
    pub client: ClientSettings,
}

impl Accounts {
    pub fn new(keep: Keep, tls: Tls) -> Self {
        let shared = Arc::new(Shared { keep, tls, work: Mutex::new(JoinSet::new()) });
        Self { shared, network: true }
    }

    /// The same accounts for somebody who may not do everything.
    #[must_use]
    pub fn within(self, permissions: Permissions) -> Self {
        Self { network: permissions.network, ..self }
    }

    /// The tokens for one server, as transports use them.
    pub fn tokens(&self, server: Protected) -> Arc<dyn Tokens> {
        Arc::new(Source::new(self.clone(), server))
    }

    /// Waits for renewals under way, for as long as they may take.
    pub async fn settled(&self, limit: Duration) {
        let mut work = std::mem::take(&mut *self.work());
        // What is not done by then is what the issuer never answered.
        let _ = timeout(limit, async { while work.join_next().await.is_some() {} }).await;
    }

    pub(super) async fn web(&self, server: &Protected) -> Result<Web, AuthError> {
        match self.network {
            true => Web::towards(&server.url, &self.shared.tls).await,
            false => Err(AuthError::NetworkForbidden),
        }
    }

    pub(super) async fn record(&self, server: &Protected) -> Result<Record, AuthError> {
        match self.shared.keep.read(&server.name()).await.map_err(AuthError::Keep)? {
            Some(text) => serde_json::from_str(text.reveal()).map_err(unread),
            None => Ok(Record::default()),
        }
    }

    pub(super) async fn save(&self, server: &Protected, record: &Record) -> Result<(), AuthError> {
        let text = Hidden::new(serde_json::to_string(record).map_err(unread)?);
        self.shared.keep.write(&server.name(), &text).await.map_err(AuthError::Keep)
    }

    pub(super) async fn remove(&self, server: &Protected) -> Result<(), AuthError> {
        self.shared.keep.remove(&server.name()).await.map_err(AuthError::Keep)
    }

    /// Held over reading, changing and writing a record.
    pub(super) async fn lock(&self, server: &Protected) -> Result<KeepLock, AuthError> {
        self.shared.keep.lock(&server.name(), PATIENCE).await.map_err(AuthError::Keep)
    }

    /// A newer token than the one that was used; it may be that another process has got it already.
    pub(super) async fn renew(
        &self,
        server: &Arc<Protected>,
        used: Option<Hidden>,
        challenge: Option<Challenge>,
    ) -> Result<Kept, AuthError> {
        let (accounts, server) = (self.clone(), Arc::clone(server));
        self.carry(async move {
            let _lock = accounts.lock(&server).await?;
            let record = accounts.record(&server).await?;
            let known = record.account(server.issuer()).and_then(|account| account.tokens.clone());
            let is_refused = |kept: &Kept| used.as_ref() == Some(&kept.access);
            if let Some(kept) = known.filter(|kept| !is_refused(kept) && !kept.is_due(now())) {
                return Ok(kept);
            }
            match server.client.grant {
                OAuthGrant::Code => accounts.refresh(&server, record, used.as_ref()).await,
                OAuthGrant::ClientCredentials => accounts.obtain(&server, record, challenge).await,
            }
        })
        .await
    }

    /// Under the lock. What is kept stays as it is unless the issuer gives something, or says that it is worthless.
    async fn refresh(
        &self,
        server: &Protected,
        mut record: Record,
        used: Option<&Hidden>,
    ) -> Result<Kept, AuthError> {
        let login = || AuthError::LoginRequired { scopes: Vec::new() };
        let account = record.account_mut(server.issuer()).ok_or_else(login)?;
        let kept = account.tokens.clone().ok_or_else(login)?;
        let is_fresh = now() < kept.received_at.saturating_add(FRESH) && !kept.is_due(now());
        if is_fresh && used == Some(&kept.access) {
            return Err(login());
        }
        let refresh = kept.refresh.clone().ok_or_else(login)?;
        let web = self.web(server).await?;
        let desk = account.desk(server);
        match desk.ask(&web, Grant::Refresh(&refresh), &account.resource, now()).await {
            Ok(granted) => {
                let renewed = Kept::of(granted, Some(refresh), now());
                account.tokens = Some(renewed.clone());
                // Before anybody uses it: the old one is worth nothing from now on.
                self.save(server, &record).await?;
                Ok(renewed)
            }
            Err(error) if error.is_final() => {
                tracing::warn!(server = %server.id, error = %error, "the login is over");
                account.tokens = Some(Kept { refresh: None, ..kept });
                self.save(server, &record).await?;
                Err(login())
            }
            Err(error) => Err(error),
        }
    }

    /// Under the lock. A token for the host itself, with whatever scopes it had and the server asks for now.
    async fn obtain(
        &self,
        server: &Protected,
        mut record: Record,
        challenge: Option<Challenge>,
    ) -> Result<Kept, AuthError> {
        let known = record.account(server.issuer());
        let is_refused = challenge.is_some();
        let before = known.map(|account| account.scopes.clone()).unwrap_or_default();
        let added = challenge.as_ref().and_then(|challenge| challenge.scopes.clone());
        let wants_more = added.is_some_and(|added| union(&before, &added) != before);
        let tokens = known.and_then(|account| account.tokens.as_ref());
        if is_refused && !wants_more && tokens.is_some_and(|kept| now() < kept.received_at + FRESH)
        {
            return Err(AuthError::StillRefused);
        }
        let web = self.web(server).await?;
        let issuer = known.map(|account| account.issuer.as_str());
        let found =
            discover(&web, &server.url, challenge.as_ref(), server.issuer(), issuer).await?;
        let mut asked = scopes(&server.client.scopes, challenge.as_ref(), &found, &before);
        if wants_more && let Some(challenge) = &challenge {
            asked = union(&asked, challenge.scopes.as_deref().unwrap_or_default());
        }
        let mut account = server.own_account(&found, asked)?;
        let grant = Grant::ClientCredentials { scopes: &account.scopes };
        let desk = account.desk(server);
        let granted = desk.ask(&web, grant, &account.resource, now()).await?;
        let kept = Kept::of(granted, None, now());
        account.tokens = Some(kept.clone());
        record.take(account);
        self.save(server, &record).await?;
        Ok(kept)
    }

    /// Notes what only a person can give, so that the next login asks for it.
    pub(super) async fn want(
        &self,
        server: &Arc<Protected>,
        challenge: Challenge,
    ) -> Result<(), AuthError> {
        let (accounts, server) = (self.clone(), Arc::clone(server));
        self.carry(async move {
            let _lock = accounts.lock(&server).await?;
            let mut record = accounts.record(&server).await?;
            match record.want(&challenge) {
                true => accounts.save(&server, &record).await,
                false => Ok(()),
            }
        })
        .await
    }

    /// Does work to its end, whether anybody waits for it or not.
    async fn carry<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, AuthError>> + Send + 'static,
    ) -> Result<T, AuthError> {
        let (done, outcome) = oneshot::channel();
        {
            let mut all = self.work();
            while all.try_join_next().is_some() {}
            all.spawn(async move {
                // Nobody may wait any more.
                let _ = done.send(work.await);
            });
        }
        outcome.await.unwrap_or(Err(AuthError::Ended))
    }

    fn work(&self) -> std::sync::MutexGuard<'_, JoinSet<()>> {
        self.shared.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Protected {
    /// A server that may want tokens: it is reached over HTTP, and given no other credentials.
    pub fn of(
        spec: &ServerSpec,
        find: &dyn Fn(&Reference) -> Option<String>,
    ) -> Result<Option<Self>, OpenError> {
        let client = ClientSettings::of(&spec.policy.auth, find).map_err(OpenError::Missing)?;
        let (Some(client), Some(remote)) = (client, remote_of(&spec.transport)) else {
            return Ok(None);
        };
        let (url, headers) = resolved(remote, SCHEMES, find)?;
        // Whoever writes the header himself wants that one.
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

    /// Whether a server can be one that wants tokens of whoever shows it this.
    pub fn is_possible(spec: &ServerSpec, auth: &Auth) -> bool {
        let has_others = matches!(auth, Auth::Bearer { .. } | Auth::ApiKey { .. });
        remote_of(&spec.transport).is_some() && !has_others
    }

    /// How the commands that log in and out are told which account is meant.
    pub fn words(&self) -> String {
        words(&self.id, self.agent.as_deref())
    }

    /// What the logins at this server are kept under: its address, so that two folders with the same server share
    /// them, and two servers of the same name do not.
    fn name(&self) -> String {
        let agent = self.agent.as_ref().map(|agent| format!("{agent}@")).unwrap_or_default();
        format!("oauth:{agent}{}", canonical(&self.url))
    }

    /// The only issuer that may be used.
    pub(super) fn issuer(&self) -> Option<&str> {
        self.client.issuer.as_deref()
    }

    /// The account of the host itself, without a person.
    fn own_account(&self, found: &Found, scopes: Vec<String>) -> Result<Account, AuthError> {
        let no_client = || AuthError::NoRegistration(found.issuer.issuer.clone());
        let client = self.client.configured(&found.issuer).ok_or_else(no_client)?;
        Account::new(found, client, scopes)
    }
}

impl Account {
    pub(super) fn new(
        found: &Found,
        client: super::client::Client,
        scopes: Vec<String>,
    ) -> Result<Self, AuthError> {
        let issuer = found.issuer.issuer.clone();
        let no_endpoint = || AuthError::Lacking { issuer: issuer.clone(), what: "token endpoint" };
        Ok(Self {
            token_endpoint: found.issuer.token_endpoint.clone().ok_or_else(no_endpoint)?,
            revocation_endpoint: found.issuer.revocation_endpoint.clone(),
            client,
            resource: found.resource.clone(),
            scopes,
            tokens: None,
            issuer,
        })
    }

    pub(super) fn desk<'a>(&'a self, server: &'a Protected) -> Desk<'a> {
        Desk {
            endpoint: &self.token_endpoint,
            issuer: &self.issuer,
            client: &self.client,
            settings: &server.client,
        }
    }
}

/// The account at a server, and whose it is, as commands take it.
pub fn words(server: &str, agent: Option<&str>) -> String {
    let agent = agent.map(|agent| format!(" --agent {agent}")).unwrap_or_default();
    format!("{server}{agent}")
}

fn unread(error: serde_json::Error) -> AuthError {
    AuthError::Record(error.into())
}

/// Seconds since 1970.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

impl fmt::Debug for Accounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Accounts").field("keep", &self.shared.keep).finish_non_exhaustive()
    }
}
