//! Conversion of times to the file's milliseconds since 1970.

use std::time::SystemTime;

use jiff::Timestamp;

/// Converts a time. Times before 1970 become 1970.
pub(super) fn to_millis(time: SystemTime) -> i64 {
    Timestamp::try_from(time).unwrap_or(Timestamp::MAX).as_millisecond().max(0)
}

/// Converts milliseconds. Values out of range become 1970.
pub(super) fn from_millis(millis: i64) -> SystemTime {
    Timestamp::from_millisecond(millis.max(0)).unwrap_or(Timestamp::UNIX_EPOCH).into()
}
