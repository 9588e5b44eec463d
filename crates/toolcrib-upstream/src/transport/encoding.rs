//! The encoding of a byte stream's text, for servers that do not speak UTF-8.

use std::borrow::Cow;

use encoding_rs::{Encoder, EncoderResult, UTF_8};

/// How text becomes bytes and back. Only encodings that have ASCII as a part, so that messages can be found in
/// the bytes before these are decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    Utf8,
    /// Each byte is the character of that number. Browsers take the name for windows-1252; servers do not.
    Latin1,
    Other(&'static encoding_rs::Encoding),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is no encoding that a byte stream can have here")]
pub struct UnknownEncoding {
    pub name: String,
}

const LATIN1: [&str; 6] = ["latin-1", "latin1", "iso-8859-1", "iso8859-1", "iso88591", "l1"];

/// More than one character takes in any encoding.
const ROOM: usize = 16;

impl Encoding {
    pub fn named(name: &str) -> Result<Self, UnknownEncoding> {
        if LATIN1.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            return Ok(Self::Latin1);
        }
        match encoding_rs::Encoding::for_label(name.as_bytes()) {
            Some(found) if found == UTF_8 => Ok(Self::Utf8),
            Some(found) if found.is_ascii_compatible() => Ok(Self::Other(found)),
            _ => Err(UnknownEncoding { name: name.to_owned() }),
        }
    }

    /// Bytes of one message as UTF-8. What the encoding does not know becomes U+FFFD; UTF-8 itself is left for
    /// the reader of the message to check.
    pub(crate) fn decode(self, bytes: Vec<u8>) -> Vec<u8> {
        let text = match self {
            Self::Utf8 => return bytes,
            Self::Latin1 => encoding_rs::mem::decode_latin1(&bytes).into_owned(),
            Self::Other(encoding) => encoding.decode_without_bom_handling(&bytes).0.into_owned(),
        };
        text.into_bytes()
    }

    /// A JSON text as bytes. A character that the encoding lacks is escaped, which any JSON reader undoes:
    /// outside strings there is nothing but ASCII.
    pub(crate) fn encode(self, json: &str) -> Cow<'_, [u8]> {
        match self {
            _ if json.is_ascii() => Cow::Borrowed(json.as_bytes()),
            Self::Utf8 => Cow::Borrowed(json.as_bytes()),
            Self::Latin1 => Cow::Owned(latin1(json)),
            Self::Other(encoding) => Cow::Owned(other(encoding, json)),
        }
    }
}

fn latin1(json: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len());
    for character in json.chars() {
        match u8::try_from(u32::from(character)) {
            Ok(byte) => out.push(byte),
            Err(_) => out.extend_from_slice(escaped(character).as_bytes()),
        }
    }
    out
}

fn other(encoding: &'static encoding_rs::Encoding, json: &str) -> Vec<u8> {
    let mut encoder = encoding.new_encoder();
    let mut out = Vec::with_capacity(json.len());
    let mut rest = json;
    while let Some(character) = encode_some(&mut encoder, &mut rest, &mut out) {
        // ASCII, which each of these encodings has.
        encode_some(&mut encoder, &mut escaped(character).as_str(), &mut out);
    }
    out
}

/// Encodes up to the end, or up to a character that the encoding lacks.
fn encode_some(encoder: &mut Encoder, rest: &mut &str, out: &mut Vec<u8>) -> Option<char> {
    loop {
        out.reserve(rest.len() + ROOM);
        let (result, read) = encoder.encode_from_utf8_to_vec_without_replacement(rest, out, false);
        *rest = &rest[read..];
        match result {
            EncoderResult::InputEmpty => return None,
            EncoderResult::OutputFull => {}
            EncoderResult::Unmappable(character) => return Some(character),
        }
    }
}

fn escaped(character: char) -> String {
    let mut units = [0; 2];
    let units = character.encode_utf16(&mut units);
    units.iter().map(|unit| format!("\\u{unit:04x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, json: &str, bytes: &[u8]) {
        let encoding = Encoding::named(name).unwrap();
        assert_eq!(&*encoding.encode(json), bytes, "{name}");
        let decoded = String::from_utf8(encoding.decode(bytes.to_vec())).unwrap();
        let read = |text: &str| serde_json::from_str::<String>(text).unwrap();
        assert_eq!(read(&decoded), read(json), "{name}");
    }

    #[test]
    fn hol_10_text_round_trips_and_what_an_encoding_lacks_is_escaped() {
        check("utf-8", "\"é\"", "\"é\"".as_bytes());
        check("latin-1", "\"é\"", b"\"\xe9\"");
        check("latin1", "\"\u{85}€🦀\"", b"\"\x85\\u20ac\\ud83e\\udd80\"");
        check("windows-1252", "\"é€\"", b"\"\xe9\x80\"");
        check("windows-1252", "\"日é本\"", b"\"\\u65e5\xe9\\u672c\"");
        check("shift_jis", "\"日本é\"", b"\"\x93\xfa\x96{\\u00e9\"");
    }

    #[test]
    fn hol_10_an_encoding_in_which_messages_cannot_be_found_is_refused() {
        for name in ["utf-16", "klingon", ""] {
            assert!(Encoding::named(name).is_err(), "{name}");
        }
    }
}
