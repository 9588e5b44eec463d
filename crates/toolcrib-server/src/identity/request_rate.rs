//! Limits the request rate of each principal, over all transports.

use std::sync::Arc;
use std::time::Duration;

use toolcrib_config::model::host::GatewayLimits;

use super::rate_limiter::RateLimiter;
use super::{AccessDenied, PrincipalLimits};

/// Period of the request rate.
const SECOND: Duration = Duration::from_secs(1);

/// Request rates by principal. Clones share the counters.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestRate(Arc<RateLimiter<Arc<str>>>);

impl RequestRate {
    /// Counts one request of a principal.
    pub(crate) fn count_request(
        &self,
        principal: &Arc<str>,
        limits: &GatewayLimits,
    ) -> Result<(), AccessDenied> {
        let Some(limit) = PrincipalLimits::from_config(limits).rate else { return Ok(()) };
        self.0
            .try_acquire(principal, limit, SECOND)
            .map_err(|wait| AccessDenied::RateLimited { limit, wait })
    }
}
