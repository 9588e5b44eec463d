//! Resolves references in configuration values: inputs and secrets from all configured stores.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::time::timeout;
use toolcrib_config::model::host::{SecretKind, SecretStore};
use toolcrib_config::model::security::SecuritySection;
use toolcrib_config::{Config, Reference, SecretString, ServerSpec, Value};

use super::credential_store::{CredentialStore, SERVICE};
use super::keyring::KeyringError;
use super::secret_cache::SecretCache;
use super::secret_error::{MissingSecret, SecretError, SecretErrorReason};
use super::{command, file, vault};
use crate::process::Instance;
use crate::signals::chain;
use crate::transport::{Permissions, Tls};

/// Maximum number of concurrent lookups for one server.
const MAX_CONCURRENT_LOOKUPS: usize = 8;

/// Timeout of stores that configure none.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// Cache time of slow stores that configure none.
const DEFAULT_CACHE_TIME: Duration = Duration::from_secs(300);

/// Environment of store lookups.
#[derive(Clone)]
pub struct StoreContext {
    /// Starts the processes of command stores.
    pub instance: Instance,
    /// The host's environment.
    pub env: Vec<(String, String)>,
    /// Working directory of commands.
    pub cwd: PathBuf,
    /// TLS settings for vaults.
    pub tls: Tls,
}

/// Resolves references of configuration values.
#[derive(Debug)]
pub struct SecretSources {
    credentials: CredentialStore,
    context: StoreContext,
    stores: ArcSwap<BTreeMap<String, SecretStore>>,
    /// True if `host.secrets` is invalid. Then no store is accessed.
    is_invalid: AtomicBool,
    cache: SecretCache,
}

/// Resolved references of one server's values, except variables. Kept only while the server is being
/// connected.
#[derive(Debug, Default)]
pub struct ResolvedSecrets(BTreeMap<Reference, SecretString>);

impl SecretSources {
    /// Creates sources without declared stores.
    pub fn new(credentials: CredentialStore, context: StoreContext) -> Self {
        let (stores, cache) = (ArcSwap::default(), SecretCache::default());
        Self { credentials, context, stores, is_invalid: AtomicBool::new(false), cache }
    }

    /// Returns the credential store that holds the inputs.
    pub fn credentials(&self) -> &CredentialStore {
        &self.credentials
    }

    /// Applies the stores of a configuration. While its section is invalid, no store is accessed.
    pub fn configure(&self, config: &Config) {
        let is_invalid = config.security.is_invalid(SecuritySection::Secrets);
        self.is_invalid.store(is_invalid, Ordering::Release);
        self.set_stores(&config.host.secrets);
    }

    /// Replaces the declared stores and clears the cache if they changed.
    pub fn set_stores(&self, stores: &BTreeMap<String, SecretStore>) {
        if **self.stores.load() != *stores {
            self.stores.store(Arc::new(stores.clone()));
            self.cache.clear();
        }
    }

    /// Resolves all references of a server's values, except variables. Returns the first failure.
    pub async fn resolve(
        &self,
        spec: &ServerSpec,
        permissions: Permissions,
    ) -> Result<ResolvedSecrets, SecretError> {
        let wanted: BTreeSet<_> =
            spec.values().into_iter().flat_map(Value::references).filter(needs_lookup).collect();
        let lookups = wanted.into_iter().map(|reference| async {
            match self.resolve_reference(&reference, &spec.base, permissions).await {
                Ok(value) => Ok((reference, value)),
                Err(reason) => Err(SecretError { reference, reason }),
            }
        });
        stream::iter(lookups)
            .buffer_unordered(MAX_CONCURRENT_LOOKUPS)
            .try_collect()
            .await
            .map(ResolvedSecrets)
    }

