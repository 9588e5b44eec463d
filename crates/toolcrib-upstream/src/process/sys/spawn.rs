//! Linux: a child borrows the host's memory until it has become another program, as with `posix_spawn`.
//!
//! std does so only where nothing is to be done in between, and forks where there is. A fork copies the page tables of
//! the whole host, and every page that the host writes to afterwards is copied once more, for each child anew: with
//! fifty servers that was most of what their start took.

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use rustix::io::{Errno, retry_on_intr, write};
use rustix::process::{
    Pid, Signal, WaitOptions, chdir, getpid, getppid, set_parent_process_death_signal, setpgid,
    waitpid,
};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

use super::{Born, Cgroup};
use crate::process::launch::Launch;
use crate::process::mark::{Mark, OWNER_VARIABLE};

/// What a child needs until it has a program of its own is a few calls deep.
const STACK: usize = 64 << 10;

/// What runs a file that is executable and no program, as `execvp` has it.
const SHELL: &CStr = c"/bin/sh";

/// Starts a program in its own group, and in this cgroup if that is possible. The kernel kills it when the calling
/// *thread* ends, however it ends.
pub(crate) fn spawn(launch: &Launch, mark: Mark, cgroup: Option<&Cgroup>) -> io::Result<Born> {
    let procs = cgroup.and_then(|cgroup| cgroup.procs().ok());
    let image = Image::of(launch, mark)?;
    let (input, stdin) = io::pipe()?;
    let (stdout, output) = io::pipe()?;
    let (stderr, errors) = io::pipe()?;
    let errand = Errand {
        image: &image,
        streams: [input.as_fd(), output.as_fd(), errors.as_fd()],
        cgroup: procs.as_ref().map(AsFd::as_fd),
        is_in_cgroup: AtomicBool::new(false),
        parent: getpid(),
        fault: AtomicI32::new(0),
    };
    let pid = errand.send()?;
    Ok(Born {
        pid,
        stdin: OwnedFd::from(stdin).into(),
        stdout: OwnedFd::from(stdout).into(),
        stderr: OwnedFd::from(stderr).into(),
        is_in_cgroup: errand.is_in_cgroup.load(Ordering::Relaxed),
    })
}

/// All that becomes of a launch, written down before there is a child: that may allocate nothing.
struct Image {
    /// Where the program may be, the likeliest first.
    files: Vec<CString>,
    cwd: CString,
    args: Pointers,
    /// The same for the shell; the file goes into its second place.
    script: Pointers,
    env: Pointers,
}

/// Texts and their addresses, ended by none, as `execve` wants them.
struct Pointers {
    places: Vec<Cell<*const c_char>>,
    _texts: Vec<CString>,
}

impl Image {
    fn of(launch: &Launch, mark: Mark) -> io::Result<Self> {
        let texts = [&launch.program].into_iter().chain(&launch.args);
        let args =
            texts.map(|text| CString::new(text.as_bytes())).collect::<Result<Vec<_>, _>>()?;
        let own = launch.env.iter().filter(|(name, _)| *name != OWNER_VARIABLE);
        let own = own.map(|(name, value)| [name.as_bytes(), value.as_bytes()].join(&b'='));
        let env = own.chain([format!("{OWNER_VARIABLE}={mark}").into_bytes()]);
        let files = launch.files().map(|file| CString::new(file.into_os_string().into_vec()));
        let script = [SHELL.to_owned(), CString::default()].into_iter();
        Ok(Image {
            files: files.collect::<Result<_, _>>()?,
            cwd: CString::new(launch.cwd.as_os_str().as_bytes())?,
            script: Pointers::to(script.chain(args.iter().skip(1).cloned()).collect()),
            args: Pointers::to(args),
            env: Pointers::to(env.map(CString::new).collect::<Result<_, _>>()?),
        })
    }
}

impl Pointers {
    fn to(texts: Vec<CString>) -> Self {
        let places = texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]);
        Pointers { places: places.map(Cell::new).collect(), _texts: texts }
    }

    fn first(&self) -> *const *const c_char {
        self.places.as_ptr().cast()
    }
}

/// What a child does before it is a program. It shares the host's memory, and the thread that sent it stands still
/// meanwhile; all others go on. So it takes no lock, allocates nothing, and calls nothing but the kernel.
struct Errand<'a> {
    image: &'a Image,
    streams: [BorrowedFd<'a>; 3],
    /// The file by which it joins its cgroup.
    cgroup: Option<BorrowedFd<'a>>,
    is_in_cgroup: AtomicBool,
    parent: Pid,
    /// Why it did not become a program.
    fault: AtomicI32,
}

