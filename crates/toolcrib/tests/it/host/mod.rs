//! The host as a program uses it.

mod basics;
pub(crate) mod stage;
