//! Everything that values of configuration may refer to, and how it is had when a server is about to be reached.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::time::timeout;
use toolcrib_config::model::host::{SecretKind, SecretStore};
use toolcrib_config::model::security::Section;
use toolcrib_config::{Config, Hidden, Reference, ServerSpec, Value};

use super::cached::Cached;
use super::keep::{Keep, SERVICE};
use super::keyring::KeyringError;
use super::unresolved::{Gap, Unresolved, Why};
use super::{command, file, vault};
use crate::process::Instance;
use crate::signals::chain;
use crate::transport::{Permissions, Tls};

/// How many values of one server are asked for at a time.
const AT_A_TIME: usize = 8;

/// The longest wait for a store that says nothing of it.
const LIMIT: Duration = Duration::from_secs(10);

/// How long the answer of a slow store that says nothing of it is kept.
const KEEP: Duration = Duration::from_secs(300);

/// What stores are asked with.
#[derive(Clone)]
pub struct Means {
    pub instance: Instance,
    /// The host's environment.
    pub env: Vec<(String, String)>,
    /// Where commands run.
    pub cwd: PathBuf,
    pub tls: Tls,
}

/// Where values come from.
#[derive(Debug)]
pub struct Sources {
    keep: Keep,
    means: Means,
    stores: ArcSwap<BTreeMap<String, SecretStore>>,
    /// Whether `host.secrets` is invalid: then no store is asked.
    is_invalid: AtomicBool,
    cached: Cached,
}

/// What a server's values refer to besides variables, for as long as it takes to reach the server.
#[derive(Debug, Default)]
pub struct Found(BTreeMap<Reference, Hidden>);

impl Sources {
    pub fn new(keep: Keep, means: Means) -> Self {
        let (stores, cached) = (ArcSwap::default(), Cached::default());
        Self { keep, means, stores, is_invalid: AtomicBool::new(false), cached }
    }

    pub fn keep(&self) -> &Keep {
        &self.keep
    }

    /// Takes over the stores of a configuration. While its section is invalid no store is asked.
    pub fn configure(&self, config: &Config) {
        let is_invalid = config.security.is_invalid(Section::Secrets);
        self.is_invalid.store(is_invalid, Ordering::Release);
        self.declare(&config.host.secrets);
    }

    /// The stores that configuration declares from now on.
    pub fn declare(&self, stores: &BTreeMap<String, SecretStore>) {
        if **self.stores.load() != *stores {
            self.stores.store(Arc::new(stores.clone()));
            self.cached.forget();
        }
    }

    /// Everything that a server's values refer to, variables apart. The first that cannot be had is the error.
    pub async fn resolve(
        &self,
        spec: &ServerSpec,
        permissions: Permissions,
    ) -> Result<Found, Unresolved> {
        let wanted: BTreeSet<_> =
            spec.values().into_iter().flat_map(Value::references).filter(is_asked_for).collect();
        let asked = wanted.into_iter().map(|reference| async {
            match self.value(&reference, &spec.base, permissions).await {
                Ok(value) => Ok((reference, value)),
                Err(why) => Err(Unresolved { reference, why }),
            }
        });
        stream::iter(asked).buffer_unordered(AT_A_TIME).try_collect().await.map(Found)
    }

