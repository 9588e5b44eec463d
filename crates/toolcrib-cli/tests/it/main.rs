//! The product as people run it: the real binary in a folder of its own.
#![allow(clippy::unwrap_used, reason = "a test that cannot set its scene has failed")]

mod check;
mod clients;
mod conformance;
mod connect;
mod demo;
mod doctor;
mod explain;
mod hosted;
mod import;
mod login;
mod serving;
mod soak;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolcrib");

/// No test asks the keyring of whoever runs it.
const NO_BUS: (&str, &str) = ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere");

/// A workspace and a home that nobody else has.
struct Place {
    folder: TempDir,
}

/// What a command did.
#[derive(Debug)]
struct Ran {
    code: i32,
    out: String,
    err: String,
}

impl Place {
    fn new() -> Self {
        let place = Self { folder: TempDir::new().unwrap() };
        fs::create_dir_all(place.root()).unwrap();
        fs::create_dir_all(place.home()).unwrap();
        place
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("ws")
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// A file of the workspace, or of the home where the path begins with `~/`.
    fn file(self, path: &str, text: &str) -> Self {
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

    fn run(&self, args: &[&str]) -> Ran {
        self.run_with(args, &[])
    }

    /// The command in the workspace, which is named, with no variables but the home.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.unnamed(&[]);
        if !args.contains(&"--root") {
            command.args(["--root", "."]);
        }
        command.args(args);
        command
    }

    /// The same where the workspace is only where somebody is.
    fn unnamed(&self, args: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(args).current_dir(self.root()).env_clear().env("HOME", self.home());
        command.env(NO_BUS.0, NO_BUS.1);
        command
    }

    /// Runs the command in the workspace with just these variables.
    fn run_with(&self, args: &[&str], env: &[(&str, &str)]) -> Ran {
        let output = self.command(args).envs(env.iter().copied()).output().unwrap();
        self.ran(&output)
    }

    fn ran(&self, output: &Output) -> Ran {
        let text = |bytes: &[u8]| self.plain(&String::from_utf8_lossy(bytes));
        Ran {
            code: output.status.code().unwrap(),
            out: text(&output.stdout),
            err: text(&output.stderr),
        }
    }

    /// Output without the folder's name, which differs each time.
    fn plain(&self, text: &str) -> String {
        text.replace(&shown(self.folder.path()), "TMP")
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[test]
fn every_command_helps_with_an_example() {
    let place = Place::new();
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
        "token",
        "token new",
        "token list",
        "token revoke",
        "trust",
        "accept",
    ] {
        let words: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        let ran = place.run(&words);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{command}");
        assert!(ran.out.contains(&format!("Examples:\n  toolcrib {command}")), "{}", ran.out);
        for option in ["--root", "--config", "--dialect", "--json", "--quiet", "--verbose"] {
            assert!(ran.out.contains(option), "{command} {option}");
        }
    }
}

#[test]
fn wrong_usage_ends_with_two() {
    let place = Place::new();
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
        let ran = place.run(&args);
        assert_eq!(ran.code, 2, "{args:?}: {ran:?}");
        assert!(!ran.err.is_empty() && ran.out.is_empty(), "{args:?}: {ran:?}");
    }
}
