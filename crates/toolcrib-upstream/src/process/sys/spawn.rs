//! Linux: spawns with `clone(CLONE_VM | CLONE_VFORK)`, like `posix_spawn`, instead of `fork`.
//!
//! std uses `posix_spawn` only if the child has nothing to do before `execve`, and forks otherwise. A fork
//! copies the page tables of the whole host, and every page that the host writes to afterwards is copied
//! again for each child. With fifty servers that was most of the startup time.

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

use super::{Cgroup, SpawnedProcess};
use crate::process::launch::LaunchSpec;
use crate::process::owner_mark::{OWNER_VARIABLE, OwnerMark};

/// Stack size of the child before `execve`. Its call depth is small.
const STACK_SIZE: usize = 64 << 10;

/// Runs an executable text file without an interpreter line, as `execvp` does.
const SHELL: &CStr = c"/bin/sh";

/// Starts a program in its own process group, and in this cgroup if possible. The kernel kills the program
/// when the calling *thread* ends.
pub(crate) fn spawn(
    launch: &LaunchSpec,
    mark: OwnerMark,
    cgroup: Option<&Cgroup>,
) -> io::Result<SpawnedProcess> {
    let procs = cgroup.and_then(|cgroup| cgroup.open_procs().ok());
    let image = ExecImage::new(launch, mark)?;
    let (input, stdin) = io::pipe()?;
    let (stdout, output) = io::pipe()?;
    let (stderr, errors) = io::pipe()?;
    let setup = ChildSetup {
        image: &image,
        streams: [input.as_fd(), output.as_fd(), errors.as_fd()],
        cgroup: procs.as_ref().map(AsFd::as_fd),
        is_in_cgroup: AtomicBool::new(false),
        parent: getpid(),
        fault: AtomicI32::new(0),
    };
    let pid = setup.clone_child()?;
    Ok(SpawnedProcess {
        pid,
        stdin: OwnedFd::from(stdin).into(),
        stdout: OwnedFd::from(stdout).into(),
        stderr: OwnedFd::from(stderr).into(),
        is_in_cgroup: setup.is_in_cgroup.load(Ordering::Relaxed),
    })
}

/// Everything that `execve` needs, allocated before the clone: the child must not allocate.
struct ExecImage {
    /// Candidate paths of the program in search order.
    files: Vec<CString>,
    cwd: CString,
    args: CStringArray,
    /// Arguments of the shell; the script's path is set at index 1.
    script: CStringArray,
    env: CStringArray,
}

/// A null-terminated array of C strings, as `execve` expects.
struct CStringArray {
    pointers: Vec<Cell<*const c_char>>,
    _strings: Vec<CString>,
}

impl ExecImage {
    fn new(launch: &LaunchSpec, mark: OwnerMark) -> io::Result<Self> {
        let texts = [&launch.program].into_iter().chain(&launch.args);
        let args =
            texts.map(|text| CString::new(text.as_bytes())).collect::<Result<Vec<_>, _>>()?;
        let own = launch.env.iter().filter(|(name, _)| *name != OWNER_VARIABLE);
        let own = own.map(|(name, value)| [name.as_bytes(), value.as_bytes()].join(&b'='));
        let env = own.chain([format!("{OWNER_VARIABLE}={mark}").into_bytes()]);
        let files =
            launch.candidate_paths().map(|file| CString::new(file.into_os_string().into_vec()));
        let script = [SHELL.to_owned(), CString::default()].into_iter();
        Ok(ExecImage {
            files: files.collect::<Result<_, _>>()?,
            cwd: CString::new(launch.cwd.as_os_str().as_bytes())?,
            script: CStringArray::new(script.chain(args.iter().skip(1).cloned()).collect()),
            args: CStringArray::new(args),
            env: CStringArray::new(env.map(CString::new).collect::<Result<_, _>>()?),
        })
    }
}

impl CStringArray {
    fn new(texts: Vec<CString>) -> Self {
        let pointers = texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]);
        CStringArray { pointers: pointers.map(Cell::new).collect(), _strings: texts }
    }

    fn as_ptr(&self) -> *const *const c_char {
        self.pointers.as_ptr().cast()
    }
}

/// The child's work before `execve`. The child shares the host's memory; the cloning thread is suspended
/// meanwhile, but all other threads run. Therefore the child takes no lock, allocates nothing, and makes only
/// system calls.
struct ChildSetup<'a> {
    image: &'a ExecImage,
    streams: [BorrowedFd<'a>; 3],
    /// The cgroup's `cgroup.procs` file.
    cgroup: Option<BorrowedFd<'a>>,
    is_in_cgroup: AtomicBool,
    parent: Pid,
    /// Error number of a failed setup or `execve`; 0 on success.
    fault: AtomicI32,
}

