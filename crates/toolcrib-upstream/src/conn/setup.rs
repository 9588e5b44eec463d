//! Inputs of a connection: server spec, host context, client side and known traits.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use toolcrib_config::model::choice::Protocol;
use toolcrib_config::model::host::HttpMode;
use toolcrib_config::model::policy::ConfigDelivery;
use toolcrib_config::model::transport::{FramingMode, Transport};
use toolcrib_config::{ConfigHash, Reference, SecretString, ServerSpec};
use toolcrib_wire::handshake::Implementation;
use toolcrib_wire::view::ClientCapabilities;
use toolcrib_wire::{Era, MessageLimits, ObjectWriter, RawJson, base64};
use url::Url;

use super::catalog::Catalog;
use super::failure::Failure;
use super::masked_tokens::MaskedTokens;
use super::pausable_clock::{ClockPausingTokens, PausableClock};
use super::peer::RequestHandler;
use super::server_limit::ServerLimit;
use super::settings::ConnSettings;
use super::stored_credentials::StoredCredentials;
use crate::auth::{Accounts, ProtectedServer};
use crate::process::{GracePeriods, Instance};
use crate::secrets::{ResolvedSecrets, SecretSources};
use crate::signals::SecretMask;
use crate::transport::{Credentials, OpenContext, OpenError, Permissions, Tls, TokenProvider};

/// Resolves references to variables, inputs and secrets.
type ReferenceResolver<'a> = dyn Fn(&Reference) -> Option<String> + Send + Sync + 'a;

/// Context that all connections of a host share.
pub struct ConnContext {
    pub instance: Instance,
    /// Environment of the host process.
    pub env: Vec<(String, String)>,
    /// Sources of referenced values.
    pub sources: SecretSources,
    pub tls: Tls,
    /// OAuth logins at servers.
    pub accounts: Accounts,
    pub permissions: SharedPermissions,
    pub http_mode: SharedHttpMode,
    pub graces: GracePeriods,
    pub traits: TraitCache,
    /// Limit of connected servers.
    pub server_limit: ServerLimit,
    /// The host's `clientInfo`.
    pub client_info: Implementation,
}

/// Permissions of servers on this machine. They can change; later starts use the new ones.
#[derive(Debug)]
pub struct SharedPermissions(Mutex<Permissions>);

/// HTTP/1.1 implementation. It can change; later connections use the new one.
#[derive(Debug, Default)]
pub struct SharedHttpMode {
    is_hyper: AtomicBool,
}

/// Setup of one connection.
#[derive(Clone, Debug)]
pub struct ConnSetup {
    pub spec: Arc<ServerSpec>,
    pub context: Arc<ConnContext>,
    pub settings: ConnSettings,
    /// Default working directory of the process.
    pub cwd: PathBuf,
    /// Protocol to use: the configured one, or the one that the lease requires.
    pub protocol: Protocol,
    pub client: SessionClient,
    /// Clock that all connections of the server share. It pauses while tokens are fetched.
    pub clock: Arc<PausableClock>,
    /// Lists that another session has read. If given, this connection does not read them again.
    pub catalog: Option<Arc<Catalog>>,
}

/// Client side of a session or call: its capabilities and its request handler.
#[derive(Clone, Debug)]
pub struct SessionClient {
    pub capabilities: ClientCapabilities,
    pub handler: Arc<dyn RequestHandler>,
}

/// Limit of remembered definitions. Beyond it, all are dropped and detected again.
const MAX_ENTRIES: usize = 4096;

/// Persistent store of server traits. Its methods must not wait for the disk.
pub trait TraitStore: fmt::Debug + Send + Sync {
    fn insert(&self, hash: ConfigHash, traits: ServerTraits);
    fn remove(&self, hash: ConfigHash);
}

/// Known traits of servers, by the hash of their definition.
#[derive(Debug, Default)]
pub struct TraitCache {
    state: Mutex<TraitCacheState>,
    /// Persistent copy for later hosts.
    store: Option<Arc<dyn TraitStore>>,
}

