//! Secrets that a program tells: started without a shell, and ended when its time is over.

use std::path::Path;

use tokio::io::AsyncReadExt;
use toolcrib_config::Hidden;
use zeroize::Zeroizing;

use super::file::trimmed;
use super::unresolved::Why;
use crate::process::{Exit, Instance, Launch, SpawnError};
use crate::signals::chain;

/// The most that a program may say.
const LARGEST: u64 = 64 << 10;

/// What stands for the secret's path in the arguments.
const PATH: &str = "{path}";

/// Runs the command. Dropping the future ends it.
pub(super) async fn get(
    instance: &Instance,
    env: &[(String, String)],
    cwd: &Path,
    command: &[String],
    path: &str,
) -> Result<Hidden, Why> {
    let Some((program, args)) = command.split_first() else {
        return Err(Why::Declared("it needs a `command`".to_owned()));
    };
    let mut launch = Launch::new(program, cwd);
    launch.args = args.iter().map(|arg| arg.replace(PATH, path).into()).collect();
    launch.env = env.iter().map(|(name, value)| (name.into(), value.into())).collect();
    let mut child = instance.spawn(launch).await.map_err(|error| match error {
        SpawnError::NotFound { .. } => Why::Declared(format!("there is no program `{program}`")),
        other => Why::Unreachable(chain(&other)),
    })?;
    drop(child.stdin.take());
    // Room for all of it at once: what grows leaves copies behind.
    let mut said = Zeroizing::new(Vec::with_capacity(LARGEST as usize + 1));
    if let Some(stdout) = child.stdout.take() {
        let read = stdout.take(LARGEST + 1).read_to_end(&mut said).await;
        read.map_err(|error| Why::Unreachable(error.to_string()))?;
    }
    if said.len() as u64 > LARGEST {
        return Err(Why::Unusable(format!("it is over {LARGEST} bytes")));
    }
    // What it wrote to its stderr is not told: it may be the secret.
    match child.exited().await {
        Exit::Code(0) => {}
        other => return Err(Why::Failed(other.to_string())),
    }
    let text = str::from_utf8(&said).map_err(|_| Why::Unusable("it is no text".to_owned()))?;
    Ok(trimmed(text))
}
