//! Conversion of times to the file's milliseconds since 1970.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(super) fn to_millis(moment: SystemTime) -> i64 {
    let since = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Converts milliseconds. Values out of range become 1970.
pub(super) fn from_millis(millis: i64) -> SystemTime {
    let since = Duration::from_millis(u64::try_from(millis).unwrap_or(0));
    UNIX_EPOCH.checked_add(since).unwrap_or(UNIX_EPOCH)
}
