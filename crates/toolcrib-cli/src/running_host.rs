//! The single host of a workspace: claiming its slot and finding it.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::{Instant, sleep};
use toolcrib_config::{Dialect, Lookup};

use crate::root_lock::{LockAttempt, RootLock};
use crate::settings::{Settings, path_digest};

/// The lock file in the state folder. A host locks it while it runs and writes its announcement into it.
const LOCK_FILE: &str = "host.lock";

const SOCKET_FILE: &str = "socket";

/// Longest socket path that the system accepts.
const MAX_SOCKET_PATH: usize = if cfg!(target_os = "macos") { 103 } else { 107 };

/// Time limit from a host's lock to its socket, and from the end of its socket to the end of its lock.
const STARTUP_TIMEOUT: Duration = Duration::from_secs(20);

const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Time that a host may hold the workspace lock without the lock of its state folder. Such a host is ending, or its
/// folder was deleted.
const LOST_SOCKET_TIMEOUT: Duration = Duration::from_secs(2);

/// A running host, as it announces itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunningHost {
    pub(crate) pid: u32,
    /// Base URL, or `None` if the host opened no port.
    pub(crate) url: Option<String>,
    pub(crate) socket: PathBuf,
    /// The configuration file that the host reads instead of discovering files.
    config: Option<PathBuf>,
    dialect: Option<String>,
    /// True if the host trusts discovered configuration without asking.
    #[serde(default)]
    pub(crate) trusts_discovered: bool,
}

/// The slot of the workspace's host.
#[derive(Debug)]
pub(crate) enum HostSlot {
    Free(HostClaim),
    Taken(RunningHost),
}

/// The claimed slot. Dropping it frees the slot.
#[derive(Debug)]
pub(crate) struct HostClaim {
    lock: File,
    /// `None` if the lock folder is not usable. Then only the state folder's lock prevents a second host.
    root_lock: Option<RootLock>,
    socket: PathBuf,
}

/// Returns the running host of the workspace that reads the same files.
pub(crate) async fn find(settings: &Settings) -> Option<RunningHost> {
    let state = settings.find_state_folder()?;
    let running = read_announcement(&state.join(LOCK_FILE))
        .filter(|running| running.matches_settings(settings));
    if let Some(running) = running
        && running.is_reachable().await
    {
        return Some(running);
    }
    // The state folder may have been deleted, and the socket may be elsewhere.
    let running = root_lock_holder(&state).filter(|running| running.matches_settings(settings))?;
    running.is_reachable().await.then_some(running)
}

/// Like [`find`], for a command that would start its own host. Fails if a host runs whose socket was deleted, because a
/// second host must not start.
pub(crate) async fn find_reachable(settings: &Settings) -> Result<Option<RunningHost>, String> {
    let begun = Instant::now();
    loop {
        if let Some(running) = find(settings).await {
            return Ok(Some(running));
        }
        let state = settings.find_state_folder();
        let holder = state.and_then(|state| root_lock_holder(&state));
        let holder =
            holder.filter(|it| it.matches_settings(settings) && it.is_alive() && it.lost_socket());
        match holder {
            None => return Ok(None),
            Some(_) if begun.elapsed() > LOST_SOCKET_TIMEOUT => {
                return Err(unreachable_error(settings, holder));
            }
            // The holder may be ending.
            Some(_) => sleep(POLL_INTERVAL).await,
        }
    }
}

/// Claims the slot or returns the running host. Waits for a host that is starting or ending.
pub(crate) async fn claim(settings: &Settings) -> Result<HostSlot, String> {
    let state = settings.state_folder()?;
    create_private_folder(&state)
        .map_err(|error| format!("cannot use {}: {error}", state.display()))?;
    let path = state.join(LOCK_FILE);
    let failed = |error: io::Error| format!("cannot lock {}: {error}", path.display());
    let mut open = OpenOptions::new();
    open.read(true).write(true).create(true).truncate(false).mode(0o600);
    let lock = open.open(&path).map_err(failed)?;
    let begun = Instant::now();
    loop {
        match lock.try_lock() {
            Ok(()) => match lock_root(&state) {
                Ok(root_lock) => {
                    return HostClaim::new(settings, &state, lock, root_lock).map(HostSlot::Free);
                }
                Err(holder) if begun.elapsed() > LOST_SOCKET_TIMEOUT => {
                    return Err(unreachable_error(settings, holder));
                }
                // The holder may be ending.
                Err(_) => lock.unlock().map_err(failed)?,
            },
            Err(TryLockError::Error(error)) => return Err(failed(error)),
            Err(TryLockError::WouldBlock) => {}
        }
        if let Some(running) = read_announcement(&path)
            && running.is_alive()
            && running.is_reachable().await
        {
            return Ok(HostSlot::Taken(running));
        }
        if begun.elapsed() > STARTUP_TIMEOUT {
            return Err(format!("another host holds {} and does not answer", path.display()));
        }
        sleep(POLL_INTERVAL).await;
    }
}

