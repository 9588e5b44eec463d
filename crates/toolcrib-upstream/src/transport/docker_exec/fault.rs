//! Errors of a Docker engine and their fixes.

use std::error::Error;
use std::time::Duration;

/// Error of a Docker engine. The engine's own text is the cause. No variant holds the value of a variable.
#[derive(Debug, thiserror::Error)]
pub enum DockerFault {
    #[error("`{0}` is not an address of a Docker engine")]
    BadEndpoint(String),
    #[error("TLS to the Docker engine at `{0}` is not supported")]
    Tls(String),
    #[error("no Docker engine answers at `{engine}`")]
    Unreachable {
        engine: String,
        #[source]
        cause: Box<dyn Error + Send + Sync>,
    },
    #[error("the Docker engine was not ready within {} s", .0.as_secs_f64())]
    Slow(Duration),
    #[error("there is no container `{container}`")]
    NoContainer { container: String },
    #[error("the container `{container}` is not running")]
    NotRunning { container: String },
    #[error("the engine has no image `{image}`")]
    NoImage { image: String },
    #[error("cannot create a container from the image `{image}`")]
    Create {
        image: String,
        #[source]
        cause: Box<dyn Error + Send + Sync>,
    },
    #[error("cannot run the server in the container `{container}`")]
    Exec {
        container: String,
        #[source]
        cause: Box<dyn Error + Send + Sync>,
    },
}

impl DockerFault {
    /// Stable code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::BadEndpoint(_) => "docker.endpoint",
            Self::Tls(_) => "docker.tls",
            Self::Unreachable { .. } => "docker.unreachable",
            Self::Slow(_) => "docker.slow",
            Self::NoContainer { .. } => "docker.no_container",
            Self::NotRunning { .. } => "docker.not_running",
            Self::NoImage { .. } => "docker.no_image",
            Self::Create { .. } => "docker.create_failed",
            Self::Exec { .. } => "docker.exec_failed",
        }
    }

    /// Suggested fix for people.
    pub fn fix(&self) -> String {
        match self {
            Self::BadEndpoint(_) => {
                "write `endpoint`, or the variable DOCKER_HOST, as `unix:///PATH` or `tcp://HOST:PORT`".to_owned()
            }
            Self::Tls(_) => {
                "forward the engine's socket over SSH and give its `unix://` address as `endpoint`".to_owned()
            }
            Self::Unreachable { .. } => {
                "start the engine, allow access to its socket, or correct `endpoint` or DOCKER_HOST".to_owned()
            }
            Self::Slow(_) => "check the load of the engine, or raise `timeouts.connect`".to_owned(),
            Self::NoContainer { .. } => {
                "correct `container`, or give an `image` to create one from".to_owned()
            }
            Self::NotRunning { container } => format!("start it: `docker start {container}`"),
            Self::NoImage { image } => format!("get it: `docker pull {image}`"),
            Self::Create { .. } => {
                "see the engine's error; the image needs `sh` and `sleep`".to_owned()
            }
            Self::Exec { .. } => {
                "see the engine's error; the command must be a program in the container's PATH".to_owned()
            }
        }
    }
}
