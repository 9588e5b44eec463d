//! Conversion of byte offsets to lines and columns.

use std::fmt;
use std::sync::Arc;

use crate::source_location::SourceLocation;

/// The line starts of a file's text, which convert byte offsets to locations.
#[derive(Clone, Default)]
pub struct LineIndex {
    text: Arc<str>,
    pub(super) starts: Arc<[usize]>,
    /// Number of characters before every `CHECKPOINT_BYTES`th byte, because a line may be as long as the file.
    checkpoints: Arc<[usize]>,
}

const CHECKPOINT_BYTES: usize = 1024;

impl fmt::Debug for LineIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lines({})", self.starts.len())
    }
}

impl LineIndex {
    pub(super) fn new(text: &str) -> Self {
        let rest = text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i + 1);
        let starts: Vec<usize> = std::iter::once(0).chain(rest).collect();
        let checkpoints = text.as_bytes().chunks(CHECKPOINT_BYTES).scan(0, |before, chunk| {
            let checkpoint = *before;
            *before += count_chars(chunk);
            Some(checkpoint)
        });
        Self { text: text.into(), starts: starts.into(), checkpoints: checkpoints.collect() }
    }

    pub(crate) fn location(&self, offset: usize) -> SourceLocation {
        let line = self.starts.partition_point(|start| *start <= offset).max(1);
        let start = self.starts.get(line - 1).copied().unwrap_or(0);
        let column = self.chars_before(offset).saturating_sub(self.chars_before(start));
        SourceLocation { line: line as u32, column: column as u32 + 1 }
    }

    /// Returns the number of characters before an offset.
    fn chars_before(&self, offset: usize) -> usize {
        let offset = offset.min(self.text.len());
        let checkpoint = self.checkpoints.get(offset / CHECKPOINT_BYTES).copied();
        let from = checkpoint.map_or(0, |_| offset / CHECKPOINT_BYTES * CHECKPOINT_BYTES);
        let rest = self.text.as_bytes().get(from..offset).unwrap_or_default();
        checkpoint.unwrap_or_default() + count_chars(rest)
    }

    /// Returns the text of a line, counted from 1, without its line ending.
    pub fn line_text(&self, line: u32) -> Option<&str> {
        let index = (line as usize).checked_sub(1)?;
        let start = *self.starts.get(index)?;
        let end = self.starts.get(index + 1).copied().unwrap_or(self.text.len());
        Some(self.text.get(start..end)?.trim_end_matches(['\n', '\r']))
    }
}

fn count_chars(bytes: &[u8]) -> usize {
    bytes.iter().filter(|b| **b & 0xc0 != 0x80).count()
}
