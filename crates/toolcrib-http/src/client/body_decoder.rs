//! Decodes the body of an HTTP/1.1 response from buffered bytes. This module does no I/O.

use bytes::{Buf, BytesMut};
use httparse::Status;

use super::malformed_response::MalformedResponse;
use super::response_head::BodyFraming;

/// Longest accepted chunk-size line, chunk extensions included.
const MAX_CHUNK_LINE: usize = 4 * 1024;

/// Most bytes accepted after the last chunk.
const MAX_TRAILERS: usize = 16 * 1024;

/// Decoder of one response body.
#[derive(Debug)]
pub(super) struct BodyDecoder(DecoderState);

/// The part of the body that the decoder expects next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DecoderState {
    /// This many bytes, then the end.
    Body(u64),
    UntilClose,
    ChunkSize,
    Chunk(u64),
    ChunkEnd,
    /// At most this many bytes.
    Trailers(usize),
}

/// Meaning of the buffered bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DecodeStep {
    /// This many bytes at the start of the buffer belong to the body. The caller removes them.
    Data(usize),
    /// The buffer holds too few bytes.
    More,
    /// The body is complete; the buffered bytes do not belong to it.
    End,
}

impl BodyDecoder {
    pub(super) fn new(framing: BodyFraming) -> Self {
        Self(match framing {
            BodyFraming::Length(length) => DecoderState::Body(length),
            BodyFraming::Chunked => DecoderState::ChunkSize,
            BodyFraming::UntilClose => DecoderState::UntilClose,
        })
    }

    pub(super) fn is_complete(&self) -> bool {
        self.0 == DecoderState::Body(0)
    }

    /// Remaining body bytes, if the length is known.
    pub(super) fn remaining(&self) -> Option<u64> {
        match self.0 {
            DecoderState::Body(left) => Some(left),
            _ => None,
        }
    }

    /// Classifies the buffered bytes, and removes chunk lines and trailers from the buffer.
    pub(super) fn step(&mut self, buffer: &mut BytesMut) -> Result<DecodeStep, MalformedResponse> {
        loop {
            self.0 = match self.0 {
                DecoderState::Body(0) => return Ok(DecodeStep::End),
                _ if buffer.is_empty() => return Ok(DecodeStep::More),
                DecoderState::UntilClose => return Ok(DecodeStep::Data(buffer.len())),
                DecoderState::Body(left) | DecoderState::Chunk(left) => {
                    return Ok(self.consume_data(left, buffer.len()));
                }
                DecoderState::ChunkSize => match read_chunk_size(buffer)? {
                    Some(0) => DecoderState::Trailers(MAX_TRAILERS),
                    Some(size) => DecoderState::Chunk(size),
                    None => return Ok(DecodeStep::More),
                },
                DecoderState::ChunkEnd => match skip_line(buffer, 2)? {
                    Some(2) => DecoderState::ChunkSize,
                    Some(_) => return Err(MalformedResponse::Chunk),
                    None => return Ok(DecodeStep::More),
                },
                DecoderState::Trailers(room) => match skip_line(buffer, room)? {
                    Some(2) => DecoderState::Body(0),
                    Some(size) => DecoderState::Trailers(room - size),
                    None => return Ok(DecodeStep::More),
                },
            };
        }
    }

    /// Counts body bytes that the caller read without the buffer.
    pub(super) fn skip_directly_read(&mut self, size: usize) {
        if let DecoderState::Body(left) = &mut self.0 {
            *left = left.saturating_sub(size as u64);
        }
    }

    /// Records that the server closed the connection. Fails if the body is incomplete.
    pub(super) fn finish_at_close(&mut self) -> Result<(), MalformedResponse> {
        match self.0 {
            DecoderState::UntilClose | DecoderState::Body(0) => {
                self.0 = DecoderState::Body(0);
                Ok(())
            }
            _ => Err(MalformedResponse::Truncated),
        }
    }

    fn consume_data(&mut self, left: u64, buffered: usize) -> DecodeStep {
        let size = usize::try_from(left).unwrap_or(usize::MAX).min(buffered);
        let left = left - size as u64;
        self.0 = match self.0 {
            DecoderState::Chunk(_) if left == 0 => DecoderState::ChunkEnd,
            DecoderState::Chunk(_) => DecoderState::Chunk(left),
            _ => DecoderState::Body(left),
        };
        DecodeStep::Data(size)
    }
}

/// Removes a chunk-size line from the buffer.
fn read_chunk_size(buffer: &mut BytesMut) -> Result<Option<u64>, MalformedResponse> {
    // `httparse` would read a line without digits as the size 0, which is the last chunk.
    if !buffer.first().is_some_and(u8::is_ascii_hexdigit) {
        return Err(MalformedResponse::Chunk);
    }
    let line = &buffer[..buffer.len().min(MAX_CHUNK_LINE)];
    match httparse::parse_chunk_size(line).map_err(|_| MalformedResponse::Chunk)? {
        Status::Complete((end, size)) => {
            buffer.advance(end);
            Ok(Some(size))
        }
        Status::Partial if line.len() == MAX_CHUNK_LINE => Err(MalformedResponse::Chunk),
        Status::Partial => Ok(None),
    }
}

