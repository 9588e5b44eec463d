//! The host as a program uses it.

mod address;
mod admin;
mod agents;
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
mod login;
mod lost;
mod native;
mod pins;
mod problems;
mod real;
mod reload;
pub(crate) mod stage;
mod succession;
mod team;
mod trust;
