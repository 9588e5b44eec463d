//! Position of a member's key.

use std::borrow::Cow;

use crate::quoting::unquote;
use crate::scanner::Span;

/// Range of a key with its quotes, and whether it has no escapes, as nearly all keys.
pub(crate) struct Key {
    pub(crate) span: Span,
    is_plain: bool,
}

impl Key {
    #[inline]
    pub(crate) fn new(span: Span, is_plain: bool) -> Self {
        Key { span, is_plain }
    }

    /// Returns the decoded key from the text in which it was found.
    #[inline]
    pub(crate) fn read<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match text.get(self.span.start + 1..self.span.end - 1) {
            Some(inner) if self.is_plain => Cow::Borrowed(inner),
            _ => unquote(&text[self.span.clone()]),
        }
    }
}