/// Removes a line from the buffer and returns its length, line break included.
fn skip_line(buffer: &mut BytesMut, longest: usize) -> Result<Option<usize>, MalformedResponse> {
    let line = &buffer[..buffer.len().min(longest)];
    let Some(end) = line.iter().position(|byte| *byte == b'\n') else {
        let is_too_long = line.len() == longest;
        return if is_too_long { Err(MalformedResponse::Chunk) } else { Ok(None) };
    };
    if !line[..end].ends_with(b"\r") {
        return Err(MalformedResponse::Chunk);
    }
    buffer.advance(end + 1);
    Ok(Some(end + 1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The body, the bytes behind it, and whether the body ended before the connection did.
    type Read = Result<(Vec<u8>, Vec<u8>, bool), MalformedResponse>;

    fn read<'a>(framing: BodyFraming, pieces: impl Iterator<Item = &'a [u8]>) -> Read {
        let mut decoder = BodyDecoder::new(framing);
        let (mut buffer, mut body, mut ended) = (BytesMut::new(), Vec::new(), false);
        for piece in pieces.chain([&[][..]]) {
            buffer.extend_from_slice(piece);
            ended = loop {
                match decoder.step(&mut buffer)? {
                    DecodeStep::Data(size) => body.extend_from_slice(&buffer.split_to(size)),
                    DecodeStep::More => break false,
                    DecodeStep::End => break true,
                }
            };
        }
        if !ended {
            decoder.finish_at_close()?;
        }
        Ok((body, buffer.to_vec(), ended))
    }

    fn at_once(framing: BodyFraming, text: &str) -> Read {
        read(framing, [text.as_bytes()].into_iter())
    }

    #[test]
    fn body_ends_at_framing_boundary() {
        use BodyFraming::{Chunked, Length, UntilClose};
        for (framing, text, body, left, ended) in [
            (Length(0), "x", "", "x", true),
            (Length(4), "bodyx", "body", "x", true),
            (UntilClose, "body", "body", "", false),
            (UntilClose, "", "", "", false),
            (Chunked, "0\r\n\r\n", "", "", true),
            (Chunked, "4\r\nbody\r\n0\r\n\r\nx", "body", "x", true),
            (Chunked, "2\r\nbo\r\n002;a=\"b\"\r\ndy\r\n0;x\r\n\r\n", "body", "", true),
            (Chunked, "a\r\n0123456789\r\n0\r\nA: b\r\nC: d\r\n\r\n", "0123456789", "", true),
        ] {
            let expected = (body.as_bytes().to_vec(), left.as_bytes().to_vec(), ended);
            assert_eq!(at_once(framing, text), Ok(expected), "{framing:?} {text:?}");
        }
    }

    #[test]
    fn truncated_or_invalid_body_is_rejected() {
        use BodyFraming::{Chunked, Length};
        let extension = format!("1;{}\r\nx\r\n0\r\n\r\n", "y".repeat(MAX_CHUNK_LINE));
        let trailer = format!("0\r\n{}\r\n\r\n", "y".repeat(MAX_TRAILERS));
        let trailers = format!("0\r\n{}\r\n", "a: b\r\n".repeat(MAX_TRAILERS));
        for (framing, text) in [
            (Length(4), "bod"),
            (Chunked, ""),
            (Chunked, "\r\n\r\n"),
            (Chunked, "4\r\nbody\r\n"),
            (Chunked, "4\r\nbody0\r\n\r\n"),
            (Chunked, "4\r\nbodyx\n0\r\n\r\n"),
            (Chunked, "-1\r\n\r\n"),
            (Chunked, "g\r\n\r\n"),
            (Chunked, "11111111111111111\r\n"),
            (Chunked, "0\r\na: b\n\r\n"),
            (Chunked, &extension),
            (Chunked, &trailer),
            (Chunked, &trailers),
        ] {
            assert!(at_once(framing, text).is_err(), "{framing:?} {text:?}");
        }
    }

    fn any_text() -> impl Strategy<Value = Vec<u8>> {
        let part = prop_oneof![
            3 => Just(b"4\r\nbody\r\n".to_vec()),
            1 => Just(b"3;a=b\r\nyes\r\n".to_vec()),
            1 => Just(b"0\r\n".to_vec()),
            1 => Just(b"a: b\r\n".to_vec()),
            1 => Just(b"\r\n".to_vec()),
            1 => prop::collection::vec(any::<u8>(), 0..8),
        ];
        prop::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
    }

    fn any_framing() -> impl Strategy<Value = BodyFraming> {
        prop_oneof![
            Just(BodyFraming::Chunked),
            Just(BodyFraming::UntilClose),
            (0_u64..40).prop_map(BodyFraming::Length),
        ]
    }

    proptest! {
        #[test]
        fn decoded_body_is_independent_of_read_sizes(
            framing in any_framing(),
            text in any_text(),
            size in 1_usize..20,
        ) {
            prop_assert_eq!(read(framing, [&text[..]].into_iter()), read(framing, text.chunks(size)));
        }
    }
}