impl Errand<'_> {
    #[allow(unsafe_code, reason = "std forks where a child has something to do before `execve`")]
    fn send(&self) -> io::Result<Pid> {
        let mut stack = Box::<[u128]>::new_uninit_slice(STACK / size_of::<u128>());
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        let silence = Silence::begin();
        // SAFETY: the child runs `run` on a stack of its own that grows down from the end it is given, and is aligned.
        // With CLONE_VFORK this thread does not go on before the child has another memory or has ended, so that
        // the stack, the errand and all it refers to outlive its use. No handler of the host runs in the child:
        // every signal is blocked until it has set them back.
        let pid = unsafe {
            let end = stack.as_mut_ptr_range().end.cast::<c_void>();
            libc::clone(run, end, flags, ptr::from_ref(self).cast_mut().cast())
        };
        let error = io::Error::last_os_error();
        drop(silence);
        let pid = Pid::from_raw(pid.max(0)).ok_or(error)?;
        match self.fault.load(Ordering::Relaxed) {
            0 => Ok(pid),
            fault => {
                // It has ended. That somebody else has reaped it is as good.
                let _ = retry_on_intr(|| waitpid(Some(pid), WaitOptions::empty()));
                Err(io::Error::from_raw_os_error(fault))
            }
        }
    }

    /// Returns only if it fails.
    fn perform(&self) -> Errno {
        match self.prepare() {
            Ok(()) => self.execute(),
            Err(fault) => fault,
        }
    }

    fn prepare(&self) -> Result<(), Errno> {
        forget_handlers();
        setpgid(None, None)?;
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // A parent that died before the request sends no signal any more; the child then has another parent.
        if getppid() != Some(self.parent) {
            return Err(Errno::SRCH);
        }
        // Before there is a program that could start another process. Without a cgroup the program runs all the same.
        if let Some(procs) = self.cgroup {
            let joined = retry_on_intr(|| write(procs, b"0"));
            self.is_in_cgroup.store(joined.is_ok(), Ordering::Relaxed);
        }
        let [stdin, stdout, stderr] = self.streams;
        retry_on_intr(|| dup2_stdin(stdin))?;
        retry_on_intr(|| dup2_stdout(stdout))?;
        retry_on_intr(|| dup2_stderr(stderr))?;
        chdir(self.image.cwd.as_c_str())
    }

    /// Becomes the first file that can be executed; what counts as such is as with `execvp`.
    fn execute(&self) -> Errno {
        let Image { files, args, script, env, .. } = self.image;
        block(&signals(libc::sigemptyset));
        let mut last = Errno::NOENT;
        for file in files {
            let mut fault = execute(file, args, env);
            if fault == Errno::NOEXEC
                && let Some(place) = script.places.get(1)
            {
                place.set(file.as_ptr());
                fault = execute(SHELL, script, env);
            }
            match fault {
                Errno::ACCESS => last = fault,
                _ if is_elsewhere(fault) => {}
                _ => return fault,
            }
        }
        last
    }
}

/// Where an errand begins.
#[allow(unsafe_code, reason = "the kernel hands on an address")]
extern "C" fn run(errand: *mut c_void) -> c_int {
    // SAFETY: it is what `send` gave, which lives until the child does not need it any more.
    let errand = unsafe { &*errand.cast::<Errand<'_>>() };
    errand.fault.store(errand.perform().raw_os_error(), Ordering::Relaxed);
    // SAFETY: ends the child and runs nothing of the host's on the way.
    unsafe { libc::_exit(127) }
}

/// Whether the program may be in a later folder.
fn is_elsewhere(fault: Errno) -> bool {
    matches!(fault, Errno::NOENT | Errno::STALE | Errno::NOTDIR | Errno::NODEV | Errno::TIMEDOUT)
}

/// Returns only if it fails.
#[allow(unsafe_code, reason = "std offers `execve` only with what it does itself before")]
fn execute(file: &CStr, args: &Pointers, env: &Pointers) -> Errno {
    // SAFETY: all three are texts, or lists of their addresses that end with none, which `Pointers` keeps.
    unsafe { libc::execve(file.as_ptr(), args.first(), env.first()) };
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// Every handler is set back, as `execve` would do, and so is what Rust ignores.
#[allow(unsafe_code, reason = "std knows nothing of signals")]
fn forget_handlers() {
    for number in 1..=64 {
        // SAFETY: all zeroes is an action: the default one. Numbers that are none are refused.
        unsafe {
            let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
            let is_known = libc::sigaction(number, ptr::null(), &raw mut action) == 0;
            let is_kept = action.sa_sigaction == libc::SIG_DFL
                || (action.sa_sigaction == libc::SIG_IGN && number != libc::SIGPIPE);
            if is_known && !is_kept {
                action = MaybeUninit::zeroed().assume_init();
                libc::sigaction(number, &raw const action, ptr::null_mut());
            }
        }
    }
}

/// While it lives, this thread hears no signal.
struct Silence(libc::sigset_t);

impl Silence {
    fn begin() -> Self {
        Silence(block(&signals(libc::sigfillset)))
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        block(&self.0);
    }
}

/// Blocks just these in the calling thread; those that were blocked before.
#[allow(unsafe_code, reason = "std knows nothing of signals")]
fn block(these: &libc::sigset_t) -> libc::sigset_t {
    let mut before = signals(libc::sigemptyset);
    // SAFETY: both are sets. It cannot fail: what is asked for exists.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, these, &raw mut before) };
    before
}

#[allow(unsafe_code, reason = "std knows nothing of signals")]
fn signals(fill: unsafe extern "C" fn(*mut libc::sigset_t) -> c_int) -> libc::sigset_t {
    // SAFETY: all zeroes is a set, and filling it, or not, makes it another.
    unsafe {
        let mut set = MaybeUninit::zeroed().assume_init();
        fill(&raw mut set);
        set
    }
}
