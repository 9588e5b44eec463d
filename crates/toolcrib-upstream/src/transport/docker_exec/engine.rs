//! A Docker engine, as far as a server in a container needs one: its address, and execs in its containers.

use std::future::Future;
use std::time::Duration;

use bollard::errors::Error;
use bollard::exec::{StartExecOptions, StartExecResults};
use bollard::models::{ExecConfig, ExecInspectResponse};
use bollard::{API_DEFAULT_VERSION, Docker};
use tokio::time::timeout;

use super::fault::DockerFault;
use super::streams::Streams;
use crate::process::Exit;
use crate::transport::remote::without_secrets;

/// Bounds every call; making a container on a slow disk is the longest.
const CALL: Duration = Duration::from_secs(60);

/// As much of an exec's output as is read at a time.
const CHUNK: usize = 64 * 1024;

const USUAL: &str = "unix:///var/run/docker.sock";
const USUAL_PORT: u16 = 2375;

/// Where an engine listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    /// `unix://PATH`
    Local(String),
    /// `tcp://HOST:PORT`
    Remote(String),
}

/// A connection to an engine, or rather the way to make one: each call has its own.
#[derive(Clone, Debug)]
pub(super) struct Engine {
    pub(super) docker: Docker,
    address: String,
}

/// What an engine knows of an exec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exec {
    /// It may never begin: nobody may have asked for it.
    NotBegun,
    Running,
    Ended(Exit),
    /// No process could be started.
    Refused,
    /// The engine has forgotten it, and its container perhaps too.
    Unknown,
}

