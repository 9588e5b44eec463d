//! Client of a Docker engine: its address and the execs in its containers.

use std::future::Future;
use std::time::Duration;

use bollard::errors::Error;
use bollard::exec::{StartExecOptions, StartExecResults};
use bollard::models::{ExecConfig, ExecInspectResponse};
use bollard::{API_DEFAULT_VERSION, Docker};
use tokio::time::timeout;

use super::exec_streams::ExecStreams;
use super::fault::DockerFault;
use crate::process::ProcessExit;
use crate::transport::remote_target::redact_url;

/// Limit of every API call. Creating a container on a slow disk takes longest.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Read size for the output of an exec.
const READ_CHUNK: usize = 64 * 1024;

const DEFAULT_ENDPOINT: &str = "unix:///var/run/docker.sock";
const DEFAULT_PORT: u16 = 2375;

/// Address of an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EngineAddress {
    /// `unix://PATH`
    Local(String),
    /// `tcp://HOST:PORT`
    Remote(String),
}

/// Client of one engine. Every call opens its own connection.
#[derive(Clone, Debug)]
pub(super) struct DockerEngine {
    pub(super) docker: Docker,
    address: String,
}

/// State of an exec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExecState {
    /// The exec may never start.
    NotStarted,
    Running,
    Ended(ProcessExit),
    /// The engine could not start the process.
    Refused,
    /// The engine does not know the exec. Its container may be gone as well.
    Unknown,
}

impl EngineAddress {
    /// Takes the configured address, else `DOCKER_HOST`, else the default socket.
    pub(super) fn resolve(
        configured: Option<String>,
        host_env: &[(String, String)],
    ) -> Result<Self, DockerFault> {
        let variable = |wanted: &str| {
            let found = host_env.iter().find(|(name, value)| name == wanted && !value.is_empty());
            found.map(|(_, value)| value.clone())
        };
        let text = configured.filter(|text| !text.is_empty()).or_else(|| variable("DOCKER_HOST"));
        let text = text.unwrap_or_else(|| DEFAULT_ENDPOINT.to_owned());
        let shown = || redact_url(&text);
        match text.split_once("://") {
            Some(("unix", path)) if path.starts_with('/') => Ok(Self::Local(text)),
            None if text.starts_with('/') => Ok(Self::Local(format!("unix://{text}"))),
            // Failing is better than an unencrypted connection where TLS was requested.
            Some(("https", _)) => Err(DockerFault::Tls(shown())),
            Some(("tcp" | "http", _)) if variable("DOCKER_TLS_VERIFY").is_some() => {
                Err(DockerFault::Tls(shown()))
            }
            Some(("tcp" | "http", host)) => match with_port(host.trim_end_matches('/')) {
                Some(host) => Ok(Self::Remote(format!("tcp://{host}"))),
                None => Err(DockerFault::BadEndpoint(shown())),
            },
            _ => Err(DockerFault::BadEndpoint(shown())),
        }
    }

    pub(super) fn is_remote(&self) -> bool {
        matches!(self, Self::Remote(_))
    }

    pub(super) fn as_str(&self) -> &str {
        let (Self::Local(text) | Self::Remote(text)) = self;
        text
    }
}

/// Returns `None` for a text with a path, query or user name.
fn with_port(host: &str) -> Option<String> {
    let url = url::Url::parse(&format!("tcp://{host}")).ok()?;
    let only_host = url.path().is_empty() && url.query().is_none() && url.username().is_empty();
    let name = url.host_str().filter(|name| only_host && !name.is_empty())?;
    Some(format!("{name}:{}", url.port().unwrap_or(DEFAULT_PORT)))
}

