//! The host as a program uses it.

mod basics;
mod calls;
mod documents;
mod lost;
mod native;
mod real;
pub(crate) mod stage;
