//! The one host of a root: how it takes its place, and how others find it.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::{Instant, sleep};
use toolcrib_config::{Dialect, Lookup};

use crate::root_lock::{Attempt, RootLock};
use crate::settings::{Settings, digits};

/// Locked by a host for as long as it runs; what is in it is told by the host itself.
const LOCK: &str = "host.lock";

const SOCKET: &str = "socket";

/// What the system can take as the name of a socket.
const LONGEST: usize = if cfg!(target_os = "macos") { 103 } else { 107 };

/// How long a host may take from its lock to its socket, or from the end of its socket to the end of its lock.
const PATIENCE: Duration = Duration::from_secs(20);

const TICK: Duration = Duration::from_millis(20);

/// How long a host may hold the lock of the root without that of its state folder: it is ending, or the folder was
/// deleted.
const GONE: Duration = Duration::from_secs(2);

/// A host that runs, as it tells of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Running {
    pub(crate) pid: u32,
    /// The beginning of its URLs; nothing where it opened no port.
    pub(crate) url: Option<String>,
    pub(crate) socket: PathBuf,
    /// What it reads instead of looking for configuration.
    config: Option<PathBuf>,
    dialect: Option<String>,
    /// Whether it goes by what it finds in its root without being told that this is trusted.
    #[serde(default)]
    pub(crate) trusts: bool,
}

/// Whether the place of the root's host is free.
#[derive(Debug)]
pub(crate) enum Place {
    Free(Claim),
    Taken(Running),
}

/// The place of the root's host, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Claim {
    lock: File,
    /// None where there is no folder for it: then only the state folder tells hosts apart.
    root_lock: Option<RootLock>,
    socket: PathBuf,
}

/// The host that runs for this root and reads what is asked for, if there is one.
pub(crate) async fn find(settings: &Settings) -> Option<Running> {
    let state = settings.state()?;
    let running = read(&state.join(LOCK)).filter(|running| running.is_of(settings));
    if let Some(running) = running
        && running.answers().await
    {
        return Some(running);
    }
    // The state folder may have been deleted, and the socket may be elsewhere.
    let running = root_lock_holder(&state).filter(|running| running.is_of(settings))?;
    running.answers().await.then_some(running)
}

/// The same for a command that would start a host of its own. Fails if a host runs whose socket was deleted: a second
/// host must not start beside it.
pub(crate) async fn find_reachable(settings: &Settings) -> Result<Option<Running>, String> {
    let begun = Instant::now();
    loop {
        if let Some(running) = find(settings).await {
            return Ok(Some(running));
        }
        let state = settings.state();
        let holder = state.and_then(|state| root_lock_holder(&state));
        let holder = holder.filter(|it| it.is_of(settings) && it.is_alive() && it.lost_socket());
        match holder {
            None => return Ok(None),
            Some(_) if begun.elapsed() > GONE => return Err(unreachable(settings, holder)),
            // The holder may be ending.
            Some(_) => sleep(TICK).await,
        }
    }
}

/// Takes the place of the root's host, or tells who has it. One that is just starting or ending is waited for.
pub(crate) async fn claim(settings: &Settings) -> Result<Place, String> {
    let state = settings.state_folder()?;
    private(&state).map_err(|error| format!("cannot use {}: {error}", state.display()))?;
    let path = state.join(LOCK);
    let failed = |error: io::Error| format!("cannot lock {}: {error}", path.display());
    let mut open = OpenOptions::new();
    open.read(true).write(true).create(true).truncate(false).mode(0o600);
    let lock = open.open(&path).map_err(failed)?;
    let begun = Instant::now();
    loop {
        match lock.try_lock() {
            Ok(()) => match lock_root(&state) {
                Ok(root_lock) => {
                    return Claim::new(settings, &state, lock, root_lock).map(Place::Free);
                }
                Err(holder) if begun.elapsed() > GONE => return Err(unreachable(settings, holder)),
                // The holder may be ending.
                Err(_) => lock.unlock().map_err(failed)?,
            },
            Err(TryLockError::Error(error)) => return Err(failed(error)),
            Err(TryLockError::WouldBlock) => {}
        }
        if let Some(running) = read(&path)
            && running.is_alive()
            && running.answers().await
        {
            return Ok(Place::Taken(running));
        }
        if begun.elapsed() > PATIENCE {
            return Err(format!("another host holds {} and does not answer", path.display()));
        }
        sleep(TICK).await;
    }
}