impl Address {
    /// The configured one, else that of `DOCKER_HOST`, else the usual one.
    pub(super) fn of(
        configured: Option<String>,
        host_env: &[(String, String)],
    ) -> Result<Self, DockerFault> {
        let variable = |wanted: &str| {
            let found = host_env.iter().find(|(name, value)| name == wanted && !value.is_empty());
            found.map(|(_, value)| value.clone())
        };
        let text = configured.filter(|text| !text.is_empty()).or_else(|| variable("DOCKER_HOST"));
        let text = text.unwrap_or_else(|| USUAL.to_owned());
        let shown = || without_secrets(&text);
        match text.split_once("://") {
            Some(("unix", path)) if path.starts_with('/') => Ok(Self::Local(text)),
            None if text.starts_with('/') => Ok(Self::Local(format!("unix://{text}"))),
            // To speak in the clear where encryption was asked for would be worse than to fail.
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

    pub(super) fn text(&self) -> &str {
        let (Self::Local(text) | Self::Remote(text)) = self;
        text
    }
}

/// A path, a query or a name with a password is more than the address of an engine.
fn with_port(host: &str) -> Option<String> {
    let url = url::Url::parse(&format!("tcp://{host}")).ok()?;
    let only_host = url.path().is_empty() && url.query().is_none() && url.username().is_empty();
    let name = url.host_str().filter(|name| only_host && !name.is_empty())?;
    Some(format!("{name}:{}", url.port().unwrap_or(USUAL_PORT)))
}

impl Engine {
    pub(super) async fn connect(address: &str) -> Result<Self, DockerFault> {
        let unreachable = |cause: Error| DockerFault::Unreachable {
            engine: address.to_owned(),
            cause: Box::new(cause),
        };
        let docker = if address.starts_with("unix://") {
            Docker::connect_with_unix(address, CALL.as_secs(), API_DEFAULT_VERSION)
        } else {
            Docker::connect_with_http(address, CALL.as_secs(), API_DEFAULT_VERSION)
        };
        let docker = docker.map_err(unreachable)?;
        let docker = limited(docker.negotiate_version()).await.map_err(unreachable)?;
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
        let created = limited(self.docker.create_exec(container, config)).await;
        created.map(|created| created.id).map_err(|error| self.exec_fault(container, error))
    }

    /// Starts an exec with its streams attached.
    pub(super) async fn attach(&self, container: &str, exec: &str) -> Result<Streams, DockerFault> {
        let options = StartExecOptions { output_capacity: Some(CHUNK), ..Default::default() };
        match limited(self.docker.start_exec(exec, Some(options))).await {
            Ok(StartExecResults::Attached { output, input }) => Ok(Streams { output, input }),
            Ok(StartExecResults::Detached) => Err(DockerFault::Exec {
                container: container.to_owned(),
                cause: "the engine did not attach the streams".into(),
            }),
            Err(error) => Err(self.exec_fault(container, error)),
        }
    }

    pub(super) async fn look(&self, exec: &str) -> Result<Exec, DockerFault> {
        match limited(self.docker.inspect_exec(exec)).await {
            Ok(found) => Ok(Exec::of(&found)),
            Err(error) if status(&error) == Some(404) => Ok(Exec::Unknown),
            Err(error) => Err(self.unreachable(error)),
        }
    }

    fn exec_fault(&self, container: &str, error: Error) -> DockerFault {
        let name = container.to_owned();
        match status(&error) {
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

impl Exec {
    fn of(found: &ExecInspectResponse) -> Self {
        let has_pid = found.pid.is_some_and(|pid| pid > 0);
        match (found.running.unwrap_or_default(), found.exit_code) {
            (true, _) if has_pid => Self::Running,
            (true, _) | (false, None) => Self::NotBegun,
            // Some engines forget the pid when the process ends; these two are what they give where none began.
            (false, Some(126 | 127)) if !has_pid => Self::Refused,
            (false, Some(code)) => {
                Self::Ended(i32::try_from(code).map_or(Exit::Unknown, Exit::Code))
            }
        }
    }
}

pub(super) async fn limited<T>(call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    timeout(CALL, call).await.unwrap_or(Err(Error::RequestTimeoutError))
}

/// The status that an engine refused something with; `None` where it did not answer at all.
pub(super) fn status(error: &Error) -> Option<u16> {
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
        let found = Address::of(configured.clone(), &env);
        let found = found.as_ref().map(Address::text).map_err(DockerFault::code);
        assert_eq!(found, wanted, "{configured:?} {env:?}");
    }

    #[test]
    fn the_engine_is_the_configured_one_or_that_of_the_environment_or_the_usual_one() {
        let env = [("DOCKER_HOST", "tcp://builder:1")];
        check("", &[], Ok(USUAL));
        check("", &[("DOCKER_HOST", "")], Ok(USUAL));
        check("", &env, Ok("tcp://builder:1"));
        check("unix:///run/a.sock", &env, Ok("unix:///run/a.sock"));
        check("/run/a.sock", &env, Ok("unix:///run/a.sock"));
        check("tcp://builder", &[], Ok("tcp://builder:2375"));
        check("http://10.0.0.1:9/", &[], Ok("tcp://10.0.0.1:9"));
        check("tcp://[::1]:9", &[], Ok("tcp://[::1]:9"));
    }

    #[test]
    fn what_cannot_be_reached_as_it_says_is_refused() {
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
    fn no_dependency_can_log_a_request_with_its_variables() {
        assert!(log::STATIC_MAX_LEVEL <= log::LevelFilter::Info);
    }

    #[test]
    fn an_exec_has_begun_when_it_has_a_pid() {
        let of = |running, pid, exit_code| {
            let found = ExecInspectResponse {
                running: Some(running),
                pid,
                exit_code,
                ..Default::default()
            };
            Exec::of(&found)
        };
        assert_eq!(of(false, Some(0), None), Exec::NotBegun);
        assert_eq!(of(true, Some(0), None), Exec::NotBegun);
        assert_eq!(of(true, Some(7), None), Exec::Running);
        assert_eq!(of(false, Some(7), Some(3)), Exec::Ended(Exit::Code(3)));
        assert_eq!(of(false, Some(0), Some(126)), Exec::Refused);
        assert_eq!(of(false, Some(7), Some(126)), Exec::Ended(Exit::Code(126)));
        assert_eq!(of(false, Some(0), Some(0)), Exec::Ended(Exit::Code(0)));
    }
}
