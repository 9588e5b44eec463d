//! Where the body of an answer is in what comes, and where it ends; nothing here knows of connections.

use bytes::{Buf, BytesMut};
use httparse::Status;

use super::garbled::Garbled;
use super::head::Framing;

/// The line before a chunk: its size, and what nobody wants to know of it.
const LONGEST_LINE: usize = 4 * 1024;

/// All that comes after the last chunk.
const MOST_TRAILERS: usize = 16 * 1024;

/// One body, as far as it has come.
#[derive(Debug)]
pub(super) struct Decoder(Place);

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// So much, and then nothing.
    Body(u64),
    UntilClose,
    ChunkSize,
    Chunk(u64),
    ChunkEnd,
    /// No more than so much.
    Trailers(usize),
}

/// What the bytes at hand are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// So many, at the beginning, are of the body, and are for the caller to take.
    Data(usize),
    /// Too few.
    More,
    /// None of the body's: it is over.
    End,
}

impl Decoder {
    pub(super) fn of(framing: Framing) -> Self {
        Self(match framing {
            Framing::Length(length) => Place::Body(length),
            Framing::Chunked => Place::ChunkSize,
            Framing::UntilClose => Place::UntilClose,
        })
    }

    pub(super) fn is_over(&self) -> bool {
        self.0 == Place::Body(0)
    }

    /// How much is still to come, where that is known.
    pub(super) fn left(&self) -> Option<u64> {
        match self.0 {
            Place::Body(left) => Some(left),
            _ => None,
        }
    }

    /// What to do with the bytes at hand. Those that are not of the body are taken away.
    pub(super) fn step(&mut self, buffer: &mut BytesMut) -> Result<Step, Garbled> {
        loop {
            self.0 = match self.0 {
                Place::Body(0) => return Ok(Step::End),
                _ if buffer.is_empty() => return Ok(Step::More),
                Place::UntilClose => return Ok(Step::Data(buffer.len())),
                Place::Body(left) | Place::Chunk(left) => return Ok(self.data(left, buffer.len())),
                Place::ChunkSize => match size(buffer)? {
                    Some(0) => Place::Trailers(MOST_TRAILERS),
                    Some(size) => Place::Chunk(size),
                    None => return Ok(Step::More),
                },
                Place::ChunkEnd => match line(buffer, 2)? {
                    Some(2) => Place::ChunkSize,
                    Some(_) => return Err(Garbled::Chunk),
                    None => return Ok(Step::More),
                },
                Place::Trailers(room) => match line(buffer, room)? {
                    Some(2) => Place::Body(0),
                    Some(size) => Place::Trailers(room - size),
                    None => return Ok(Step::More),
                },
            };
        }
    }

    /// So much of the body went past the buffer.
    pub(super) fn passed(&mut self, size: usize) {
        if let Place::Body(left) = &mut self.0 {
            *left = left.saturating_sub(size as u64);
        }
    }

    /// Nothing more comes.
    pub(super) fn closed(&mut self) -> Result<(), Garbled> {
        match self.0 {
            Place::UntilClose | Place::Body(0) => {
                self.0 = Place::Body(0);
                Ok(())
            }
            _ => Err(Garbled::CutShort),
        }
    }

    fn data(&mut self, left: u64, at_hand: usize) -> Step {
        let size = usize::try_from(left).unwrap_or(usize::MAX).min(at_hand);
        let left = left - size as u64;
        self.0 = match self.0 {
            Place::Chunk(_) if left == 0 => Place::ChunkEnd,
            Place::Chunk(_) => Place::Chunk(left),
            _ => Place::Body(left),
        };
        Step::Data(size)
    }
}

/// Takes the line before a chunk.
fn size(buffer: &mut BytesMut) -> Result<Option<u64>, Garbled> {
    // A line without a size would be taken for that of the last chunk.
    if !buffer.first().is_some_and(u8::is_ascii_hexdigit) {
        return Err(Garbled::Chunk);
    }
    let line = &buffer[..buffer.len().min(LONGEST_LINE)];
    match httparse::parse_chunk_size(line).map_err(|_| Garbled::Chunk)? {
        Status::Complete((end, size)) => {
            buffer.advance(end);
            Ok(Some(size))
        }
        Status::Partial if line.len() == LONGEST_LINE => Err(Garbled::Chunk),
        Status::Partial => Ok(None),
    }
}

/// Takes a line, and tells how long it was with its end.
fn line(buffer: &mut BytesMut, longest: usize) -> Result<Option<usize>, Garbled> {
    let line = &buffer[..buffer.len().min(longest)];
    let Some(end) = line.iter().position(|byte| *byte == b'\n') else {
        let is_too_long = line.len() == longest;
        return if is_too_long { Err(Garbled::Chunk) } else { Ok(None) };
    };
    if !line[..end].ends_with(b"\r") {
        return Err(Garbled::Chunk);
    }
    buffer.advance(end + 1);
    Ok(Some(end + 1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The body, what is left behind it, and whether it ended before the connection did.
    type Read = Result<(Vec<u8>, Vec<u8>, bool), Garbled>;

    fn read<'a>(framing: Framing, pieces: impl Iterator<Item = &'a [u8]>) -> Read {
        let mut decoder = Decoder::of(framing);
        let (mut buffer, mut body, mut ended) = (BytesMut::new(), Vec::new(), false);
        for piece in pieces.chain([&[][..]]) {
            buffer.extend_from_slice(piece);
            ended = loop {
                match decoder.step(&mut buffer)? {
                    Step::Data(size) => body.extend_from_slice(&buffer.split_to(size)),
                    Step::More => break false,
                    Step::End => break true,
                }
            };
        }
        if !ended {
            decoder.closed()?;
        }
        Ok((body, buffer.to_vec(), ended))
    }

    fn at_once(framing: Framing, text: &str) -> Read {
        read(framing, [text.as_bytes()].into_iter())
    }

    #[test]
    fn a_body_ends_where_its_framing_says() {
        use Framing::{Chunked, Length, UntilClose};
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
    fn a_body_that_breaks_off_or_its_own_rules_is_no_body() {
        use Framing::{Chunked, Length};
        let extension = format!("1;{}\r\nx\r\n0\r\n\r\n", "y".repeat(LONGEST_LINE));
        let trailer = format!("0\r\n{}\r\n\r\n", "y".repeat(MOST_TRAILERS));
        let trailers = format!("0\r\n{}\r\n", "a: b\r\n".repeat(MOST_TRAILERS));
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

    fn any_framing() -> impl Strategy<Value = Framing> {
        prop_oneof![
            Just(Framing::Chunked),
            Just(Framing::UntilClose),
            (0_u64..40).prop_map(Framing::Length),
        ]
    }

    proptest! {
        #[test]
        fn a_body_is_the_same_however_it_comes(
            framing in any_framing(),
            text in any_text(),
            size in 1_usize..20,
        ) {
            prop_assert_eq!(read(framing, [&text[..]].into_iter()), read(framing, text.chunks(size)));
        }
    }
}