/// The lock of the root, or the host that holds it, as far as it has announced itself.
fn lock_root(state: &Path) -> Result<Option<RootLock>, Option<Running>> {
    let folder = root_locks();
    let attempt = private(&folder).and_then(|()| RootLock::try_lock(&folder, state));
    match attempt {
        Ok(Attempt::Locked(lock)) => Ok(Some(lock)),
        Ok(Attempt::Held(text)) => Err(serde_json::from_slice(&text).ok()),
        Err(error) => {
            tracing::debug!(%error, folder = %folder.display(), "cannot lock the root outside of the state folder");
            Ok(None)
        }
    }
}

/// The host that holds the lock of the root, if there is one and it has announced itself.
fn root_lock_holder(state: &Path) -> Option<Running> {
    serde_json::from_slice(&RootLock::holder(&root_locks(), state)?).ok()
}

/// The folder of the locks of all roots of this user.
fn root_locks() -> PathBuf {
    PathBuf::from(format!("/tmp/toolcrib-{}", rustix::process::getuid().as_raw()))
}

fn unreachable(settings: &Settings, holder: Option<Running>) -> String {
    let who = holder.as_ref().map_or_else(|| "pid unknown".to_owned(), Running::told);
    let end =
        holder.map_or_else(|| "end it".to_owned(), |it| format!("end it (`kill {}`)", it.pid));
    format!(
        "a host of {} runs already: {who}; its socket is gone because its state folder was deleted, so it cannot be \
         reached: {end}, then start it again",
        settings.root().display()
    )
}

/// Who comes after a host that has ended: another that has come within `grace` of the place being free, or whoever
/// asks.
pub(crate) async fn succeed(settings: &Settings, grace: Duration) -> Result<Place, String> {
    // A host hangs up before its servers have ended. Only then can another take its place, and the time begins.
    if let Place::Taken(running) = claim(settings).await? {
        return Ok(Place::Taken(running));
    }
    let begun = Instant::now();
    while begun.elapsed() < grace {
        if let Some(running) = find(settings).await {
            return Ok(Place::Taken(running));
        }
        sleep(TICK).await;
    }
    claim(settings).await
}

impl Running {
    pub(crate) fn new(settings: &Settings, claim: &Claim, url: Option<String>) -> Self {
        let named = settings.workspace.named.as_ref();
        Running {
            pid: std::process::id(),
            url,
            socket: claim.socket.clone(),
            config: named.map(|named| named.path.clone()),
            dialect: named.and_then(|named| named.dialect).map(word),
            trusts: settings.is_named || settings.trusts,
        }
    }

    /// Whether it reads the files that these settings mean.
    pub(crate) fn is_of(&self, settings: &Settings) -> bool {
        let named = settings.workspace.named.as_ref();
        self.config.as_deref() == named.map(|named| named.path.as_path())
            && self.dialect == named.and_then(|named| named.dialect).map(word)
    }

    pub(crate) async fn connect(&self) -> io::Result<UnixStream> {
        UnixStream::connect(&self.socket).await
    }

