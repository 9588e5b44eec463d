//! A cgroup for the hosts of one test: a host ends what any dead host left below the same cgroup, and tests run at the
//! same time.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// An empty cgroup (version 2) below that of this process. It is removed at the end, if it is empty then.
#[derive(Debug)]
pub struct TestCgroup(PathBuf);

impl TestCgroup {
    /// `None` where this process cannot make a cgroup.
    pub fn create() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let own = own.lines().find_map(|line| line.strip_prefix("0::/"))?.to_owned();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("test-{}-{number}", std::process::id());
        let mounts =
            ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"].map(|mount| Path::new(mount).join(&own));
        let parent = mounts.into_iter().find(|folder| folder.join("cgroup.procs").is_file())?;
        let folder = parent.join(name);
        fs::create_dir(&folder).ok()?;
        Some(Self(folder))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TestCgroup {
    fn drop(&mut self) {
        // One that has members belongs to a test that failed.
        let _ = fs::remove_dir(&self.0);
    }
}