#[derive(Debug, Default)]
struct TraitCacheState {
    traits: HashMap<ConfigHash, ServerTraits>,
    /// Definitions with a running or failed `Content-Length` attempt.
    tried_content_length: HashSet<ConfigHash>,
}

/// Claim on the single `Content-Length` attempt for a silent server. Dropping it unfinished releases the claim, so
/// that a cancelled attempt can be repeated.
#[derive(Debug)]
pub(super) struct ContentLengthAttempt {
    context: Arc<ConnContext>,
    hash: ConfigHash,
    is_finished: bool,
}

/// Traits of a server that have worked before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerTraits {
    /// Era that the server speaks.
    pub era: Option<Era>,
    /// Set if the server does not understand newline framing.
    pub framing: Option<FramingMode>,
}

impl SharedPermissions {
    /// Current permissions.
    pub fn get(&self) -> Permissions {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the permissions for later starts.
    pub fn set(&self, permissions: Permissions) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = permissions;
    }
}

impl From<Permissions> for SharedPermissions {
    fn from(permissions: Permissions) -> Self {
        SharedPermissions(Mutex::new(permissions))
    }
}

impl SharedHttpMode {
    /// Current mode.
    pub fn get(&self) -> HttpMode {
        match self.is_hyper.load(Ordering::Relaxed) {
            true => HttpMode::Hyper,
            false => HttpMode::Auto,
        }
    }

    /// Replaces the mode for later connections.
    pub fn set(&self, mode: HttpMode) {
        self.is_hyper.store(mode == HttpMode::Hyper, Ordering::Relaxed);
    }
}

impl TraitCache {
    /// Starts with stored entries and writes each change to the store (DIS-52).
    pub fn with_store(
        entries: Vec<(ConfigHash, ServerTraits)>,
        store: Arc<dyn TraitStore>,
    ) -> Self {
        let state =
            TraitCacheState { traits: entries.into_iter().collect(), ..TraitCacheState::default() };
        TraitCache { state: Mutex::new(state), store: Some(store) }
    }

    /// Known traits of a definition. Empty if nothing is known.
    pub fn get(&self, hash: ConfigHash) -> ServerTraits {
        self.lock().traits.get(&hash).copied().unwrap_or_default()
    }

    /// Sets the traits of a definition.
    pub fn insert(&self, hash: ConfigHash, traits: ServerTraits) {
        let mut state = self.lock();
        if state.traits.len() >= MAX_ENTRIES {
            // A definition that keeps changing leaves an entry each time.
            state.traits.clear();
        }
        let before = state.traits.insert(hash, traits);
        if let Some(store) = self.store.as_ref().filter(|_| before != Some(traits)) {
            store.insert(hash, traits);
        }
    }

    /// Drops all traits of a server, so that they are detected again.
    pub fn remove(&self, hash: ConfigHash) {
        let mut state = self.lock();
        state.tried_content_length.remove(&hash);
        let before = state.traits.remove(&hash);
        if let Some(store) = self.store.as_ref().filter(|_| before.is_some()) {
            store.remove(hash);
        }
    }

    fn lock(&self) -> MutexGuard<'_, TraitCacheState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ContentLengthAttempt {
    /// Returns `None` if another connection of the same definition has claimed the attempt.
    pub(super) fn claim(context: &Arc<ConnContext>, hash: ConfigHash) -> Option<Self> {
        let mut state = context.traits.lock();
        if state.tried_content_length.len() >= MAX_ENTRIES {
            state.tried_content_length.clear();
        }
        let is_first = state.tried_content_length.insert(hash);
        drop(state);
        is_first.then(|| ContentLengthAttempt {
            context: Arc::clone(context),
            hash,
            is_finished: false,
        })
    }

    /// Marks the attempt as failed, so that it is not repeated.
    pub(super) fn finish(mut self) {
        self.is_finished = true;
    }
}

impl Drop for ContentLengthAttempt {
    fn drop(&mut self) {
        if !self.is_finished {
            self.context.traits.lock().tried_content_length.remove(&self.hash);
        }
    }
}

