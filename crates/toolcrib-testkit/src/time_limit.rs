//! A bound on every wait of a test, so that a hang is a failure with a text.

use std::future::Future;
use std::time::Duration;

use tokio::time::timeout;

/// Generous, because it only bounds a failure.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Awaits `future` for at most [`LIMIT`].
///
/// # Panics
/// When the limit passes.
pub async fn within<F: Future>(future: F) -> F::Output {
    match timeout(LIMIT, future).await {
        Ok(output) => output,
        Err(_) => panic!("not within {LIMIT:?}"),
    }
}
