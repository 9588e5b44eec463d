//! Runs a server in a container with `docker exec`, through the API of a Docker engine.
//!
//! The process ledger has the server before its process can exist, and the process supervision ends it whatever happens
//! to the link. This transport pulls no image and starts no foreign container.

mod container;
mod container_reap;
mod engine;
mod exec_plan;
mod exec_streams;
mod fault;
mod process_termination;

pub use container_reap::{ContainersReaped, reap_containers};
pub use fault::DockerFault;

use std::future::{Future, pending};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};
use toolcrib_config::Problem;
use toolcrib_config::model::transport::DockerExec;
use toolcrib_wire::Channel;

use self::engine::{DockerEngine, ExecState};
use self::exec_plan::{ExecPlan, PlannedContainer};
use self::exec_streams::{ExecStreams, StdoutReader};
use super::byte_stream::{self, StreamBackend, StreamSettings};
use super::encoding::Encoding;
use super::link::{CloseReason, Link, LinkInfo};
use super::open::{OpenContext, OpenError};
use crate::process::{
    ContainerBinding, GracePeriods, ProcessExit, RemoteProcessHandle, StderrTail, StopMode,
};

/// Interval of polls for the state of an exec, and their limit after its streams have ended.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
const MAX_STATUS_POLLS: usize = 50;

pub(super) async fn open(
    docker: &DockerExec,
    context: &OpenContext<'_>,
) -> Result<Link, OpenError> {
    if !context.permissions.docker {
        return Err(OpenError::DockerForbidden);
    }
    let plan = ExecPlan::resolve(docker, context)?;
    if plan.engine.is_remote() && !context.permissions.network {
        return Err(OpenError::NetworkForbidden);
    }
    let deadline = OpenDeadline::start(context.connect_timeout);
    let engine = deadline.apply(DockerEngine::connect(plan.engine.as_str())).await?;
    let binding = deadline.apply(find_container(&engine, &plan.target)).await?;
    let process_handle = context
        .instance
        .register_remote(engine.address(), binding, process_termination::terminate)
        .await;
    let process_handle = process_handle.map_err(OpenError::Spawn)?;
    let StartedExec { exec, streams, problem } =
        match deadline.apply(start_exec(&engine, &plan, &process_handle)).await {
            Ok(started) => started,
            Err(error) => return Err(abort_open(process_handle, error).await),
        };

    let tail = StderrTail::new(context.stderr_limit);
    let info = LinkInfo { stderr: Some(tail.clone()), ..LinkInfo::new(Channel::Shared) };
    let (output, ended) = StdoutReader::new(streams.output, tail);
    let process = ContainerProcess { process_handle, engine, exec, ended, graces: context.graces };
    let settings = StreamSettings {
        framing: docker.framing,
        encoding: Encoding::Utf8,
        limits: context.limits,
    };
    let link = Link::start(info, |ends| {
        byte_stream::run_link(ends, output, streams.input, process, settings)
    });
    Ok(link.with_problems(problem.into_iter().collect()))
}

/// A started server and its streams.
struct StartedExec {
    exec: String,
    streams: ExecStreams,
    problem: Option<Problem>,
}

/// Finds the existing container, if the target has one before the server starts.
async fn find_container(
    engine: &DockerEngine,
    target: &PlannedContainer,
) -> Result<ContainerBinding, OpenError> {
    let container = match target {
        PlannedContainer::Fresh(_) => {
            return Ok(ContainerBinding::Dedicated { container: None, exec: None });
        }
        PlannedContainer::Kept(image) => engine.kept_container(image).await?,
        PlannedContainer::Existing(name) => engine.running_container(name).await?,
    };
    Ok(ContainerBinding::Shared { container, exec: None })
}

/// Starts the server in its container. Each step is in the ledger before the engine can execute it.
async fn start_exec(
    engine: &DockerEngine,
    plan: &ExecPlan,
    process_handle: &RemoteProcessHandle,
) -> Result<StartedExec, OpenError> {
    let (container, problem) = match (&plan.target, process_handle.binding()) {
        (_, ContainerBinding::Shared { container, .. }) => {
            let lacks_shell = !engine.has_shell(&container).await;
            (container, lacks_shell.then(|| no_shell_problem(plan.target.name())))
        }
        (target, ContainerBinding::Dedicated { .. }) => {
            (create_container(engine, target.name(), process_handle).await?, None)
        }
    };
    let exec = engine.create_exec(&container, plan.exec_config(process_handle.mark())).await?;
    let binding = process_handle.binding().with_exec(exec.clone());
    process_handle.record_container(binding).await.map_err(OpenError::Spawn)?;
    let streams = attach_exec(engine, &container, &exec).await?;
    Ok(StartedExec { exec, streams, problem })
}

