//! The key of a member, where it stands.

use std::borrow::Cow;

use crate::scan::Span;
use crate::text::unquote;

/// Where a key stands, quotes included, and whether it is free of escapes, as nearly all are.
pub(crate) struct Key {
    pub(crate) span: Span,
    is_plain: bool,
}

impl Key {
    #[inline]
    pub(crate) fn new(span: Span, is_plain: bool) -> Self {
        Key { span, is_plain }
    }

    /// What it says, in the text it was found in.
    #[inline]
    pub(crate) fn read<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match text.get(self.span.start + 1..self.span.end - 1) {
            Some(inner) if self.is_plain => Cow::Borrowed(inner),
            _ => unquote(&text[self.span.clone()]),
        }
    }
}