/// Locks the workspace, or returns its holder as far as the holder has announced itself.
fn lock_root(state: &Path) -> Result<Option<RootLock>, Option<RunningHost>> {
    let folder = root_locks();
    let attempt = create_private_folder(&folder).and_then(|()| RootLock::try_lock(&folder, state));
    match attempt {
        Ok(LockAttempt::Locked(lock)) => Ok(Some(lock)),
        Ok(LockAttempt::Held(text)) => Err(serde_json::from_slice(&text).ok()),
        Err(error) => {
            tracing::debug!(%error, folder = %folder.display(), "cannot lock the workspace outside of the state folder");
            Ok(None)
        }
    }
}

/// Returns the announced holder of the workspace lock.
fn root_lock_holder(state: &Path) -> Option<RunningHost> {
    serde_json::from_slice(&RootLock::read_holder(&root_locks(), state)?).ok()
}

/// The folder of all workspace locks of this user.
fn root_locks() -> PathBuf {
    PathBuf::from(format!("/tmp/toolcrib-{}", rustix::process::getuid().as_raw()))
}

fn unreachable_error(settings: &Settings, holder: Option<RunningHost>) -> String {
    let who = holder.as_ref().map_or_else(|| "pid unknown".to_owned(), RunningHost::describe);
    let end =
        holder.map_or_else(|| "stop it".to_owned(), |it| format!("stop it (`kill {}`)", it.pid));
    format!(
        "a host of {} runs already: {who}; its socket is gone because its state folder was deleted, so it cannot be \
         reached: {end}, then start it again",
        settings.root().display()
    )
}

/// Finds the successor of an ended host: another host that starts within `grace` after the slot is free, or the caller.
pub(crate) async fn claim_after_end(
    settings: &Settings,
    grace: Duration,
) -> Result<HostSlot, String> {
    // A host closes its connections before its servers have ended. The grace period starts when its lock is free.
    if let HostSlot::Taken(running) = claim(settings).await? {
        return Ok(HostSlot::Taken(running));
    }
    let begun = Instant::now();
    while begun.elapsed() < grace {
        if let Some(running) = find(settings).await {
            return Ok(HostSlot::Taken(running));
        }
        sleep(POLL_INTERVAL).await;
    }
    claim(settings).await
}

impl RunningHost {
    pub(crate) fn new(settings: &Settings, claim: &HostClaim, url: Option<String>) -> Self {
        let named = settings.workspace.config_file.as_ref();
        RunningHost {
            pid: std::process::id(),
            url,
            socket: claim.socket.clone(),
            config: named.map(|named| named.path.clone()),
            dialect: named.and_then(|named| named.dialect).map(dialect_name),
            trusts_discovered: settings.is_named || settings.trusts_discovered,
        }
    }

    /// Returns whether the host reads the files that these settings select.
    pub(crate) fn matches_settings(&self, settings: &Settings) -> bool {
        let named = settings.workspace.config_file.as_ref();
        self.config.as_deref() == named.map(|named| named.path.as_path())
            && self.dialect == named.and_then(|named| named.dialect).map(dialect_name)
    }

    pub(crate) async fn connect(&self) -> io::Result<UnixStream> {
        UnixStream::connect(&self.socket).await
    }

