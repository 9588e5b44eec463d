//! One configured server, complete, with the origin of each value.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value as Json};
use sha2::{Digest, Sha256};

use super::auth::Auth;
use super::digest::Canonical;
use super::policy::Policy;
use super::setting::{Setting, Show};
use super::transport::Transport;
use crate::dialect::Dialect;
use crate::doc::{Doc, NodeId};
use crate::place::Place;
use crate::value::{MASK, Value};

/// One server: how it is reached, and every policy as an explicit value.
#[derive(Clone)]
pub struct ServerSpec {
    pub id: String,
    pub source: Arc<str>,
    /// For showing; nothing is decided by it.
    pub dialect: Dialect,
    pub place: Place,
    /// The folder that relative paths of its file start from.
    pub base: Arc<Path>,
    pub transport: Transport,
    pub policy: Policy,
    /// Keys that the dialect does not know, kept for round trips.
    pub extras: Map<String, Json>,
    pub origins: Origins,
    pub standing: Standing,
    /// The agent whose credentials it goes by, where they are not those of everybody.
    pub agent: Option<Arc<str>>,
    pub hash: Hash,
}

/// Whether a server may be started at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It stands in a file that is the person's own, or that they named.
    Own,
    /// It stands in a file that was found in a folder.
    Found,
    /// The same, and what it would start is not trusted: whatever else is said, it is not enabled.
    Withheld,
}

/// A stable hash over everything that a server's behaviour depends on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash([u8; 32]);

/// Where a value came from.
#[derive(Clone, Debug, PartialEq)]
pub enum Origin {
    /// A file, the place in it, and the key there.
    File { source: Arc<str>, place: Place, key: String },
    /// A profile, built in or one's own.
    Profile(Arc<str>),
    /// Somebody, while a host ran; files are never rewritten for that.
    Override(Arc<str>),
}

/// The origins of a server's values. What no file says comes from its profile.
#[derive(Clone, Debug)]
pub struct Origins {
    pub(crate) source: Arc<str>,
    pub(crate) doc: Arc<Doc>,
    pub(crate) own: BTreeMap<String, NodeId>,
    pub(crate) profile: Arc<ProfileOrigins>,
    /// Who decided whether the server is enabled, if it was no file.
    pub(crate) enabled_by: Option<Arc<str>>,
}

/// The origins of a profile's values, shared by all servers that use it.
#[derive(Debug, Default)]
pub(crate) struct ProfileOrigins {
    pub(crate) values: BTreeMap<String, Origin>,
}

impl ServerSpec {
    /// Unique over all files.
    pub fn key(&self) -> String {
        format!("{}#{}", self.source, self.id)
    }

    pub fn toolset(&self) -> &str {
        self.policy.toolset.as_deref().unwrap_or(&self.id)
    }

    /// The native entry that says exactly this.
    pub fn native(&self, show: Show) -> Map<String, Json> {
        let mut entry = Map::new();
        let transport = to_json(self.transport.keys(show));
        entry.insert("profile".to_string(), Json::from(Dialect::Native.as_str()));
        entry.insert("transport".to_string(), transport);
        if let Some(Json::Object(policy)) = self.policy.keys(show).map(to_json) {
            entry.extend(policy);
        }
        if !self.extras.is_empty() {
            entry.insert("x-original".to_string(), Json::Object(self.shown_extras(show)));
        }
        entry
    }

    /// Nobody knows what a key means that nobody knows: its value may be a secret.
    fn shown_extras(&self, show: Show) -> Map<String, Json> {
        match show {
            Show::Revealed => self.extras.clone(),
            Show::Masked => self.extras.keys().map(|key| (key.clone(), MASK.into())).collect(),
        }
    }

    /// Every value that has to be resolved before the server can be used.
    pub fn values(&self) -> Vec<&Value> {
        let mut values = self.transport.values();
        values.extend(self.policy.auth.values());
        values.extend(self.policy.init.config.values());
        values
    }

