//! Opening a link: what it needs besides the configuration, what may be refused, and why it failed.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use toolcrib_config::model::transport::Transport;
use toolcrib_config::{Reference, Value};
use toolcrib_wire::Limits;

use super::docker_exec::DockerFault;
use super::encoding::UnknownEncoding;
use super::link::{Link, LinkFault};
use super::remote::Credentials;
use super::tls::Tls;
use super::{docker_exec, sse, stdio, streamable_http, websocket};
use crate::process::{Graces, Instance, SpawnError};
use crate::signals::SecretMask;

/// Everything that opening a link needs and the server's configuration does not say.
#[derive(Clone)]
pub struct Opening<'a> {
    /// Starts and ends children.
    pub instance: &'a Instance,
    /// The host's environment.
    pub host_env: &'a [(String, String)],
    /// Variables from the host itself, over all others.
    pub extra_env: &'a [(String, String)],
    /// The folder of a process whose configuration names none.
    pub cwd: PathBuf,
    /// Finds what values refer to.
    pub find: &'a (dyn Fn(&Reference) -> Option<String> + Send + Sync),
    pub limits: Limits,
    /// Bytes of the server's stderr that are kept.
    pub stderr_limit: usize,
    pub graces: Graces,
    /// How long connecting may take, for transports that connect; zero means without limit.
    pub connect_timeout: Duration,
    /// How long a stream of events may be silent; zero means without limit.
    pub sse_read_timeout: Duration,
    /// Towards a server at an address.
    pub credentials: Credentials,
    /// Shared by all servers of a host.
    pub tls: &'a Tls,
    pub permissions: Permissions,
    /// Masks the secrets that the server is given.
    pub mask: SecretMask,
}

/// What the host lets transports do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permissions {
    pub spawn: bool,
    pub network: bool,
    pub docker: bool,
}

/// No variant holds a resolved value: any may be a secret.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("this host may not start processes")]
    SpawnForbidden,
    #[error("this host may not use the network")]
    NetworkForbidden,
    #[error("this host may not use the Docker engine")]
    DockerForbidden,
    #[error("the command `{0}` is not among `allow_commands`")]
    CommandNotAllowed(String),
    #[error("{0} is not set")]
    Missing(Reference),
    #[error("cannot use the configured encoding")]
    Encoding(#[source] UnknownEncoding),
    #[error("cannot start the server")]
    Spawn(#[source] SpawnError),
    #[error("`{0}` is no address for this transport")]
    BadUrl(String),
    #[error("`{0}` is neither encrypted nor on this machine")]
    UrlNotAllowed(String),
    #[error("the header `{0}` cannot be sent")]
    BadHeader(String),
    #[error("cannot prepare encryption")]
    Tls(#[source] rustls::Error),
    #[error("cannot prepare the HTTP client")]
    Client(#[source] reqwest::Error),
    #[error("cannot connect to the server")]
    Connect(#[source] LinkFault),
    #[error("cannot run the server in a container")]
    Docker(#[from] DockerFault),
}

/// Opens the way to a server. What was started by then ends with the future if it is dropped.
pub async fn open(transport: &Transport, opening: &Opening<'_>) -> Result<Link, OpenError> {
    match transport {
        Transport::Stdio(stdio) => stdio::open(stdio, opening).await,
        Transport::StreamableHttp(http) => streamable_http::open(http, opening),
        Transport::Sse(remote) => sse::open(remote, opening).await,
        Transport::WebSocket(remote) => websocket::open(remote, opening).await,
        Transport::DockerExec(docker) => docker_exec::open(docker, opening).await,
    }
}

impl Opening<'_> {
    /// The text of a value.
    pub(crate) fn text(&self, value: &Value) -> Result<String, OpenError> {
        text(value, &self.find)
    }
}

pub(super) fn text(
    value: &Value,
    find: &dyn Fn(&Reference) -> Option<String>,
) -> Result<String, OpenError> {
    let hidden = value.resolve(find).map_err(OpenError::Missing)?;
    Ok(hidden.reveal().to_owned())
}

impl OpenError {
    /// Stable, for machines.
    pub fn code(&self) -> &'static str {
        match self {
            Self::SpawnForbidden => "spawn.forbidden",
            Self::NetworkForbidden => "network.forbidden",
            Self::DockerForbidden => "docker.forbidden",
            Self::CommandNotAllowed(_) => "command.not_allowed",
            Self::Missing(Reference::Env(_)) => "env.missing",
            Self::Missing(Reference::Input(_)) => "input.missing",
            Self::Missing(Reference::Secret { .. }) => "secret.missing",
            Self::Encoding(_) => "encoding.unknown",
            Self::Spawn(error) => error.code(),
            Self::BadUrl(_) => "url.invalid",
            Self::UrlNotAllowed(_) => "url.not_allowed",
            Self::BadHeader(_) => "header.invalid",
            Self::Tls(_) => "tls.unusable",
            Self::Client(_) => "http.unusable",
            Self::Connect(_) => "connect.failed",
            Self::Docker(fault) => fault.code(),
        }
    }

    /// What a person can do.
    pub fn fix(&self) -> String {
        match self {
            Self::SpawnForbidden => {
                "allow this host to start processes, or reach the server over HTTP".to_owned()
            }
            Self::NetworkForbidden => {
                "allow this host to use the network, or run the server on this machine".to_owned()
            }
            Self::DockerForbidden => {
                "allow this host to use the Docker engine (`host.permissions.docker`)".to_owned()
            }
            Self::CommandNotAllowed(command) => format!("add `{command}` to `allow_commands`"),
            Self::Missing(reference) => {
                format!("set {reference}, or give the place that uses it a default")
            }
            Self::Encoding(_) => {
                "use `utf-8`, or another encoding that has ASCII as a part".to_owned()
            }
            Self::Spawn(error) => error.fix(),
            Self::BadUrl(_) => "write a whole address, with `https://` or `wss://`".to_owned(),
            Self::UrlNotAllowed(_) => {
                "use an encrypted address, or set `url_policy` to `any`".to_owned()
            }
            Self::BadHeader(_) => {
                "a header name is one word, and a value has no line breaks".to_owned()
            }
            Self::Tls(_) => "install the system's certificates (`ca-certificates`)".to_owned(),
            Self::Client(_) => "report this: the HTTP client refused its own settings".to_owned(),
            Self::Connect(_) => "see that the server runs at this address".to_owned(),
            Self::Docker(fault) => fault.fix(),
        }
    }
}

/// The environment may hold secrets: it is not shown.
impl fmt::Debug for Opening<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opening")
            .field("cwd", &self.cwd)
            .field("credentials", &self.credentials)
            .field("limits", &self.limits)
            .field("permissions", &self.permissions)
            .finish_non_exhaustive()
    }
}
