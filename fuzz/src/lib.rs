//! What every fuzz target starts with: a stack overflow must leave its input behind.

pub mod config;
pub mod gateway;

/// Enough for libFuzzer to print a stack and write a file.
const STACK_BYTES: usize = 256 * 1024;

/// Lets libFuzzer's own handler run when the stack is used up.
///
/// Without the address sanitizer, which stable Rust has not, the handler would start on the very stack
/// that is full: the process dies and the input is lost. libFuzzer keeps `SA_ONSTACK` where it finds
/// it, so it is enough to leave that flag on the default action and to provide the other stack.
pub fn survive_stack_overflow() {
    let stack: &'static mut [u8] = Box::leak(vec![0; STACK_BYTES].into_boxed_slice());
    // SAFETY: both structures are plain data, completely written before use; the memory of the other
    // stack is never freed; this runs once, before libFuzzer starts any thread.
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
    assert_eq!(done, 0, "the other signal stack could not be set");
}

/// What every program with a `main` of Rust's own does: whoever writes to one who has gone is told, and not ended.
/// Here libFuzzer has the `main`.
pub fn survive_broken_pipes() {
    // SAFETY: it changes how the process takes one signal, before libFuzzer starts any thread.
    let before = unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    assert_ne!(before, libc::SIG_ERR, "broken pipes could not be ignored");
}
