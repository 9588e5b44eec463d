//! Limits on the size of one message.

use crate::parse_error::ParseError;

/// Limits on one message. The defaults are far above the needs of a sane peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageLimits {
    /// Maximum bytes of one message.
    pub size: usize,
    /// Maximum levels of nested objects and arrays.
    pub depth: usize,
    /// Maximum messages in one batch. Each message costs far more memory than its two bytes on the wire.
    pub batch: usize,
}

impl Default for MessageLimits {
    fn default() -> Self {
        MessageLimits { size: 64 * 1024 * 1024, depth: 128, batch: 10_000 }
    }
}

/// Maximum length of any message, because positions in it have 32 bits.
const LONGEST: usize = u32::MAX as usize;

impl MessageLimits {
    pub(crate) fn check_size(&self, size: usize) -> Result<(), ParseError> {
        let limit = self.size.min(LONGEST);
        if size > limit {
            return Err(ParseError::TooLarge { size, limit });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_size_is_limited_by_setting_and_by_32_bit_spans() {
        for (allowed, size, limit) in [
            (10, 10, None),
            (10, 11, Some(10)),
            (usize::MAX, LONGEST, None),
            (usize::MAX, LONGEST + 1, Some(LONGEST)),
        ] {
            let refused = limit.map(|limit| ParseError::TooLarge { size, limit });
            let limits = MessageLimits { size: allowed, ..MessageLimits::default() };
            assert_eq!(limits.check_size(size).err(), refused, "{size} of {allowed}");
        }
    }
}
