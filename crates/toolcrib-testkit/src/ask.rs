//! Asks another program (git, cargo) for facts: its standard output, or why there is none.

use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};

/// A program that could not be started or that failed; shows its own words.
#[derive(Debug)]
pub struct AskError {
    command: String,
    said: String,
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` failed: {}", self.command, self.said.trim())
    }
}

impl std::error::Error for AskError {}

/// What cargo answers in the workspace `root`.
pub fn cargo(root: &Path, args: &[&str]) -> Result<String, AskError> {
    ask(env!("CARGO"), args, root)
}

/// What `program` prints when it is run with `args` in `folder`.
pub fn ask(program: &str, args: &[&str], folder: &Path) -> Result<String, AskError> {
    let failed = |said: String| AskError { command: format!("{program} {}", args.join(" ")), said };
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
    fn a_failure_carries_the_program_s_own_words() {
        let error = ask("git", &["no-such-word"], &crate::workspace_root()).unwrap_err();
        assert!(error.to_string().contains("no-such-word"), "{error}");
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = ask("toolcrib-no-such-program", &[], Path::new("/")).unwrap_err();
        assert!(error.to_string().contains("toolcrib-no-such-program"), "{error}");
    }
}
