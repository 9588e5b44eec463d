//! The ledger of the running instance: locked for its lifetime, appended to, and compacted.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Write};
use std::iter;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::format::{ChildEntry, LedgerLine, encode_line};
use super::{compaction_path, file_name, is_same_file, ledger_folder};
use crate::process::owner_mark::{HostInstanceId, OwnerMark};
use crate::process::remote_process::RemoteProcess;
use crate::process::sys::{Cgroup, PidScope, ProcessIdentity};

/// Attempts to create the file. An attempt fails only if a concurrent reaper locks the new file first.
const CREATE_ATTEMPTS: usize = 16;

/// Number of lines about ended children that the file may hold before it is compacted.
const MAX_STALE_LINES: usize = 256;

#[derive(Debug)]
pub(crate) struct Ledger {
    instance: HostInstanceId,
    host: ProcessIdentity,
    /// The planned folder of the instance's cgroup.
    cgroup: Option<String>,
    path: PathBuf,
    file: File,
    children: BTreeMap<OwnerMark, ChildEntry>,
    remotes: BTreeMap<OwnerMark, RemoteProcess>,
    lines: usize,
    /// The last line may be incomplete, for example because the disk was full.
    torn: bool,
}

impl Ledger {
    /// Creates the ledger. Records the instance's cgroup below `cgroups` before the cgroup exists.
    pub(crate) fn create(
        state: &Path,
        host: ProcessIdentity,
        cgroups: Option<&Path>,
    ) -> io::Result<Self> {
        let folder = ledger_folder(state);
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        fs::set_permissions(&folder, Permissions::from_mode(0o700))?;
        for _ in 0..CREATE_ATTEMPTS {
            let instance = HostInstanceId::random()?;
            let path = folder.join(file_name(instance));
            let file = open_new(&path)?;
            match file.try_lock() {
                Ok(()) if is_same_file(&path, &file)? => {
                    let cgroup = cgroups.map(|parent| Cgroup::instance_path(parent, instance));
                    let cgroup = cgroup.and_then(|path| path.into_os_string().into_string().ok());
                    return Self::write_header(instance, host, cgroup, path, file);
                }
                // A concurrent start took the unlocked new file for a dead instance's.
                Ok(()) | Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }

    fn write_header(
        instance: HostInstanceId,
        host: ProcessIdentity,
        cgroup: Option<String>,
        path: PathBuf,
        file: File,
    ) -> io::Result<Self> {
        let (children, remotes) = (BTreeMap::new(), BTreeMap::new());
        let mut ledger =
            Self { instance, host, cgroup, path, file, children, remotes, lines: 0, torn: false };
        ledger.append(&ledger.host_line())?;
        Ok(ledger)
    }

    fn host_line(&self) -> LedgerLine {
        LedgerLine::Host { host: self.host.clone(), cgroup: self.cgroup.clone() }
    }

    pub(crate) fn cgroup(&self) -> Option<&Path> {
        self.cgroup.as_deref().map(Path::new)
    }

    pub(crate) fn instance(&self) -> HostInstanceId {
        self.instance
    }

    /// The boot and pid namespace in which the recorded pids are valid.
    pub(crate) fn pid_scope(&self) -> &PidScope {
        &self.host.pid_scope
    }

    /// Records a child. The kernel has the data when this returns, so a SIGKILL of the host cannot lose it. A
    /// power loss can lose it, but also ends the child.
    pub(crate) fn record_child(&mut self, entry: ChildEntry) -> io::Result<()> {
        self.append(&LedgerLine::Child(entry.clone()))?;
        self.children.insert(entry.mark, entry);
        Ok(())
    }

    /// Records a remote process. A later record of the same process replaces the earlier one.
    pub(crate) fn record_remote(&mut self, process: RemoteProcess) -> io::Result<()> {
        self.append(&LedgerLine::Remote(process.clone()))?;
        self.remotes.insert(process.mark, process);
        Ok(())
    }

    pub(crate) fn record_end(&mut self, mark: OwnerMark) -> io::Result<()> {
        self.children.remove(&mark);
        self.remotes.remove(&mark);
        self.append(&LedgerLine::Ended(mark))?;
        if self.lines > 2 * self.live_count() + MAX_STALE_LINES { self.compact() } else { Ok(()) }
    }

    fn live_count(&self) -> usize {
        self.children.len() + self.remotes.len()
    }

    /// Removes the file, unless a recorded process still runs; then the next start reaps it.
    pub(crate) fn close(self) -> io::Result<()> {
        if self.live_count() == 0 { fs::remove_file(&self.path) } else { Ok(()) }
    }

    fn append(&mut self, line: &LedgerLine) -> io::Result<()> {
        let mut text = encode_line(self.instance, line)?;
        if self.torn {
            text.insert(0, '\n');
        }
        self.torn = true;
        self.file.write_all(text.as_bytes())?;
        self.torn = false;
        self.lines += 1;
        Ok(())
    }

    /// Rewrites the file with the live entries only. Locks the new file before the rename, so that no
    /// concurrent start can claim it.
    fn compact(&mut self) -> io::Result<()> {
        let draft = compaction_path(&self.path);
        // An interrupted compaction may have left a file.
        let _ = fs::remove_file(&draft);
        let mut file = open_new(&draft)?;
        file.try_lock()?;
        let entries = self.children.values().cloned().map(LedgerLine::Child);
        let remotes = self.remotes.values().cloned().map(LedgerLine::Remote);
        let lines = iter::once(self.host_line()).chain(entries).chain(remotes);
        let text: String =
            lines.map(|line| encode_line(self.instance, &line)).collect::<Result<_, _>>()?;
        file.write_all(text.as_bytes())?;
        fs::rename(&draft, &self.path)?;
        self.file = file;
        self.lines = 1 + self.live_count();
        self.torn = false;
        Ok(())
    }
}

fn open_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().create_new(true).append(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::ledger::format::parse_ledger;
    use crate::process::ledger::{ClaimOutcome, claim_ledger};
    use crate::process::remote_process::ContainerBinding;
    use crate::process::sys;

    fn create(state: &Path) -> io::Result<Ledger> {
        Ledger::create(state, sys::identity(std::process::id())?, None)
    }

    fn entry(ledger: &Ledger, session: u64) -> ChildEntry {
        ChildEntry {
            mark: OwnerMark { instance: ledger.instance(), session },
            program: "npx".to_owned(),
            leader: None,
        }
    }

    fn remote(ledger: &Ledger, session: u64) -> RemoteProcess {
        let binding = ContainerBinding::Dedicated { container: None, exec: None };
        RemoteProcess {
            mark: entry(ledger, session).mark,
            engine: "unix:///run/engine".to_owned(),
            binding,
        }
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn files_are_private_to_their_owner() {
        let state = tempfile::tempdir().unwrap();
        let state = state.path().join("deep/state");
        let ledger = create(&state).unwrap();
        assert_eq!(mode(&state), 0o700);
        assert_eq!(mode(&ledger_folder(&state)), 0o700);
        assert_eq!(mode(&ledger.path), 0o600);
    }

    #[test]
    fn ledger_stays_locked_across_compaction() {
        let state = tempfile::tempdir().unwrap();
        let mut ledger = create(state.path()).unwrap();
        assert!(matches!(claim_ledger(&ledger.path).unwrap(), ClaimOutcome::Held));
        ledger.compact().unwrap();
        assert!(matches!(claim_ledger(&ledger.path).unwrap(), ClaimOutcome::Held));
    }

    #[test]
    fn compaction_bounds_the_file_and_keeps_live_entries() {
        let state = tempfile::tempdir().unwrap();
        let mut ledger = create(state.path()).unwrap();
        ledger.record_child(entry(&ledger, 0)).unwrap();
        ledger.record_remote(remote(&ledger, 5_000)).unwrap();
        for session in 1..5_000 {
            ledger.record_child(entry(&ledger, session)).unwrap();
            ledger.record_end(entry(&ledger, session).mark).unwrap();
        }
        let text = fs::read(&ledger.path).unwrap();
        assert!(text.len() < 64 << 10, "{} bytes", text.len());
        let contents = parse_ledger(ledger.instance(), &text);
        assert_eq!(contents.entries, [entry(&ledger, 0)]);
        assert_eq!(contents.remotes, [remote(&ledger, 5_000)]);
    }

    #[test]
    fn torn_line_does_not_swallow_the_next() {
        let state = tempfile::tempdir().unwrap();
        let mut ledger = create(state.path()).unwrap();
        ledger.file.write_all(b"{\"kind\":\"int").unwrap();
        ledger.torn = true;
        ledger.record_child(entry(&ledger, 1)).unwrap();
        let contents = parse_ledger(ledger.instance(), &fs::read(&ledger.path).unwrap());
        assert_eq!((contents.entries, contents.damaged), (vec![entry(&ledger, 1)], 1));
    }

    #[test]
    fn close_removes_the_ledger_unless_entries_are_live() {
        let state = tempfile::tempdir().unwrap();
        let clean = create(state.path()).unwrap();
        let path = clean.path.clone();
        clean.close().unwrap();
        assert!(!path.exists());

        let mut unclean = create(state.path()).unwrap();
        unclean.record_child(entry(&unclean, 1)).unwrap();
        let path = unclean.path.clone();
        unclean.close().unwrap();
        assert!(path.exists());

        let mut visited = create(state.path()).unwrap();
        visited.record_remote(remote(&visited, 1)).unwrap();
        let path = visited.path.clone();
        visited.close().unwrap();
        assert!(path.exists());
    }
}