impl ConnSetup {
    /// The configured transport, with another framing if given.
    pub(super) fn transport_with_framing(&self, framing: Option<FramingMode>) -> Transport {
        let mut transport = self.spec.transport.clone();
        if let Some(framing) = framing {
            match &mut transport {
                Transport::Stdio(stdio) => stdio.framing = framing,
                Transport::DockerExec(docker) => docker.framing = framing,
                Transport::StreamableHttp(_) | Transport::Sse(_) | Transport::WebSocket(_) => {}
            }
        }
        transport
    }

    /// Returns whether the framing has to be detected.
    pub(super) fn detects_framing(&self) -> bool {
        match &self.spec.transport {
            Transport::Stdio(stdio) => stdio.framing == FramingMode::Auto,
            Transport::DockerExec(docker) => docker.framing == FramingMode::Auto,
            Transport::StreamableHttp(_) | Transport::Sse(_) | Transport::WebSocket(_) => false,
        }
    }

    /// Startup timeout from the start to the complete lists. `None` means unlimited.
    pub(super) fn startup_limit(&self) -> Option<Duration> {
        Some(self.spec.policy.timeouts.startup.0).filter(|limit| !limit.is_zero())
    }

    /// Resolves the references of the server's values, except variables, as late as possible.
    pub(super) async fn resolve_references(&self) -> Result<ResolvedSecrets, Failure> {
        let secrets =
            self.context.sources.resolve(&self.spec, self.context.permissions.get()).await;
        secrets.map_err(|error| Failure::from_unresolved(&error, &self.spec.id))
    }

    pub(super) fn reference_resolver<'a>(
        &'a self,
        secrets: &'a ResolvedSecrets,
    ) -> impl Fn(&Reference) -> Option<String> + Send + Sync + 'a {
        |reference| secrets.find(&self.context.env, Some(&self.spec), reference)
    }

    /// Secrets of the server that its output must not show.
    pub(super) fn server_secrets(&self, secrets: &ResolvedSecrets) -> Vec<SecretString> {
        server_secrets(&self.spec, &self.context, secrets)
    }

    pub(super) fn link_opening<'a>(
        &'a self,
        extra_env: &'a [(String, String)],
        find: &'a ReferenceResolver<'a>,
        mask: &SecretMask,
    ) -> Result<OpenContext<'a>, OpenError> {
        let policy = &self.spec.policy;
        let login = ProtectedServer::from_spec(&self.spec, &find)?.map(|server| {
            let tokens = self.context.accounts.tokens(server);
            Arc::new(MaskedTokens { tokens, mask: mask.clone() }) as Arc<dyn TokenProvider>
        });
        let tokens = match StoredCredentials::for_setup(self, &find, login.clone(), mask)? {
            Some(stored) => Some(Arc::new(stored) as Arc<dyn TokenProvider>),
            None => login,
        };
        let credentials = match tokens {
            Some(tokens) => Credentials::Tokens(Arc::new(self.with_clock_pause(tokens))),
            None => Credentials::from_auth(&policy.auth, &find).map_err(OpenError::Missing)?,
        };
        Ok(OpenContext {
            instance: &self.context.instance,
            host_env: &self.context.env,
            extra_env,
            cwd: self.cwd.clone(),
            lookup: find,
            limits: MessageLimits {
                size: usize::try_from(policy.limits.message.0).unwrap_or(usize::MAX),
                depth: policy.limits.depth as usize,
                ..MessageLimits::default()
            },
            stderr_limit: usize::try_from(policy.limits.stderr.0).unwrap_or(usize::MAX),
            graces: self.context.graces,
            connect_timeout: policy.timeouts.connect.0,
            sse_read_timeout: policy.timeouts.sse_read.0,
            credentials,
            tls: &self.context.tls,
            permissions: self.context.permissions.get(),
            http_mode: self.context.http_mode.get(),
            mask: mask.clone(),
        })
    }

    fn with_clock_pause(&self, tokens: Arc<dyn TokenProvider>) -> ClockPausingTokens {
        ClockPausingTokens { tokens, clock: Arc::clone(&self.clock) }
    }

    /// Resolves `init.config` for delivery by environment, handshake or both.
    pub(super) fn resolve_config(
        &self,
        find: &ReferenceResolver<'_>,
    ) -> Result<DeliveredConfig, OpenError> {
        let init = &self.spec.policy.init;
        let delivery = init.config_delivery;
        if init.config.is_empty() || delivery == ConfigDelivery::Off {
            return Ok(DeliveredConfig::default());
        }
        let value = init.config.resolve(&find).map_err(OpenError::Missing)?;
        let is_delivered_by = |way| delivery == way || delivery == ConfigDelivery::Both;
        let env = is_delivered_by(ConfigDelivery::Env)
            .then(|| (MCP_CONFIG.to_owned(), value.to_string()));
        let handshake = is_delivered_by(ConfigDelivery::Initialize)
            .then(|| RawJson::from_value(&value).ok())
            .flatten();
        Ok(DeliveredConfig { env: env.into_iter().collect(), handshake })
    }

    /// Client capabilities to declare: those of the client, plus experimental ones from the configuration.
    pub(super) fn declared_capabilities(&self, config: Option<&RawJson>) -> ClientCapabilities {
        let client = self.client.capabilities.raw();
        let names = &self.spec.policy.init.client_capabilities;
        if names.is_empty() && config.is_none() {
            return self.client.capabilities.clone();
        }
        let empty = ObjectWriter::new().finish();
        let given = client.get("experimental").unwrap_or_else(|| empty.clone());
        let named = names.iter().map(|name| (name.as_str(), Some(empty.clone())));
        let config = config.map(|config| ("config", Some(config.clone())));
        let experimental = given.with_members(named.chain(config));
        ClientCapabilities::new(client.with_members([("experimental", Some(experimental))]))
    }
}

