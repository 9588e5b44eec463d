//! Limits every wait of a test, so that a hang becomes a failure with a message.

use std::future::Future;
use std::time::Duration;

use tokio::time::timeout;

/// Generous, because the limit only matters when a test fails.
pub const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Awaits `future` for at most [`TIME_LIMIT`].
///
/// # Panics
/// When the limit passes.
pub async fn with_time_limit<F: Future>(future: F) -> F::Output {
    match timeout(TIME_LIMIT, future).await {
        Ok(output) => output,
        Err(_) => panic!("no result within {TIME_LIMIT:?}"),
    }
}
