//! What a message on a byte stream looks like: one a line, or led by `Content-Length`.

use std::fmt;

use crate::id::Id;
use crate::malformed::Shape;

/// How one message is set off from the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Framing {
    /// One message a line.
    Newline,
    /// `Content-Length: n`, an empty line, and n bytes.
    ContentLength,
}

/// The bytes of one message and how they came.
#[derive(Clone, PartialEq, Eq)]
pub struct Frame {
    pub framing: Framing,
    pub bytes: Vec<u8>,
}

/// Something on the stream that is no message. None of these ends the stream: the decoder goes on with
/// what follows. Excerpts are short.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A banner, a log line, a prompt.
    #[error("a line of {length} bytes is no message: {excerpt:?}")]
    Noise { length: usize, excerpt: String },
    /// The message is dropped. Told as soon as it is known what it is and whose, or at its end; `head` is its
    /// beginning.
    #[error("a message is over the limit of {limit} bytes")]
    TooLarge { limit: usize, head: Vec<u8>, id: Option<Id>, shape: Shape },
    #[error("unusable header lines: {excerpt:?}")]
    BadHeader { excerpt: String },
    #[error("the stream ended after {length} bytes of a message: {excerpt:?}")]
    Truncated { length: usize, excerpt: String },
}

/// Not the bytes: they may hold a secret.
impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Frame({}, {} bytes)", self.framing.name(), self.bytes.len())
    }
}

impl Framing {
    /// Appends one message to `out`. Where a line break would end the line, a space takes its place: in
    /// valid JSON it can only stand between tokens.
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

    fn written(framing: Framing, message: &str) -> String {
        let mut out = b"before ".to_vec();
        framing.write(message.as_bytes(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn lengths_count_bytes_and_lines_hold_no_line_breaks() {
        // DIS-47, DKR-08: the length is that of the UTF-8 bytes.
        assert_eq!(
            written(Framing::ContentLength, "{\"é\":1}"),
            "before Content-Length: 8\r\n\r\n{\"é\":1}"
        );
        // DKR-04: one object a line, ended by a line feed.
        assert_eq!(written(Framing::Newline, "{\"é\":1}"), "before {\"é\":1}\n");
        assert_eq!(written(Framing::Newline, "{\r\n \"a\":\n1}"), "before {   \"a\": 1}\n");
    }
}