impl DockerEngine {
    pub(super) async fn connect(address: &str) -> Result<Self, DockerFault> {
        let unreachable = |cause: Error| DockerFault::Unreachable {
            engine: address.to_owned(),
            cause: Box::new(cause),
        };
        let docker = if address.starts_with("unix://") {
            Docker::connect_with_unix(address, CALL_TIMEOUT.as_secs(), API_DEFAULT_VERSION)
        } else {
            Docker::connect_with_http(address, CALL_TIMEOUT.as_secs(), API_DEFAULT_VERSION)
        };
        let docker = docker.map_err(unreachable)?;
        let docker = with_call_timeout(docker.negotiate_version()).await.map_err(unreachable)?;
        Ok(Self { docker, address: address.to_owned() })
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    pub(super) async fn create_exec(
        &self,
        container: &str,
        config: ExecConfig,
    ) -> Result<String, DockerFault> {
        let created = with_call_timeout(self.docker.create_exec(container, config)).await;
        created.map(|created| created.id).map_err(|error| self.exec_fault(container, error))
    }

    /// Starts an exec with attached streams.
    pub(super) async fn attach(
        &self,
        container: &str,
        exec: &str,
    ) -> Result<ExecStreams, DockerFault> {
        let options = StartExecOptions { output_capacity: Some(READ_CHUNK), ..Default::default() };
        match with_call_timeout(self.docker.start_exec(exec, Some(options))).await {
            Ok(StartExecResults::Attached { output, input }) => Ok(ExecStreams { output, input }),
            Ok(StartExecResults::Detached) => Err(DockerFault::Exec {
                container: container.to_owned(),
                cause: "the engine did not attach the streams".into(),
            }),
            Err(error) => Err(self.exec_fault(container, error)),
        }
    }

    pub(super) async fn exec_state(&self, exec: &str) -> Result<ExecState, DockerFault> {
        match with_call_timeout(self.docker.inspect_exec(exec)).await {
            Ok(found) => Ok(ExecState::from_inspect(&found)),
            Err(error) if response_status(&error) == Some(404) => Ok(ExecState::Unknown),
            Err(error) => Err(self.unreachable(error)),
        }
    }

    fn exec_fault(&self, container: &str, error: Error) -> DockerFault {
        let name = container.to_owned();
        match response_status(&error) {
            None => self.unreachable(error),
            Some(404) => DockerFault::NoContainer { container: name },
            Some(409) => DockerFault::NotRunning { container: name },
            Some(_) => DockerFault::Exec { container: name, cause: Box::new(error) },
        }
    }

    pub(super) fn unreachable(&self, error: Error) -> DockerFault {
        DockerFault::Unreachable { engine: self.address.clone(), cause: Box::new(error) }
    }
}

impl ExecState {
    fn from_inspect(found: &ExecInspectResponse) -> Self {
        let has_pid = found.pid.is_some_and(|pid| pid > 0);
        match (found.running.unwrap_or_default(), found.exit_code) {
            (true, _) if has_pid => Self::Running,
            (true, _) | (false, None) => Self::NotStarted,
            // Some engines forget the pid when the process ends. They report 126 or 127 if no process was started.
            (false, Some(126 | 127)) if !has_pid => Self::Refused,
            (false, Some(code)) => {
                Self::Ended(i32::try_from(code).map_or(ProcessExit::Unknown, ProcessExit::Code))
            }
        }
    }
}

pub(super) async fn with_call_timeout<T>(
    call: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    timeout(CALL_TIMEOUT, call).await.unwrap_or(Err(Error::RequestTimeoutError))
}

/// HTTP status of an engine's refusal, or `None` if the engine did not answer.
pub(super) fn response_status(error: &Error) -> Option<u16> {
    match error {
        Error::DockerResponseServerError { status_code, .. } => Some(*status_code),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(configured: &str, env: &[(&str, &str)], wanted: Result<&str, &str>) {
        let env: Vec<_> = env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let configured = Some(configured.to_owned());
        let found = EngineAddress::resolve(configured.clone(), &env);
        let found = found.as_ref().map(EngineAddress::as_str).map_err(DockerFault::code);
        assert_eq!(found, wanted, "{configured:?} {env:?}");
    }

    #[test]
    fn engine_address_comes_from_configuration_environment_or_default() {
        let env = [("DOCKER_HOST", "tcp://builder:1")];
        check("", &[], Ok(DEFAULT_ENDPOINT));
        check("", &[("DOCKER_HOST", "")], Ok(DEFAULT_ENDPOINT));
        check("", &env, Ok("tcp://builder:1"));
        check("unix:///run/a.sock", &env, Ok("unix:///run/a.sock"));
        check("/run/a.sock", &env, Ok("unix:///run/a.sock"));
        check("tcp://builder", &[], Ok("tcp://builder:2375"));
        check("http://10.0.0.1:9/", &[], Ok("tcp://10.0.0.1:9"));
        check("tcp://[::1]:9", &[], Ok("tcp://[::1]:9"));
    }

    #[test]
    fn unsupported_engine_addresses_are_rejected() {
        for bad in [
            "ssh://me@host",
            "npipe:////./pipe/x",
            "builder:1",
            "unix://",
            "tcp://",
            "tcp://a/b",
            "tcp://a@b",
        ] {
            check(bad, &[], Err("docker.endpoint"));
        }
        check("https://builder:2376", &[], Err("docker.tls"));
        check("tcp://builder:2376", &[("DOCKER_TLS_VERIFY", "1")], Err("docker.tls"));
        check("unix:///run/a.sock", &[("DOCKER_TLS_VERIFY", "1")], Ok("unix:///run/a.sock"));
    }

    #[test]
    fn log_crate_level_excludes_request_bodies() {
        assert!(log::STATIC_MAX_LEVEL <= log::LevelFilter::Info);
    }

    #[test]
    fn exec_state_depends_on_pid_and_exit_code() {
        let of = |running, pid, exit_code| {
            let found = ExecInspectResponse {
                running: Some(running),
                pid,
                exit_code,
                ..Default::default()
            };
            ExecState::from_inspect(&found)
        };
        assert_eq!(of(false, Some(0), None), ExecState::NotStarted);
        assert_eq!(of(true, Some(0), None), ExecState::NotStarted);
        assert_eq!(of(true, Some(7), None), ExecState::Running);
        assert_eq!(of(false, Some(7), Some(3)), ExecState::Ended(ProcessExit::Code(3)));
        assert_eq!(of(false, Some(0), Some(126)), ExecState::Refused);
        assert_eq!(of(false, Some(7), Some(126)), ExecState::Ended(ProcessExit::Code(126)));
        assert_eq!(of(false, Some(0), Some(0)), ExecState::Ended(ProcessExit::Code(0)));
    }
}
