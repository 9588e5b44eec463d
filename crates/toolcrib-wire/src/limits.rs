//! What a message may cost before it is refused.

use crate::malformed::Fault;

/// Bounds on one message. The defaults are far above what a sane peer sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one message.
    pub size: usize,
    /// Levels of nested objects and arrays.
    pub depth: usize,
    /// Messages in one batch. Each costs far more memory than the two bytes it may take on the wire.
    pub batch: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { size: 64 * 1024 * 1024, depth: 128, batch: 10_000 }
    }
}

/// No message is longer, whatever is allowed: places in it are told in 32 bits.
const LONGEST: usize = u32::MAX as usize;

impl Limits {
    pub(crate) fn check_size(&self, size: usize) -> Result<(), Fault> {
        let limit = self.size.min(LONGEST);
        if size > limit {
            return Err(Fault::TooLarge { size, limit });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_no_longer_than_is_allowed_nor_than_places_can_tell() {
        for (allowed, size, limit) in [
            (10, 10, None),
            (10, 11, Some(10)),
            (usize::MAX, LONGEST, None),
            (usize::MAX, LONGEST + 1, Some(LONGEST)),
        ] {
            let refused = limit.map(|limit| Fault::TooLarge { size, limit });
            let limits = Limits { size: allowed, ..Limits::default() };
            assert_eq!(limits.check_size(size).err(), refused, "{size} of {allowed}");
        }
    }
}
