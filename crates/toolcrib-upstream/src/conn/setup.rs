//! What a connection is made of: the server's configuration, the host around it, and who answers its questions.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use toolcrib_config::model::choice::Protocol;
use toolcrib_config::model::policy::ConfigDelivery;
use toolcrib_config::model::transport::{Framing, Transport};
use toolcrib_config::{Hash, Hidden, Reference, ServerSpec};
use toolcrib_wire::handshake::Implementation;
use toolcrib_wire::view::ClientCapabilities;
use toolcrib_wire::{Era, Limits, ObjectWriter, Raw, base64};
use url::Url;

use super::catalog::Catalog;
use super::failure::Failure;
use super::masked_tokens::MaskedTokens;
use super::peer::Handler;
use super::server_limit::ServerLimit;
use super::settings::Settings;
use super::standstill::{Standstill, Timed};
use super::stored::Stored;
use crate::auth::{Accounts, Protected};
use crate::process::{Graces, Instance};
use crate::secrets::{Found, Sources};
use crate::signals::SecretMask;
use crate::transport::{Credentials, OpenError, Opening, Permissions, Tls, Tokens};

/// Finds what values refer to: variables, inputs, secrets.
type Find<'a> = dyn Fn(&Reference) -> Option<String> + Send + Sync + 'a;

/// What all connections of a host share.
pub struct World {
    pub instance: Instance,
    /// The host's environment.
    pub env: Vec<(String, String)>,
    /// Where values come from that refer to something.
    pub sources: Sources,
    pub tls: Tls,
    /// Logins at servers that want them.
    pub accounts: Accounts,
    pub permissions: Permits,
    pub graces: Graces,
    pub memory: Memory,
    /// How many servers may be connected at a time.
    pub connections: ServerLimit,
    /// What the host says of itself to servers.
    pub client: Implementation,
}

/// What servers may do on this machine. It may change: what is started later goes by it.
#[derive(Debug)]
pub struct Permits(Mutex<Permissions>);

/// One connection.
#[derive(Clone, Debug)]
pub struct Setup {
    pub spec: Arc<ServerSpec>,
    pub world: Arc<World>,
    pub settings: Settings,
    /// The folder of a process whose configuration names none.
    pub cwd: PathBuf,
    /// What is spoken; the configuration's, or what whoever leases the session speaks.
    pub protocol: Protocol,
    pub caller: Caller,
    /// Shared by all connections of a server: who waits for one of them is not late while tokens are renewed.
    pub clock: Arc<Standstill>,
    /// Lists that another session of the server has read; where given, this connection does not read them again.
    pub catalog: Option<Arc<Catalog>>,
}

/// Whoever stands behind a session or a call: what the server may ask of him, and who answers.
#[derive(Clone, Debug)]
pub struct Caller {
    pub capabilities: ClientCapabilities,
    pub handler: Arc<dyn Handler>,
}

/// Definitions that something is remembered of; then all is found out again.
const REMEMBERED: usize = 4096;

/// Keeps learned entries beyond the life of a host. Neither method waits for the disk.
pub trait LearnedStore: fmt::Debug + Send + Sync {
    fn insert(&self, hash: Hash, learned: Learned);
    fn remove(&self, hash: Hash);
}

/// What has worked with a server before, by the hash of its definition.
#[derive(Debug, Default)]
pub struct Memory {
    known: Mutex<Known>,
    /// Where it is kept for later hosts.
    store: Option<Arc<dyn LearnedStore>>,
}

#[derive(Debug, Default)]
struct Known {
    learned: HashMap<Hash, Learned>,
    /// Definitions that `Content-Length` is being tried with, or was tried with in vain.
    tried_content_length: HashSet<Hash>,
}

/// The one attempt to speak `Content-Length` with a silent server. Dropped before its end it counts for nothing, so
/// that an attempt that was called off can be made again.
#[derive(Debug)]
pub(super) struct FramingAttempt {
    world: Arc<World>,
    hash: Hash,
    is_over: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Learned {
    pub era: Option<Era>,
    /// Set where the server does not understand lines.
    pub framing: Option<Framing>,
}

impl Permits {
    pub fn get(&self) -> Permissions {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set(&self, permissions: Permissions) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = permissions;
    }
}

impl From<Permissions> for Permits {
    fn from(permissions: Permissions) -> Self {
        Permits(Mutex::new(permissions))
    }
}

impl Memory {
    /// Begins with the entries of earlier hosts, and writes each change to the store (DIS-52).
    pub fn with_store(entries: Vec<(Hash, Learned)>, store: Arc<dyn LearnedStore>) -> Self {
        let known = Known { learned: entries.into_iter().collect(), ..Known::default() };
        Memory { known: Mutex::new(known), store: Some(store) }
    }

