//! Tests of connections with scripted servers.

mod shutdown;
mod eras;
mod failures;
mod http;
mod lists;
mod startup;
