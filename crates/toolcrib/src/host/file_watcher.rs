//! Detects changed files by file system notifications and by polling. Each method works without the
//! other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// Watches files, whether or not they exist. Dropping the watcher ends it.
pub(super) struct FileWatcher {
    changed: Arc<Notify>,
    watched: Arc<Mutex<WatchedFiles>>,
    /// `None` if the system has no notifications; polling then detects all changes.
    watcher: Option<RecommendedWatcher>,
    folders: BTreeMap<PathBuf, Option<FolderId>>,
    /// The polling interval; `None` without polling.
    poll: Option<Duration>,
    poller: JoinSet<()>,
}

#[derive(Default)]
struct WatchedFiles {
    files: BTreeMap<PathBuf, FileStamp>,
    /// The real paths of watched files that are reached through links.
    targets: BTreeSet<PathBuf>,
}

/// Device and inode. A watch stays with the folder that was at its path when the watch began.
type FolderId = (u64, u64);

/// Distinguishes the versions of a file: time, size, inode and mode; `None` if the file does not
/// exist.
type FileStamp = Option<(SystemTime, u64, u64, u32)>;

impl FileWatcher {
    /// Starts the watcher. It notifies `changed` whenever a file may have changed.
    pub(super) fn start(changed: Arc<Notify>) -> Self {
        let watched = Arc::new(Mutex::new(WatchedFiles::default()));
        let (shared, notifier) = (Arc::clone(&watched), Arc::clone(&changed));
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            let is_watched = event.is_ok_and(|event| {
                let is_change = !event.kind.is_access();
                let watched = shared.lock().unwrap_or_else(PoisonError::into_inner);
                is_change && event.paths.iter().any(|path| watched.includes(path))
            });
            if is_watched {
                notifier.notify_one();
            }
        });
        let watcher = watcher
            .inspect_err(|error| tracing::warn!(%error, "cannot watch files; polling instead"))
            .ok();
        let (folders, poller) = (BTreeMap::new(), JoinSet::new());
        FileWatcher { changed, watched, watcher, folders, poll: None, poller }
    }

    /// Takes new stamps of all files before they are read. Later changes count as changes.
    pub(super) fn refresh_stamps(&self) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.files.iter_mut().for_each(|(file, known)| *known = file_stamp(file));
    }

    /// Watches these files from now on. Files that were watched before keep their stamps. `poll` is
    /// the polling interval: zero disables polling, `None` disables notifications too.
    pub(super) fn watch_files(&mut self, files: &BTreeSet<PathBuf>, poll: Option<Duration>) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let known = std::mem::take(&mut watched.files);
        let now = |file: &PathBuf| known.get(file).copied().unwrap_or_else(|| file_stamp(file));
        watched.files = files.iter().map(|file| (file.clone(), now(file))).collect();
        let targets = files.iter().filter_map(|file| file.canonicalize().ok());
        watched.targets = targets.filter(|target| !files.contains(target)).collect();
        let targets = watched.targets.clone();
        drop(watched);
        self.set_poll_interval(poll.filter(|poll| !poll.is_zero()));
        // Folders are watched instead of files, because a save may replace a file by another one.
        let files = files.iter().chain(&targets).filter(|_| poll.is_some());
        self.watch_folders(files.filter_map(|file| nearest_folder(file)).collect());
    }

    /// Whether a file has changed since its last stamp.
    pub(super) fn has_changed(&self) -> bool {
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.files.iter().any(|(file, known)| file_stamp(file) != *known)
    }

    fn set_poll_interval(&mut self, poll: Option<Duration>) {
        if self.poll == poll {
            return;
        }
        self.poll = poll;
        self.poller = JoinSet::new();
        if let Some(poll) = poll {
            self.poller.spawn(poll_files(
                Arc::clone(&self.watched),
                Arc::clone(&self.changed),
                poll,
            ));
        }
    }

    /// Watches these folders. A folder that was recreated, or that is now a link to another folder,
    /// gets a new watch.
    fn watch_folders(&mut self, folders: BTreeSet<PathBuf>) {
        let Some(watcher) = &mut self.watcher else { return };
        let folders: BTreeMap<_, _> =
            folders.into_iter().map(|folder| (folder.clone(), folder_id(&folder))).collect();
        for (gone, _) in self.folders.iter().filter(|(folder, id)| folders.get(*folder) != Some(id))
        {
            // The folder may have been deleted, and its watch with it.
            let _ = watcher.unwatch(gone);
        }
        for (new, _) in folders.iter().filter(|(folder, id)| self.folders.get(*folder) != Some(id))
        {
            if let Err(error) = watcher.watch(new, RecursiveMode::NonRecursive) {
                tracing::debug!(folder = %new.display(), %error, "cannot watch a folder");
            }
        }
        self.folders = folders;
    }
}

impl WatchedFiles {
    /// Whether the path is a watched file or a parent folder of one.
    fn includes(&self, path: &Path) -> bool {
        let is_file = self.files.contains_key(path) || self.targets.contains(path);
        is_file || self.files.keys().any(|file| file.starts_with(path))
    }
}

