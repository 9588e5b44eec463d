//! Streamable HTTP against a scripted server and a real one.

mod answers;
mod faults;
mod peer;
mod sessions;
mod tokens;
