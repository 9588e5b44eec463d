//! Credentials out of a store that remembers its answers: where a server refuses them, the store is asked again.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use reqwest::header::HeaderMap;
use tokio::time::Instant;
use toolcrib_config::model::auth::Auth;
use toolcrib_config::{Hidden, Reference, ServerSpec, Value};
use url::Url;

use super::setup::{Setup, World, secrets_of};
use crate::secrets::Found;
use crate::signals::SecretMask;
use crate::transport::{
    Coming, Credentials, Denial, HttpFault, NoToken, OpenError, SCHEMES, Tokens, dressed, remote_of,
};

/// A store is not asked more often because of refusals: what is wrong there stays so.
const AGAIN: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Stored {
    world: Arc<World>,
    spec: Arc<ServerSpec>,
    now: Mutex<Now>,
    /// Tokens of a login, which are shown besides.
    login: Option<Arc<dyn Tokens>>,
    /// Told of what the store says anew.
    mask: SecretMask,
}

/// What requests carry, and the how-manieth it is: that is all that others see of it.
#[derive(Debug)]
struct Now {
    dress: Dress,
    number: u64,
    /// When a refusal last made the store be asked.
    asked: Option<Instant>,
}

/// Where requests go, and their headers.
#[derive(PartialEq)]
struct Dress {
    url: Url,
    headers: HeaderMap,
}

impl Stored {
    /// Nothing for a server that is shown nothing which a store remembers.
    pub(super) fn of(
        setup: &Setup,
        find: &dyn Fn(&Reference) -> Option<String>,
        login: Option<Arc<dyn Tokens>>,
        mask: &SecretMask,
    ) -> Result<Option<Self>, OpenError> {
        let (world, spec) = (Arc::clone(&setup.world), Arc::clone(&setup.spec));
        if !world.sources.remembers(shown_values(&spec), &spec.base) {
            return Ok(None);
        }
        let Some(dress) = dress(&spec, find)? else { return Ok(None) };
        let now = Mutex::new(Now { dress, number: 0, asked: None });
        Ok(Some(Stored { world, spec, now, login, mask: mask.clone() }))
    }

    /// The number of what requests carry from now on, if it is other than what was used.
    async fn renewed(&self, used: Option<u64>) -> Option<u64> {
        let number = self.now().number;
        if used != Some(number) {
            return Some(number);
        }
        if self.is_due() {
            self.world.sources.distrust(&self.spec);
        }
        // Whoever comes while the store is being asked waits for the same answer.
        let found = self.world.sources.resolve(&self.spec, self.world.permissions.get()).await;
        let found = found.ok()?;
        secrets_of(&self.spec, &self.world, &found).iter().for_each(|it| self.mask.learn(it));
        let dress = self.dress(&found)?;
        let mut now = self.now();
        if now.dress != dress {
            now.dress = dress;
            now.number += 1;
        }
        (used != Some(now.number)).then_some(now.number)
    }

    /// Whether the store is asked because of this refusal.
    fn is_due(&self) -> bool {
        let mut now = self.now();
        let is_due = now.asked.is_none_or(|asked| asked.elapsed() >= AGAIN);
        if is_due {
            now.asked = Some(Instant::now());
        }
        is_due
    }

    fn dress(&self, found: &Found) -> Option<Dress> {
        let find = |reference: &Reference| found.find(&self.world.env, Some(&self.spec), reference);
        dress(&self.spec, &find).ok()?
    }

    /// What is at hand, with a token of the login.
    fn with(&self, token: Option<Hidden>) -> Hidden {
        both(self.now().number, token.as_ref())
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tokens for Stored {
    fn at_hand(&self) -> Option<Option<Hidden>> {
        let token = match &self.login {
            Some(login) => login.at_hand()?,
            None => None,
        };
        Some(Some(self.with(token)))
    }

    fn token(&self) -> Coming<'_, Result<Option<Hidden>, NoToken>> {
        Box::pin(async {
            let token = match &self.login {
                Some(login) => login.token().await?,
                None => None,
            };
            Ok(Some(self.with(token)))
        })
    }

    fn instead<'a>(
        &'a self,
        used: Option<&'a Hidden>,
        denial: &'a Denial,
    ) -> Coming<'a, Result<Option<Hidden>, NoToken>> {
        Box::pin(async move {
            let (number, token) = parted(used);
            if denial.status == 401
                && let Some(number) = self.renewed(number).await
            {
                return Ok(Some(both(number, token.as_ref())));
            }
            let Some(login) = &self.login else { return Ok(None) };
            let token = login.instead(token.as_ref(), denial).await?;
            Ok(token.map(|token| self.with(Some(token))))
        })
    }

    fn put(&self, headers: &mut HeaderMap, shown: &Hidden) -> Result<(), HttpFault> {
        for (name, value) in &self.now().dress.headers {
            headers.insert(name, value.clone());
        }
        match (&self.login, parted(Some(shown)).1) {
            (Some(login), Some(token)) => login.put(headers, &token),
            _ => Ok(()),
        }
    }

    fn address(&self) -> Option<Url> {
        let now = self.now();
        (now.number > 0).then(|| now.dress.url.clone())
    }
}

/// Values that every request shows. What only the issuer of its tokens sees is not among them.
fn shown_values(spec: &ServerSpec) -> impl Iterator<Item = &Value> {
    let auth = match &spec.policy.auth {
        Auth::OAuth(_) => Vec::new(),
        auth => auth.values(),
    };
    spec.transport.values().into_iter().chain(auth)
}

fn dress(
    spec: &ServerSpec,
    find: &dyn Fn(&Reference) -> Option<String>,
) -> Result<Option<Dress>, OpenError> {
    let Some(remote) = remote_of(&spec.transport) else { return Ok(None) };
    let credentials = Credentials::configured(&spec.policy.auth, find);
    let credentials = credentials.map_err(OpenError::Missing)?;
    let (url, headers) = dressed(remote, SCHEMES, &credentials, find)?;
    Ok(Some(Dress { url, headers }))
}

/// A number and a token as one.
fn both(number: u64, token: Option<&Hidden>) -> Hidden {
    Hidden::new(match token {
        Some(token) => format!("{number} {}", token.reveal()),
        None => number.to_string(),
    })
}

fn parted(shown: Option<&Hidden>) -> (Option<u64>, Option<Hidden>) {
    let shown = shown.map(Hidden::reveal).unwrap_or_default();
    match shown.split_once(' ') {
        Some((number, token)) => (number.parse().ok(), Some(Hidden::new(token))),
        None => (shown.parse().ok(), None),
    }
}

/// The address may hold a key.
impl fmt::Debug for Dress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dress").finish_non_exhaustive()
    }
}
