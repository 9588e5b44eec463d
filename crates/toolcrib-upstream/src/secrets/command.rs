//! Secrets from a command: started without a shell, killed on timeout.

use std::path::Path;

use tokio::io::AsyncReadExt;
use toolcrib_config::SecretString;
use zeroize::Zeroizing;

use super::file::trim_newline;
use super::secret_error::SecretErrorReason;
use crate::process::{Instance, LaunchSpec, ProcessExit, SpawnError};
use crate::signals::chain;

/// Maximum size of the command's output.
const MAX_OUTPUT: u64 = 64 << 10;

/// Placeholder for the secret's path in the arguments.
const PATH_PLACEHOLDER: &str = "{path}";

/// Runs the command. Dropping the future kills it.
pub(super) async fn get(
    instance: &Instance,
    env: &[(String, String)],
    cwd: &Path,
    command: &[String],
    path: &str,
) -> Result<SecretString, SecretErrorReason> {
    let Some((program, args)) = command.split_first() else {
        return Err(SecretErrorReason::BadDeclaration("it needs a `command`".to_owned()));
    };
    let mut launch = LaunchSpec::new(program, cwd);
    launch.args = args.iter().map(|arg| arg.replace(PATH_PLACEHOLDER, path).into()).collect();
    launch.env = env.iter().map(|(name, value)| (name.into(), value.into())).collect();
    let mut child = instance.spawn(launch).await.map_err(|error| match error {
        SpawnError::NotFound { .. } => {
            SecretErrorReason::BadDeclaration(format!("there is no program `{program}`"))
        }
        other => SecretErrorReason::Unreachable(chain(&other)),
    })?;
    drop(child.stdin.take());
    // Allocated at full size, because a growing buffer leaves copies of the secret in memory.
    let mut output = Zeroizing::new(Vec::with_capacity(MAX_OUTPUT as usize + 1));
    if let Some(stdout) = child.stdout.take() {
        let read = stdout.take(MAX_OUTPUT + 1).read_to_end(&mut output).await;
        read.map_err(|error| SecretErrorReason::Unreachable(error.to_string()))?;
    }
    if output.len() as u64 > MAX_OUTPUT {
        return Err(SecretErrorReason::Unusable(format!("it is over {MAX_OUTPUT} bytes")));
    }
    // The error does not quote stderr, because stderr may hold the secret.
    match child.exited().await {
        ProcessExit::Code(0) => {}
        other => return Err(SecretErrorReason::CommandFailed(other.to_string())),
    }
    let text = str::from_utf8(&output)
        .map_err(|_| SecretErrorReason::Unusable("it is not text".to_owned()))?;
    Ok(trim_newline(text))
}