    pub fn of(&self, hash: Hash) -> Learned {
        self.known().learned.get(&hash).copied().unwrap_or_default()
    }

    pub fn learn(&self, hash: Hash, learned: Learned) {
        let mut known = self.known();
        if known.learned.len() >= REMEMBERED {
            // A definition that changes all the time leaves one behind each time.
            known.learned.clear();
        }
        let before = known.learned.insert(hash, learned);
        if let Some(store) = self.store.as_ref().filter(|_| before != Some(learned)) {
            store.insert(hash, learned);
        }
    }

    /// All is found out anew, the framing as well.
    pub fn forget(&self, hash: Hash) {
        let mut known = self.known();
        known.tried_content_length.remove(&hash);
        let before = known.learned.remove(&hash);
        if let Some(store) = self.store.as_ref().filter(|_| before.is_some()) {
            store.remove(hash);
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FramingAttempt {
    /// Nothing where another connection of the same definition makes the attempt, or has made it.
    pub(super) fn begin(world: &Arc<World>, hash: Hash) -> Option<Self> {
        let mut known = world.memory.known();
        if known.tried_content_length.len() >= REMEMBERED {
            known.tried_content_length.clear();
        }
        let is_first = known.tried_content_length.insert(hash);
        drop(known);
        is_first.then(|| FramingAttempt { world: Arc::clone(world), hash, is_over: false })
    }

    /// It failed by itself: it is not made again.
    pub(super) fn finish(mut self) {
        self.is_over = true;
    }
}

impl Drop for FramingAttempt {
    fn drop(&mut self) {
        if !self.is_over {
            self.world.memory.known().tried_content_length.remove(&self.hash);
        }
    }
}

impl Setup {
    /// The transport, with another framing where lines are not understood.
    pub(super) fn transport(&self, framing: Option<Framing>) -> Transport {
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

    /// Whether the way of setting off messages is to be found out.
    pub(super) fn seeks_framing(&self) -> bool {
        match &self.spec.transport {
            Transport::Stdio(stdio) => stdio.framing == Framing::Auto,
            Transport::DockerExec(docker) => docker.framing == Framing::Auto,
            Transport::StreamableHttp(_) | Transport::Sse(_) | Transport::WebSocket(_) => false,
        }
    }

    /// From the start to the complete lists; none means without limit.
    pub(super) fn startup(&self) -> Option<Duration> {
        Some(self.spec.policy.timeouts.startup.0).filter(|limit| !limit.is_zero())
    }

    /// What the server's values refer to besides variables; asked for as late as can be.
    pub(super) async fn found(&self) -> Result<Found, Failure> {
        let found = self.world.sources.resolve(&self.spec, self.world.permissions.get()).await;
        found.map_err(|error| Failure::of_values(&error, &self.spec.id))
    }

    pub(super) fn find<'a>(
        &'a self,
        found: &'a Found,
    ) -> impl Fn(&Reference) -> Option<String> + Send + Sync + 'a {
        |reference| found.find(&self.world.env, Some(&self.spec), reference)
    }

    /// All that the server is given and must not be shown, if it says it.
    pub(super) fn secrets(&self, found: &Found) -> Vec<Hidden> {
        secrets_of(&self.spec, &self.world, found)
    }

    pub(super) fn opening<'a>(
        &'a self,
        extra_env: &'a [(String, String)],
        find: &'a Find<'a>,
        mask: &SecretMask,
    ) -> Result<Opening<'a>, OpenError> {
        let policy = &self.spec.policy;
        let login = Protected::of(&self.spec, &find)?.map(|server| {
            let tokens = self.world.accounts.tokens(server);
            Arc::new(MaskedTokens { tokens, mask: mask.clone() }) as Arc<dyn Tokens>
        });
        let tokens = match Stored::of(self, &find, login.clone(), mask)? {
            Some(stored) => Some(Arc::new(stored) as Arc<dyn Tokens>),
            None => login,
        };
        let credentials = match tokens {
            Some(tokens) => Credentials::Tokens(Arc::new(self.timed(tokens))),
            None => Credentials::configured(&policy.auth, &find).map_err(OpenError::Missing)?,
        };
        Ok(Opening {
            instance: &self.world.instance,
            host_env: &self.world.env,
            extra_env,
            cwd: self.cwd.clone(),
            find,
            limits: Limits {
                size: usize::try_from(policy.limits.message.0).unwrap_or(usize::MAX),
                depth: policy.limits.depth as usize,
                ..Limits::default()
            },
            stderr_limit: usize::try_from(policy.limits.stderr.0).unwrap_or(usize::MAX),
            graces: self.world.graces,
            connect_timeout: policy.timeouts.connect.0,
            sse_read_timeout: policy.timeouts.sse_read.0,
            credentials,
            tls: &self.world.tls,
            permissions: self.world.permissions.get(),
            mask: mask.clone(),
        })
    }