    /// Returns whether any value refers to a store with a cache. Its secret may have changed since.
    pub fn uses_cached_secrets<'a>(
        &self,
        values: impl IntoIterator<Item = &'a Value>,
        base: &Path,
    ) -> bool {
        store_references(values).any(|(name, _)| {
            let store = self.find_store(&name, base).ok();
            let is_slow = |kind| matches!(kind, SecretKind::Command | SecretKind::Vault);
            store.is_some_and(|store| is_slow(store.kind))
        })
    }

    /// Removes a server's secrets from the cache, so that the next lookup fetches them again.
    pub fn invalidate(&self, spec: &ServerSpec) {
        store_references(spec.values()).for_each(|(name, path)| self.cache.remove(&name, &path));
    }

    async fn resolve_reference(
        &self,
        reference: &Reference,
        base: &Path,
        permissions: Permissions,
    ) -> Result<SecretString, SecretErrorReason> {
        match reference {
            Reference::Env(name) => find_variable(&self.context.env, name)
                .map(SecretString::new)
                .ok_or(SecretErrorReason::Missing(MissingSecret::Name)),
            Reference::Input(id) => {
                let stored = self.credentials.read(&input_credential_name(base, id)).await;
                stored
                    .map_err(|error| SecretErrorReason::Unreachable(chain(&error)))?
                    .ok_or(SecretErrorReason::Unanswered)
            }
            Reference::Secret { provider, path } => {
                let (name, store) = (provider, self.find_store(provider, base)?);
                let limit = store.timeout.map_or(DEFAULT_TIMEOUT, |limit| limit.0);
                let lookup = self.read_secret(name, &store, path, permissions, limit);
                timeout(limit, lookup).await.unwrap_or(Err(SecretErrorReason::Timeout(limit)))
            }
        }
    }

    /// Finds a declared store. The `file` and `keyring` stores need no declaration.
    fn find_store(&self, name: &str, base: &Path) -> Result<SecretStore, SecretErrorReason> {
        if self.is_invalid.load(Ordering::Acquire) {
            return Err(SecretErrorReason::SectionInvalid);
        }
        if let Some(store) = self.stores.load().get(name) {
            return Ok(store.clone());
        }
        let kind = match name {
            "file" => SecretKind::File,
            "keyring" => SecretKind::Keyring,
            _ => return Err(SecretErrorReason::Undeclared(name.to_owned())),
        };
        let path = Some(base.display().to_string());
        Ok(SecretStore { kind, path, ..SecretStore::default() })
    }

    async fn read_secret(
        &self,
        name: &str,
        store: &SecretStore,
        path: &str,
        permissions: Permissions,
        limit: Duration,
    ) -> Result<SecretString, SecretErrorReason> {
        let max_age = store.cache.map_or(DEFAULT_CACHE_TIME, |max_age| max_age.0);
        let StoreContext { instance, env, cwd, tls } = &self.context;
        match store.kind {
            SecretKind::File => {
                let folder = store.path.as_deref().unwrap_or_default();
                file::get(cwd.join(folder), path.to_owned()).await
            }
            SecretKind::Keyring => {
                let service = store.service.as_deref().unwrap_or(SERVICE);
                self.read_keyring(service, path).await
            }
            SecretKind::Command if !permissions.spawn => Err(SecretErrorReason::SpawnForbidden),
            SecretKind::Command => {
                let fetch = command::get(instance, env, cwd, &store.command, path);
                self.cache.get(name, path, max_age, fetch).await
            }
            SecretKind::Vault if !permissions.network => Err(SecretErrorReason::NetworkForbidden),
            SecretKind::Vault => {
                let token = self.resolve_token(name, store, permissions).await?;
                let fetch = vault::get(store, &token, tls, path, limit);
                self.cache.get(name, path, max_age, fetch).await
            }
        }
    }

    async fn read_keyring(
        &self,
        service: &str,
        user: &str,
    ) -> Result<SecretString, SecretErrorReason> {
        match self.credentials.keyring().get(service, user).await {
            Ok(found) => found.ok_or_else(|| {
                let (service, user) = (service.to_owned(), user.to_owned());
                SecretErrorReason::Missing(MissingSecret::Keyring { service, user })
            }),
            Err(KeyringError::Timeout(limit)) => Err(SecretErrorReason::Timeout(limit)),
            Err(error) => Err(SecretErrorReason::Unreachable(error.to_string())),
        }
    }

    /// Resolves the store's own token. A token may come from another store, but not from a vault, which would
    /// allow cycles.
    async fn resolve_token(
        &self,
        name: &str,
        store: &SecretStore,
        permissions: Permissions,
    ) -> Result<SecretString, SecretErrorReason> {
        let declared = |text: &str| SecretErrorReason::BadDeclaration(text.to_owned());
        let token = store.token.as_ref().ok_or_else(|| declared("it needs a `token`"))?;
        let mut found = BTreeMap::new();
        for reference in token.references() {
            if let Reference::Secret { provider, .. } = &reference {
                let kind = self.find_store(provider, &self.context.cwd)?.kind;
                if kind == SecretKind::Vault || provider == name {
                    return Err(declared("its `token` cannot come from a vault"));
                }
            }
            let lookup =
                Box::pin(self.resolve_reference(&reference, &self.context.cwd, permissions)).await;
            let value = lookup.map_err(|reason| match reason {
                SecretErrorReason::Missing(_) | SecretErrorReason::Unanswered => {
                    SecretErrorReason::BadDeclaration(format!("its token is missing: {reference}"))
                }
                other => other,
            })?;
            found.insert(reference, value);
        }
        let found = ResolvedSecrets(found);
        token.resolve(&|reference| found.find(&self.context.env, None, reference)).map_err(
            |reference| {
                SecretErrorReason::BadDeclaration(format!("its token is missing: {reference}"))
            },
        )
    }
}

impl ResolvedSecrets {
    /// Returns the value of a reference: a variable of the host, then of the server's env file, or a resolved
    /// secret.
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
        find_variable(env, name)
            .map(str::to_owned)
            .or_else(|| own().map(|(_, value)| value.reveal().to_owned()))
    }
}

impl ResolvedSecrets {
    /// Returns all resolved secrets, for masking the server's output.
    pub fn secret_values(&self) -> Vec<SecretString> {
        self.0.values().flat_map(SecretString::parts).collect()
    }
}

/// Name under which an input is stored. The name includes the folder, so that another folder's configuration
/// cannot read the input by using the same id.
pub fn input_credential_name(base: &Path, id: &str) -> String {
    format!("input {id} of {}", base.display())
}

/// Lists the store and the path of each secret reference in `values`.
fn store_references<'a>(
    values: impl IntoIterator<Item = &'a Value>,
) -> impl Iterator<Item = (String, String)> {
    let references = values.into_iter().flat_map(Value::references);
    references.filter_map(|reference| match reference {
        Reference::Secret { provider, path } => Some((provider, path)),
        Reference::Env(_) | Reference::Input(_) => None,
    })
}

fn find_variable<'a>(env: &'a [(String, String)], name: &str) -> Option<&'a str> {
    env.iter().rfind(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

fn needs_lookup(reference: &Reference) -> bool {
    !matches!(reference, Reference::Env(_))
}

/// Hides the environment, because it may hold secrets.
impl std::fmt::Debug for StoreContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreContext").field("cwd", &self.cwd).finish_non_exhaustive()
    }
}
