//! Helpers for the tests of several modules.

use crate::limits::MessageLimits;
use crate::raw_json::RawJson;

pub(crate) fn raw(text: &str) -> RawJson {
    RawJson::parse(text, &MessageLimits::default()).unwrap()
}
