//! Global settings: reserved names, permissions, grants and the gateway.

use serde::{Deserialize, Serialize};

use super::setting::{Layer, SecretVisibility, Setting, SettingMap, group, leaf, words};
use super::units::{Period, Size};
use crate::secret_detection::{mask_args, mask_text};
use crate::value::{MASK, Value};

group! {
    /// Settings of the whole host.
    HostSettings, HostKeys {
        /// Tool names that no server may use.
        reserved_tools: Vec<String> = Vec::new(),
        /// Toolset names that no server may use.
        reserved_toolsets: Vec<String> = Vec::new(),
        /// Maximum number of connected servers; 0 means unlimited.
        max_servers: u32 = 0,
        /// The host's permissions.
        permissions: HostPermissions = HostPermissions::default(),
        /// The detection and application of configuration changes.
        reload: HostReload = HostReload::default(),
        /// Secret stores by name.
        secrets: SettingMap<SecretStore> = SettingMap::default(),
        /// The reaction to a changed tool definition.
        pins: Pins = Pins::Warn,
        /// The storage of credentials.
        credentials: CredentialStorage = CredentialStorage::Auto,
        /// The grants of all agents.
        grants: GrantSettings = GrantSettings::default(),
    }
}

group! {
    /// The host's permissions.
    HostPermissions, PermissionsKeys {
        /// Start processes.
        spawn: bool = true,
        /// Connect to network addresses.
        network: bool = true,
        /// Use the Docker engine.
        docker: bool = true,
    }
}

group! {
    /// The detection and application of configuration changes.
    HostReload, HostReloadKeys {
        /// The trigger for applying a changed file.
        mode: super::policy::ReloadTrigger = super::policy::ReloadTrigger::Watch,
        /// Interval of polling the files, in addition to watching them; zero disables polling.
        poll: Period = Period::millis(1500),
        /// Changes within this time count as one change.
        debounce: Period = Period::millis(200),
        /// A server that does not drain is killed after this time. If unset, its calls end by their own timeouts.
        drain_kill: Option<Period> = None,
    }
}

impl HostReload {
    /// Returns the time limit for calls in flight at shutdown: `drain_kill`, or 30 s if unset.
    pub fn shutdown_limit(&self) -> std::time::Duration {
        self.drain_kill.unwrap_or(Period::secs(30)).0
    }
}

words! {
    /// The reaction to a changed tool definition.
    Pins { Off = "off", Warn = "warn", Enforce = "enforce", }
}

words! {
    /// The storage of credentials.
    CredentialStorage { Auto = "auto", Keyring = "keyring", File = "file", }
}

group! {
    /// The grants of all agents.
    GrantSettings, GrantsKeys {
        /// The grants of each agent, by its name.
        members: SettingMap<MemberGrants> = SettingMap::default(),
    }
}

group! {
    /// The grants of one agent.
    MemberGrants, MemberKeys {
        /// The toolsets that the agent may use.
        toolsets: Vec<String> = Vec::new(),
        /// The agent's capabilities.
        capabilities: Vec<String> = Vec::new(),
    }
}

/// Returns the three capabilities of which any one permits a tool, from the broadest to the narrowest. They are
/// compared as a whole and never split: `mcp_git_hub` may be a server or a tool.
pub fn capability_layers(server: &str, tool: &str) -> [String; 3] {
    ["mcp_integration".to_string(), format!("mcp_{server}"), format!("mcp_{server}_{tool}")]
}

words! {
    /// Kinds of secret stores.
    SecretKind { File = "file", Command = "command", Keyring = "keyring", Vault = "vault", }
}

/// A secret store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SecretStore {
    /// The kind of store. It decides which keys apply.
    pub kind: SecretKind,
    /// file: the folder of secrets, relative to the configuration's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// command: program and arguments; `{path}` is replaced by the secret's path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Timeout. Default: 10 seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Period>,
    /// command, vault: how long a secret is cached. Default: 5 minutes; zero disables the cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<Period>,
    /// keyring: the service name. Default: `toolcrib`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// vault: the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// vault: the mount point of its KV engine (version 2). If unset, a secret's path starts with the mount point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount: Option<String>,
    /// vault: the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Value>,
}

impl Default for SecretStore {
    fn default() -> Self {
        Self {
            kind: SecretKind::File,
            path: None,
            command: Vec::new(),
            timeout: None,
            cache: None,
            service: None,
            url: None,
            mount: None,
            token: None,
        }
    }
}

impl Setting for SecretStore {
    type Keys = Self;

