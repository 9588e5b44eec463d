//! A server that is run in a container by `exec`, through the API of a Docker engine.
//!
//! Its process is a guest of its container: the keeper of processes has it in the ledger before it can exist and
//! ends it whatever becomes of the link. No image is pulled, and no container that is not ours is started.

mod container;
mod ending;
mod engine;
mod fault;
mod plan;
mod reap;
mod streams;

pub use fault::DockerFault;
pub use reap::{ContainersReaped, reap_containers};

use std::future::{Future, pending};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};
use toolcrib_config::Problem;
use toolcrib_config::model::transport::DockerExec;
use toolcrib_wire::Channel;

use self::engine::{Engine, Exec};
use self::plan::{Plan, Target};
use self::streams::{Output, Streams};
use super::encoding::Encoding;
use super::link::{CloseReason, Facts, Link};
use super::open::{OpenError, Opening};
use super::stream::{self, Behind, StreamSettings};
use crate::process::{Exit, Farewell, Graces, Home, Lodging, StderrTail};

/// How often the engine is asked about a process, and how often again after its streams have ended.
const POLL: Duration = Duration::from_millis(20);
const LOOKS: usize = 50;

pub(super) async fn open(docker: &DockerExec, opening: &Opening<'_>) -> Result<Link, OpenError> {
    if !opening.permissions.docker {
        return Err(OpenError::DockerForbidden);
    }
    let plan = Plan::of(docker, opening)?;
    if plan.engine.is_remote() && !opening.permissions.network {
        return Err(OpenError::NetworkForbidden);
    }
    let clock = Clock::start(opening.connect_timeout);
    let engine = clock.within(Engine::connect(plan.engine.text())).await?;
    let home = clock.within(find_home(&engine, &plan.target)).await?;
    let lodging = opening.instance.lodge(engine.address(), home, ending::end).await;
    let lodging = lodging.map_err(OpenError::Spawn)?;
    let Begun { exec, streams, problem } = match clock.within(begin(&engine, &plan, &lodging)).await
    {
        Ok(begun) => begun,
        Err(error) => return Err(give_up(lodging, error).await),
    };

    let tail = StderrTail::new(opening.stderr_limit);
    let facts = Facts { stderr: Some(tail.clone()), ..Facts::of(Channel::Shared) };
    let (output, ended) = Output::new(streams.output, tail);
    let inhabitant = Inhabitant { lodging, engine, exec, ended, graces: opening.graces };
    let settings = StreamSettings {
        framing: docker.framing,
        encoding: Encoding::Utf8,
        limits: opening.limits,
    };
    let link =
        Link::start(facts, |ends| stream::drive(ends, output, streams.input, inhabitant, settings));
    Ok(link.with_problems(problem.into_iter().collect()))
}

/// A server that runs, and the way to it.
struct Begun {
    exec: String,
    streams: Streams,
    problem: Option<Problem>,
}

/// The container, as far as there is one before anything of ours begins.
async fn find_home(engine: &Engine, target: &Target) -> Result<Home, OpenError> {
    let container = match target {
        Target::Fresh(_) => return Ok(Home::Own { container: None, exec: None }),
        Target::Kept(image) => engine.kept(image).await?,
        Target::Existing(name) => engine.running(name).await?,
    };
    Ok(Home::Shared { container, exec: None })
}

/// Each step is in the ledger before the engine can take it.
async fn begin(engine: &Engine, plan: &Plan, lodging: &Lodging) -> Result<Begun, OpenError> {
    let (container, problem) = match (&plan.target, lodging.home()) {
        (_, Home::Shared { container, .. }) => {
            let blind = !engine.has_shell(&container).await;
            (container, blind.then(|| no_shell(plan.target.name())))
        }
        (target, Home::Own { .. }) => (make(engine, target.name(), lodging).await?, None),
    };
    let exec = engine.create_exec(&container, plan.exec(lodging.mark())).await?;
    let home = lodging.home().with_exec(exec.clone());
    lodging.moved(home).await.map_err(OpenError::Spawn)?;
    let streams = run(engine, &container, &exec).await?;
    Ok(Begun { exec, streams, problem })
}

/// A container of our own.
async fn make(engine: &Engine, image: &str, lodging: &Lodging) -> Result<String, OpenError> {
    let id = engine.create(image, container::own_labels(lodging.mark())).await?;
    let home = Home::Own { container: Some(id.clone()), exec: None };
    lodging.moved(home).await.map_err(OpenError::Spawn)?;
    engine.start(image, &id).await?;
    Ok(id)
}

/// What was begun ends before the error is told, so that a next attempt does not meet it.
async fn give_up(lodging: Lodging, error: OpenError) -> OpenError {
    let refused = matches!(
        &error,
        OpenError::Docker(DockerFault::NoImage { .. } | DockerFault::Create { .. })
    );
    match lodging.home() {
        // The engine has said no: there is nothing to look for.
        Home::Own { container: None, .. } if refused => lodging.ended(),
        _ => {
            lodging.leave(Farewell::AtOnce).await;
        }
    }
    error
}

/// The streams of an exec whose process exists. The engine hands them out before it knows whether it can start
/// one; what it has to say about that comes on the process's own stream.
async fn run(engine: &Engine, container: &str, exec: &str) -> Result<Streams, OpenError> {
    let mut streams = engine.attach(container, exec).await?;
    loop {
        match engine.look(exec).await? {
            Exec::NotBegun => sleep(POLL).await,
            Exec::Refused => {
                let (container, said) = (container.to_owned(), streams.first_words().await);
                return Err(OpenError::Docker(DockerFault::Exec { container, cause: said.into() }));
            }
            Exec::Running | Exec::Ended(_) | Exec::Unknown => return Ok(streams),
        }
    }
}

fn no_shell(container: &str) -> Problem {
    let text = format!(
        "the container `{container}` has no shell: the server in it cannot be ended from outside; its input is \
         closed, and that is all"
    );
    Problem::warning("docker.no_shell", text)
        .fix("use an image that has `sh`, or see that the server ends when its input does")
}

/// The time that opening may take.
struct Clock {
    limit: Duration,
    deadline: Option<Instant>,
}

impl Clock {
    /// Zero means without limit.
    fn start(limit: Duration) -> Self {
        // Centuries are without limit too.
        let deadline = Instant::now().checked_add(limit).filter(|_| !limit.is_zero());
        Self { limit, deadline }
    }

    async fn within<T, E>(&self, work: impl Future<Output = Result<T, E>>) -> Result<T, OpenError>
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

/// The server's process, as far as the link is concerned.
struct Inhabitant {
    lodging: Lodging,
    engine: Engine,
    exec: String,
    /// True, or without its sender, when nothing more comes from the process.
    ended: watch::Receiver<bool>,
    graces: Graces,
}

impl Behind for Inhabitant {
    async fn exited(&self) -> CloseReason {
        let _ = self.ended.clone().wait_for(|ended| *ended).await;
        for _ in 0..LOOKS {
            match self.engine.look(&self.exec).await {
                Ok(Exec::Ended(exit)) => return CloseReason::Exited(exit),
                Ok(Exec::Refused) => return CloseReason::Exited(Exit::Unknown),
                Ok(Exec::Running | Exec::NotBegun) => sleep(POLL).await,
                Ok(Exec::Unknown) | Err(_) => break,
            }
        }
        // Not known: what was seen on the stream must do.
        pending().await
    }

    async fn stop(self) {
        let Self { lodging, graces, .. } = self;
        lodging.leave(Farewell::Gentle(graces)).await;
    }
}
