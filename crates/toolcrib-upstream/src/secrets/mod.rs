//! Where secrets come from and live: stores that configuration refers to, what people were asked for, and a keep of
//! credentials that outlives every host.

mod cached;
mod command;
mod file;
mod keep;
mod keyring;
mod sources;
mod unresolved;
mod vault;

pub use keep::{Keep, KeepError, KeepLock, Standing, Storage};
pub use keyring::KeyringError;
pub use sources::{Found, Means, Sources, input_name};
pub use unresolved::{Gap, Unresolved, Why};
