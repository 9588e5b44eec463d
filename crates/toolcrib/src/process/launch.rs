//! What to start: every value resolved and complete, nothing inherited behind the caller's back.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A program to run as a child, by argv and without a shell.
#[derive(Clone)]
pub struct Launch {
    /// A path, or a name that is looked up in the `PATH` of `env`.
    pub program: OsString,
    pub args: Vec<OsString>,
    /// The child's whole environment; it inherits nothing else but the mark.
    pub env: BTreeMap<OsString, OsString>,
    pub cwd: PathBuf,
    /// Bytes of stderr that are kept, the newest ones.
    pub stderr_limit: usize,
    pub graces: Graces,
}

/// How long each step of the stop ladder waits before the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Graces {
    /// After stdin was closed.
    pub close: Duration,
    /// After SIGTERM to the group.
    pub terminate: Duration,
    /// After SIGKILL, until what does not even die of that is given up and reported.
    pub kill: Duration,
}

impl Launch {
    pub fn new(program: impl Into<OsString>, cwd: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: BTreeMap::new(),
            cwd: cwd.into(),
            stderr_limit: 64 << 10,
            graces: Graces::default(),
        }
    }

    /// The program's file name, for people and the ledger.
    pub(crate) fn name(&self) -> String {
        let name = Path::new(&self.program).file_name().unwrap_or(&self.program);
        name.to_string_lossy().into_owned()
    }

    pub(crate) fn path_variable(&self) -> Option<&OsStr> {
        self.env.get(OsStr::new("PATH")).map(OsString::as_os_str)
    }
}

impl Default for Graces {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { close: seconds(2), terminate: seconds(2), kill: seconds(2) }
    }
}

/// Environment values and arguments may be secrets, so neither is shown.
impl fmt::Debug for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launch")
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
        let mut launch = Launch::new("/opt/bin/server", "/");
        launch.args = vec!["--token=canary".into()];
        launch.env = BTreeMap::from([("API_KEY".into(), "canary".into())]);
        let shown = format!("{launch:?}");
        assert!(shown.contains("API_KEY") && !shown.contains("canary"), "{shown}");
        assert_eq!(launch.name(), "server");
    }
}
