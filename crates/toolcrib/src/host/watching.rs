//! Noticing that a file has changed: by the system's word and by looking, either of which suffices.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// Watches files, there or not. Dropped, it stops.
pub(super) struct Watching {
    changed: Arc<Notify>,
    followed: Arc<Mutex<Followed>>,
    /// Where the system cannot tell, looking has to do.
    watcher: Option<RecommendedWatcher>,
    folders: BTreeMap<PathBuf, Option<FolderId>>,
    /// How often somebody looks; none where nobody does.
    poll: Option<Duration>,
    looking: JoinSet<()>,
}

#[derive(Default)]
struct Followed {
    files: BTreeMap<PathBuf, Print>,
    /// Where those of them that are reached through links really are.
    targets: BTreeSet<PathBuf>,
}

/// Device and inode. A watch stays with the folder that was at its path when the watch began.
type FolderId = (u64, u64);

/// What tells one state of a file from the next: time, size, inode and mode; none if it is not there.
type Print = Option<(SystemTime, u64, u64, u32)>;

impl Watching {
    /// `changed` is notified whenever something may have changed.
    pub(super) fn start(changed: Arc<Notify>) -> Self {
        let followed = Arc::new(Mutex::new(Followed::default()));
        let (seen, told) = (Arc::clone(&followed), Arc::clone(&changed));
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            let concerns = event.is_ok_and(|event| {
                let is_change = !event.kind.is_access();
                let followed = seen.lock().unwrap_or_else(PoisonError::into_inner);
                is_change && event.paths.iter().any(|path| followed.concerns(path))
            });
            if concerns {
                told.notify_one();
            }
        });
        let watcher = watcher
            .inspect_err(
                |error| tracing::warn!(%error, "files cannot be watched; they are looked at"),
            )
            .ok();
        let (folders, looking) = (BTreeMap::new(), JoinSet::new());
        Watching { changed, followed, watcher, folders, poll: None, looking }
    }

    /// The files are going to be read: what is another from now on has changed.
    pub(super) fn look(&self) {
        let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        followed.files.iter_mut().for_each(|(file, known)| *known = print(file));
    }

    /// From now on these files count; those that counted before, from when they were last looked at. They are
    /// watched and looked at so often; not looked at where that is zero, and neither where nothing is said.
    pub(super) fn follow(&mut self, files: &BTreeSet<PathBuf>, poll: Option<Duration>) {
        let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        let known = std::mem::take(&mut followed.files);
        let now = |file: &PathBuf| known.get(file).copied().unwrap_or_else(|| print(file));
        followed.files = files.iter().map(|file| (file.clone(), now(file))).collect();
        let targets = files.iter().filter_map(|file| file.canonicalize().ok());
        followed.targets = targets.filter(|target| !files.contains(target)).collect();
        let targets = followed.targets.clone();
        drop(followed);
        self.look_every(poll.filter(|poll| !poll.is_zero()));
        // Folders are watched, not files: a save may put another file in a file's place.
        let files = files.iter().chain(&targets).filter(|_| poll.is_some());
        self.watch(files.filter_map(|file| nearest_folder(file)).collect());
    }

    /// Whether a file is another than when it began to count.
    pub(super) fn has_changed(&self) -> bool {
        let followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        followed.files.iter().any(|(file, known)| print(file) != *known)
    }

    fn look_every(&mut self, poll: Option<Duration>) {
        if self.poll == poll {
            return;
        }
        self.poll = poll;
        self.looking = JoinSet::new();
        if let Some(poll) = poll {
            self.looking.spawn(look(Arc::clone(&self.followed), Arc::clone(&self.changed), poll));
        }
    }

    /// A folder that was deleted and created again, or is a link to another one now, is watched anew.
    fn watch(&mut self, folders: BTreeSet<PathBuf>) {
        let Some(watcher) = &mut self.watcher else { return };
        let folders: BTreeMap<_, _> =
            folders.into_iter().map(|folder| (folder.clone(), folder_id(&folder))).collect();
        for (gone, _) in self.folders.iter().filter(|(folder, id)| folders.get(*folder) != Some(id))
        {
            // It may have been deleted, and its watch with it.
            let _ = watcher.unwatch(gone);
        }
        for (new, _) in folders.iter().filter(|(folder, id)| self.folders.get(*folder) != Some(id))
        {
            if let Err(error) = watcher.watch(new, RecursiveMode::NonRecursive) {
                tracing::debug!(folder = %new.display(), %error, "a folder cannot be watched");
            }
        }
        self.folders = folders;
    }
}

