//! A configured server with the origin of each value.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value as Json};
use sha2::{Digest, Sha256};

use super::auth::Auth;
use super::canonical_encoding::CanonicalBytes;
use super::policy::Policy;
use super::setting::{SecretVisibility, Setting};
use super::transport::Transport;
use crate::dialect::Dialect;
use crate::doc::{Doc, NodeId};
use crate::source_location::SourceLocation;
use crate::value::{MASK, Value};

/// A server: its transport and every policy as an explicit value.
#[derive(Clone)]
pub struct ServerSpec {
    /// The id of the server in its file.
    pub id: String,
    /// The label of its file.
    pub source: Arc<str>,
    /// For display only.
    pub dialect: Dialect,
    /// The location of its entry.
    pub location: SourceLocation,
    /// The folder that relative paths of its file start from.
    pub base: Arc<Path>,
    /// The transport.
    pub transport: Transport,
    /// All policies.
    pub policy: Policy,
    /// Keys unknown to the dialect, kept for round trips.
    pub extras: Map<String, Json>,
    /// The origins of all values.
    pub origins: OriginMap,
    /// The trust state.
    pub trust: ServerTrust,
    /// The agent whose credentials are used, if it has its own.
    pub agent: Option<Arc<str>>,
    /// The hash of the definition.
    pub hash: ConfigHash,
}

/// The trust state of a server, which decides if it may be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerTrust {
    /// The file is the user's own, or the user named it.
    User,
    /// The file was discovered in a folder.
    Discovered,
    /// The file was discovered and the server is not trusted. No override enables it.
    Withheld,
}

/// A stable hash of everything that a server's behaviour depends on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConfigHash([u8; 32]);

/// The origin of a value.
#[derive(Clone, Debug, PartialEq)]
pub enum ValueOrigin {
    /// A file, with the location and the key of the value.
    File { source: Arc<str>, location: SourceLocation, key: String },
    /// A built-in or custom profile.
    Profile(Arc<str>),
    /// A person or program that changed the value at run time. Files are never rewritten for that.
    Override(Arc<str>),
}

/// The origins of a server's values. Values that no file sets come from the profile.
#[derive(Clone, Debug)]
pub struct OriginMap {
    pub(crate) source: Arc<str>,
    pub(crate) doc: Arc<Doc>,
    pub(crate) nodes: BTreeMap<String, NodeId>,
    pub(crate) profile: Arc<ProfileOrigins>,
    /// The author of the `enabled` override, if there is one.
    pub(crate) enabled_by: Option<Arc<str>>,
}

/// The origins of a profile's values, shared by all servers with that profile.
#[derive(Debug, Default)]
pub(crate) struct ProfileOrigins {
    pub(crate) values: BTreeMap<String, ValueOrigin>,
}

impl ServerSpec {
    /// Returns the server's key, unique over all files.
    pub fn key(&self) -> String {
        format!("{}#{}", self.source, self.id)
    }

    /// Returns the server's toolset.
    pub fn toolset(&self) -> &str {
        self.policy.toolset.as_deref().unwrap_or(&self.id)
    }

    /// Returns the equivalent native entry.
    pub fn native(&self, show: SecretVisibility) -> Map<String, Json> {
        let mut entry = Map::new();
        let transport = to_json(self.transport.keys(show));
        entry.insert("profile".to_string(), Json::from(Dialect::Native.as_str()));
        entry.insert("transport".to_string(), transport);
        if let Some(Json::Object(policy)) = self.policy.keys(show).map(to_json) {
            entry.extend(policy);
        }
        if !self.extras.is_empty() {
            entry.insert("x-original".to_string(), Json::Object(self.visible_extras(show)));
        }
        entry
    }

    /// Returns the unknown keys. Their values are masked, because they may be secrets.
    fn visible_extras(&self, show: SecretVisibility) -> Map<String, Json> {
        match show {
            SecretVisibility::Revealed => self.extras.clone(),
            SecretVisibility::Masked => {
                self.extras.keys().map(|key| (key.clone(), MASK.into())).collect()
            }
        }
    }

    /// Returns every value that must be resolved before the server can be used.
    pub fn values(&self) -> Vec<&Value> {
        let mut values = self.transport.values();
        values.extend(self.policy.auth.values());
        values.extend(self.policy.init.config.values());
        values
    }

