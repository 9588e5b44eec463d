//! Process setup of every fuzz target, so that a stack overflow still saves its input.

pub mod config;
pub mod gateway;

/// Enough memory for libFuzzer to print a stack and write a file.
const STACK_BYTES: usize = 256 * 1024;

/// Lets libFuzzer's own handler run after a stack overflow.
///
/// Without the address sanitizer, which stable Rust lacks, the handler would start on the exhausted stack:
/// the process would die and lose the input. libFuzzer keeps an existing `SA_ONSTACK` flag, so setting the
/// flag on the default action and providing an alternate stack is enough.
pub fn survive_stack_overflow() {
    let stack: &'static mut [u8] = Box::leak(vec![0; STACK_BYTES].into_boxed_slice());
    // SAFETY: both structures are plain data and completely written before use. The memory of the alternate
    // stack is never freed. The function runs once, before libFuzzer starts any thread.
    let done = unsafe {
        let mut other: libc::stack_t = std::mem::zeroed();
        other.ss_sp = stack.as_mut_ptr().cast();
        other.ss_size = stack.len();
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = libc::SIG_DFL;
        action.sa_flags = libc::SA_ONSTACK;
        libc::sigaltstack(&other, std::ptr::null_mut())
            | libc::sigaction(libc::SIGSEGV, &action, std::ptr::null_mut())
    };
    assert_eq!(done, 0, "cannot set the alternate signal stack");
}

/// Ignores SIGPIPE, so that a write to a closed connection fails instead of ending the process. Rust's own
/// `main` does this; here libFuzzer provides `main`.
pub fn survive_broken_pipes() {
    // SAFETY: the call changes the disposition of one signal before libFuzzer starts any thread, and passes
    // no pointer.
    let before = unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    assert_ne!(before, libc::SIG_ERR, "cannot ignore SIGPIPE");
}
