//! How a server is reached.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::choice::{AnyOf, Inherit};
use super::setting::{Layer, Leaf, Named, Setting, Show, group, leaf, words};
use crate::doc::At;
use crate::sensitive::masked_args;
use crate::value::{Hidden, Reference, Value};

/// How a server is reached, with everything that this way needs and nothing else.
#[derive(Clone, Debug, PartialEq)]
pub enum Transport {
    Stdio(Stdio),
    StreamableHttp(StreamableHttp),
    Sse(Remote),
    WebSocket(Remote),
    DockerExec(DockerExec),
}

/// A child process that speaks on its standard streams.
#[derive(Clone, Debug, PartialEq)]
pub struct Stdio {
    pub command: Plain,
    pub args: Vec<Plain>,
    pub cwd: Option<Plain>,
    pub encoding: String,
    pub framing: Framing,
    pub allow_commands: AnyOf,
    pub env: Env,
}

/// A server at an address.
#[derive(Clone, Debug, PartialEq)]
pub struct Remote {
    pub url: Plain,
    pub headers: BTreeMap<String, Value>,
    pub url_policy: UrlPolicy,
}

#[derive(Clone, Debug, PartialEq)]
pub struct StreamableHttp {
    pub remote: Remote,
    /// A session that was opened elsewhere.
    pub session_id: Option<Value>,
    pub terminate_on_close: bool,
}

/// A process in a container, reached through the Docker engine.
#[derive(Clone, Debug, PartialEq)]
pub struct DockerExec {
    pub target: Container,
    pub command: Plain,
    pub args: Vec<Plain>,
    /// The shell that runs the command as one text; without one the command is run as it is.
    pub shell: Option<String>,
    pub workdir: Option<Plain>,
    /// The engine's address; the usual one where nothing is said.
    pub endpoint: Option<Plain>,
    pub keep_container: bool,
    pub framing: Framing,
    pub env: Env,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Container {
    Existing(Plain),
    FromImage(Plain),
}

/// The variables of a process: what is inherited, then the file's, then what is set.
#[derive(Clone, Debug, PartialEq)]
pub struct Env {
    pub inherit: Inherit,
    pub file: Option<EnvFile>,
    pub unset: Vec<String>,
    pub set: BTreeMap<String, Value>,
}

/// A file of variables and what it held when the configuration was read.
#[derive(Clone, Debug, PartialEq)]
pub struct EnvFile {
    pub path: PathBuf,
    pub values: Vec<(String, Hidden)>,
}

/// A value that is shown: a command, an argument, an address. Secrets that are written in it are masked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct Plain(pub Value);

impl Plain {
    pub fn literal(text: impl Into<String>) -> Self {
        Self(Value::literal(text))
    }

    /// The text as the native format writes it.
    pub fn shown(&self) -> String {
        self.0.as_literal().map_or_else(|| self.0.native_text(), str::to_string)
    }
}

leaf!(Plain, Vec<Plain>);

impl Setting for Value {
    type Keys = Self;

    fn overlay(&mut self, keys: Self, layer: &mut Layer<'_>) {
        *self = keys;
        layer.taken();
    }

    fn keys(&self, show: Show) -> Option<Self> {
        Some(if show == Show::Masked { self.masked() } else { self.clone() })
    }
}

impl Leaf for Value {}

words! {
    /// The ways to reach a server.
    TransportKind {
        Stdio = "stdio",
        StreamableHttp = "streamable_http",
        Sse = "sse",
        WebSocket = "websocket",
        DockerExec = "docker_exec",
    }
}

words! {
    /// How messages are told apart on a stream that is written to; on reading both are understood.
    Framing { Auto = "auto", Newline = "newline", ContentLength = "content_length", }
}

words! {
    /// Which addresses are accepted.
    UrlPolicy { Any = "any", HttpsOrLoopback = "https_or_loopback", }
}

group! {
    /// The variables of a server's process.
    EnvSettings, EnvKeys {
        /// Which of the host's variables the server sees.
        inherit: Inherit = Inherit::Minimal,
        /// A `.env` file, relative to the configuration's folder.
        file: Option<String> = None,
        /// Variables that are taken away.
        unset: Vec<String> = Vec::new(),
        /// Variables that are set.
        set: Named<Value> = Named::default(),
    }
}

group! {
    /// How a server is reached; which keys apply depends on the kind.
    TransportSettings, TransportKeys {
        /// What kind of transport; it follows from `command`, `url` or `docker` where nothing is said.
        kind: Option<TransportKind> = None,
        /// stdio, docker_exec: the program.
        command: Option<Plain> = None,
        /// stdio, docker_exec: its arguments; no shell reads them.
        args: Vec<Plain> = Vec::new(),
        /// stdio: the working directory, relative to the configuration's folder.
        cwd: Option<Plain> = None,
        /// stdio: the encoding of the streams.
        encoding: String = "utf-8".to_string(),
        /// stdio, docker_exec: how messages are told apart.
        framing: Framing = Framing::Auto,
        /// stdio: the only commands that may be run.
        allow_commands: AnyOf = AnyOf::Any,
        /// stdio, docker_exec: variables.
        env: EnvSettings = EnvSettings::default(),
        /// http kinds: the address.
        url: Option<Plain> = None,
        /// http kinds: headers of every request.
        headers: Named<Value> = Named::default(),
        /// streamable_http: the session to go on with.
        session_id: Option<Value> = None,
        /// streamable_http: whether the session is ended on the server when it is closed here.
        terminate_on_close: bool = true,
        /// http kinds: which addresses are accepted.
        url_policy: UrlPolicy = UrlPolicy::Any,
        /// docker_exec: the image of a container that is made for the server.
        image: Option<Plain> = None,
        /// docker_exec: a container that is there already.
        container: Option<Plain> = None,
        /// docker_exec: the engine's address.
        endpoint: Option<Plain> = None,
        /// docker_exec: the working directory in the container.
        workdir: Option<Plain> = None,
        /// docker_exec: a shell that runs the command, for example `sh -lc`.
        shell: Option<String> = None,
        /// docker_exec: whether a container made for the server outlives it.
        keep_container: bool = false,
    }
}

impl Transport {
    pub fn kind(&self) -> TransportKind {
        match self {
            Self::Stdio(_) => TransportKind::Stdio,
            Self::StreamableHttp(_) => TransportKind::StreamableHttp,
            Self::Sse(_) => TransportKind::Sse,
            Self::WebSocket(_) => TransportKind::WebSocket,
            Self::DockerExec(_) => TransportKind::DockerExec,
        }
    }

