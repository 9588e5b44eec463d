//! Runs another program such as git or cargo and returns its standard output.

use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};

/// A program that did not start or failed, with its error output.
#[derive(Debug)]
pub struct CommandError {
    command: String,
    message: String,
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` failed: {}", self.command, self.message.trim())
    }
}

impl std::error::Error for CommandError {}

/// Runs cargo in the workspace `root` and returns its output.
pub fn run_cargo(root: &Path, args: &[&str]) -> Result<String, CommandError> {
    run_command(env!("CARGO"), args, root)
}

/// Runs `program` in `folder` and returns its output.
pub fn run_command(program: &str, args: &[&str], folder: &Path) -> Result<String, CommandError> {
    let failed = |message: String| CommandError {
        command: format!("{program} {}", args.join(" ")),
        message,
    };
    let output = Command::new(program)
        .args(args)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_contains_the_programs_stderr() {
        let error = run_command("git", &["no-such-word"], &crate::workspace_root()).unwrap_err();
        assert!(error.to_string().contains("no-such-word"), "{error}");
    }

    #[test]
    fn error_names_a_missing_program() {
        let error = run_command("toolcrib-no-such-program", &[], Path::new("/")).unwrap_err();
        assert!(error.to_string().contains("toolcrib-no-such-program"), "{error}");
    }
}
