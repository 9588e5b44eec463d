//! How fast each principal asks, on whichever way.

use std::sync::Arc;
use std::time::Duration;

use toolcrib_config::model::host::GatewayLimits;

use super::rate::Rates;
use super::{Limits, Refused};

/// What the rate of requests is counted in.
const SECOND: Duration = Duration::from_secs(1);

/// Requests of each principal. Clones count together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pace(Arc<Rates<Arc<str>>>);

impl Pace {
    /// Counts one more request of a principal.
    pub(crate) fn count(&self, who: &Arc<str>, limits: &GatewayLimits) -> Result<(), Refused> {
        let Some(most) = Limits::of(limits).rate else { return Ok(()) };
        self.0.count(who, most, SECOND).map_err(|wait| Refused::TooFast { most, wait })
    }
}
