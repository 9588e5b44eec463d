//! Credentials out of a store that remembers its answers: where a server refuses them, the store is asked again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use reqwest::header::HeaderMap;
use tokio::time::Instant;
use toolcrib_config::{Hidden, Reference, ServerSpec};

use super::setup::{Setup, World};
use crate::secrets::Found;
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
}

/// What requests carry, and the how-manieth it is: that is all that others see of it.
#[derive(Debug)]
struct Now {
    headers: HeaderMap,
    number: u64,
    /// When a refusal last made the store be asked.
    asked: Option<Instant>,
}

impl Stored {
    /// Nothing for a server that is given nothing which a store remembers.
    pub(super) fn of(
        setup: &Setup,
        find: &dyn Fn(&Reference) -> Option<String>,
    ) -> Result<Option<Self>, OpenError> {
        if !setup.world.sources.remembers(&setup.spec) {
            return Ok(None);
        }
        let Some(headers) = headers(&setup.spec, find)? else { return Ok(None) };
        let now = Mutex::new(Now { headers, number: 0, asked: None });
        let (world, spec) = (Arc::clone(&setup.world), Arc::clone(&setup.spec));
        Ok(Some(Stored { world, spec, now }))
    }

    /// What requests carry from now on, if it is other than what was used.
    async fn renewed(&self, used: Option<&Hidden>) -> Option<Hidden> {
        if used != Some(&self.number()) {
            return Some(self.number());
        }
        if self.is_due() {
            self.world.sources.distrust(&self.spec);
        }
        // Whoever comes while the store is being asked waits for the same answer.
        let found = self.world.sources.resolve(&self.spec, self.world.permissions.get()).await;
        let headers = self.headers(&found.ok()?)?;
        let mut now = self.now();
        if now.headers != headers {
            now.headers = headers;
            now.number += 1;
        }
        let number = shown(now.number);
        (used != Some(&number)).then_some(number)
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

    fn headers(&self, found: &Found) -> Option<HeaderMap> {
        let find = |reference: &Reference| found.find(&self.world.env, Some(&self.spec), reference);
        headers(&self.spec, &find).ok()?
    }

    fn number(&self) -> Hidden {
        shown(self.now().number)
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tokens for Stored {
    fn at_hand(&self) -> Option<Option<Hidden>> {
        Some(Some(self.number()))
    }

    fn token(&self) -> Coming<'_, Result<Option<Hidden>, NoToken>> {
        Box::pin(async { Ok(Some(self.number())) })
    }

    fn instead<'a>(
        &'a self,
        used: Option<&'a Hidden>,
        denial: &'a Denial,
    ) -> Coming<'a, Result<Option<Hidden>, NoToken>> {
        Box::pin(async move {
            match denial.status {
                401 => Ok(self.renewed(used).await),
                _ => Ok(None),
            }
        })
    }

    fn put(&self, headers: &mut HeaderMap, _: &Hidden) -> Result<(), HttpFault> {
        for (name, value) in &self.now().headers {
            headers.insert(name, value.clone());
        }
        Ok(())
    }
}

fn headers(
    spec: &ServerSpec,
    find: &dyn Fn(&Reference) -> Option<String>,
) -> Result<Option<HeaderMap>, OpenError> {
    let Some(remote) = remote_of(&spec.transport) else { return Ok(None) };
    let credentials = Credentials::configured(&spec.policy.auth, find);
    let credentials = credentials.map_err(OpenError::Missing)?;
    dressed(remote, SCHEMES, &credentials, find).map(|(_, headers)| Some(headers))
}

fn shown(number: u64) -> Hidden {
    Hidden::new(number.to_string())
}
