//! Base64 with padding, for header values and content.

use std::sync::LazyLock;

use data_encoding::{BASE64, Encoding};

/// Accepts unused bits other than zero in the last character, which some peers write.
static LENIENT: LazyLock<Encoding> = LazyLock::new(|| {
    let mut specification = BASE64.specification();
    specification.check_trailing_bits = false;
    specification.encoding().unwrap_or(BASE64)
});

/// Encodes bytes as Base64 with padding.
pub fn encode(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

/// Decodes Base64 text. Returns `None` if the text is not valid Base64.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    // The crate would also decode several padded texts in a row.
    let is_single = !text.trim_end_matches('=').contains('=');
    LENIENT.decode(text.as_bytes()).ok().filter(|_| is_single)
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
        for bad in ["Zg", "Zg=", "Z===", "====", "Zm 8", "Zm9v\n", "Zm-_", "Zg==Zg==", "=Zg="] {
            assert_eq!(decode(bad), None, "{bad:?}");
        }
        assert_eq!(decode("Zh==").as_deref(), Some(&b"f"[..]), "unused bits are ignored");
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
