//! Ends a remote process: removes its dedicated container, or signals the processes with its mark in a shared one.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bollard::models::ExecConfig;
use tokio::time::{Instant, sleep, timeout};

use super::POLL_INTERVAL;
use super::engine::{DockerEngine, ExecState};
use super::fault::DockerFault;
use crate::process::{
    ContainerBinding, GracePeriods, OWNER_VARIABLE, OwnerMark, ProcessExit, RemoteProcess, StopMode,
};

/// An engine may still execute a request whose client has died or given up. A busy engine takes seconds to create a
/// container.
const PENDING_TIMEOUT: Duration = Duration::from_secs(5);

/// Time for the engine itself, in addition to the grace periods.
const ENGINE_TIMEOUT: Duration = Duration::from_secs(30);

/// Time limit for the end of a process after SIGKILL.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);

/// Sends signal `$2` to all processes with the mark `$1` and waits `$3` tenths of a second for their end. Repeated
/// SIGKILL rounds catch a process that keeps forking. A zombie has no environment, so the script does not wait for it.
const SIGNAL_SCRIPT: &str = r#"
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
const EXIT_SOME_LEFT: i32 = 4;

/// Result of signalling the marked processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SearchResult {
    NoneLeft,
    SomeLeft,
    /// The container has no shell, or lacks `tr` or `grep`.
    NoShell,
    /// The container does not run.
    NoContainer,
}

/// Ends a remote process. Returns true when no process is left.
pub(super) fn terminate(
    remote_process: RemoteProcess,
    stop_mode: StopMode,
) -> Pin<Box<dyn Future<Output = bool> + Send>> {
    Box::pin(async move {
        let limit = match stop_mode {
            StopMode::Immediate => ENGINE_TIMEOUT,
            StopMode::Graceful(GracePeriods { close, terminate, kill }) => {
                ENGINE_TIMEOUT.saturating_add(close).saturating_add(terminate).saturating_add(kill)
            }
        };
        match timeout(limit, try_terminate(&remote_process, stop_mode)).await {
            Ok(Ok(all_gone)) => all_gone,
            Ok(Err(fault)) => {
                tracing::warn!(mark = %remote_process.mark, error = %fault, "cannot end a server in a container");
                false
            }
            Err(_) => false,
        }
    })
}

async fn try_terminate(
    remote_process: &RemoteProcess,
    stop_mode: StopMode,
) -> Result<bool, DockerFault> {
    if matches!(&remote_process.binding, ContainerBinding::Shared { exec: None, .. }) {
        return Ok(true);
    }
    let engine = DockerEngine::connect(&remote_process.engine).await?;
    let ended = match remote_process.binding.exec_id() {
        // Even if the exec cannot be inspected, its container is removed or searched.
        Some(exec) => wait_for_exec_exit(&engine, exec, stop_mode).await.unwrap_or(false),
        None => true,
    };
    match &remote_process.binding {
        ContainerBinding::Dedicated { container: None, .. } => {
            remove_by_label(&engine, remote_process.mark).await
        }
        ContainerBinding::Dedicated { container: Some(container), .. } => {
            if let (StopMode::Graceful(graces), false) = (stop_mode, ended) {
                // Removing the container kills the remaining processes.
                let _ = signal_marked_processes(
                    &engine,
                    container,
                    remote_process.mark,
                    "TERM",
                    graces.terminate,
                )
                .await;
            }
            engine.remove_container(container).await.map(|()| true)
        }
        ContainerBinding::Shared { container, exec } => {
            let result =
                end_marked_processes(&engine, container, remote_process.mark, stop_mode).await?;
            let exec = exec.as_deref().unwrap_or_default();
            Ok(match result {
                SearchResult::NoneLeft | SearchResult::NoContainer => true,
                SearchResult::SomeLeft => false,
                SearchResult::NoShell => {
                    ended || wait_for_exec_exit(&engine, exec, stop_mode).await?
                }
            })
        }
    }
}

