//! Transports of a server.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::choice::{AllowList, InheritedEnv};
use super::setting::{Layer, Leaf, SecretVisibility, Setting, SettingMap, group, leaf, words};
use crate::doc::At;
use crate::secret_detection::mask_args;
use crate::value::{Reference, SecretString, Value};

/// The transport of a server, with exactly the settings that it needs.
#[derive(Clone, Debug, PartialEq)]
pub enum Transport {
    Stdio(Stdio),
    StreamableHttp(StreamableHttp),
    Sse(Remote),
    WebSocket(Remote),
    DockerExec(DockerExec),
}

/// A child process with the protocol on its standard streams.
#[derive(Clone, Debug, PartialEq)]
pub struct Stdio {
    pub command: DisplayValue,
    pub args: Vec<DisplayValue>,
    pub cwd: Option<DisplayValue>,
    pub encoding: String,
    pub framing: FramingMode,
    pub allow_commands: AllowList,
    pub env: ProcessEnv,
}

/// A server at a URL.
#[derive(Clone, Debug, PartialEq)]
pub struct Remote {
    pub url: DisplayValue,
    pub headers: BTreeMap<String, Value>,
    pub url_policy: UrlPolicy,
}

/// A server over Streamable HTTP.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamableHttp {
    pub remote: Remote,
    /// An existing session to resume.
    pub session_id: Option<Value>,
    pub terminate_on_close: bool,
}

/// A process in a container, started through the Docker engine.
#[derive(Clone, Debug, PartialEq)]
pub struct DockerExec {
    pub target: ContainerTarget,
    pub command: DisplayValue,
    pub args: Vec<DisplayValue>,
    /// The shell that runs the command as one text. Without a shell the command runs directly.
    pub shell: Option<String>,
    pub workdir: Option<DisplayValue>,
    /// The engine's address, or `None` for the default.
    pub endpoint: Option<DisplayValue>,
    pub keep_container: bool,
    pub framing: FramingMode,
    pub env: ProcessEnv,
}

/// The container of a server.
#[derive(Clone, Debug, PartialEq)]
pub enum ContainerTarget {
    /// An existing container by name or id.
    Existing(DisplayValue),
    /// A container to create from an image.
    FromImage(DisplayValue),
}

/// The variables of a process. Inherited variables come first, then those of the file, then `set`.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessEnv {
    pub inherit: InheritedEnv,
    pub file: Option<EnvFile>,
    pub unset: Vec<String>,
    pub set: BTreeMap<String, Value>,
}

/// An environment file with its content at compile time.
#[derive(Clone, Debug, PartialEq)]
pub struct EnvFile {
    pub path: PathBuf,
    pub values: Vec<(String, SecretString)>,
}

/// A displayed value: a command, an argument or a URL. Literal secrets in it are masked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(transparent)]
#[schemars(rename = "Plain")]
pub struct DisplayValue(pub Value);

impl DisplayValue {
    /// Returns a literal value.
    pub fn literal(text: impl Into<String>) -> Self {
        Self(Value::literal(text))
    }

    /// Returns the text in native syntax.
    pub fn display_text(&self) -> String {
        self.0.as_literal().map_or_else(|| self.0.native_text(), str::to_string)
    }
}

leaf!(DisplayValue, Vec<DisplayValue>);

impl Setting for Value {
    type Keys = Self;

    fn overlay(&mut self, keys: Self, layer: &mut Layer<'_>) {
        *self = keys;
        layer.record_leaf();
    }

    fn keys(&self, show: SecretVisibility) -> Option<Self> {
        Some(if show == SecretVisibility::Masked { self.masked() } else { self.clone() })
    }
}

impl Leaf for Value {}

words! {
    /// Kinds of transports.
    TransportKind {
        Stdio = "stdio",
        StreamableHttp = "streamable_http",
        Sse = "sse",
        WebSocket = "websocket",
        DockerExec = "docker_exec",
    }
}

words! {
    /// The framing of messages that are sent. Both framings are accepted from the server.
    FramingMode { Auto = "auto", Newline = "newline", ContentLength = "content_length", }
}

words! {
    /// The accepted URLs.
    UrlPolicy { Any = "any", HttpsOrLoopback = "https_or_loopback", }
}

