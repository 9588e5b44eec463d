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

impl Limits {
    pub(crate) fn check_size(&self, size: usize) -> Result<(), Fault> {
        if size > self.size {
            return Err(Fault::TooLarge { size, limit: self.size });
        }
        Ok(())
    }
}
