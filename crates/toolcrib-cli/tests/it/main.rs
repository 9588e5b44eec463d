//! Tests the real binary in a temporary workspace.
#![allow(clippy::unwrap_used, reason = "a test without its fixture has failed")]

mod check;
mod clients;
mod conformance;
mod connect;
mod demo;
mod doctor;
mod explain;
mod import;
mod login;
mod problems;
mod server_commands;
mod soak;
mod test_gateway;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolcrib");

/// Keeps tests away from the keyring of the user.
const NO_BUS: (&str, &str) = ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere");

/// A temporary workspace and home folder.
struct TestWorkspace {
    folder: TempDir,
}

/// Exit code and output of a command.
#[derive(Debug)]
struct CommandOutput {
    code: i32,
    out: String,
    err: String,
}

impl TestWorkspace {
    fn new() -> Self {
        let workspace = Self { folder: TempDir::new().unwrap() };
        fs::create_dir_all(workspace.root()).unwrap();
        fs::create_dir_all(workspace.home()).unwrap();
        workspace
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("ws")
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// Writes a file in the workspace, or in the home folder if the path starts with `~/`.
    fn with_file(self, path: &str, text: &str) -> Self {
        let path = match path.strip_prefix("~/") {
            Some(path) => self.home().join(path),
            None => self.root().join(path),
        };
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.root().join(path)).unwrap()
    }

    fn run(&self, args: &[&str]) -> CommandOutput {
        self.run_with_env(args, &[])
    }

    /// A command with `--root .` and no variables but `HOME`.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.command_without_root(&[]);
        if !args.contains(&"--root") {
            command.args(["--root", "."]);
        }
        command.args(args);
        command
    }

    /// The same command without `--root`, run in the workspace.
    fn command_without_root(&self, args: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(args).current_dir(self.root()).env_clear().env("HOME", self.home());
        command.env(NO_BUS.0, NO_BUS.1);
        command
    }

    /// Runs a command in the workspace with only these variables.
    fn run_with_env(&self, args: &[&str], env: &[(&str, &str)]) -> CommandOutput {
        let output = self.command(args).envs(env.iter().copied()).output().unwrap();
        self.command_output(&output)
    }

    fn command_output(&self, output: &Output) -> CommandOutput {
        let text = |bytes: &[u8]| self.redact_folder(&String::from_utf8_lossy(bytes));
        CommandOutput {
            code: output.status.code().unwrap(),
            out: text(&output.stdout),
            err: text(&output.stderr),
        }
    }

    /// Replaces the name of the temporary folder.
    fn redact_folder(&self, text: &str) -> String {
        text.replace(&path_text(self.folder.path()), "TMP")
    }
}

fn path_text(path: &Path) -> String {
    path.display().to_string()
}

#[test]
fn every_command_help_has_example() {
    let workspace = TestWorkspace::new();
    for command in [
        "check",
        "connect",
        "explain",
        "import",
        "demo-server",
        "doctor",
        "login",
        "logout",
        "serve",
        "servers",
        "tools",
        "why",
        "call",
        "resources",
        "read",
        "prompts",
        "prompt",
        "server",
        "server connect",
        "server disconnect",
        "server restart",
        "server refresh",
        "server enable",
        "server disable",
        "reload",
        "status",
        "problems",
        "token",
        "token new",
        "token list",
        "token revoke",
        "trust",
        "accept",
    ] {
        let words: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        let ran = workspace.run(&words);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{command}");
        assert!(ran.out.contains(&format!("Examples:\n  toolcrib {command}")), "{}", ran.out);
        for option in ["--root", "--config", "--dialect", "--json", "--quiet", "--verbose"] {
            assert!(ran.out.contains(option), "{command} {option}");
        }
    }
}

#[test]
fn invalid_usage_exits_with_two() {
    let workspace = TestWorkspace::new();
    for args in [
        vec!["chek"],
        vec![],
        vec!["check", "--root", "nowhere"],
        vec!["check", "--config", "x", "--dialect", "esperanto"],
        vec!["connect", "emacs"],
        vec!["connect", "cursor", "--undo", "--http"],
        vec!["connect", "cursor", "--user", "--project"],
        vec!["import", "emacs"],
        vec!["serve", "--listen", "example.com:80"],
        vec!["demo-server", "--http", "0.0.0.0:0"],
        vec!["demo-server", "--http", "example.com:80"],
        vec!["call"],
        vec!["call", "t", "-a", "no-value"],
        vec!["call", "t", "--args", "{}", "-a", "a=b"],
        vec!["call", "t", "--args", "[1]"],
        vec!["call", "t", "--args", "{"],
        vec!["call", "t", "--timeout", "soon"],
        vec!["server", "explode", "x"],
        vec!["server", "restart"],
        vec!["why"],
    ] {
        let ran = workspace.run(&args);
        assert_eq!(ran.code, 2, "{args:?}: {ran:?}");
        assert!(!ran.err.is_empty() && ran.out.is_empty(), "{args:?}: {ran:?}");
    }
}
