//! Stdio transport: starts the server as a child process and uses its standard streams.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use tokio::process::{ChildStdin, ChildStdout};
use toolcrib_config::Reference;
use toolcrib_config::model::transport::{DisplayValue, Stdio};
use toolcrib_wire::Channel;

use super::byte_stream::{self, StreamBackend, StreamSettings};
use super::encoding::Encoding;
use super::link::{CloseReason, Link, LinkInfo};
use super::open::{OpenContext, OpenError};
use crate::process::{Child, LaunchSpec, SpawnError};

pub(super) async fn open(stdio: &Stdio, context: &OpenContext<'_>) -> Result<Link, OpenError> {
    if !context.permissions.spawn {
        return Err(OpenError::SpawnForbidden);
    }
    let encoding = Encoding::from_label(&stdio.encoding).map_err(OpenError::Encoding)?;
    let launch = build_launch(stdio, context)?;
    let program = launch.name();
    let mut child = context.instance.spawn(launch).await.map_err(OpenError::Spawn)?;
    let (stdin, stdout) = take_pipes(&mut child, program)?;
    let info = LinkInfo {
        pid: Some(child.pid()),
        stderr: Some(child.stderr().clone()),
        ..LinkInfo::new(Channel::Shared)
    };
    let settings = StreamSettings { framing: stdio.framing, encoding, limits: context.limits };
    Ok(Link::start(info, |ends| byte_stream::run_link(ends, stdout, stdin, child, settings)))
}

/// Resolves the whole launch before the process is started.
fn build_launch(stdio: &Stdio, context: &OpenContext<'_>) -> Result<LaunchSpec, OpenError> {
    let command = context.text(&stdio.command.0)?;
    if !stdio.allow_commands.allows(&command) {
        // The text of the configuration, because a reference in it may resolve to a secret.
        return Err(OpenError::CommandNotAllowed(stdio.command.display_text()));
    }
    let cwd = match &stdio.cwd {
        Some(cwd) => context.cwd.join(context.text(&cwd.0)?),
        None => context.cwd.clone(),
    };
    let mut launch = LaunchSpec::new(command, cwd);
    for arg in &stdio.args {
        launch.args.push(context.text(&arg.0)?.into());
    }
    let host = context.host_env.iter().cloned();
    let variables = stdio.env.variables(host, &context.lookup);
    let variables = variables.map_err(OpenError::Missing)?;
    let variables = variables.into_iter().map(|(name, value)| (name, value.reveal().to_owned()));
    launch.env = variables
        .chain(context.extra_env.iter().cloned())
        .map(|(name, value)| (OsString::from(name), OsString::from(value)))
        .collect();
    launch.stderr_limit = context.stderr_limit;
    launch.graces = context.graces;
    Ok(launch)
}

/// Possible paths of the server's program, for a host that retries when the program appears. Empty if the path depends
/// on a secret.
pub fn program_candidates(
    stdio: &Stdio,
    host_env: &[(String, String)],
    folder: &Path,
) -> Vec<PathBuf> {
    let find = |reference: &Reference| match reference {
        Reference::Env(name) => {
            host_env.iter().rfind(|(known, _)| known == name).map(|(_, value)| value.clone())
        }
        _ => None,
    };
    let text = |plain: &DisplayValue| Some(plain.0.resolve(&find).ok()?.reveal().to_owned());
    let cwd = stdio.cwd.as_ref().map_or(Some(String::new()), text);
    let (Some(command), Some(cwd)) = (text(&stdio.command), cwd) else { return Vec::new() };
    let mut launch = LaunchSpec::new(command, folder.join(cwd));
    let variables = stdio.env.variables(host_env.iter().cloned(), &find).unwrap_or_default();
    let path = variables.get("PATH").map(|path| OsString::from(path.reveal()));
    launch.env.extend(path.map(|path| ("PATH".into(), path)));
    launch.candidate_paths().map(|file| launch.cwd.join(file)).collect()
}

/// Takes the pipes of a just spawned child, which always has both.
fn take_pipes(child: &mut Child, program: String) -> Result<(ChildStdin, ChildStdout), OpenError> {
    match (child.stdin.take(), child.stdout.take()) {
        (Some(stdin), Some(stdout)) => Ok((stdin, stdout)),
        _ => Err(OpenError::Spawn(SpawnError::Other {
            program,
            cause: io::ErrorKind::BrokenPipe.into(),
        })),
    }
}

impl StreamBackend for Child {
    async fn exited(&self) -> CloseReason {
        CloseReason::Exited(Child::exited(self).await)
    }

    async fn stop(self) {
        let ended = Child::stop(self).await;
        if !ended.survivors.is_empty() {
            tracing::warn!(pids = ?ended.survivors, "processes of a server could not be ended");
        }
    }
}