    /// Returns whether the host's process exists. A child of a killed host may hold the socket briefly between fork and
    /// exec.
    fn is_alive(&self) -> bool {
        let pid = i32::try_from(self.pid).ok().and_then(rustix::process::Pid::from_raw);
        pid.is_some_and(|pid| {
            rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH)
        })
    }

    /// Returns whether the socket was deleted. A host removes its own socket right before its locks.
    fn lost_socket(&self) -> bool {
        fs::symlink_metadata(&self.socket).is_err_and(|error| error.kind() == ErrorKind::NotFound)
    }

    async fn is_reachable(&self) -> bool {
        self.connect().await.is_ok()
    }

    /// Returns the process id and the address for messages.
    pub(crate) fn describe(&self) -> String {
        match &self.url {
            Some(url) => format!("pid {}, {url}", self.pid),
            None => format!("pid {}, on standard streams", self.pid),
        }
    }
}

impl HostClaim {
    fn new(
        settings: &Settings,
        state: &Path,
        lock: File,
        root_lock: Option<RootLock>,
    ) -> Result<Self, String> {
        // A killed host could not remove its socket.
        if let Some(dead) = read_announcement(&state.join(LOCK_FILE)) {
            remove_socket(&dead.socket);
            // The next socket has the same path, so a reader of the old announcement must not take the new host for the
            // old one.
            lock.set_len(0)
                .map_err(|error| format!("cannot write the host's lock file: {error}"))?;
        }
        let socket = socket_path(settings, state);
        let folder = socket.parent().unwrap_or(state);
        create_private_folder(folder).map_err(|error| {
            format!("cannot create the host's socket in {}: {error}", folder.display())
        })?;
        Ok(HostClaim { lock, root_lock, socket })
    }

    /// Binds the owner's socket. File permissions decide about access: every process that can open it is the owner.
    pub(crate) fn bind(&self) -> Result<UnixListener, String> {
        remove_socket(&self.socket);
        let listener = UnixListener::bind(&self.socket);
        let closed = listener.and_then(|listener| {
            fs::set_permissions(&self.socket, Permissions::from_mode(0o600))?;
            Ok(listener)
        });
        closed.map_err(|error| format!("cannot listen on {}: {error}", self.socket.display()))
    }

    /// Publishes the address of the host, which listens from now on.
    pub(crate) fn announce(&mut self, running: &RunningHost) -> Result<(), String> {
        let told = serde_json::to_vec(running).map_err(io::Error::other).and_then(|text| {
            self.lock.set_len(0)?;
            self.lock.write_all(&text)?;
            self.root_lock.as_mut().map_or(Ok(()), |lock| lock.announce(&text))
        });
        told.map_err(|error| format!("cannot write the host's lock file: {error}"))
    }
}

impl Drop for HostClaim {
    fn drop(&mut self) {
        remove_socket(&self.socket);
        // The file stays, because another process may be waiting for its lock.
        let _ = self.lock.set_len(0);
    }
}

fn read_announcement(path: &Path) -> Option<RunningHost> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

fn dialect_name(dialect: Dialect) -> String {
    dialect.as_str().to_owned()
}

/// Removes a socket, and nothing else, whatever the announcement says.
fn remove_socket(path: &Path) {
    if fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        // A remaining socket makes the bind fail.
        let _ = fs::remove_file(path);
    }
}

/// Returns the socket's path: in the state folder, or in a folder with a shorter path.
fn socket_path(settings: &Settings, state: &Path) -> PathBuf {
    let given = |name: &str| {
        settings.environment.env(name).filter(|value| !value.is_empty()).map(PathBuf::from)
    };
    let shared = format!("toolcrib-{}", rustix::process::getuid().as_raw());
    let name = path_digest(state);
    let places = [
        Some(state.join(SOCKET_FILE)),
        given("XDG_RUNTIME_DIR").map(|folder| folder.join("toolcrib").join(&name)),
        given("TMPDIR").map(|folder| folder.join(&shared).join(&name)),
    ];
    let fits = |path: &PathBuf| path.as_os_str().len() <= MAX_SOCKET_PATH;
    let short = places.into_iter().flatten().find(fits);
    short.unwrap_or_else(|| Path::new("/tmp").join(&shared).join(&name))
}

/// Creates a folder that only its owner can access. A folder of another user is rejected.
fn create_private_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let found = fs::symlink_metadata(folder)?;
    if found.uid() != rustix::process::getuid().as_raw() || !fs::metadata(folder)?.is_dir() {
        return Err(io::Error::new(ErrorKind::PermissionDenied, "it belongs to another user"));
    }
    match found.permissions().mode() & 0o077 {
        0 => Ok(()),
        _ => fs::set_permissions(folder, Permissions::from_mode(0o700)),
    }
}