    /// Whether values of a file in a folder refer to an answer that is remembered for a while: it may be another by now.
    pub fn remembers<'a>(&self, values: impl IntoIterator<Item = &'a Value>, base: &Path) -> bool {
        secrets(values).any(|(name, _)| {
            let store = self.store(&name, base).ok();
            let is_slow = |kind| matches!(kind, SecretKind::Command | SecretKind::Vault);
            store.is_some_and(|store| is_slow(store.kind))
        })
    }

    /// What is remembered for a server is not believed any more: it is asked for again.
    pub fn distrust(&self, spec: &ServerSpec) {
        secrets(spec.values()).for_each(|(name, path)| self.cached.forget_one(&name, &path));
    }

    async fn value(
        &self,
        reference: &Reference,
        base: &Path,
        permissions: Permissions,
    ) -> Result<Hidden, Why> {
        match reference {
            Reference::Env(name) => {
                variable(&self.means.env, name).map(Hidden::new).ok_or(Why::Missing(Gap::Name))
            }
            Reference::Input(id) => {
                let kept = self.keep.read(&input_name(base, id)).await;
                kept.map_err(|error| Why::Unreachable(chain(&error)))?.ok_or(Why::Unanswered)
            }
            Reference::Secret { provider, path } => {
                let (name, store) = (provider, self.store(provider, base)?);
                let limit = store.timeout.map_or(LIMIT, |limit| limit.0);
                let got = self.secret(name, &store, path, permissions, limit);
                timeout(limit, got).await.unwrap_or(Err(Why::Late(limit)))
            }
        }
    }

    /// Files and the keyring need no declaration.
    fn store(&self, name: &str, base: &Path) -> Result<SecretStore, Why> {
        if self.is_invalid.load(Ordering::Acquire) {
            return Err(Why::Invalid);
        }
        if let Some(store) = self.stores.load().get(name) {
            return Ok(store.clone());
        }
        let kind = match name {
            "file" => SecretKind::File,
            "keyring" => SecretKind::Keyring,
            _ => return Err(Why::Undeclared(name.to_owned())),
        };
        let path = Some(base.display().to_string());
        Ok(SecretStore { kind, path, ..SecretStore::default() })
    }

    async fn secret(
        &self,
        name: &str,
        store: &SecretStore,
        path: &str,
        permissions: Permissions,
        limit: Duration,
    ) -> Result<Hidden, Why> {
        let keep = store.cache.map_or(KEEP, |keep| keep.0);
        let Means { instance, env, cwd, tls } = &self.means;
        match store.kind {
            SecretKind::File => {
                let folder = store.path.as_deref().unwrap_or_default();
                file::get(cwd.join(folder), path.to_owned()).await
            }
            SecretKind::Keyring => {
                let service = store.service.as_deref().unwrap_or(SERVICE);
                self.in_keyring(service, path).await
            }
            SecretKind::Command if !permissions.spawn => Err(Why::SpawnForbidden),
            SecretKind::Command => {
                let asked = command::get(instance, env, cwd, &store.command, path);
                self.cached.get(name, path, keep, asked).await
            }
            SecretKind::Vault if !permissions.network => Err(Why::NetworkForbidden),
            SecretKind::Vault => {
                let token = self.token(name, store, permissions).await?;
                let asked = vault::get(store, &token, tls, path, limit);
                self.cached.get(name, path, keep, asked).await
            }
        }
    }

    async fn in_keyring(&self, service: &str, user: &str) -> Result<Hidden, Why> {
        match self.keep.keyring().get(service, user).await {
            Ok(found) => found.ok_or_else(|| {
                let (service, user) = (service.to_owned(), user.to_owned());
                Why::Missing(Gap::Keyring { service, user })
            }),
            Err(KeyringError::Late(limit)) => Err(Why::Late(limit)),
            Err(error) => Err(Why::Unreachable(error.to_string())),
        }
    }

    /// A token may come from a store as well, but not from another vault: somewhere it must begin.
    async fn token(
        &self,
        name: &str,
        store: &SecretStore,
        permissions: Permissions,
    ) -> Result<Hidden, Why> {
        let declared = |text: &str| Why::Declared(text.to_owned());
        let token = store.token.as_ref().ok_or_else(|| declared("it needs a `token`"))?;
        let mut found = BTreeMap::new();
        for reference in token.references() {
            if let Reference::Secret { provider, .. } = &reference {
                let kind = self.store(provider, &self.means.cwd)?.kind;
                if kind == SecretKind::Vault || provider == name {
                    return Err(declared("its `token` cannot come from a vault"));
                }
            }
            let got = Box::pin(self.value(&reference, &self.means.cwd, permissions)).await;
            let value = got.map_err(|why| match why {
                Why::Missing(_) | Why::Unanswered => {
                    Why::Declared(format!("its token is not there: {reference}"))
                }
                other => other,
            })?;
            found.insert(reference, value);
        }
        let found = Found(found);
        token
            .resolve(&|reference| found.find(&self.means.env, None, reference))
            .map_err(|reference| Why::Declared(format!("its token is not there: {reference}")))
    }
}

impl Found {
    /// The value of a reference: a variable of the host, or else of the server's own file of variables, or what was
    /// found.
    pub fn find(
        &self,
        env: &[(String, String)],
        spec: Option<&ServerSpec>,
        reference: &Reference,
    ) -> Option<String> {
        let Reference::Env(name) = reference else {
            return self.0.get(reference).map(|value| value.reveal().to_owned());
        };
        let file = spec.and_then(|spec| spec.transport.env()?.file.as_ref());
        let own = || file?.values.iter().rfind(|(known, _)| known == name);
        variable(env, name)
            .map(str::to_owned)
            .or_else(|| own().map(|(_, value)| value.reveal().to_owned()))
    }
}

impl Found {
    /// All that must not be shown, if the server says it.
    pub fn secrets(&self) -> Vec<Hidden> {
        self.0.values().flat_map(Hidden::parts).collect()
    }
}

/// What an answer is kept under. It is for the files of one folder: another folder's must not have it by asking for
/// the same id.
pub fn input_name(base: &Path, id: &str) -> String {
    format!("input {id} of {}", base.display())
}

/// What of some values is in stores: the name of each store, and the path.
fn secrets<'a>(
    values: impl IntoIterator<Item = &'a Value>,
) -> impl Iterator<Item = (String, String)> {
    let references = values.into_iter().flat_map(Value::references);
    references.filter_map(|reference| match reference {
        Reference::Secret { provider, path } => Some((provider, path)),
        Reference::Env(_) | Reference::Input(_) => None,
    })
}

fn variable<'a>(env: &'a [(String, String)], name: &str) -> Option<&'a str> {
    env.iter().rfind(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

fn is_asked_for(reference: &Reference) -> bool {
    !matches!(reference, Reference::Env(_))
}

/// The environment may hold secrets: it is not shown.
impl std::fmt::Debug for Means {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Means").field("cwd", &self.cwd).finish_non_exhaustive()
    }
}
