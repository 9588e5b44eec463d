//! What the tests of several modules begin with.

use crate::limits::Limits;
use crate::raw::Raw;

pub(crate) fn raw(text: &str) -> Raw {
    Raw::parse(text, &Limits::default()).unwrap()
}