impl ChildSetup<'_> {
    #[allow(unsafe_code, reason = "std forks if a child has work to do before `execve`")]
    fn clone_child(&self) -> io::Result<Pid> {
        let mut stack = Box::<[u128]>::new_uninit_slice(STACK_SIZE / size_of::<u128>());
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        let blocked = BlockedSignals::block_all();
        // SAFETY: the child runs `child_main` on its own aligned stack, which grows down from the given end.
        // CLONE_VFORK suspends this thread until the child calls `execve` or exits, so the stack, `self` and
        // everything it refers to outlive their use. No signal handler of the host runs in the child: all
        // signals are blocked until the child has reset the handlers.
        let pid = unsafe {
            let end = stack.as_mut_ptr_range().end.cast::<c_void>();
            libc::clone(child_main, end, flags, ptr::from_ref(self).cast_mut().cast())
        };
        let error = io::Error::last_os_error();
        drop(blocked);
        let pid = Pid::from_raw(pid.max(0)).ok_or(error)?;
        match self.fault.load(Ordering::Relaxed) {
            0 => Ok(pid),
            fault => {
                // The child has exited. `waitpid` fails only if other code has reaped it already.
                let _ = retry_on_intr(|| waitpid(Some(pid), WaitOptions::empty()));
                Err(io::Error::from_raw_os_error(fault))
            }
        }
    }

    /// Returns only on failure.
    fn setup_and_exec(&self) -> Errno {
        match self.prepare() {
            Ok(()) => self.execute_candidates(),
            Err(fault) => fault,
        }
    }

    fn prepare(&self) -> Result<(), Errno> {
        reset_signal_handlers();
        setpgid(None, None)?;
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // If the parent died before the request, the kernel sends no signal. The child then has another
        // parent.
        if getppid() != Some(self.parent) {
            return Err(Errno::SRCH);
        }
        // Joins the cgroup before the program can start other processes. Without a cgroup the program runs
        // all the same.
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

    /// Executes the first executable candidate, with the rules of `execvp`.
    fn execute_candidates(&self) -> Errno {
        let ExecImage { files, args, script, env, .. } = self.image;
        set_signal_mask(&signal_set(libc::sigemptyset));
        let mut last = Errno::NOENT;
        for file in files {
            let mut fault = execute(file, args, env);
            if fault == Errno::NOEXEC
                && let Some(place) = script.pointers.get(1)
            {
                place.set(file.as_ptr());
                fault = execute(SHELL, script, env);
            }
            match fault {
                Errno::ACCESS => last = fault,
                _ if continues_search(fault) => {}
                _ => return fault,
            }
        }
        last
    }
}

/// Entry point of the child.
#[allow(unsafe_code, reason = "the child receives its argument as a raw pointer")]
extern "C" fn child_main(setup: *mut c_void) -> c_int {
    // SAFETY: the pointer is the `&ChildSetup` that `clone_child` passed, which outlives the child's use of
    // it.
    let setup = unsafe { &*setup.cast::<ChildSetup<'_>>() };
    setup.fault.store(setup.setup_and_exec().raw_os_error(), Ordering::Relaxed);
    // SAFETY: `_exit` ends the child without running any code of the host.
    unsafe { libc::_exit(127) }
}

/// Returns whether the search continues with the next folder.
fn continues_search(fault: Errno) -> bool {
    matches!(fault, Errno::NOENT | Errno::STALE | Errno::NOTDIR | Errno::NODEV | Errno::TIMEDOUT)
}

/// Returns only on failure.
#[allow(unsafe_code, reason = "std has no bare `execve`")]
fn execute(file: &CStr, args: &CStringArray, env: &CStringArray) -> Errno {
    // SAFETY: `file` is a C string, and both arrays are null-terminated arrays of C strings that
    // `CStringArray` keeps alive.
    unsafe { libc::execve(file.as_ptr(), args.as_ptr(), env.as_ptr()) };
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// Resets every signal handler, as `execve` would, and the SIGPIPE that Rust ignores.
#[allow(unsafe_code, reason = "std has no signal API")]
fn reset_signal_handlers() {
    for number in 1..=64 {
        // SAFETY: a zeroed `sigaction` is valid and means the default action. The kernel rejects invalid
        // signal numbers.
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

/// Blocks all signals in this thread while it exists.
struct BlockedSignals(libc::sigset_t);

impl BlockedSignals {
    fn block_all() -> Self {
        BlockedSignals(set_signal_mask(&signal_set(libc::sigfillset)))
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        set_signal_mask(&self.0);
    }
}

/// Sets the signal mask of the calling thread and returns the previous one.
#[allow(unsafe_code, reason = "std has no signal API")]
fn set_signal_mask(signals: &libc::sigset_t) -> libc::sigset_t {
    let mut before = signal_set(libc::sigemptyset);
    // SAFETY: both pointers refer to valid signal sets. SIG_SETMASK with a valid set cannot fail.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, signals, &raw mut before) };
    before
}

#[allow(unsafe_code, reason = "std has no signal API")]
fn signal_set(fill: unsafe extern "C" fn(*mut libc::sigset_t) -> c_int) -> libc::sigset_t {
    // SAFETY: a zeroed `sigset_t` is valid, and `fill` only initialises it.
    unsafe {
        let mut set = MaybeUninit::zeroed().assume_init();
        fill(&raw mut set);
        set
    }
}
