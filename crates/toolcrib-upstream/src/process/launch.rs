//! Specification of a child process: program, arguments, environment, working directory and grace periods.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// `PATH` for children whose environment has none.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// A program to run as a child, by argv and without a shell.
#[derive(Clone)]
pub struct LaunchSpec {
    /// A path, or a name that is searched in the `PATH` of `env`.
    pub program: OsString,
    /// Arguments after the program name.
    pub args: Vec<OsString>,
    /// The child's complete environment. The child inherits nothing but the owner mark.
    pub env: BTreeMap<OsString, OsString>,
    /// Working directory.
    pub cwd: PathBuf,
    /// Number of the newest bytes of stderr that are kept.
    pub stderr_limit: usize,
    /// Grace periods of the stop sequence.
    pub graces: GracePeriods,
}

/// Grace periods of the stop sequence: the waiting time of each stage before the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GracePeriods {
    /// After closing stdin.
    pub close: Duration,
    /// After SIGTERM to the group.
    pub terminate: Duration,
    /// After SIGKILL. Processes that still run after this time are reported as survivors.
    pub kill: Duration,
}

impl LaunchSpec {
    /// Creates a specification without arguments and with an empty environment.
    pub fn new(program: impl Into<OsString>, cwd: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: BTreeMap::new(),
            cwd: cwd.into(),
            stderr_limit: 64 << 10,
            graces: GracePeriods::default(),
        }
    }

    /// The program's file name, for messages and the ledger.
    pub(crate) fn name(&self) -> String {
        let name = Path::new(&self.program).file_name().unwrap_or(&self.program);
        name.to_string_lossy().into_owned()
    }

    /// Candidate paths of the program in search order, relative to the working directory.
    pub(crate) fn candidate_paths(&self) -> impl Iterator<Item = PathBuf> {
        let is_path = self.program.as_bytes().contains(&b'/');
        let folders = match self.env.get(OsStr::new("PATH")) {
            _ if is_path => OsStr::new(""),
            Some(path) => path,
            None => OsStr::new(DEFAULT_PATH),
        };
        std::env::split_paths(folders).map(|folder| folder.join(&self.program))
    }
}

impl Default for GracePeriods {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { close: seconds(2), terminate: seconds(2), kill: seconds(2) }
    }
}

/// Hides arguments and environment values, because they may be secrets.
impl fmt::Debug for LaunchSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaunchSpec")
            .field("program", &self.program)
            .field("args", &self.args.len())
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("cwd", &self.cwd)
            .field("stderr_limit", &self.stderr_limit)
            .field("graces", &self.graces)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dis_43_debug_shows_names_and_never_values() {
        let mut launch = LaunchSpec::new("/opt/bin/server", "/");
        launch.args = vec!["--token=canary".into()];
        launch.env = BTreeMap::from([("API_KEY".into(), "canary".into())]);
        let shown = format!("{launch:?}");
        assert!(shown.contains("API_KEY") && !shown.contains("canary"), "{shown}");
        assert_eq!(launch.name(), "server");
    }

    #[test]
    fn names_are_searched_in_path_and_paths_are_not() {
        for (program, path, files) in [
            ("npx", Some("/a:b::/c"), &["/a/npx", "b/npx", "npx", "/c/npx"][..]),
            ("npx", Some(""), &["npx"]),
            ("npx", None, &["/bin/npx", "/usr/bin/npx"]),
            ("./npx", Some("/a:/b"), &["./npx"]),
            ("/opt/npx", None, &["/opt/npx"]),
        ] {
            let mut launch = LaunchSpec::new(program, "/");
            launch.env.extend(path.map(|path| ("PATH".into(), path.into())));
            let found: Vec<PathBuf> = launch.candidate_paths().collect();
            let files: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
            assert_eq!(found, files, "{program} in {path:?}");
        }
    }
}