    /// The same server, enabled or not as somebody said. It stays the same definition: its hash does not change.
    #[must_use]
    pub fn overridden(&self, enabled: bool, by: &str) -> Self {
        let mut spec = self.clone();
        spec.policy.enabled = enabled && !self.is_withheld();
        spec.origins.enabled_by = Some(by.into());
        spec
    }

    /// What an agent shows to the server instead of what everybody else does.
    pub fn own_auth(&self, agent: &str) -> Option<&Auth> {
        // Only a server at an address is shown credentials.
        self.transport.remote().and_then(|_| self.policy.auth_per_agent.get(agent))
    }

    /// The same server for an agent that has credentials of its own. It stays the same definition.
    pub fn of_agent(&self, agent: &str) -> Option<Self> {
        let auth = self.own_auth(agent)?;
        let mut spec = self.clone();
        spec.policy.auth = auth.clone();
        spec.agent = Some(agent.into());
        Some(spec)
    }

    pub fn is_withheld(&self) -> bool {
        self.standing == Standing::Withheld
    }

    /// The same server, which is not started until somebody trusts it.
    #[must_use]
    pub(crate) fn withheld(&self) -> Self {
        let standing = Standing::Withheld;
        Self { standing, ..self.overridden(false, "trust") }
    }

    /// Computes the hash anew. Unknown keys and the origin of values do not count; what an
    /// environment file holds does.
    pub(crate) fn hashed(mut self) -> Self {
        let mut digest = Sha256::new();
        digest.update(Canonical::of(&self.transport.keys(Show::Revealed)));
        digest.update(Canonical::of(&self.policy.keys(Show::Revealed)));
        digest.update(Canonical::of(&self.held()));
        self.hash = Hash(digest.finalize().into());
        self
    }

    /// What the environment file holds.
    pub(crate) fn held(&self) -> Vec<(&str, &str)> {
        let file = self.transport.env().and_then(|env| env.file.as_ref());
        let values = file.iter().flat_map(|file| &file.values);
        values.map(|(name, value)| (name.as_str(), value.reveal())).collect()
    }
}

impl fmt::Debug for ServerSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerSpec")
            .field("key", &self.key())
            .field("place", &self.place)
            .field("transport", &self.transport)
            .field("policy", &self.policy)
            .field("extras", &self.shown_extras(Show::Masked))
            .field("hash", &self.hash)
            .finish_non_exhaustive()
    }
}

impl Origins {
    /// The origin of the value at a native key path such as `transport.command`.
    pub fn of(&self, path: &str) -> Origin {
        if let Some(by) = self.enabled_by.as_ref().filter(|_| path == "enabled") {
            return Origin::Override(by.clone());
        }
        let own = ancestors(path).find_map(|path| self.own.get(path));
        match own {
            Some(node) => Origin::File {
                source: self.source.clone(),
                place: self.doc.place(*node),
                key: self.doc.path(*node),
            },
            None => ancestors(path)
                .find_map(|path| self.profile.values.get(path).cloned())
                .unwrap_or_else(|| Origin::Profile(Dialect::Native.as_str().into())),
        }
    }
}

/// A path and the paths above it, the nearest first.
pub(crate) fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| path.rsplit_once('.').map(|(above, _)| above))
}

impl Hash {
    pub(crate) const NONE: Self = Self([0; 32]);

    pub(crate) fn of(value: &impl serde::Serialize) -> Self {
        Self(Sha256::digest(Canonical::of(value)).into())
    }

    /// Reads what [`Display`](fmt::Display) writes.
    pub fn read(text: &str) -> Option<Self> {
        let digits = text.as_bytes().chunks_exact(2);
        if text.len() != 64 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let bytes: Vec<u8> = digits.map(byte).collect::<Option<_>>()?;
        bytes.try_into().ok().map(Self)
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { source, place, key } => write!(f, "{source}:{place} {key}"),
            Self::Profile(name) => write!(f, "profile {name}"),
            Self::Override(by) => write!(f, "override by {by}"),
        }
    }
}

/// Keys hold nothing that JSON cannot: the error is impossible, and nothing is said in its place.
pub(crate) fn to_json(keys: impl serde::Serialize) -> Json {
    serde_json::to_value(keys).unwrap_or(Json::Null)
}
