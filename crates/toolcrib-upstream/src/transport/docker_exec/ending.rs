//! How a guest is ended: its container removed, or its processes looked for in it by their mark.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bollard::models::ExecConfig;
use tokio::time::{Instant, sleep, timeout};

use super::POLL;
use super::engine::{Engine, Exec};
use super::fault::DockerFault;
use crate::process::{Exit, Farewell, Graces, Guest, Home, Mark, OWNER_VARIABLE};

/// An engine may still be about to do what its client asked for before it died or lost interest. Busy with many
/// containers, it takes seconds to make one.
const IN_FLIGHT: Duration = Duration::from_secs(5);

/// What the engine itself needs, beside the graces.
const ENGINE: Duration = Duration::from_secs(30);

/// How long to wait for what was told to end at once.
const SOON: Duration = Duration::from_secs(2);

/// Signals what carries the mark `$1` with `$2` and waits `$3` tenths of a second for its end. Not even a
/// process that keeps forking escapes the killing rounds. A zombie has no environment, so it is not waited for.
const SEEK: &str = r#"
marked() {
    for p in /proc/[0-9]*; do
        tr '\0' '\n' <"$p/environ" | grep -qx "$1" && echo "${p#/proc/}"
    done 2>/dev/null
}
command -v tr >/dev/null && command -v grep >/dev/null || exit 3
pids=$(marked "$1")
[ -z "$pids" ] || kill -s "$2" $pids 2>/dev/null
left=$3
while [ -n "$pids" ]; do
    [ "$left" -gt 0 ] || exit 4
    left=$((left - 1))
    sleep 0.1 2>/dev/null || { sleep 1; left=$((left - 9)); }
    pids=$(marked "$1")
    [ "$2" != KILL ] || [ -z "$pids" ] || kill -s KILL $pids 2>/dev/null
done
"#;
const LEFT: i32 = 4;

/// What a look for marked processes came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sought {
    NoneLeft,
    SomeLeft,
    /// The container has no shell, or a shell without `tr` and `grep`.
    Blind,
    /// The container itself does not run.
    NoContainer,
}

/// True if nothing is left.
pub(super) fn end(guest: Guest, farewell: Farewell) -> Pin<Box<dyn Future<Output = bool> + Send>> {
    Box::pin(async move {
        let limit = match farewell {
            Farewell::AtOnce => ENGINE,
            Farewell::Gentle(Graces { close, terminate, kill }) => {
                ENGINE.saturating_add(close).saturating_add(terminate).saturating_add(kill)
            }
        };
        match timeout(limit, depart(&guest, farewell)).await {
            Ok(Ok(all_gone)) => all_gone,
            Ok(Err(fault)) => {
                tracing::warn!(mark = %guest.mark, error = %fault, "cannot end a server in a container");
                false
            }
            Err(_) => false,
        }
    })
}

async fn depart(guest: &Guest, farewell: Farewell) -> Result<bool, DockerFault> {
    if matches!(&guest.home, Home::Shared { exec: None, .. }) {
        return Ok(true);
    }
    let engine = Engine::connect(&guest.engine).await?;
    let ended = match guest.home.exec() {
        // Whatever is wrong with the exec, its container is to go, or to be searched.
        Some(exec) => wait_for_end(&engine, exec, farewell).await.unwrap_or(false),
        None => true,
    };
    match &guest.home {
        Home::Own { container: None, .. } => remove_by_label(&engine, guest.mark).await,
        Home::Own { container: Some(container), .. } => {
            if let (Farewell::Gentle(graces), false) = (farewell, ended) {
                // The removal kills what this does not reach.
                let _ = seek(&engine, container, guest.mark, "TERM", graces.terminate).await;
            }
            engine.remove(container).await.map(|()| true)
        }
        Home::Shared { container, exec } => {
            let sought = seek_out(&engine, container, guest.mark, farewell).await?;
            let exec = exec.as_deref().unwrap_or_default();
            Ok(match sought {
                Sought::NoneLeft | Sought::NoContainer => true,
                Sought::SomeLeft => false,
                Sought::Blind => ended || wait_for_end(&engine, exec, farewell).await?,
            })
        }
    }
}

