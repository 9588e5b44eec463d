//! One file for each command.

pub(crate) mod check;
pub(crate) mod demo_server;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod import;