/// All secrets that a server receives.
pub(super) fn server_secrets(
    spec: &ServerSpec,
    context: &ConnContext,
    secrets: &ResolvedSecrets,
) -> Vec<SecretString> {
    let find = |reference: &Reference| secrets.find(&context.env, Some(spec), reference);
    let own = spec.secrets(&context.env, &find);
    let basic = spec.transport.remote().and_then(|remote| remote.url.0.resolve(&find).ok());
    let basic = basic.and_then(|url| basic_credentials(url.reveal()));
    own.into_iter().chain(secrets.secret_values()).chain(basic).collect()
}

/// Basic credentials of a URL as an `Authorization` header carries them.
fn basic_credentials(url: &str) -> Option<SecretString> {
    let url = Url::parse(url).ok().filter(|url| url.password().is_some())?;
    let decoded = |text: &str| {
        let text = text.replace('+', "%2B");
        let decoded = url::form_urlencoded::parse(text.as_bytes()).next();
        decoded.map(|(text, _)| text.into_owned()).unwrap_or_default()
    };
    let (user, password) = (decoded(url.username()), decoded(url.password().unwrap_or_default()));
    Some(SecretString::new(base64::encode(format!("{user}:{password}").as_bytes())))
}

const MCP_CONFIG: &str = "MCP_CONFIG";

/// Resolved `init.config`, by delivery.
#[derive(Default)]
pub(super) struct DeliveredConfig {
    pub(super) env: Vec<(String, String)>,
    pub(super) handshake: Option<RawJson>,
}

/// Hides the environment, which may contain secrets.
impl fmt::Debug for ConnContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnContext")
            .field("instance", &self.instance)
            .field("permissions", &self.permissions)
            .field("traits", &self.traits)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trait_cache_is_bounded() {
        let cache = TraitCache::default();
        let hash = |number: usize| ConfigHash::parse(&format!("{number:064x}")).unwrap();
        let traits = ServerTraits { era: Some(Era::Modern), framing: None };
        for number in 0..3 * MAX_ENTRIES {
            cache.insert(hash(number), traits);
            assert_eq!(cache.get(hash(number)), traits, "the newest entry is present");
        }
        assert!(cache.lock().traits.len() <= MAX_ENTRIES);
        cache.remove(hash(3 * MAX_ENTRIES - 1));
        assert_eq!(cache.get(hash(3 * MAX_ENTRIES - 1)), ServerTraits::default());
    }
}
