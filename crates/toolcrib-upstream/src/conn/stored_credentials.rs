//! Request credentials from a caching secret store, refreshed when the server rejects them.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use reqwest::header::HeaderMap;
use tokio::time::Instant;
use toolcrib_config::model::auth::Auth;
use toolcrib_config::{Reference, SecretString, ServerSpec, Value};
use url::Url;

use super::setup::{ConnContext, ConnSetup, server_secrets};
use crate::secrets::ResolvedSecrets;
use crate::signals::SecretMask;
use crate::transport::{
    BoxFuture, Credentials, Denial, HTTP_SCHEMES, HttpFault, OpenError, TokenError, TokenProvider,
    http_remote, resolve_with_credentials,
};

/// Minimum time between refreshes, because a persistent problem in the store does not go away.
const MIN_REFRESH_INTERVAL: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct StoredCredentials {
    context: Arc<ConnContext>,
    spec: Arc<ServerSpec>,
    current: Mutex<CurrentCredentials>,
    /// Login tokens that are sent in addition.
    login: Option<Arc<dyn TokenProvider>>,
    /// Mask for refreshed secrets.
    mask: SecretMask,
}

/// Current credentials with their version number. Only the number leaves this module.
#[derive(Debug)]
struct CurrentCredentials {
    credentials: RequestCredentials,
    number: u64,
    /// Time of the last refresh.
    refreshed_at: Option<Instant>,
}

/// URL and headers of requests.
#[derive(PartialEq)]
struct RequestCredentials {
    url: Url,
    headers: HeaderMap,
}

impl StoredCredentials {
    /// Returns `None` if the server's requests contain no value from a caching store.
    pub(super) fn for_setup(
        setup: &ConnSetup,
        find: &dyn Fn(&Reference) -> Option<String>,
        login: Option<Arc<dyn TokenProvider>>,
        mask: &SecretMask,
    ) -> Result<Option<Self>, OpenError> {
        let (context, spec) = (Arc::clone(&setup.context), Arc::clone(&setup.spec));
        if !context.sources.uses_cached_secrets(request_values(&spec), &spec.base) {
            return Ok(None);
        }
        let Some(credentials) = resolve_credentials(&spec, find)? else { return Ok(None) };
        let current = Mutex::new(CurrentCredentials { credentials, number: 0, refreshed_at: None });
        Ok(Some(StoredCredentials { context, spec, current, login, mask: mask.clone() }))
    }

    /// Refreshes the credentials if they are the rejected ones. Returns their new number if they differ from the
    /// rejected ones.
    async fn refresh(&self, used: Option<u64>) -> Option<u64> {
        let number = self.lock().number;
        if used != Some(number) {
            return Some(number);
        }
        if self.claim_refresh() {
            self.context.sources.invalidate(&self.spec);
        }
        // Concurrent callers wait for the same resolution.
        let secrets =
            self.context.sources.resolve(&self.spec, self.context.permissions.get()).await;
        let secrets = secrets.ok()?;
        server_secrets(&self.spec, &self.context, &secrets)
            .iter()
            .for_each(|it| self.mask.add_secret(it));
        let credentials = self.resolve_from(&secrets)?;
        let mut current = self.lock();
        if current.credentials != credentials {
            current.credentials = credentials;
            current.number += 1;
        }
        (used != Some(current.number)).then_some(current.number)
    }

    /// Claims a refresh. Returns false if the last one was too recent.
    fn claim_refresh(&self) -> bool {
        let mut current = self.lock();
        let is_due = current
            .refreshed_at
            .is_none_or(|refreshed_at| refreshed_at.elapsed() >= MIN_REFRESH_INTERVAL);
        if is_due {
            current.refreshed_at = Some(Instant::now());
        }
        is_due
    }

    fn resolve_from(&self, secrets: &ResolvedSecrets) -> Option<RequestCredentials> {
        let find =
            |reference: &Reference| secrets.find(&self.context.env, Some(&self.spec), reference);
        resolve_credentials(&self.spec, &find).ok()?
    }

    /// Marker of the current credentials with a login token.
    fn marker_with(&self, token: Option<SecretString>) -> SecretString {
        join_marker(self.lock().number, token.as_ref())
    }

    fn lock(&self) -> MutexGuard<'_, CurrentCredentials> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TokenProvider for StoredCredentials {
    fn cached_token(&self) -> Option<Option<SecretString>> {
        let token = match &self.login {
            Some(login) => login.cached_token()?,
            None => None,
        };
        Some(Some(self.marker_with(token)))
    }

    fn fetch_token(&self) -> BoxFuture<'_, Result<Option<SecretString>, TokenError>> {
        Box::pin(async {
            let token = match &self.login {
                Some(login) => login.fetch_token().await?,
                None => None,
            };
            Ok(Some(self.marker_with(token)))
        })
    }

    fn replacement_token<'a>(
        &'a self,
        used: Option<&'a SecretString>,
        denial: &'a Denial,
    ) -> BoxFuture<'a, Result<Option<SecretString>, TokenError>> {
        Box::pin(async move {
            let (number, token) = split_marker(used);
            if denial.status == 401
                && let Some(number) = self.refresh(number).await
            {
                return Ok(Some(join_marker(number, token.as_ref())));
            }
            let Some(login) = &self.login else { return Ok(None) };
            let token = login.replacement_token(token.as_ref(), denial).await?;
            Ok(token.map(|token| self.marker_with(Some(token))))
        })
    }

    fn insert_header(
        &self,
        headers: &mut HeaderMap,
        marker: &SecretString,
    ) -> Result<(), HttpFault> {
        for (name, value) in &self.lock().credentials.headers {
            headers.insert(name, value.clone());
        }
        match (&self.login, split_marker(Some(marker)).1) {
            (Some(login), Some(token)) => login.insert_header(headers, &token),
            _ => Ok(()),
        }
    }

    fn current_url(&self) -> Option<Url> {
        let current = self.lock();
        (current.number > 0).then(|| current.credentials.url.clone())
    }
}

/// Values in every request. Values for the token issuer only are excluded.
fn request_values(spec: &ServerSpec) -> impl Iterator<Item = &Value> {
    let auth = match &spec.policy.auth {
        Auth::OAuth(_) => Vec::new(),
        auth => auth.values(),
    };
    spec.transport.values().into_iter().chain(auth)
}

fn resolve_credentials(
    spec: &ServerSpec,
    find: &dyn Fn(&Reference) -> Option<String>,
) -> Result<Option<RequestCredentials>, OpenError> {
    let Some(remote) = http_remote(&spec.transport) else { return Ok(None) };
    let credentials = Credentials::from_auth(&spec.policy.auth, find);
    let credentials = credentials.map_err(OpenError::Missing)?;
    let (url, headers) = resolve_with_credentials(remote, HTTP_SCHEMES, &credentials, find)?;
    Ok(Some(RequestCredentials { url, headers }))
}

/// Joins a credentials number and a login token into one marker.
fn join_marker(number: u64, token: Option<&SecretString>) -> SecretString {
    SecretString::new(match token {
        Some(token) => format!("{number} {}", token.reveal()),
        None => number.to_string(),
    })
}

fn split_marker(marker: Option<&SecretString>) -> (Option<u64>, Option<SecretString>) {
    let marker = marker.map(SecretString::reveal).unwrap_or_default();
    match marker.split_once(' ') {
        Some((number, token)) => (number.parse().ok(), Some(SecretString::new(token))),
        None => (marker.parse().ok(), None),
    }
}

/// Hides the URL, which may contain a key.
impl fmt::Debug for RequestCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestCredentials").finish_non_exhaustive()
    }
}
