//! Errors of starting a child process, with suggested fixes.

use std::io;
use std::path::PathBuf;

/// Error of starting a child. No variant holds an environment value or an argument, because both may be
/// secrets.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    #[error("cannot find the program `{program}`")]
    NotFound {
        program: String,
        #[source]
        cause: io::Error,
    },
    #[error("cannot execute `{}`", path.display())]
    NotExecutable {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("cannot enter the working directory `{}`", cwd.display())]
    Cwd {
        cwd: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("cannot write to the ledger of child processes")]
    Ledger(#[source] io::Error),
    #[error("cannot start `{program}`")]
    Other {
        program: String,
        #[source]
        cause: io::Error,
    },
    #[error("cannot start `{program}`: the host is closing")]
    Closed { program: String },
}

impl SpawnError {
    /// Stable problem code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "stdio.spawn.not_found",
            Self::NotExecutable { .. } => "stdio.spawn.not_executable",
            Self::Cwd { .. } => "stdio.spawn.cwd",
            Self::Ledger(_) => "stdio.spawn.ledger",
            Self::Other { .. } => "stdio.spawn.other",
            Self::Closed { .. } => "stdio.spawn.closed",
        }
    }

    /// Suggested fix for the user.
    pub fn fix(&self) -> String {
        match self {
            Self::NotFound { program, .. } => find_fix(program),
            Self::NotExecutable { path, .. } => format!(
                "make it executable (`chmod +x {}`) and check that the interpreter in its first line is installed",
                path.display()
            ),
            Self::Cwd { .. } => "create the folder, allow access to it, or correct the configured working directory".to_owned(),
            Self::Ledger(_) => "check that the state folder is writable and its disk not full".to_owned(),
            Self::Other { .. } => "check the command and its arguments, and the system's limits on processes and memory".to_owned(),
            Self::Closed { .. } => "start the host again".to_owned(),
        }
    }
}

fn find_fix(program: &str) -> String {
    if program.contains('/') {
        return "correct the path, or install the program there".to_owned();
    }
    let install = match program {
        "node" | "npm" | "npx" => "install Node.js (https://nodejs.org)",
        "bun" | "bunx" => "install Bun (https://bun.sh)",
        "deno" => "install Deno (https://deno.com)",
        "uv" | "uvx" => "install uv (https://docs.astral.sh/uv)",
        "python" | "python3" | "pip" | "pip3" => "install Python (https://www.python.org)",
        "pipx" => "install pipx (https://pipx.pypa.io)",
        "docker" => "install Docker (https://docs.docker.com/get-docker)",
        _ => "install it",
    };
    format!(
        "{install}, or configure the program's full path: no folder of the server's PATH contains it"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_program_suggests_its_installation() {
        for (program, hint) in [
            ("npx", "Node.js"),
            ("uvx", "install uv"),
            ("frob", "install it"),
            ("./frob", "correct the path"),
        ] {
            let error = SpawnError::NotFound {
                program: program.to_owned(),
                cause: io::ErrorKind::NotFound.into(),
            };
            assert!(error.fix().contains(hint), "{program}: {}", error.fix());
        }
    }
}
