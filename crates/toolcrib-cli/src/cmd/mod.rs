//! The commands, one module each.

pub(crate) mod accept;
pub(crate) mod call;
pub(crate) mod check;
pub(crate) mod connect;
pub(crate) mod demo_server;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod import;
pub(crate) mod login;
pub(crate) mod logout;
pub(crate) mod problems;
pub(crate) mod prompt;
pub(crate) mod prompts;
pub(crate) mod read;
pub(crate) mod reload;
pub(crate) mod resources;
pub(crate) mod serve;
pub(crate) mod server;
pub(crate) mod servers;
pub(crate) mod status;
pub(crate) mod token;
pub(crate) mod tools;
pub(crate) mod trust;
pub(crate) mod why;