    /// Whether its process is there. A child of a killed host may hold the socket for a moment, between fork and exec.
    fn is_alive(&self) -> bool {
        let pid = i32::try_from(self.pid).ok().and_then(rustix::process::Pid::from_raw);
        pid.is_some_and(|pid| {
            rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH)
        })
    }

    /// Whether its socket was deleted. A host removes its socket itself only right before its locks.
    fn lost_socket(&self) -> bool {
        fs::symlink_metadata(&self.socket).is_err_and(|error| error.kind() == ErrorKind::NotFound)
    }

    async fn answers(&self) -> bool {
        self.connect().await.is_ok()
    }

    /// Who it is, for a person.
    pub(crate) fn told(&self) -> String {
        match &self.url {
            Some(url) => format!("pid {}, {url}", self.pid),
            None => format!("pid {}, on standard streams", self.pid),
        }
    }
}

impl Claim {
    fn new(
        settings: &Settings,
        state: &Path,
        lock: File,
        root_lock: Option<RootLock>,
    ) -> Result<Self, String> {
        // Whoever was here before and was killed could not tidy up.
        if let Some(dead) = read(&state.join(LOCK)) {
            remove(&dead.socket);
            // The next socket has the same name: whoever finds that must not take this for who answers.
            lock.set_len(0)
                .map_err(|error| format!("cannot write the host's lock file: {error}"))?;
        }
        let socket = socket_path(settings, state);
        let folder = socket.parent().unwrap_or(state);
        private(folder).map_err(|error| {
            format!("cannot keep the host's socket in {}: {error}", folder.display())
        })?;
        Ok(Claim { lock, root_lock, socket })
    }

    /// The owner's socket: whoever can open it is the owner.
    pub(crate) fn bind(&self) -> Result<UnixListener, String> {
        remove(&self.socket);
        let listener = UnixListener::bind(&self.socket);
        let closed = listener.and_then(|listener| {
            fs::set_permissions(&self.socket, Permissions::from_mode(0o600))?;
            Ok(listener)
        });
        closed.map_err(|error| format!("cannot listen on {}: {error}", self.socket.display()))
    }

    /// Tells others where the host is, which listens from now on.
    pub(crate) fn announce(&mut self, running: &Running) -> Result<(), String> {
        let told = serde_json::to_vec(running).map_err(io::Error::other).and_then(|text| {
            self.lock.set_len(0)?;
            self.lock.write_all(&text)?;
            self.root_lock.as_mut().map_or(Ok(()), |lock| lock.announce(&text))
        });
        told.map_err(|error| format!("cannot write the host's lock file: {error}"))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        remove(&self.socket);
        // The file stays: another may be waiting to lock this very one.
        let _ = self.lock.set_len(0);
    }
}

fn read(path: &Path) -> Option<Running> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

fn word(dialect: Dialect) -> String {
    dialect.as_str().to_owned()
}

/// Only a socket is removed, whatever a file says.
fn remove(path: &Path) {
    if fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        // What cannot be removed fails where it is bound.
        let _ = fs::remove_file(path);
    }
}

/// In the state folder, or where its name is short enough.
fn socket_path(settings: &Settings, state: &Path) -> PathBuf {
    let given =
        |name: &str| settings.world.env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let shared = format!("toolcrib-{}", rustix::process::getuid().as_raw());
    let name = digits(state);
    let places = [
        Some(state.join(SOCKET)),
        given("XDG_RUNTIME_DIR").map(|folder| folder.join("toolcrib").join(&name)),
        given("TMPDIR").map(|folder| folder.join(&shared).join(&name)),
    ];
    let fits = |path: &PathBuf| path.as_os_str().len() <= LONGEST;
    let short = places.into_iter().flatten().find(fits);
    short.unwrap_or_else(|| Path::new("/tmp").join(&shared).join(&name))
}

/// Makes a folder that only its owner can look into. One that another has put there is refused.
fn private(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let found = fs::symlink_metadata(folder)?;
    if found.uid() != rustix::process::getuid().as_raw() || !fs::metadata(folder)?.is_dir() {
        return Err(io::Error::new(ErrorKind::PermissionDenied, "it is somebody else's"));
    }
    match found.permissions().mode() & 0o077 {
        0 => Ok(()),
        _ => fs::set_permissions(folder, Permissions::from_mode(0o700)),
    }
}
