//! Creates a cgroup for the hosts of one test.
//!
//! A host stops the processes that dead hosts left below the same cgroup, and tests run in parallel.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// An empty cgroup (version 2) below the cgroup of this process. Dropping it removes the cgroup if it is
/// empty.
#[derive(Debug)]
pub struct TestCgroup(PathBuf);

impl TestCgroup {
    /// Returns `None` if this process cannot create a cgroup.
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
        // A cgroup with members belongs to a failed test.
        let _ = fs::remove_dir(&self.0);
    }
}
