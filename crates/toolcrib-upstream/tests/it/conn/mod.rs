//! Connections from their first want to their end, with scripted servers.

mod ending;
mod eras;
mod failing;
mod http;
mod lists;
mod opening;
