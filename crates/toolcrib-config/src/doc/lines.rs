//! The lines of a file's text, so that an offset can be told as a place.

use std::fmt;
use std::sync::Arc;

use crate::place::Place;

/// Where each line begins, so that an offset can be shown as line and column.
#[derive(Clone, Default)]
pub struct Lines {
    text: Arc<str>,
    pub(super) starts: Arc<[usize]>,
    /// The characters before every `MARK`th byte: a line may be as long as the file.
    marks: Arc<[usize]>,
}

const MARK: usize = 1024;

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lines({})", self.starts.len())
    }
}

impl Lines {
    pub(super) fn of(text: &str) -> Self {
        let rest = text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i + 1);
        let starts: Vec<usize> = std::iter::once(0).chain(rest).collect();
        let marks = text.as_bytes().chunks(MARK).scan(0, |before, chunk| {
            let mark = *before;
            *before += characters(chunk);
            Some(mark)
        });
        Self { text: text.into(), starts: starts.into(), marks: marks.collect() }
    }

    pub(crate) fn place(&self, offset: usize) -> Place {
        let line = self.starts.partition_point(|start| *start <= offset).max(1);
        let start = self.starts.get(line - 1).copied().unwrap_or(0);
        let column = self.before(offset).saturating_sub(self.before(start));
        Place { line: line as u32, column: column as u32 + 1 }
    }

    /// The characters in front of an offset.
    fn before(&self, offset: usize) -> usize {
        let offset = offset.min(self.text.len());
        let mark = self.marks.get(offset / MARK).copied();
        let from = mark.map_or(0, |_| offset / MARK * MARK);
        let rest = self.text.as_bytes().get(from..offset).unwrap_or_default();
        mark.unwrap_or_default() + characters(rest)
    }

    /// The text of one line, counted from 1, without its end.
    pub fn line(&self, line: u32) -> Option<&str> {
        let index = (line as usize).checked_sub(1)?;
        let start = *self.starts.get(index)?;
        let end = self.starts.get(index + 1).copied().unwrap_or(self.text.len());
        Some(self.text.get(start..end)?.trim_end_matches(['\n', '\r']))
    }
}

fn characters(bytes: &[u8]) -> usize {
    bytes.iter().filter(|b| **b & 0xc0 != 0x80).count()
}
