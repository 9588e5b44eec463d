//! Tests of connections with scripted servers.

mod eras;
mod failures;
mod http;
mod lists;
mod shutdown;
mod startup;