group! {
    /// The variables of a server's process.
    EnvSettings, EnvKeys {
        /// The host's variables that the server inherits.
        inherit: InheritedEnv = InheritedEnv::Minimal,
        /// A `.env` file, relative to the configuration's folder.
        file: Option<String> = None,
        /// Variables to remove.
        unset: Vec<String> = Vec::new(),
        /// Variables to set.
        set: SettingMap<Value> = SettingMap::default(),
    }
}

group! {
    /// The transport of a server. The kind decides which keys apply.
    TransportSettings, TransportKeys {
        /// The kind of transport. Default: derived from `command`, `url` or `docker`.
        kind: Option<TransportKind> = None,
        /// stdio, docker_exec: the program.
        command: Option<DisplayValue> = None,
        /// stdio, docker_exec: the arguments; no shell interprets them.
        args: Vec<DisplayValue> = Vec::new(),
        /// stdio: the working directory, relative to the configuration's folder.
        cwd: Option<DisplayValue> = None,
        /// stdio: the text encoding of the streams.
        encoding: String = "utf-8".to_string(),
        /// stdio, docker_exec: the framing of messages.
        framing: FramingMode = FramingMode::Auto,
        /// stdio: the only allowed commands.
        allow_commands: AllowList = AllowList::Any,
        /// stdio, docker_exec: environment variables.
        env: EnvSettings = EnvSettings::default(),
        /// streamable_http, sse, websocket: the URL.
        url: Option<DisplayValue> = None,
        /// streamable_http, sse, websocket: headers of every request.
        headers: SettingMap<Value> = SettingMap::default(),
        /// streamable_http: the session to resume.
        session_id: Option<Value> = None,
        /// streamable_http: whether closing the session also deletes it on the server.
        terminate_on_close: bool = true,
        /// http kinds: the accepted URLs.
        url_policy: UrlPolicy = UrlPolicy::Any,
        /// docker_exec: the image of a container to create for the server.
        image: Option<DisplayValue> = None,
        /// docker_exec: an existing container.
        container: Option<DisplayValue> = None,
        /// docker_exec: the engine's address.
        endpoint: Option<DisplayValue> = None,
        /// docker_exec: the working directory in the container.
        workdir: Option<DisplayValue> = None,
        /// docker_exec: a shell that runs the command, for example `sh -lc`.
        shell: Option<String> = None,
        /// docker_exec: whether a container created for the server outlives it.
        keep_container: bool = false,
    }
}

impl Transport {
    /// Returns the kind of transport.
    pub fn kind(&self) -> TransportKind {
        match self {
            Self::Stdio(_) => TransportKind::Stdio,
            Self::StreamableHttp(_) => TransportKind::StreamableHttp,
            Self::Sse(_) => TransportKind::Sse,
            Self::WebSocket(_) => TransportKind::WebSocket,
            Self::DockerExec(_) => TransportKind::DockerExec,
        }
    }

    /// Returns the variables, if the transport starts a process.
    pub fn env(&self) -> Option<&ProcessEnv> {
        match self {
            Self::Stdio(stdio) => Some(&stdio.env),
            Self::DockerExec(docker) => Some(&docker.env),
            _ => None,
        }
    }

    /// Returns the remote settings of a transport with a URL.
    pub fn remote(&self) -> Option<&Remote> {
        match self {
            Self::StreamableHttp(http) => Some(&http.remote),
            Self::Sse(remote) | Self::WebSocket(remote) => Some(remote),
            Self::Stdio(_) | Self::DockerExec(_) => None,
        }
    }

    /// Returns every value that must be resolved before the server can be reached.
    pub fn values(&self) -> Vec<&Value> {
        let mut values: Vec<&Value> = Vec::new();
        match self {
            Self::Stdio(stdio) => {
                values.push(&stdio.command.0);
                values.extend(stdio.args.iter().chain(&stdio.cwd).map(|p| &p.0));
            }
            Self::DockerExec(docker) => {
                let (ContainerTarget::Existing(name) | ContainerTarget::FromImage(name)) =
                    &docker.target;
                values.extend([&name.0, &docker.command.0]);
                values.extend(
                    docker.args.iter().chain(&docker.workdir).chain(&docker.endpoint).map(|p| &p.0),
                );
            }
            Self::StreamableHttp(http) => values.extend(&http.session_id),
            Self::Sse(_) | Self::WebSocket(_) => {}
        }
        values.extend(self.env().into_iter().flat_map(|env| env.set.values()));
        values.extend(self.remote().into_iter().flat_map(|r| r.headers.values().chain([&r.url.0])));
        values
    }