    fn overlay(&mut self, keys: Self, layer: &mut Layer<'_>) {
        *self = keys;
        layer.record_leaf();
    }

    fn keys(&self, show: SecretVisibility) -> Option<Self> {
        let mut keys = self.clone();
        if show == SecretVisibility::Masked {
            keys.token = keys.token.as_ref().map(Value::masked);
            keys.url = keys.url.as_deref().map(mask_text);
            keys.command = mask_args(&keys.command);
        }
        Some(keys)
    }
}

group! {
    /// The gateway: one MCP endpoint in front of all servers.
    GatewaySettings, GatewayKeys {
        /// The address to listen on.
        listen: String = "127.0.0.1:7420".to_string(),
        /// Additional host names by which clients may call the gateway.
        hosts: Vec<String> = Vec::new(),
        /// Additional origins (`http://localhost:3000`) whose web pages may use the gateway.
        origins: Vec<String> = Vec::new(),
        /// Bearer tokens by hash. An empty list admits no one; without the key no token is required.
        tokens: Option<Vec<GatewayToken>> = None,
        /// An issuer whose tokens are accepted.
        oauth: GatewayOAuth = GatewayOAuth::default(),
        /// The HTTP/1.1 implementation for clients, and for servers at `http://` addresses.
        http: HttpMode = HttpMode::Auto,
        /// Limits for each principal.
        limits: GatewayLimits = GatewayLimits::default(),
    }
}

words! {
    /// The HTTP/1.1 implementation.
    HttpMode {
        /// The host's own implementation for the usual requests, and hyper for all others.
        Auto = "auto",
        /// hyper for every connection of a client, and reqwest for every server.
        Hyper = "hyper",
    }
}

/// A bearer token that the gateway accepts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields, rename = "Token")]
pub struct GatewayToken {
    /// The SHA-256 of the token, in hexadecimal.
    pub sha256: String,
    /// The agent that the token authenticates.
    pub agent: String,
    /// True if the token has the owner's rights.
    #[serde(default)]
    pub owner: bool,
}

leaf!(Vec<GatewayToken>);

group! {
    /// An issuer whose tokens the gateway accepts.
    GatewayOAuth, GatewayOAuthKeys {
        /// The URL of the issuer.
        issuer: Option<String> = None,
        /// The audience that a token must name.
        audience: Option<String> = None,
        /// The claim that names the agent.
        agent_claim: String = "sub".to_string(),
    }
}

group! {
    /// Limits of the gateway for one principal; 0 means unlimited.
    GatewayLimits, GatewayLimitsKeys {
        /// Maximum size of a request.
        body: Size = Size::mib(64),
        /// Maximum number of bytes of all requests in progress, over all principals. Principals without grants share a
        /// sixteenth of it. Default: a quarter of the memory, at most 512 MiB.
        bodies: Option<Size> = None,
        /// Maximum number of sessions.
        sessions: u32 = 1000,
        /// Maximum number of concurrent connections from one address. A proxy in front counts as one address: raise the
        /// limit there.
        connections: u32 = 1024,
        /// Maximum number of requests per second over all transports. The owner's socket and streams are exempt.
        rate: u32 = 0,
        /// Idle timeout of a session and of a dialog of the control API.
        idle: Period = Period::secs(1800),
        /// Time limit for reading a request head, and for its body.
        read: Period = Period::secs(30),
        /// Time limit for a client that does not read its response.
        write: Period = Period::secs(60),
        /// Maximum number of invalid tokens from one address per minute.
        wrong_tokens: u32 = 60,
    }
}

/// A value that the user is asked for once.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
#[schemars(rename = "Input")]
pub struct InputSpec {
    /// The question to the user.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// True if the input is hidden while it is typed.
    pub password: bool,
    /// The answer if the user enters nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// The only valid answers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
}

leaf!(InputSpec);

impl InputSpec {
    /// Returns a copy whose default is masked if the input is a password.
    #[must_use]
    pub(crate) fn masked(&self, show: SecretVisibility) -> Self {
        let mut shown = self.clone();
        if show == SecretVisibility::Masked && self.password {
            shown.default = self.default.as_ref().map(|_| MASK.to_string());
        }
        shown
    }
}

impl std::fmt::Debug for InputSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { description, password, default, options } =
            self.masked(SecretVisibility::Masked);
        f.debug_struct("Input")
            .field("description", &description)
            .field("password", &password)
            .field("default", &default)
            .field("options", &options)
            .finish()
    }
}