    /// Returns a copy that is enabled or disabled by an override. The definition and its hash stay the same.
    #[must_use]
    pub fn with_override(&self, enabled: bool, by: &str) -> Self {
        let mut spec = self.clone();
        spec.policy.enabled = enabled && !self.is_withheld();
        spec.origins.enabled_by = Some(by.into());
        spec
    }

    /// Returns the agent's own credentials, if it has any.
    pub fn agent_auth(&self, agent: &str) -> Option<&Auth> {
        // Only servers with a URL receive credentials.
        self.transport.remote().and_then(|_| self.policy.auth_per_agent.get(agent))
    }

    /// Returns a copy for an agent with its own credentials. The definition stays the same.
    pub fn for_agent(&self, agent: &str) -> Option<Self> {
        let auth = self.agent_auth(agent)?;
        let mut spec = self.clone();
        spec.policy.auth = auth.clone();
        spec.agent = Some(agent.into());
        Some(spec)
    }

    /// Returns whether the server waits for trust.
    pub fn is_withheld(&self) -> bool {
        self.trust == ServerTrust::Withheld
    }

    /// Returns a copy that is not started until it is trusted.
    #[must_use]
    pub(crate) fn to_withheld(&self) -> Self {
        let trust = ServerTrust::Withheld;
        Self { trust, ..self.with_override(false, "trust") }
    }

    /// Computes the hash. Unknown keys and origins do not affect it; the content of the environment file does.
    pub(crate) fn with_hash(mut self) -> Self {
        let mut digest = Sha256::new();
        digest.update(CanonicalBytes::encode(&self.transport.keys(SecretVisibility::Revealed)));
        digest.update(CanonicalBytes::encode(&self.policy.keys(SecretVisibility::Revealed)));
        digest.update(CanonicalBytes::encode(&self.env_file_values()));
        self.hash = ConfigHash(digest.finalize().into());
        self
    }

    /// Returns the variables of the environment file.
    pub(crate) fn env_file_values(&self) -> Vec<(&str, &str)> {
        let file = self.transport.env().and_then(|env| env.file.as_ref());
        let values = file.iter().flat_map(|file| &file.values);
        values.map(|(name, value)| (name.as_str(), value.reveal())).collect()
    }
}

impl fmt::Debug for ServerSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerSpec")
            .field("key", &self.key())
            .field("place", &self.location)
            .field("transport", &self.transport)
            .field("policy", &self.policy)
            .field("extras", &self.visible_extras(SecretVisibility::Masked))
            .field("hash", &self.hash)
            .finish_non_exhaustive()
    }
}

impl OriginMap {
    /// Returns the origin of a value by its native path, such as `transport.command`.
    pub fn origin(&self, path: &str) -> ValueOrigin {
        if let Some(by) = self.enabled_by.as_ref().filter(|_| path == "enabled") {
            return ValueOrigin::Override(by.clone());
        }
        let own = ancestors(path).find_map(|path| self.nodes.get(path));
        match own {
            Some(node) => ValueOrigin::File {
                source: self.source.clone(),
                location: self.doc.location(*node),
                key: self.doc.path(*node),
            },
            None => ancestors(path)
                .find_map(|path| self.profile.values.get(path).cloned())
                .unwrap_or_else(|| ValueOrigin::Profile(Dialect::Native.as_str().into())),
        }
    }
}

/// Returns a path and its ancestors, nearest first.
pub(crate) fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| path.rsplit_once('.').map(|(above, _)| above))
}

impl ConfigHash {
    pub(crate) const NONE: Self = Self([0; 32]);

    pub(crate) fn of_value(value: &impl serde::Serialize) -> Self {
        Self(Sha256::digest(CanonicalBytes::encode(value)).into())
    }

    /// Parses the format of [`Display`](fmt::Display).
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes().chunks_exact(2);
        if text.len() != 64 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let bytes: Vec<u8> = digits.map(byte).collect::<Option<_>>()?;
        bytes.try_into().ok().map(Self)
    }
}

impl fmt::Display for ConfigHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ConfigHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for ValueOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { source, location, key } => write!(f, "{source}:{location} {key}"),
            Self::Profile(name) => write!(f, "profile {name}"),
            Self::Override(by) => write!(f, "override by {by}"),
        }
    }
}

/// Converts keys to JSON. The conversion cannot fail, because keys contain only JSON types.
pub(crate) fn to_json(keys: impl serde::Serialize) -> Json {
    serde_json::to_value(keys).unwrap_or(Json::Null)
}
