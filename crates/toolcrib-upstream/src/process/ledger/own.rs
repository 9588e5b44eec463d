//! The ledger of the living instance: locked for its life, appended to around every start, kept short.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Write};
use std::iter;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::line::{Entry, Line, encode};
use super::{draft_of, file_name, folder, leads_to};
use crate::process::guest::Guest;
use crate::process::mark::{InstanceId, Mark};
use crate::process::sys::{Cgroup, Identity, Realm};

/// Each loses only against another process that reaps in that very moment.
const ATTEMPTS: usize = 16;

/// So many lines about what has ended may stand in the file before it is written anew.
const SLACK: usize = 256;

#[derive(Debug)]
pub(crate) struct Ledger {
    instance: InstanceId,
    host: Identity,
    /// Where the instance's cgroup is to be.
    cgroup: Option<String>,
    path: PathBuf,
    file: File,
    live: BTreeMap<Mark, Entry>,
    guests: BTreeMap<Mark, Guest>,
    lines: usize,
    /// The last line may lack its end: the disk was full.
    torn: bool,
}

impl Ledger {
    /// The instance's cgroup is noted before it exists, as everything is; it is to be made below `cgroups`.
    pub(crate) fn create(state: &Path, host: Identity, cgroups: Option<&Path>) -> io::Result<Self> {
        let folder = folder(state);
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        fs::set_permissions(&folder, Permissions::from_mode(0o700))?;
        for _ in 0..ATTEMPTS {
            let instance = InstanceId::random()?;
            let path = folder.join(file_name(instance));
            let file = open_new(&path)?;
            match file.try_lock() {
                Ok(()) if leads_to(&path, &file)? => {
                    let cgroup = cgroups.map(|parent| Cgroup::path_of(parent, instance));
                    let cgroup = cgroup.and_then(|path| path.into_os_string().into_string().ok());
                    return Self::begin(instance, host, cgroup, path, file);
                }
                // A start beside this one took the new file for a dead instance's before it was locked.
                Ok(()) | Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }

    fn begin(
        instance: InstanceId,
        host: Identity,
        cgroup: Option<String>,
        path: PathBuf,
        file: File,
    ) -> io::Result<Self> {
        let (live, guests) = (BTreeMap::new(), BTreeMap::new());
        let mut ledger =
            Self { instance, host, cgroup, path, file, live, guests, lines: 0, torn: false };
        ledger.append(&ledger.first_line())?;
        Ok(ledger)
    }

    fn first_line(&self) -> Line {
        Line::Host { host: self.host.clone(), cgroup: self.cgroup.clone() }
    }

    pub(crate) fn cgroup(&self) -> Option<&Path> {
        self.cgroup.as_deref().map(Path::new)
    }

    pub(crate) fn instance(&self) -> InstanceId {
        self.instance
    }

    /// Where the pids of its host and of all children mean something.
    pub(crate) fn realm(&self) -> &Realm {
        &self.host.realm
    }

    /// Written to the kernel before this returns: a kill of the host cannot take it back. A loss of power can,
    /// but takes the child along.
    pub(crate) fn enter(&mut self, entry: Entry) -> io::Result<()> {
        self.append(&Line::Entry(entry.clone()))?;
        self.live.insert(entry.mark, entry);
        Ok(())
    }

    /// As with [`Ledger::enter`], for what lives in a container. What is said again replaces what was.
    pub(crate) fn lodge(&mut self, guest: Guest) -> io::Result<()> {
        self.append(&Line::Guest(guest.clone()))?;
        self.guests.insert(guest.mark, guest);
        Ok(())
    }

    pub(crate) fn ended(&mut self, mark: Mark) -> io::Result<()> {
        self.live.remove(&mark);
        self.guests.remove(&mark);
        self.append(&Line::Ended(mark))?;
        if self.lines > 2 * self.living() + SLACK { self.compact() } else { Ok(()) }
    }

    fn living(&self) -> usize {
        self.live.len() + self.guests.len()
    }

    /// Removes the file, unless something of the instance still lives: then the next start shall find it.
    pub(crate) fn close(self) -> io::Result<()> {
        if self.living() == 0 { fs::remove_file(&self.path) } else { Ok(()) }
    }

    fn append(&mut self, line: &Line) -> io::Result<()> {
        let mut text = encode(self.instance, line)?;
        if self.torn {
            text.insert(0, '\n');
        }
        self.torn = true;
        self.file.write_all(text.as_bytes())?;
        self.torn = false;
        self.lines += 1;
        Ok(())
    }

    /// The new file is locked before it takes the old one's name, so that no start ever finds it free.
    fn compact(&mut self) -> io::Result<()> {
        let draft = draft_of(&self.path);
        // One may be left of a compaction that failed halfway.
        let _ = fs::remove_file(&draft);
        let mut file = open_new(&draft)?;
        file.try_lock()?;
        let entries = self.live.values().cloned().map(Line::Entry);
        let guests = self.guests.values().cloned().map(Line::Guest);
        let lines = iter::once(self.first_line()).chain(entries).chain(guests);
        let text: String =
            lines.map(|line| encode(self.instance, &line)).collect::<Result<_, _>>()?;
        file.write_all(text.as_bytes())?;
        fs::rename(&draft, &self.path)?;
        self.file = file;
        self.lines = 1 + self.living();
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
    use crate::process::guest::Home;
    use crate::process::ledger::line::read;
    use crate::process::ledger::{Claim, claim};
    use crate::process::sys;

    fn create(state: &Path) -> io::Result<Ledger> {
        Ledger::create(state, sys::identity(std::process::id())?, None)
    }

    fn entry(ledger: &Ledger, session: u64) -> Entry {
        Entry {
            mark: Mark { instance: ledger.instance(), session },
            program: "npx".to_owned(),
            leader: None,
        }
    }

    fn guest(ledger: &Ledger, session: u64) -> Guest {
        let home = Home::Own { container: None, exec: None };
        Guest { mark: entry(ledger, session).mark, engine: "unix:///run/engine".to_owned(), home }
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn nobody_else_can_read_it() {
        let state = tempfile::tempdir().unwrap();
        let state = state.path().join("deep/state");
        let ledger = create(&state).unwrap();
        assert_eq!(mode(&state), 0o700);
        assert_eq!(mode(&folder(&state)), 0o700);
        assert_eq!(mode(&ledger.path), 0o600);
    }

    #[test]
    fn it_is_held_while_open_even_across_compaction() {
        let state = tempfile::tempdir().unwrap();
        let mut ledger = create(state.path()).unwrap();
        assert!(matches!(claim(&ledger.path).unwrap(), Claim::Held));
        ledger.compact().unwrap();
        assert!(matches!(claim(&ledger.path).unwrap(), Claim::Held));
    }

    #[test]
    fn it_stays_short_and_keeps_the_living() {
        let state = tempfile::tempdir().unwrap();
        let mut ledger = create(state.path()).unwrap();
        ledger.enter(entry(&ledger, 0)).unwrap();
        ledger.lodge(guest(&ledger, 5_000)).unwrap();
        for session in 1..5_000 {
            ledger.enter(entry(&ledger, session)).unwrap();
            ledger.ended(entry(&ledger, session).mark).unwrap();
        }
        let text = fs::read(&ledger.path).unwrap();
        assert!(text.len() < 64 << 10, "{} bytes", text.len());
        let reading = read(ledger.instance(), &text);
        assert_eq!(reading.entries, [entry(&ledger, 0)]);
        assert_eq!(reading.guests, [guest(&ledger, 5_000)]);
    }

    #[test]
    fn a_torn_line_does_not_swallow_the_next() {
        let state = tempfile::tempdir().unwrap();
        let mut ledger = create(state.path()).unwrap();
        ledger.file.write_all(b"{\"kind\":\"int").unwrap();
        ledger.torn = true;
        ledger.enter(entry(&ledger, 1)).unwrap();
        let reading = read(ledger.instance(), &fs::read(&ledger.path).unwrap());
        assert_eq!((reading.entries, reading.damaged), (vec![entry(&ledger, 1)], 1));
    }

    #[test]
    fn it_is_gone_after_a_clean_close_and_stays_for_what_lives() {
        let state = tempfile::tempdir().unwrap();
        let clean = create(state.path()).unwrap();
        let path = clean.path.clone();
        clean.close().unwrap();
        assert!(!path.exists());

        let mut unclean = create(state.path()).unwrap();
        unclean.enter(entry(&unclean, 1)).unwrap();
        let path = unclean.path.clone();
        unclean.close().unwrap();
        assert!(path.exists());

        let mut visited = create(state.path()).unwrap();
        visited.lodge(guest(&visited, 1)).unwrap();
        let path = visited.path.clone();
        visited.close().unwrap();
        assert!(path.exists());
    }
}
