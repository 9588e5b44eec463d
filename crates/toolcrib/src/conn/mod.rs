//! The life of one connection to a server, and the conversation over it.

pub mod peer;
