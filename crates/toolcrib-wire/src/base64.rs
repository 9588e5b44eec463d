//! Base64 with padding, for header values and content. Implemented here because a dependency would be larger than the
//! code.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Encodes bytes as Base64 with padding.
pub fn encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let mut three = [0; 3];
        three[..chunk.len()].copy_from_slice(chunk);
        let bits = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        for place in 0..4 {
            let sextet = (bits >> (18 - 6 * place)) & 63;
            out.push(if place <= chunk.len() { ALPHABET[sextet as usize] as char } else { '=' });
        }
    }
    out
}

/// Decodes Base64 text. Returns `None` if the text is not valid Base64.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let bare = text.trim_end_matches('=');
    if !text.len().is_multiple_of(4) || text.len() - bare.len() > 2 {
        return None;
    }
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    for chunk in bare.as_bytes().chunks(4) {
        let mut bits = 0;
        for byte in chunk {
            bits = bits << 6 | sextet(*byte)?;
        }
        let bytes = (bits << (6 * (4 - chunk.len()))).to_be_bytes();
        out.extend_from_slice(&bytes[1..chunk.len()]);
    }
    Some(out)
}

fn sextet(byte: u8) -> Option<u32> {
    Some(
        match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        }
        .into(),
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_values_round_trip_and_invalid_text_is_rejected() {
        for (plain, encoded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("Hello, 世界", "SGVsbG8sIOS4lueVjA=="),
        ] {
            assert_eq!(encode(plain.as_bytes()), encoded);
            assert_eq!(decode(encoded).as_deref(), Some(plain.as_bytes()));
        }
        for bad in ["Zg", "Zg=", "Z===", "====", "Zm 8", "Zm9v\n", "Zm-_"] {
            assert_eq!(decode(bad), None, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn encoded_bytes_decode_to_the_same_bytes(bytes in any::<Vec<u8>>()) {
            prop_assert_eq!(decode(&encode(&bytes)), Some(bytes));
        }

        #[test]
        fn decoding_any_text_never_panics(text in any::<String>()) {
            let _ = decode(&text);
        }
    }
}