    /// Returns the equivalent native keys.
    pub(crate) fn keys(&self, show: SecretVisibility) -> TransportKeys {
        let mut keys =
            TransportKeys { kind: unlocated(Some(self.kind())), ..TransportKeys::default() };
        match self {
            Self::Stdio(stdio) => {
                keys.command = unlocated(Some(visible_value(&stdio.command, show)));
                keys.args = unlocated(Some(visible_args(&stdio.args, show)));
                keys.cwd = unlocated(stdio.cwd.clone());
                keys.encoding = unlocated(Some(stdio.encoding.clone()));
                keys.framing = unlocated(Some(stdio.framing));
                keys.allow_commands = unlocated(Some(stdio.allow_commands.clone()));
                keys.env = unlocated(Some(stdio.env.keys(show)));
            }
            Self::StreamableHttp(http) => {
                http.remote.fill_keys(&mut keys, show);
                keys.session_id = unlocated(http.session_id.as_ref().and_then(|id| id.keys(show)));
                keys.terminate_on_close = unlocated(Some(http.terminate_on_close));
            }
            Self::Sse(remote) | Self::WebSocket(remote) => remote.fill_keys(&mut keys, show),
            Self::DockerExec(docker) => docker.fill_keys(&mut keys, show),
        }
        keys
    }
}

fn visible_value(value: &DisplayValue, show: SecretVisibility) -> DisplayValue {
    if show == SecretVisibility::Masked { value.masked() } else { value.clone() }
}

fn visible_args(args: &[DisplayValue], show: SecretVisibility) -> Vec<DisplayValue> {
    if show == SecretVisibility::Masked { mask_args(args) } else { args.to_vec() }
}

fn unlocated<T>(value: Option<T>) -> Option<At<T>> {
    value.map(At::without_location)
}

impl Remote {
    fn fill_keys(&self, keys: &mut TransportKeys, show: SecretVisibility) {
        keys.url = unlocated(Some(visible_value(&self.url, show)));
        keys.headers = unlocated(SettingMap(self.headers.clone()).keys(show));
        keys.url_policy = unlocated(Some(self.url_policy));
    }
}

impl DockerExec {
    fn fill_keys(&self, keys: &mut TransportKeys, show: SecretVisibility) {
        match &self.target {
            ContainerTarget::Existing(name) => keys.container = unlocated(Some(name.clone())),
            ContainerTarget::FromImage(image) => keys.image = unlocated(Some(image.clone())),
        }
        keys.command = unlocated(Some(visible_value(&self.command, show)));
        keys.args = unlocated(Some(visible_args(&self.args, show)));
        keys.shell = unlocated(self.shell.clone());
        keys.workdir = unlocated(self.workdir.clone());
        keys.endpoint = unlocated(self.endpoint.as_ref().map(|it| visible_value(it, show)));
        keys.keep_container = unlocated(Some(self.keep_container));
        keys.framing = unlocated(Some(self.framing));
        keys.env = unlocated(Some(self.env.keys(show)));
    }
}

impl ProcessEnv {
    /// Returns the variables of the process: inherited ones, overridden by the file, overridden by `set`.
    pub fn variables(
        &self,
        host: impl IntoIterator<Item = (String, String)>,
        find: &dyn Fn(&Reference) -> Option<String>,
    ) -> Result<BTreeMap<String, SecretString>, Reference> {
        let mut all: BTreeMap<String, SecretString> = host
            .into_iter()
            .filter(|(name, _)| self.inherit.allows(name))
            .map(|(name, value)| (name, SecretString::new(value)))
            .collect();
        all.extend(self.file.iter().flat_map(|file| file.values.iter().cloned()));
        all.retain(|name, _| !self.unset.contains(name));
        for (name, value) in &self.set {
            all.insert(name.clone(), value.resolve(find)?);
        }
        Ok(all)
    }

    fn keys(&self, show: SecretVisibility) -> EnvKeys {
        EnvKeys {
            inherit: unlocated(Some(self.inherit.clone())),
            file: unlocated(self.file.as_ref().map(|file| file.path.display().to_string())),
            unset: unlocated(Some(self.unset.clone())),
            set: unlocated(SettingMap(self.set.clone()).keys(show)),
        }
    }
}
