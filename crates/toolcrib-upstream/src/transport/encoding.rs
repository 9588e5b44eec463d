//! Text encodings of byte streams, for servers that do not use UTF-8.

use std::borrow::Cow;

use encoding_rs::{Encoder, EncoderResult, UTF_8};

/// A text encoding. Only encodings that contain ASCII are supported, so that messages can be framed before their bytes
/// are decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    Utf8,
    /// Each byte is the character with the same number. Browsers read this label as windows-1252; servers do not.
    Latin1,
    Other(&'static encoding_rs::Encoding),
}

/// A label that names no supported encoding.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unsupported encoding `{name}`")]
pub struct UnknownEncoding {
    /// The label.
    pub name: String,
}

const LATIN1: [&str; 6] = ["latin-1", "latin1", "iso-8859-1", "iso8859-1", "iso88591", "l1"];

/// More bytes than any encoding uses for one character.
const MAX_CHAR_BYTES: usize = 16;

impl Encoding {
    /// Finds the encoding with this label.
    pub fn from_label(name: &str) -> Result<Self, UnknownEncoding> {
        if LATIN1.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            return Ok(Self::Latin1);
        }
        match encoding_rs::Encoding::for_label(name.as_bytes()) {
            Some(found) if found == UTF_8 => Ok(Self::Utf8),
            Some(found) if found.is_ascii_compatible() => Ok(Self::Other(found)),
            _ => Err(UnknownEncoding { name: name.to_owned() }),
        }
    }

    /// Converts one message to UTF-8. Unknown bytes become U+FFFD. UTF-8 input is not validated here; the message
    /// parser does that.
    pub(crate) fn decode(self, bytes: Vec<u8>) -> Vec<u8> {
        let text = match self {
            Self::Utf8 => return bytes,
            Self::Latin1 => encoding_rs::mem::decode_latin1(&bytes).into_owned(),
            Self::Other(encoding) => encoding.decode_without_bom_handling(&bytes).0.into_owned(),
        };
        text.into_bytes()
    }

    /// Converts a JSON text to bytes. Characters outside of the encoding become JSON escapes: outside of strings a JSON
    /// text has only ASCII.
    pub(crate) fn encode(self, json: &str) -> Cow<'_, [u8]> {
        match self {
            _ if json.is_ascii() => Cow::Borrowed(json.as_bytes()),
            Self::Utf8 => Cow::Borrowed(json.as_bytes()),
            Self::Latin1 => Cow::Owned(encode_latin1(json)),
            Self::Other(encoding) => Cow::Owned(encode_with(encoding, json)),
        }
    }
}

fn encode_latin1(json: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len());
    for character in json.chars() {
        match u8::try_from(u32::from(character)) {
            Ok(byte) => out.push(byte),
            Err(_) => out.extend_from_slice(escape(character).as_bytes()),
        }
    }
    out
}

fn encode_with(encoding: &'static encoding_rs::Encoding, json: &str) -> Vec<u8> {
    let mut encoder = encoding.new_encoder();
    let mut out = Vec::with_capacity(json.len());
    let mut rest = json;
    while let Some(character) = encode_some(&mut encoder, &mut rest, &mut out) {
        // The escape is ASCII, which all of these encodings contain.
        encode_some(&mut encoder, &mut escape(character).as_str(), &mut out);
    }
    out
}

/// Encodes up to the end, or up to a character outside of the encoding.
fn encode_some(encoder: &mut Encoder, rest: &mut &str, out: &mut Vec<u8>) -> Option<char> {
    loop {
        out.reserve(rest.len() + MAX_CHAR_BYTES);
        let (result, read) = encoder.encode_from_utf8_to_vec_without_replacement(rest, out, false);
        *rest = &rest[read..];
        match result {
            EncoderResult::InputEmpty => return None,
            EncoderResult::OutputFull => {}
            EncoderResult::Unmappable(character) => return Some(character),
        }
    }
}

fn escape(character: char) -> String {
    let mut units = [0; 2];
    let units = character.encode_utf16(&mut units);
    units.iter().map(|unit| format!("\\u{unit:04x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, json: &str, bytes: &[u8]) {
        let encoding = Encoding::from_label(name).unwrap();
        assert_eq!(&*encoding.encode(json), bytes, "{name}");
        let decoded = String::from_utf8(encoding.decode(bytes.to_vec())).unwrap();
        let read = |text: &str| serde_json::from_str::<String>(text).unwrap();
        assert_eq!(read(&decoded), read(json), "{name}");
    }

    #[test]
    fn hol_10_text_round_trips_and_unmappable_characters_are_escaped() {
        check("utf-8", "\"é\"", "\"é\"".as_bytes());
        check("latin-1", "\"é\"", b"\"\xe9\"");
        check("latin1", "\"\u{85}€🦀\"", b"\"\x85\\u20ac\\ud83e\\udd80\"");
        check("windows-1252", "\"é€\"", b"\"\xe9\x80\"");
        check("windows-1252", "\"日é本\"", b"\"\\u65e5\xe9\\u672c\"");
        check("shift_jis", "\"日本é\"", b"\"\x93\xfa\x96{\\u00e9\"");
    }

    #[test]
    fn hol_10_encodings_without_ascii_are_rejected() {
        for name in ["utf-16", "klingon", ""] {
            assert!(Encoding::from_label(name).is_err(), "{name}");
        }
    }
}
