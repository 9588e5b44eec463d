//! Reads and writes JSON strings.

use std::borrow::Cow;

use crate::plain_bytes;

/// Decodes a JSON string with its quotes. A lone surrogate becomes U+FFFD: JavaScript servers write one when they cut
/// a string in half, and the rest of the text should not be lost.
#[inline]
pub(crate) fn unquote(quoted: &str) -> Cow<'_, str> {
    let inner = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default();
    // Most strings are plain.
    if plain_bytes::is_all_plain(inner.as_bytes()) { Cow::Borrowed(inner) } else { unescape(inner) }
}

fn unescape(inner: &str) -> Cow<'_, str> {
    let mut out = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(place) = memchr::memchr(b'\\', rest.as_bytes()) {
        out.push_str(&rest[..place]);
        let (character, length) = escaped(&rest[place..]);
        out.push(character);
        rest = &rest[place + length..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Writes `text` as a JSON string with quotes.
pub(crate) fn quote(text: &str, out: &mut String) {
    out.reserve(text.len() + 2);
    out.push('"');
    // Most strings are plain.
    if plain_bytes::is_all_plain(text.as_bytes()) {
        out.push_str(text);
    } else {
        escape(text, out);
    }
    out.push('"');
}

/// Writes an integer without an intermediate string.
pub(crate) fn push_integer(number: i64, out: &mut String) {
    out.push_str(itoa::Buffer::new().format(number));
}

fn escape(text: &str, out: &mut String) {
    let mut done = 0;
    for (place, byte) in text.bytes().enumerate().filter(|(_, byte)| !plain_bytes::is_plain(*byte))
    {
        out.push_str(&text[done..place]);
        push_escape(byte, out);
        done = place + 1;
    }
    out.push_str(&text[done..]);
}

fn push_escape(byte: u8, out: &mut String) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    match byte {
        b'"' => out.push_str("\\\""),
        b'\\' => out.push_str("\\\\"),
        b'\n' => out.push_str("\\n"),
        b'\r' => out.push_str("\\r"),
        b'\t' => out.push_str("\\t"),
        byte => {
            out.push_str("\\u00");
            out.push(HEX[usize::from(byte >> 4)] as char);
            out.push(HEX[usize::from(byte & 15)] as char);
        }
    }
}

/// Returns the character of an escape and the escape's length.
fn escaped(text: &str) -> (char, usize) {
    let character = match text.as_bytes().get(1) {
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => return unicode(text),
        Some(&other) => other as char,
        None => return (char::REPLACEMENT_CHARACTER, text.len()),
    };
    (character, 2)
}

fn unicode(text: &str) -> (char, usize) {
    let high = hex(text, 2);
    if let Some(character) = char::from_u32(high) {
        return (character, 6);
    }
    let is_pair = (0xd800..0xdc00).contains(&high) && text.get(6..8) == Some("\\u");
    let low = if is_pair { hex(text, 8) } else { 0 };
    if !(0xdc00..0xe000).contains(&low) {
        return (char::REPLACEMENT_CHARACTER, 6);
    }
    let code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
    (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), 12)
}

fn hex(text: &str, at: usize) -> u32 {
    text.get(at..at + 4).and_then(|digits| u32::from_str_radix(digits, 16).ok()).unwrap_or(0xd800)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn escapes_are_decoded_and_lone_surrogates_replaced() {
        for (quoted, text) in [
            (r#""plain""#, "plain"),
            (r#""tools\/call""#, "tools/call"),
            (r#""\"\\\b\f\n\r\t""#, "\"\\\u{8}\u{c}\n\r\t"),
            (r#""\u00e9 \ud83d\ude00 \u0041""#, "é 😀 A"),
            (r#""cut \ud83d""#, "cut \u{fffd}"),
            (r#""\ud83d\u0041\udc00""#, "\u{fffd}A\u{fffd}"),
        ] {
            assert_eq!(unquote(quoted), text, "{quoted}");
        }
    }

    proptest! {
        #[test]
        fn quoted_text_reads_back_here_and_in_serde_json(text in any::<String>()) {
            let mut quoted = String::new();
            quote(&text, &mut quoted);
            prop_assert_eq!(unquote(&quoted), text.as_str());
            prop_assert_eq!(serde_json::from_str::<String>(&quoted).unwrap(), text);
        }

        #[test]
        fn integers_are_written_like_display(number in any::<i64>()) {
            let mut out = String::new();
            push_integer(number, &mut out);
            prop_assert_eq!(out, number.to_string());
        }

        #[test]
        fn serde_json_strings_read_back(text in any::<String>()) {
            let quoted = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(unquote(&quoted), text);
        }
    }
}
