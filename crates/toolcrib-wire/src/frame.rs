//! The two framings of messages on a byte stream: one per line, or with `Content-Length`.

use std::fmt;

use crate::id::Id;
use crate::parse_error::MessageKind;

/// Separation of messages on a byte stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Framing {
    /// One message per line.
    Newline,
    /// `Content-Length: n`, an empty line, and n bytes.
    ContentLength,
}

/// The bytes of one message and their framing.
#[derive(Clone, PartialEq, Eq)]
pub struct Frame {
    /// The framing of the message.
    pub framing: Framing,
    /// The bytes of the message.
    pub bytes: Vec<u8>,
}

/// Data on the stream that is not a message. The decoder continues after each of these errors. Excerpts are short.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A banner, a log line or a prompt.
    #[error("a line of {length} bytes is not a message: {excerpt:?}")]
    Noise { length: usize, excerpt: String },
    /// The message is dropped. It is reported once its id and kind are known, or at its end. `head` is its beginning.
    #[error("a message is over the limit of {limit} bytes")]
    TooLarge { limit: usize, head: Vec<u8>, id: Option<Id>, kind: MessageKind },
    /// The header lines are invalid.
    #[error("invalid header lines: {excerpt:?}")]
    BadHeader { excerpt: String },
    /// The stream ended within a message.
    #[error("the stream ended after {length} bytes of a message: {excerpt:?}")]
    Truncated { length: usize, excerpt: String },
}

/// Hides the bytes, because they may hold a secret.
impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Frame({}, {} bytes)", self.framing.name(), self.bytes.len())
    }
}

impl Framing {
    /// Appends one framed message to `out`. In newline framing a space replaces each line break; in valid JSON line
    /// breaks stand only between tokens.
    pub fn write(self, message: &[u8], out: &mut Vec<u8>) {
        match self {
            Framing::ContentLength => {
                out.extend_from_slice(
                    format!("Content-Length: {}\r\n\r\n", message.len()).as_bytes(),
                );
                out.extend_from_slice(message);
            }
            Framing::Newline => {
                let start = out.len();
                out.extend_from_slice(message);
                for place in memchr::memchr2_iter(b'\n', b'\r', message) {
                    out[start + place] = b' ';
                }
                out.push(b'\n');
            }
        }
    }

    /// Returns the name of the framing.
    pub fn name(self) -> &'static str {
        match self {
            Framing::Newline => "newline",
            Framing::ContentLength => "content-length",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode_frame(framing: Framing, message: &str) -> String {
        let mut out = b"before ".to_vec();
        framing.write(message.as_bytes(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn content_length_counts_bytes_and_lines_hold_no_line_breaks() {
        // DIS-47, DKR-08: the length counts UTF-8 bytes.
        assert_eq!(
            encode_frame(Framing::ContentLength, "{\"é\":1}"),
            "before Content-Length: 8\r\n\r\n{\"é\":1}"
        );
        // DKR-04: one object per line, ended by a line feed.
        assert_eq!(encode_frame(Framing::Newline, "{\"é\":1}"), "before {\"é\":1}\n");
        assert_eq!(encode_frame(Framing::Newline, "{\r\n \"a\":\n1}"), "before {   \"a\": 1}\n");
    }
}
