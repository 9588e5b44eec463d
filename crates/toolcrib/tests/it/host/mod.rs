//! The host as a program uses it.

mod admin;
mod asking;
mod atomic;
mod basics;
mod calls;
mod changes;
mod crowd;
mod documents;
mod events;
mod folders;
mod lazy;
mod leases;
mod lost;
mod native;
mod problems;
mod real;
mod reload;
pub(crate) mod stage;
mod succession;
mod team;
