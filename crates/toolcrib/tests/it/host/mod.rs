//! The host as a program uses it.

mod admin;
mod asking;
mod atomic;
mod basics;
mod crowd;
mod events;
mod folders;
mod lazy;
mod leases;
mod problems;
mod reload;
pub(crate) mod stage;
mod succession;
mod team;
