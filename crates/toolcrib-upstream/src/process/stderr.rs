//! A child's stderr: always drained, so that the child never blocks, and kept up to a limit.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt};

use crate::signals::SecretMask;

/// The newest part of a child's stderr. Clones share it. It stays readable after the child's exit.
#[derive(Clone)]
pub struct StderrTail(Arc<Mutex<StderrBuffer>>);

impl StderrTail {
    pub(crate) fn new(limit: usize) -> Self {
        let buffer =
            StderrBuffer { bytes: VecDeque::new(), limit, dropped: 0, mask: SecretMask::default() };
        Self(Arc::new(Mutex::new(buffer)))
    }

    /// Returns the kept bytes as text with the secrets masked. Invalid UTF-8 becomes U+FFFD.
    pub fn text(&self) -> String {
        self.buffer().masked_text()
    }

    /// Sets the secrets to mask.
    pub(crate) fn set_mask(&self, mask: SecretMask) {
        self.buffer().mask = mask;
    }

    /// Number of older bytes that were dropped.
    pub fn dropped(&self) -> u64 {
        self.buffer().dropped
    }

    /// Reads until the end of the stream or its first error.
    pub(crate) async fn drain(self, mut stream: impl AsyncRead + Unpin) {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = stream.read(&mut buffer).await {
            self.push(&buffer[..count]);
        }
    }

    pub(crate) fn push(&self, bytes: &[u8]) {
        self.buffer().push(bytes);
    }

    fn buffer(&self) -> MutexGuard<'_, StderrBuffer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Shows only the number of bytes, because a server's stderr may hold secrets.
impl fmt::Debug for StderrTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let buffer = self.buffer();
        f.debug_struct("StderrTail")
            .field("kept", &buffer.bytes.len())
            .field("dropped", &buffer.dropped)
            .finish()
    }
}

struct StderrBuffer {
    bytes: VecDeque<u8>,
    limit: usize,
    dropped: u64,
    mask: SecretMask,
}

impl StderrBuffer {
    fn masked_text(&self) -> String {
        let shown = self.mask.mask_text(self.text());
        if self.dropped == 0 {
            return shown;
        }
        // The tail may start inside a secret, of which all but the first byte may be left.
        let left = self.mask.longest_form().saturating_sub(1);
        let begin = (left..=shown.len()).find(|at| shown.is_char_boundary(*at));
        begin.and_then(|at| shown.get(at..)).unwrap_or_default().to_owned()
    }

    fn push(&mut self, new: &[u8]) {
        let new_kept = &new[new.len().saturating_sub(self.limit)..];
        let overflow = (self.bytes.len() + new_kept.len()).saturating_sub(self.limit);
        self.bytes.drain(..overflow);
        self.bytes.extend(new_kept);
        self.dropped += (overflow + new.len() - new_kept.len()) as u64;
    }

    fn text(&self) -> String {
        let continues = |byte: &u8| byte & 0b1100_0000 == 0b1000_0000;
        // The oldest character may have lost its first bytes. At most three bytes of it are left.
        let cut = if self.dropped > 0 {
            self.bytes.iter().take(3).take_while(|byte| continues(byte)).count()
        } else {
            0
        };
        let bytes: Vec<u8> = self.bytes.iter().skip(cut).copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use toolcrib_config::SecretString;

    use super::*;

    fn check(limit: usize, writes: &[&[u8]], text: &str, dropped: u64) {
        let mask = SecretMask::default();
        let mut buffer = StderrBuffer { bytes: VecDeque::new(), limit, dropped: 0, mask };
        writes.iter().for_each(|bytes| buffer.push(bytes));
        assert_eq!((buffer.text().as_str(), buffer.dropped), (text, dropped), "{limit} {writes:?}");
    }

    #[test]
    fn tail_keeps_the_newest_bytes() {
        check(8, &[], "", 0);
        check(8, &[b"1234", b"5678"], "12345678", 0);
        check(8, &[b"1234", b"56789"], "23456789", 1);
        check(4, &[b"12", b"3456789"], "6789", 5);
        check(0, &[b"12"], "", 2);
    }

    #[test]
    fn stderr_text_masks_secrets_at_any_position() {
        let shown = |limit, secrets: &[&str], text: &str| {
            let tail = StderrTail::new(limit);
            let secrets = secrets.iter().map(|secret| SecretString::new(*secret)).collect();
            tail.set_mask(SecretMask::new(secrets));
            text.as_bytes().chunks(3).for_each(|part| tail.push(part));
            tail.text()
        };
        let both = ["c4nary", "c4nary-long", "a"];
        assert_eq!(shown(99, &both, "a: c4nary c4nary-long, c4nar\n"), "a: *** ***, c4nar\n");
        // The tail loses as many characters as the longest form of the secret has, which is the base64 one.
        assert_eq!(shown(12, &["c4nary"], "x c4nary\nc4nary\n"), "*\n");
        assert_eq!(shown(12, &["c4nary"], "x c4nary, one line"), " line");
        assert_eq!(shown(18, &["one\ntwo\nthree"], "one\ntwo\nthree, 12345678"), "");
        assert_eq!(shown(8, &["c4nary-long"], "c4nary-long, x"), "");
        assert_eq!(shown(12, &[], "x c4nary\nc4nary\n"), "nary\nc4nary\n");
    }

    #[test]
    fn stderr_text_is_lossy_and_starts_at_a_character_boundary() {
        check(8, &[b"a\xffb"], "a\u{fffd}b", 0);
        check(4, &["xäöü".as_bytes()], "öü", 3);
        check(3, &["äöü".as_bytes()], "ü", 3);
        check(8, &[b"\x80"], "\u{fffd}", 0);
    }
}
