//! The brackets that are open while a value is scanned.

/// One bit a bracket. The innermost sixty-four are in a number, so that no usual value allocates, and a hostile
/// one costs a bit of memory a level until the depth limit ends it.
#[derive(Default)]
pub(crate) struct Nest {
    depth: usize,
    /// Whether each is that of an object, the innermost lowest.
    inner: u64,
    outer: Vec<u64>,
}

impl Nest {
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

    /// Whether the innermost is an object.
    #[inline]
    pub(crate) fn is_object(&self) -> bool {
        self.inner & 1 == 1
    }

    /// Whether the number holds just what the next one pushes out.
    #[inline]
    fn is_between_words(&self) -> bool {
        self.depth != 0 && self.depth.is_multiple_of(u64::BITS as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_close_in_the_order_in_which_they_did_not_open() {
        let is_object = |level: usize| level.is_multiple_of(3) || level.is_multiple_of(7);
        for deepest in [1, 2, 63, 64, 65, 127, 128, 129, 200, 1000] {
            let mut nest = Nest::default();
            // Twice, so that borders are crossed in both directions.
            for floor in [deepest / 2, 0] {
                for level in nest.depth()..deepest {
                    nest.open(is_object(level));
                    assert_eq!((nest.depth(), nest.is_object()), (level + 1, is_object(level)));
                }
                for level in (floor..deepest).rev() {
                    assert_eq!((nest.depth(), nest.is_object()), (level + 1, is_object(level)));
                    nest.close();
                }
                assert_eq!(nest.depth(), floor);
            }
        }
    }
}
