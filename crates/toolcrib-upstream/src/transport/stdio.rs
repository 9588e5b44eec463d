//! A server that is a child process and speaks on its standard streams.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use tokio::process::{ChildStdin, ChildStdout};
use toolcrib_config::Reference;
use toolcrib_config::model::transport::{Plain, Stdio};
use toolcrib_wire::Channel;

use super::encoding::Encoding;
use super::link::{CloseReason, Facts, Link};
use super::open::{OpenError, Opening};
use super::stream::{self, Behind, StreamSettings};
use crate::process::{Child, Launch, SpawnError};

pub(super) async fn open(stdio: &Stdio, opening: &Opening<'_>) -> Result<Link, OpenError> {
    if !opening.permissions.spawn {
        return Err(OpenError::SpawnForbidden);
    }
    let encoding = Encoding::named(&stdio.encoding).map_err(OpenError::Encoding)?;
    let launch = launch(stdio, opening)?;
    let program = launch.name();
    let mut child = opening.instance.spawn(launch).await.map_err(OpenError::Spawn)?;
    let (stdin, stdout) = pipes(&mut child, program)?;
    let facts = Facts {
        pid: Some(child.pid()),
        stderr: Some(child.stderr().clone()),
        ..Facts::of(Channel::Shared)
    };
    let settings = StreamSettings { framing: stdio.framing, encoding, limits: opening.limits };
    Ok(Link::start(facts, |ends| stream::drive(ends, stdout, stdin, child, settings)))
}

/// Everything resolved; nothing is started before all of it is known.
fn launch(stdio: &Stdio, opening: &Opening<'_>) -> Result<Launch, OpenError> {
    let command = opening.text(&stdio.command.0)?;
    if !stdio.allow_commands.admits(&command) {
        // As it was written: what a reference in it stands for may be a secret.
        return Err(OpenError::CommandNotAllowed(stdio.command.shown()));
    }
    let cwd = match &stdio.cwd {
        Some(cwd) => opening.cwd.join(opening.text(&cwd.0)?),
        None => opening.cwd.clone(),
    };
    let mut launch = Launch::new(command, cwd);
    for arg in &stdio.args {
        launch.args.push(opening.text(&arg.0)?.into());
    }
    let host = opening.host_env.iter().cloned();
    let variables = stdio.env.variables(host, &opening.find);
    let variables = variables.map_err(OpenError::Missing)?;
    let variables = variables.into_iter().map(|(name, value)| (name, value.reveal().to_owned()));
    launch.env = variables
        .chain(opening.extra_env.iter().cloned())
        .map(|(name, value)| (OsString::from(name), OsString::from(value)))
        .collect();
    launch.stderr_limit = opening.stderr_limit;
    launch.graces = opening.graces;
    Ok(launch)
}

/// The files in which the server's program is looked for, for a host that waits until it can be started. Empty where
/// a secret is needed to tell.
pub fn program_files(stdio: &Stdio, host_env: &[(String, String)], folder: &Path) -> Vec<PathBuf> {
    let find = |reference: &Reference| match reference {
        Reference::Env(name) => {
            host_env.iter().rfind(|(known, _)| known == name).map(|(_, value)| value.clone())
        }
        _ => None,
    };
    let text = |plain: &Plain| Some(plain.0.resolve(&find).ok()?.reveal().to_owned());
    let cwd = stdio.cwd.as_ref().map_or(Some(String::new()), text);
    let (Some(command), Some(cwd)) = (text(&stdio.command), cwd) else { return Vec::new() };
    let mut launch = Launch::new(command, folder.join(cwd));
    let variables = stdio.env.variables(host_env.iter().cloned(), &find).unwrap_or_default();
    let path = variables.get("PATH").map(|path| OsString::from(path.reveal()));
    launch.env.extend(path.map(|path| ("PATH".into(), path)));
    launch.files().map(|file| launch.cwd.join(file)).collect()
}

/// A child that was just spawned has both.
fn pipes(child: &mut Child, program: String) -> Result<(ChildStdin, ChildStdout), OpenError> {
    match (child.stdin.take(), child.stdout.take()) {
        (Some(stdin), Some(stdout)) => Ok((stdin, stdout)),
        _ => Err(OpenError::Spawn(SpawnError::Other {
            program,
            cause: io::ErrorKind::BrokenPipe.into(),
        })),
    }
}

impl Behind for Child {
    async fn exited(&self) -> CloseReason {
        CloseReason::Exited(Child::exited(self).await)
    }

    async fn stop(self) {
        let ended = Child::stop(self).await;
        if !ended.left.is_empty() {
            tracing::warn!(pids = ?ended.left, "processes of a server could not be ended");
        }
    }
}
