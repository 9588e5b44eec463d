//! Settings of the host itself: what is reserved, permitted and granted, and its gateway.

use serde::{Deserialize, Serialize};

use super::setting::{Layer, Named, Setting, Show, group, leaf, words};
use super::units::{Period, Size};
use crate::sensitive::{masked_args, masked_text};
use crate::value::{MASK, Value};

group! {
    /// Settings of the whole host.
    Host, HostKeys {
        /// Names of tools that no server may take.
        reserved_tools: Vec<String> = Vec::new(),
        /// Names of toolsets that no server may take.
        reserved_toolsets: Vec<String> = Vec::new(),
        /// The most servers that are connected at a time; 0 means any number.
        max_servers: u32 = 0,
        /// What the host may do at all.
        permissions: Permissions = Permissions::default(),
        /// How a changed configuration is noticed and taken up.
        reload: HostReload = HostReload::default(),
        /// Where secrets come from, by name.
        secrets: Named<SecretStore> = Named::default(),
        /// What happens when the definition of a tool changes.
        pins: Pins = Pins::Warn,
        /// Where the host keeps credentials.
        credentials: Credentials = Credentials::Auto,
        /// Who may use what.
        grants: Grants = Grants::default(),
    }
}

group! {
    /// What the host may do at all.
    Permissions, PermissionsKeys {
        /// Start processes.
        spawn: bool = true,
        /// Connect to addresses.
        network: bool = true,
        /// Use the Docker engine.
        docker: bool = true,
    }
}

group! {
    /// How a changed configuration is noticed and taken up.
    HostReload, HostReloadKeys {
        mode: super::policy::Reload = super::policy::Reload::Watch,
        /// How often files are looked at besides being watched; zero means never.
        poll: Period = Period::millis(1500),
        /// Changes within this time are one change.
        debounce: Period = Period::millis(200),
        /// A server that does not drain is killed after this time; unset, its calls end by their own limits.
        drain_kill: Option<Period> = None,
    }
}

impl HostReload {
    /// How long calls in flight may take when the host ends: `drain_kill`, or 30 s where that is unset.
    pub fn shutdown_limit(&self) -> std::time::Duration {
        self.drain_kill.unwrap_or(Period::secs(30)).0
    }
}

words! {
    /// What happens when the definition of a tool changes.
    Pins { Off = "off", Warn = "warn", Enforce = "enforce", }
}

words! {
    /// Where the host keeps credentials.
    Credentials { Auto = "auto", Keyring = "keyring", File = "file", }
}

group! {
    /// Who may use what.
    Grants, GrantsKeys {
        members: Named<Member> = Named::default(),
    }
}

group! {
    /// What one agent may use.
    Member, MemberKeys {
        toolsets: Vec<String> = Vec::new(),
        capabilities: Vec<String> = Vec::new(),
    }
}

/// The three capabilities of which one lets an agent use a tool, from the broadest to the narrowest.
/// They are compared whole: `mcp_git_hub` may be a server or a tool, and no name is ever taken apart.
pub fn capability_layers(server: &str, tool: &str) -> [String; 3] {
    ["mcp_integration".to_string(), format!("mcp_{server}"), format!("mcp_{server}_{tool}")]
}

words! {
    /// The kinds of secret stores.
    SecretKind { File = "file", Command = "command", Keyring = "keyring", Vault = "vault", }
}

/// A place that secrets come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SecretStore {
    pub kind: SecretKind,
    /// file: the folder of secrets, relative to the configuration's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// command: program and arguments; `{path}` stands for the secret's path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// The longest wait; 10 seconds where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Period>,
    /// command, vault: how long an answer is kept; 5 minutes where nothing is said, and zero means never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<Period>,
    /// keyring: the service's name; `toolcrib` where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// vault: the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// vault: where its KV (version 2) engine is mounted; else a secret's path begins with that.
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
        layer.taken();
    }

    fn keys(&self, show: Show) -> Option<Self> {
        let mut keys = self.clone();
        if show == Show::Masked {
            keys.token = keys.token.as_ref().map(Value::masked);
            keys.url = keys.url.as_deref().map(masked_text);
            keys.command = masked_args(&keys.command);
        }
        Some(keys)
    }
}

group! {
    /// The endpoint in front of all servers.
    Gateway, GatewayKeys {
        /// The address to listen on.
        listen: String = "127.0.0.1:7420".to_string(),
        /// Names besides the address by which clients may call it.
        hosts: Vec<String> = Vec::new(),
        /// Origins besides its own (`http://localhost:3000`) whose pages may use it.
        origins: Vec<String> = Vec::new(),
        /// Bearer tokens, by their hash. An empty list lets nobody in; leaving the key out asks for no tokens.
        tokens: Option<Vec<Token>> = None,
        /// An issuer whose tokens are accepted.
        oauth: GatewayOAuth = GatewayOAuth::default(),
        /// Limits for each principal.
        limits: GatewayLimits = GatewayLimits::default(),
    }
}

/// A bearer token that the gateway accepts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Token {
    /// The SHA-256 of the token, in hexadecimal.
    pub sha256: String,
    /// Whom it stands for.
    pub agent: String,
    /// Whether it has the owner's rights.
    #[serde(default)]
    pub owner: bool,
}

leaf!(Vec<Token>);

group! {
    /// An issuer whose tokens the gateway accepts.
    GatewayOAuth, GatewayOAuthKeys {
        issuer: Option<String> = None,
        audience: Option<String> = None,
        /// The claim that names the agent.
        agent_claim: String = "sub".to_string(),
    }
}

group! {
    /// What one principal may use of the gateway; 0 means without limit.
    GatewayLimits, GatewayLimitsKeys {
        /// The largest request.
        body: Size = Size::mib(64),
        /// The most bytes of all requests together that are being read or answered, of all principals; principals
        /// without grants have a sixteenth of it. A quarter of the memory where nothing is said, and at most 512 MiB.
        bodies: Option<Size> = None,
        /// The most sessions.
        sessions: u32 = 1000,
        /// The most connections that come from one address at a time. A proxy in front is one address: raise it there.
        connections: u32 = 1024,
        /// The most requests in a second, on whichever way they come in; not on the owner's socket, nor on streams.
        rate: u32 = 0,
        /// A session that is not used ends after this time, and so does a dialog of the control API.
        idle: Period = Period::secs(1800),
        /// How long the head of a request may take, and its body.
        read: Period = Period::secs(30),
        /// How long a client may read nothing of what it is sent.
        write: Period = Period::secs(60),
        /// The most wrong tokens that come from one address in a minute.
        wrong_tokens: u32 = 60,
    }
}

/// A value that a person is asked for once.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Input {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Whether it is hidden while it is typed.
    pub password: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// The only answers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
}

leaf!(Input);

impl Input {
    /// What anybody may see of it: the default of a password is one.
    #[must_use]
    pub(crate) fn shown(&self, show: Show) -> Self {
        let mut shown = self.clone();
        if show == Show::Masked && self.password {
            shown.default = self.default.as_ref().map(|_| MASK.to_string());
        }
        shown
    }
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { description, password, default, options } = self.shown(Show::Masked);
        f.debug_struct("Input")
            .field("description", &description)
            .field("password", &password)
            .field("default", &default)
            .field("options", &options)
            .finish()
    }
}