    fn timed(&self, tokens: Arc<dyn Tokens>) -> Timed {
        Timed { tokens, clock: Arc::clone(&self.clock) }
    }

    /// Free settings for the server: in its environment, in its handshake, or both.
    pub(super) fn config(&self, find: &Find<'_>) -> Result<Config, OpenError> {
        let init = &self.spec.policy.init;
        let delivery = init.config_delivery;
        if init.config.is_empty() || delivery == ConfigDelivery::Off {
            return Ok(Config::default());
        }
        let value = init.config.resolve(&find).map_err(OpenError::Missing)?;
        let by = |way| delivery == way || delivery == ConfigDelivery::Both;
        let env = by(ConfigDelivery::Env).then(|| (MCP_CONFIG.to_owned(), value.to_string()));
        let handshake = by(ConfigDelivery::Initialize).then(|| Raw::of(&value).ok()).flatten();
        Ok(Config { env: env.into_iter().collect(), handshake })
    }

    /// What is declared to the server: the caller's, and what the configuration adds as experiments.
    pub(super) fn capabilities(&self, config: Option<&Raw>) -> ClientCapabilities {
        let caller = self.caller.capabilities.raw();
        let names = &self.spec.policy.init.client_capabilities;
        if names.is_empty() && config.is_none() {
            return self.caller.capabilities.clone();
        }
        let empty = ObjectWriter::new().finish();
        let given = caller.get("experimental").unwrap_or_else(|| empty.clone());
        let named = names.iter().map(|name| (name.as_str(), Some(empty.clone())));
        let config = config.map(|config| ("config", Some(config.clone())));
        let experimental = given.with_members(named.chain(config));
        ClientCapabilities::new(caller.with_members([("experimental", Some(experimental))]))
    }
}

/// All that a server is given and must not be shown.
pub(super) fn secrets_of(spec: &ServerSpec, world: &World, found: &Found) -> Vec<Hidden> {
    let find = |reference: &Reference| found.find(&world.env, Some(spec), reference);
    let own = spec.secrets(&world.env, &find);
    let basic = spec.transport.remote().and_then(|remote| remote.url.0.resolve(&find).ok());
    let basic = basic.and_then(|url| basic_credentials(url.reveal()));
    own.into_iter().chain(found.secrets()).chain(basic).collect()
}

/// The credentials of an address as requests carry them.
fn basic_credentials(url: &str) -> Option<Hidden> {
    let url = Url::parse(url).ok().filter(|url| url.password().is_some())?;
    let decoded = |text: &str| {
        let text = text.replace('+', "%2B");
        let decoded = url::form_urlencoded::parse(text.as_bytes()).next();
        decoded.map(|(text, _)| text.into_owned()).unwrap_or_default()
    };
    let (user, password) = (decoded(url.username()), decoded(url.password().unwrap_or_default()));
    Some(Hidden::new(base64::encode(format!("{user}:{password}").as_bytes())))
}

const MCP_CONFIG: &str = "MCP_CONFIG";

/// Where the free settings go, resolved.
#[derive(Default)]
pub(super) struct Config {
    pub(super) env: Vec<(String, String)>,
    pub(super) handshake: Option<Raw>,
}

/// The environment may hold secrets: it is not shown.
impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World")
            .field("instance", &self.instance)
            .field("permissions", &self.permissions)
            .field("memory", &self.memory)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_of_servers_is_bounded() {
        let memory = Memory::default();
        let hash = |number: usize| Hash::read(&format!("{number:064x}")).unwrap();
        let learned = Learned { era: Some(Era::Modern), framing: None };
        for number in 0..3 * REMEMBERED {
            memory.learn(hash(number), learned);
            assert_eq!(memory.of(hash(number)), learned, "the newest is known");
        }
        assert!(memory.known().learned.len() <= REMEMBERED);
        memory.forget(hash(3 * REMEMBERED - 1));
        assert_eq!(memory.of(hash(3 * REMEMBERED - 1)), Learned::default());
    }
}
