//! Opens links: the inputs beside the configuration, permissions, errors.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use toolcrib_config::model::host::HttpMode;
use toolcrib_config::model::transport::Transport;
use toolcrib_config::{Reference, Value};
use toolcrib_wire::MessageLimits;

use super::docker_exec::DockerFault;
use super::encoding::UnknownEncoding;
use super::link::{Link, LinkFault};
use super::remote_target::Credentials;
use super::tls::Tls;
use super::{docker_exec, sse, stdio, streamable_http, websocket};
use crate::process::{GracePeriods, Instance, SpawnError};
use crate::signals::SecretMask;

/// Everything that opening a link needs beside the server's configuration.
#[derive(Clone)]
pub struct OpenContext<'a> {
    /// Starts and ends child processes.
    pub instance: &'a Instance,
    /// Environment of the host.
    pub host_env: &'a [(String, String)],
    /// Additional variables from the host, which override all others.
    pub extra_env: &'a [(String, String)],
    /// Working folder of a process without a configured one.
    pub cwd: PathBuf,
    /// Resolves references in values.
    pub lookup: &'a (dyn Fn(&Reference) -> Option<String> + Send + Sync),
    /// Limits of received messages.
    pub limits: MessageLimits,
    /// Bytes of the server's stderr that are kept.
    pub stderr_limit: usize,
    /// Grace periods for ending processes.
    pub graces: GracePeriods,
    /// Connect timeout of transports that connect. Zero means no limit.
    pub connect_timeout: Duration,
    /// Read timeout of event streams. Zero means no limit.
    pub sse_read_timeout: Duration,
    /// Credentials for a remote server.
    pub credentials: Credentials,
    /// Shared by all servers of a host.
    pub tls: &'a Tls,
    /// Permissions of the host.
    pub permissions: Permissions,
    /// HTTP/1.1 implementation for servers at `http://` addresses.
    pub http_mode: HttpMode,
    /// Masks the secrets of the server.
    pub mask: SecretMask,
}

/// Permissions of the host that transports check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permissions {
    /// May start processes.
    pub spawn: bool,
    /// May use the network.
    pub network: bool,
    /// May use a Docker engine.
    pub docker: bool,
}

/// Error of opening a link. No variant holds a resolved value, since any value may be a secret.
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
    #[error("`{0}` is not a valid URL for this transport")]
    BadUrl(String),
    #[error("`{0}` is neither encrypted nor a loopback address")]
    UrlNotAllowed(String),
    #[error("the header `{0}` cannot be sent")]
    BadHeader(String),
    #[error("cannot configure TLS")]
    Tls(#[source] rustls::Error),
    #[error("cannot build the HTTP client")]
    Client(#[source] reqwest::Error),
    #[error("cannot connect to the server")]
    Connect(#[source] LinkFault),
    #[error("cannot run the server in a container")]
    Docker(#[from] DockerFault),
}

/// Opens a link. Dropping the future ends everything that was started.
pub async fn open(transport: &Transport, context: &OpenContext<'_>) -> Result<Link, OpenError> {
    match transport {
        Transport::Stdio(stdio) => stdio::open(stdio, context).await,
        Transport::StreamableHttp(http) => streamable_http::open(http, context),
        Transport::Sse(remote) => sse::open(remote, context).await,
        Transport::WebSocket(remote) => websocket::open(remote, context).await,
        Transport::DockerExec(docker) => docker_exec::open(docker, context).await,
    }
}

impl OpenContext<'_> {
    /// Resolves a value to its text.
    pub(crate) fn text(&self, value: &Value) -> Result<String, OpenError> {
        text(value, &self.lookup)
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
    /// Stable code for programs.
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

    /// Suggested fix for people.
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
                format!("set {reference}, or write a default where it is used")
            }
            Self::Encoding(_) => "use `utf-8`, or another encoding that contains ASCII".to_owned(),
            Self::Spawn(error) => error.fix(),
            Self::BadUrl(_) => "write a complete URL, with `https://` or `wss://`".to_owned(),
            Self::UrlNotAllowed(_) => {
                "use an encrypted URL, or set `url_policy` to `any`".to_owned()
            }
            Self::BadHeader(_) => {
                "a header name is one word, and a value has no line breaks".to_owned()
            }
            Self::Tls(_) => "install the system's certificates (`ca-certificates`)".to_owned(),
            Self::Client(_) => "report this: the HTTP client refused its own settings".to_owned(),
            Self::Connect(_) => "check that the server runs at this address".to_owned(),
            Self::Docker(fault) => fault.fix(),
        }
    }
}

/// Omits the environment, which may contain secrets.
impl fmt::Debug for OpenContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenContext")
            .field("cwd", &self.cwd)
            .field("credentials", &self.credentials)
            .field("limits", &self.limits)
            .field("permissions", &self.permissions)
            .finish_non_exhaustive()
    }
}
