//! Stack of the open brackets during a JSON scan.

/// Stores one bit per bracket. The innermost 64 bits are in one number, so usual values do not allocate. A hostile
/// value costs one bit per level until the depth limit stops it.
#[derive(Default)]
pub(crate) struct BracketStack {
    depth: usize,
    /// One bit per bracket, set for an object. The innermost bracket is the lowest bit.
    inner: u64,
    outer: Vec<u64>,
}

impl BracketStack {
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    #[inline]
    pub(crate) fn open(&mut self, is_object: bool) {
        if self.is_between_words() {
            self.outer.push(self.inner);
        }
        self.inner = self.inner << 1 | u64::from(is_object);
        self.depth += 1;
    }

    #[inline]
    pub(crate) fn close(&mut self) {
        self.inner >>= 1;
        self.depth = self.depth.saturating_sub(1);
        if self.is_between_words() {
            self.inner = self.outer.pop().unwrap_or_default();
        }
    }

    /// Returns whether the innermost bracket is an object's.
    #[inline]
    pub(crate) fn is_object(&self) -> bool {
        self.inner & 1 == 1
    }

    /// Returns whether `inner` is full and the next bracket pushes it to `outer`.
    #[inline]
    fn is_between_words(&self) -> bool {
        self.depth != 0 && self.depth.is_multiple_of(u64::BITS as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_close_in_reverse_order() {
        let is_object = |level: usize| level.is_multiple_of(3) || level.is_multiple_of(7);
        for deepest in [1, 2, 63, 64, 65, 127, 128, 129, 200, 1000] {
            let mut stack = BracketStack::default();
            // Two rounds cross the word borders in both directions.
            for floor in [deepest / 2, 0] {
                for level in stack.depth()..deepest {
                    stack.open(is_object(level));
                    assert_eq!((stack.depth(), stack.is_object()), (level + 1, is_object(level)));
                }
                for level in (floor..deepest).rev() {
                    assert_eq!((stack.depth(), stack.is_object()), (level + 1, is_object(level)));
                    stack.close();
                }
                assert_eq!(stack.depth(), floor);
            }
        }
    }
}