impl Followed {
    /// A file that counts, or a folder on the way to one.
    fn concerns(&self, path: &Path) -> bool {
        let is_file = self.files.contains_key(path) || self.targets.contains(path);
        is_file || self.files.keys().any(|file| file.starts_with(path))
    }
}

async fn look(followed: Arc<Mutex<Followed>>, changed: Arc<Notify>, poll: Duration) {
    loop {
        tokio::time::sleep(poll).await;
        let before = followed.lock().unwrap_or_else(PoisonError::into_inner).files.clone();
        let now: BTreeMap<_, _> = before.keys().map(|file| (file.clone(), print(file))).collect();
        if now == before {
            continue;
        }
        let mut followed = followed.lock().unwrap_or_else(PoisonError::into_inner);
        // What is followed may have become other files meanwhile.
        for (file, print) in now {
            followed.files.entry(file).and_modify(|known| *known = print);
        }
        changed.notify_one();
    }
}

fn print(file: &Path) -> Print {
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

    struct Scene {
        folder: tempfile::TempDir,
        changed: Arc<Notify>,
        watching: Watching,
        poll: Duration,
    }

    impl Scene {
        fn new(poll: Duration, by_system: bool) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let changed = Arc::new(Notify::new());
            let mut watching = Watching::start(Arc::clone(&changed));
            if !by_system {
                watching.watcher = None;
            }
            let mut scene = Scene { folder, changed, watching, poll };
            scene.follow();
            scene
        }

        fn file(&self) -> PathBuf {
            self.folder.path().join(".minds/mcp.yaml")
        }

        fn follow(&mut self) {
            let file = self.file();
            self.watching.follow(&BTreeSet::from([file]), Some(self.poll));
        }

        fn write(&self, text: &str) {
            fs::create_dir_all(self.folder.path().join(".minds")).unwrap();
            fs::write(self.file(), text).unwrap();
        }

        async fn noticed(&self) {
            tokio::time::timeout(LIMIT, self.changed.notified()).await.unwrap();
        }
    }

    #[tokio::test]
    async fn dom_67_either_way_alone_suffices() {
        for (poll, by_system) in [(Duration::from_millis(20), false), (Duration::ZERO, true)] {
            let mut scene = Scene::new(poll, by_system);
            scene.write("a");
            scene.noticed().await;
            scene.watching.look();
            scene.follow();
            assert!(!scene.watching.has_changed());
            scene.write("ab");
            scene.noticed().await;
            assert!(scene.watching.has_changed() || !by_system);
            fs::remove_file(scene.file()).unwrap();
            scene.noticed().await;
        }
    }

    #[tokio::test]
    async fn what_changes_while_it_is_read_has_changed() {
        let mut scene = Scene::new(Duration::from_millis(20), false);
        scene.write("a");
        scene.noticed().await;
        scene.watching.look();
        scene.write("ab");
        scene.follow();
        assert!(scene.watching.has_changed());
        scene.noticed().await;
    }

    #[tokio::test]
    async fn dom_98_the_system_tells_of_linked_files_and_of_folders_that_were_replaced() {
        let mut scene = Scene::new(Duration::ZERO, true);
        scene.write("a");
        scene.noticed().await;
        scene.follow();
        // Another folder at the same path, and then a change in it.
        let root = scene.folder.path().to_owned();
        fs::rename(root.join(".minds"), root.join("old")).unwrap();
        fs::create_dir(root.join(".minds")).unwrap();
        fs::write(root.join("real.yaml"), "b").unwrap();
        std::os::unix::fs::symlink(root.join("real.yaml"), scene.file()).unwrap();
        scene.follow();
        while scene.changed.notified().now_or_never().is_some() {}
        fs::write(root.join("real.yaml"), "bc").unwrap();
        scene.noticed().await;
        fs::remove_file(scene.file()).unwrap();
        scene.noticed().await;
    }

    #[tokio::test]
    async fn dom_68_a_file_that_is_put_in_its_place_is_noticed() {
        let mut scene = Scene::new(Duration::ZERO, true);
        scene.write("a");
        scene.noticed().await;
        scene.follow();
        let temporary = scene.folder.path().join(".minds/.mcp.yaml.tmp");
        fs::write(&temporary, "b").unwrap();
        fs::rename(&temporary, scene.file()).unwrap();
        scene.noticed().await;
    }
}
