//! Where secrets live: a keep of credentials that outlives every host.

mod keep;

pub use keep::{Keep, KeepError, KeepLock, Storage};
