//! What to start: every value resolved and complete, nothing inherited behind the caller's back.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where programs are looked for if nobody says where.
const USUAL_PATH: &str = "/bin:/usr/bin";

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

    /// Where the program may be, in the order in which to look, seen from its working directory.
    pub(crate) fn files(&self) -> impl Iterator<Item = PathBuf> {
        let is_path = self.program.as_bytes().contains(&b'/');
        let folders = match self.env.get(OsStr::new("PATH")) {
            _ if is_path => OsStr::new(""),
            Some(path) => path,
            None => OsStr::new(USUAL_PATH),
        };
        std::env::split_paths(folders).map(|folder| folder.join(&self.program))
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

    #[test]
    fn a_name_is_looked_for_and_a_path_is_not() {
        for (program, path, files) in [
            ("npx", Some("/a:b::/c"), &["/a/npx", "b/npx", "npx", "/c/npx"][..]),
            ("npx", Some(""), &["npx"]),
            ("npx", None, &["/bin/npx", "/usr/bin/npx"]),
            ("./npx", Some("/a:/b"), &["./npx"]),
            ("/opt/npx", None, &["/opt/npx"]),
        ] {
            let mut launch = Launch::new(program, "/");
            launch.env.extend(path.map(|path| ("PATH".into(), path.into())));
            let found: Vec<PathBuf> = launch.files().collect();
            let files: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
            assert_eq!(found, files, "{program} in {path:?}");
        }
    }
}