/// Waits until the process has started, if it still may, and then up to the grace period for its end.
async fn wait_for_exec_exit(
    engine: &DockerEngine,
    exec: &str,
    stop_mode: StopMode,
) -> Result<bool, DockerFault> {
    let started_at = Instant::now();
    let grace = match stop_mode {
        StopMode::Graceful(graces) => graces.close,
        StopMode::Immediate => Duration::ZERO,
    };
    loop {
        let limit = match engine.exec_state(exec).await? {
            ExecState::Ended(_) | ExecState::Refused | ExecState::Unknown => return Ok(true),
            ExecState::NotStarted => PENDING_TIMEOUT,
            ExecState::Running => grace,
        };
        if started_at.elapsed() >= limit {
            return Ok(false);
        }
        sleep(POLL_INTERVAL).await;
    }
}

/// Removes the containers with the label of the session. Their ids are unknown: the creation was interrupted, and the
/// container may appear only now. An engine lists a container that it is still creating, but denies its existence on
/// removal, so only the list counts.
async fn remove_by_label(engine: &DockerEngine, mark: OwnerMark) -> Result<bool, DockerFault> {
    let deadline = Instant::now() + PENDING_TIMEOUT;
    let mut seen = false;
    loop {
        let found = engine.session_containers(mark).await?;
        if found.is_empty() && (seen || Instant::now() >= deadline) {
            return Ok(true);
        }
        seen |= !found.is_empty();
        for container in &found {
            engine.remove_container(container).await?;
        }
        sleep(POLL_INTERVAL).await;
    }
}

async fn end_marked_processes(
    engine: &DockerEngine,
    container: &str,
    mark: OwnerMark,
    stop_mode: StopMode,
) -> Result<SearchResult, DockerFault> {
    let kill = match stop_mode {
        StopMode::Immediate => KILL_TIMEOUT,
        StopMode::Graceful(graces) => {
            let result =
                signal_marked_processes(engine, container, mark, "TERM", graces.terminate).await?;
            if result != SearchResult::SomeLeft {
                return Ok(result);
            }
            graces.kill
        }
    };
    signal_marked_processes(engine, container, mark, "KILL", kill).await
}

/// Runs the script in a second exec with the server's user: other users may not read the environment of its processes.
async fn signal_marked_processes(
    engine: &DockerEngine,
    container: &str,
    mark: OwnerMark,
    signal: &str,
    wait: Duration,
) -> Result<SearchResult, DockerFault> {
    let tenths = wait.as_millis().div_ceil(100).to_string();
    let pattern = format!("{OWNER_VARIABLE}={mark}");
    let cmd = ["sh", "-c", SIGNAL_SCRIPT, "sh", &pattern, signal, &tenths];
    let config = ExecConfig {
        attach_stdout: Some(true),
        // A container that one of our children created may carry the mark itself. The script's process must not.
        env: Some(vec![format!("{OWNER_VARIABLE}=")]),
        cmd: Some(cmd.map(str::to_owned).to_vec()),
        ..ExecConfig::default()
    };
    let exec = match engine.create_exec(container, config).await {
        Err(DockerFault::NoContainer { .. }) => return Ok(SearchResult::NoContainer),
        // A paused container does not run, but its processes continue after `unpause`.
        Err(DockerFault::NotRunning { .. }) => {
            let lives = engine.is_running(container).await?;
            return Ok(if lives { SearchResult::SomeLeft } else { SearchResult::NoContainer });
        }
        created => created?,
    };
    let streams = engine.attach(container, &exec).await?;
    let limit = wait.saturating_mul(2).saturating_add(KILL_TIMEOUT);
    if timeout(limit, streams.drain()).await.is_err() {
        return Ok(SearchResult::SomeLeft);
    }
    search_result(engine, &exec).await
}

/// Translates the exit code of the script.
async fn search_result(engine: &DockerEngine, exec: &str) -> Result<SearchResult, DockerFault> {
    let deadline = Instant::now() + KILL_TIMEOUT;
    loop {
        match engine.exec_state(exec).await? {
            ExecState::Ended(ProcessExit::Code(0)) => return Ok(SearchResult::NoneLeft),
            ExecState::Ended(ProcessExit::Code(EXIT_SOME_LEFT)) => {
                return Ok(SearchResult::SomeLeft);
            }
            ExecState::Ended(_) | ExecState::Refused => return Ok(SearchResult::NoShell),
            ExecState::Unknown => return Ok(SearchResult::NoContainer),
            ExecState::NotStarted | ExecState::Running if Instant::now() < deadline => {
                sleep(POLL_INTERVAL).await
            }
            ExecState::NotStarted | ExecState::Running => return Ok(SearchResult::SomeLeft),
        }
    }
}