    /// The variables, where there is a process to have them.
    pub fn env(&self) -> Option<&Env> {
        match self {
            Self::Stdio(stdio) => Some(&stdio.env),
            Self::DockerExec(docker) => Some(&docker.env),
            _ => None,
        }
    }

    pub fn remote(&self) -> Option<&Remote> {
        match self {
            Self::StreamableHttp(http) => Some(&http.remote),
            Self::Sse(remote) | Self::WebSocket(remote) => Some(remote),
            Self::Stdio(_) | Self::DockerExec(_) => None,
        }
    }

    /// Every value that has to be resolved before the server can be reached.
    pub fn values(&self) -> Vec<&Value> {
        let mut values: Vec<&Value> = Vec::new();
        match self {
            Self::Stdio(stdio) => {
                values.push(&stdio.command.0);
                values.extend(stdio.args.iter().chain(&stdio.cwd).map(|p| &p.0));
            }
            Self::DockerExec(docker) => {
                let (Container::Existing(name) | Container::FromImage(name)) = &docker.target;
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

    /// The native keys that say exactly this.
    pub(crate) fn keys(&self, show: Show) -> TransportKeys {
        let mut keys = TransportKeys { kind: at(Some(self.kind())), ..TransportKeys::default() };
        match self {
            Self::Stdio(stdio) => {
                keys.command = at(Some(shown(&stdio.command, show)));
                keys.args = at(Some(shown_args(&stdio.args, show)));
                keys.cwd = at(stdio.cwd.clone());
                keys.encoding = at(Some(stdio.encoding.clone()));
                keys.framing = at(Some(stdio.framing));
                keys.allow_commands = at(Some(stdio.allow_commands.clone()));
                keys.env = at(Some(stdio.env.keys(show)));
            }
            Self::StreamableHttp(http) => {
                http.remote.fill(&mut keys, show);
                keys.session_id = at(http.session_id.as_ref().and_then(|id| id.keys(show)));
                keys.terminate_on_close = at(Some(http.terminate_on_close));
            }
            Self::Sse(remote) | Self::WebSocket(remote) => remote.fill(&mut keys, show),
            Self::DockerExec(docker) => docker.fill(&mut keys, show),
        }
        keys
    }
}

fn shown(plain: &Plain, show: Show) -> Plain {
    if show == Show::Masked { plain.masked() } else { plain.clone() }
}

fn shown_args(args: &[Plain], show: Show) -> Vec<Plain> {
    if show == Show::Masked { masked_args(args) } else { args.to_vec() }
}

fn at<T>(value: Option<T>) -> Option<At<T>> {
    value.map(At::unplaced)
}

impl Remote {
    fn fill(&self, keys: &mut TransportKeys, show: Show) {
        keys.url = at(Some(shown(&self.url, show)));
        keys.headers = at(Named(self.headers.clone()).keys(show));
        keys.url_policy = at(Some(self.url_policy));
    }
}

impl DockerExec {
    fn fill(&self, keys: &mut TransportKeys, show: Show) {
        match &self.target {
            Container::Existing(name) => keys.container = at(Some(name.clone())),
            Container::FromImage(image) => keys.image = at(Some(image.clone())),
        }
        keys.command = at(Some(shown(&self.command, show)));
        keys.args = at(Some(shown_args(&self.args, show)));
        keys.shell = at(self.shell.clone());
        keys.workdir = at(self.workdir.clone());
        keys.endpoint = at(self.endpoint.as_ref().map(|it| shown(it, show)));
        keys.keep_container = at(Some(self.keep_container));
        keys.framing = at(Some(self.framing));
        keys.env = at(Some(self.env.keys(show)));
    }
}

impl Env {
    /// The variables of the process: the host's that it may see, the file's over them, and over
    /// both what is set.
    pub fn variables(
        &self,
        host: impl IntoIterator<Item = (String, String)>,
        find: &dyn Fn(&Reference) -> Option<String>,
    ) -> Result<BTreeMap<String, Hidden>, Reference> {
        let mut all: BTreeMap<String, Hidden> = host
            .into_iter()
            .filter(|(name, _)| self.inherit.admits(name))
            .map(|(name, value)| (name, Hidden::new(value)))
            .collect();
        all.extend(self.file.iter().flat_map(|file| file.values.iter().cloned()));
        all.retain(|name, _| !self.unset.contains(name));
        for (name, value) in &self.set {
            all.insert(name.clone(), value.resolve(find)?);
        }
        Ok(all)
    }

    fn keys(&self, show: Show) -> EnvKeys {
        EnvKeys {
            inherit: at(Some(self.inherit.clone())),
            file: at(self.file.as_ref().map(|file| file.path.display().to_string())),
            unset: at(Some(self.unset.clone())),
            set: at(Named(self.set.clone()).keys(show)),
        }
    }
}