/// Creates and starts a dedicated container.
async fn create_container(
    engine: &DockerEngine,
    image: &str,
    process_handle: &RemoteProcessHandle,
) -> Result<String, OpenError> {
    let id =
        engine.create_container(image, container::session_labels(process_handle.mark())).await?;
    let binding = ContainerBinding::Dedicated { container: Some(id.clone()), exec: None };
    process_handle.record_container(binding).await.map_err(OpenError::Spawn)?;
    engine.start_container(image, &id).await?;
    Ok(id)
}

/// Ends what was started before the error is returned, so that the next attempt does not meet it.
async fn abort_open(process_handle: RemoteProcessHandle, error: OpenError) -> OpenError {
    let refused = matches!(
        &error,
        OpenError::Docker(DockerFault::NoImage { .. } | DockerFault::Create { .. })
    );
    match process_handle.binding() {
        // The engine refused the creation, so there is no container to remove.
        ContainerBinding::Dedicated { container: None, .. } if refused => process_handle.release(),
        _ => {
            process_handle.stop(StopMode::Immediate).await;
        }
    }
    error
}

/// Attaches to an exec and waits until its process exists. The engine returns the streams before it knows whether the
/// process can be started, and reports a failure on the process's own stream.
async fn attach_exec(
    engine: &DockerEngine,
    container: &str,
    exec: &str,
) -> Result<ExecStreams, OpenError> {
    let mut streams = engine.attach(container, exec).await?;
    loop {
        match engine.exec_state(exec).await? {
            ExecState::NotStarted => sleep(POLL_INTERVAL).await,
            ExecState::Refused => {
                let (container, message) =
                    (container.to_owned(), streams.read_first_output().await);
                return Err(OpenError::Docker(DockerFault::Exec {
                    container,
                    cause: message.into(),
                }));
            }
            ExecState::Running | ExecState::Ended(_) | ExecState::Unknown => return Ok(streams),
        }
    }
}

fn no_shell_problem(container: &str) -> Problem {
    let text = format!(
        "the container `{container}` has no shell: its server cannot be signalled, so only its input is closed"
    );
    Problem::warning("docker.no_shell", text)
        .fix("use an image with `sh`, or make the server end with its input")
}

/// Time limit of opening the link.
struct OpenDeadline {
    limit: Duration,
    deadline: Option<Instant>,
}

impl OpenDeadline {
    /// Zero means no limit.
    fn start(limit: Duration) -> Self {
        // A limit too large for `Instant` is no limit.
        let deadline = Instant::now().checked_add(limit).filter(|_| !limit.is_zero());
        Self { limit, deadline }
    }

    async fn apply<T, E>(&self, work: impl Future<Output = Result<T, E>>) -> Result<T, OpenError>
    where
        OpenError: From<E>,
    {
        let slow = OpenError::Docker(DockerFault::Slow(self.limit));
        match self.deadline {
            Some(deadline) => Ok(timeout_at(deadline, work).await.map_err(|_| slow)??),
            None => Ok(work.await?),
        }
    }
}

/// The server's process, as the backend of its link.
struct ContainerProcess {
    process_handle: RemoteProcessHandle,
    engine: DockerEngine,
    exec: String,
    /// True, or closed, when the process sends no more output.
    ended: watch::Receiver<bool>,
    graces: GracePeriods,
}

impl StreamBackend for ContainerProcess {
    async fn exited(&self) -> CloseReason {
        let _ = self.ended.clone().wait_for(|ended| *ended).await;
        for _ in 0..MAX_STATUS_POLLS {
            match self.engine.exec_state(&self.exec).await {
                Ok(ExecState::Ended(exit)) => return CloseReason::Exited(exit),
                Ok(ExecState::Refused) => return CloseReason::Exited(ProcessExit::Unknown),
                Ok(ExecState::Running | ExecState::NotStarted) => sleep(POLL_INTERVAL).await,
                Ok(ExecState::Unknown) | Err(_) => break,
            }
        }
        // The exit status is unknown, so the end of the stream is the reason of the close.
        pending().await
    }

    async fn stop(self) {
        let Self { process_handle, graces, .. } = self;
        process_handle.stop(StopMode::Graceful(graces)).await;
    }
}