async fn poll_files(watched: Arc<Mutex<WatchedFiles>>, changed: Arc<Notify>, poll: Duration) {
    loop {
        tokio::time::sleep(poll).await;
        let before = watched.lock().unwrap_or_else(PoisonError::into_inner).files.clone();
        let now: BTreeMap<_, _> =
            before.keys().map(|file| (file.clone(), file_stamp(file))).collect();
        if now == before {
            continue;
        }
        let mut watched = watched.lock().unwrap_or_else(PoisonError::into_inner);
        // Other files may be watched since the copy was made.
        for (file, stamp) in now {
            watched.files.entry(file).and_modify(|known| *known = stamp);
        }
        changed.notify_one();
    }
}

fn file_stamp(file: &Path) -> FileStamp {
    use std::os::unix::fs::MetadataExt;
    let found = std::fs::metadata(file).ok()?;
    let modified = found.modified().unwrap_or(SystemTime::UNIX_EPOCH);
    Some((modified, found.len(), found.ino(), found.mode()))
}

fn folder_id(folder: &Path) -> Option<FolderId> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(folder).ok().map(|found| (found.dev(), found.ino()))
}

fn nearest_folder(file: &Path) -> Option<PathBuf> {
    file.ancestors().skip(1).find(|folder| folder.is_dir()).map(Path::to_path_buf)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use futures_util::FutureExt;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    struct WatchedFolder {
        folder: tempfile::TempDir,
        changed: Arc<Notify>,
        watcher: FileWatcher,
        poll: Duration,
    }

    impl WatchedFolder {
        fn new(poll: Duration, by_system: bool) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let changed = Arc::new(Notify::new());
            let mut watcher = FileWatcher::start(Arc::clone(&changed));
            if !by_system {
                watcher.watcher = None;
            }
            let mut fixture = WatchedFolder { folder, changed, watcher, poll };
            fixture.follow();
            fixture
        }

        fn file(&self) -> PathBuf {
            self.folder.path().join(".minds/mcp.yaml")
        }

        fn follow(&mut self) {
            let file = self.file();
            self.watcher.watch_files(&BTreeSet::from([file]), Some(self.poll));
        }

        fn write(&self, text: &str) {
            fs::create_dir_all(self.folder.path().join(".minds")).unwrap();
            fs::write(self.file(), text).unwrap();
        }

        async fn wait_for_change(&self) {
            tokio::time::timeout(LIMIT, self.changed.notified()).await.unwrap();
        }
    }

    #[tokio::test]
    async fn dom_67_polling_and_notifications_each_detect_changes() {
        for (poll, by_system) in [(Duration::from_millis(20), false), (Duration::ZERO, true)] {
            let mut fixture = WatchedFolder::new(poll, by_system);
            fixture.write("a");
            fixture.wait_for_change().await;
            fixture.watcher.refresh_stamps();
            fixture.follow();
            assert!(!fixture.watcher.has_changed());
            fixture.write("ab");
            fixture.wait_for_change().await;
            assert!(fixture.watcher.has_changed() || !by_system);
            fs::remove_file(fixture.file()).unwrap();
            fixture.wait_for_change().await;
        }
    }

    #[tokio::test]
    async fn change_during_a_read_is_detected() {
        let mut fixture = WatchedFolder::new(Duration::from_millis(20), false);
        fixture.write("a");
        fixture.wait_for_change().await;
        fixture.watcher.refresh_stamps();
        fixture.write("ab");
        fixture.follow();
        assert!(fixture.watcher.has_changed());
        fixture.wait_for_change().await;
    }

    #[tokio::test]
    async fn dom_98_linked_files_and_replaced_folders_are_watched() {
        let mut fixture = WatchedFolder::new(Duration::ZERO, true);
        fixture.write("a");
        fixture.wait_for_change().await;
        fixture.follow();
        // Replaces the folder at the same path, then changes a file in the new folder.
        let root = fixture.folder.path().to_owned();
        fs::rename(root.join(".minds"), root.join("old")).unwrap();
        fs::create_dir(root.join(".minds")).unwrap();
        fs::write(root.join("real.yaml"), "b").unwrap();
        std::os::unix::fs::symlink(root.join("real.yaml"), fixture.file()).unwrap();
        fixture.follow();
        while fixture.changed.notified().now_or_never().is_some() {}
        fs::write(root.join("real.yaml"), "bc").unwrap();
        fixture.wait_for_change().await;
        fs::remove_file(fixture.file()).unwrap();
        fixture.wait_for_change().await;
    }

    #[tokio::test]
    async fn dom_68_replaced_file_is_detected() {
        let mut fixture = WatchedFolder::new(Duration::ZERO, true);
        fixture.write("a");
        fixture.wait_for_change().await;
        fixture.follow();
        let temporary = fixture.folder.path().join(".minds/.mcp.yaml.tmp");
        fs::write(&temporary, "b").unwrap();
        fs::rename(&temporary, fixture.file()).unwrap();
        fixture.wait_for_change().await;
    }
}