/// Waits until the process has begun, if it is going to, and then, if it has time, for its end.
async fn wait_for_end(
    engine: &Engine,
    exec: &str,
    farewell: Farewell,
) -> Result<bool, DockerFault> {
    let begun = Instant::now();
    let grace = match farewell {
        Farewell::Gentle(graces) => graces.close,
        Farewell::AtOnce => Duration::ZERO,
    };
    loop {
        let limit = match engine.look(exec).await? {
            Exec::Ended(_) | Exec::Refused | Exec::Unknown => return Ok(true),
            Exec::NotBegun => IN_FLIGHT,
            Exec::Running => grace,
        };
        if begun.elapsed() >= limit {
            return Ok(false);
        }
        sleep(POLL).await;
    }
}

/// Its id is not known: the making was cut off, and the container may come into being only now. An engine lists
/// one that it is still making and yet says, asked to remove it, that there is none; so what counts is the list.
async fn remove_by_label(engine: &Engine, mark: Mark) -> Result<bool, DockerFault> {
    let deadline = Instant::now() + IN_FLIGHT;
    let mut seen = false;
    loop {
        let found = engine.of_session(mark).await?;
        if found.is_empty() && (seen || Instant::now() >= deadline) {
            return Ok(true);
        }
        seen |= !found.is_empty();
        for container in &found {
            engine.remove(container).await?;
        }
        sleep(POLL).await;
    }
}

async fn seek_out(
    engine: &Engine,
    container: &str,
    mark: Mark,
    farewell: Farewell,
) -> Result<Sought, DockerFault> {
    let kill = match farewell {
        Farewell::AtOnce => SOON,
        Farewell::Gentle(graces) => {
            let sought = seek(engine, container, mark, "TERM", graces.terminate).await?;
            if sought != Sought::SomeLeft {
                return Ok(sought);
            }
            graces.kill
        }
    };
    seek(engine, container, mark, "KILL", kill).await
}

/// A second exec, in the container, as the user that the server has too: nobody else may read its environment.
async fn seek(
    engine: &Engine,
    container: &str,
    mark: Mark,
    signal: &str,
    wait: Duration,
) -> Result<Sought, DockerFault> {
    let tenths = wait.as_millis().div_ceil(100).to_string();
    let pattern = format!("{OWNER_VARIABLE}={mark}");
    let cmd = ["sh", "-c", SEEK, "sh", &pattern, signal, &tenths];
    let config = ExecConfig {
        attach_stdout: Some(true),
        // A container that some child of ours made may carry the mark itself; the seeker must not.
        env: Some(vec![format!("{OWNER_VARIABLE}=")]),
        cmd: Some(cmd.map(str::to_owned).to_vec()),
        ..ExecConfig::default()
    };
    let exec = match engine.create_exec(container, config).await {
        Err(DockerFault::NoContainer { .. }) => return Ok(Sought::NoContainer),
        // A paused one does not run either, but what is in it will.
        Err(DockerFault::NotRunning { .. }) => {
            let lives = engine.lives(container).await?;
            return Ok(if lives { Sought::SomeLeft } else { Sought::NoContainer });
        }
        created => created?,
    };
    let streams = engine.attach(container, &exec).await?;
    let limit = wait.saturating_mul(2).saturating_add(SOON);
    if timeout(limit, streams.drain()).await.is_err() {
        return Ok(Sought::SomeLeft);
    }
    found(engine, &exec).await
}

/// How the seeker ended.
async fn found(engine: &Engine, exec: &str) -> Result<Sought, DockerFault> {
    let deadline = Instant::now() + SOON;
    loop {
        match engine.look(exec).await? {
            Exec::Ended(Exit::Code(0)) => return Ok(Sought::NoneLeft),
            Exec::Ended(Exit::Code(LEFT)) => return Ok(Sought::SomeLeft),
            Exec::Ended(_) | Exec::Refused => return Ok(Sought::Blind),
            Exec::Unknown => return Ok(Sought::NoContainer),
            Exec::NotBegun | Exec::Running if Instant::now() < deadline => sleep(POLL).await,
            Exec::NotBegun | Exec::Running => return Ok(Sought::SomeLeft),
        }
    }
}
