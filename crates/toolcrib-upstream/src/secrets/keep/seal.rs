//! What is kept, encrypted: the key is in the keyring, and its name beside what it sealed.

use std::fmt;

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use toolcrib_config::Hidden;
use toolcrib_wire::base64;
use zeroize::Zeroizing;

use super::entry::hexadecimal;

/// A key that seals what is kept.
pub(super) struct Key {
    /// Whoever reads finds the key by it, so that two that were made at once do no harm.
    pub(super) id: String,
    key: LessSafeKey,
}

impl Key {
    /// A new one, and the text to keep it by.
    pub(super) fn fresh() -> Option<(Self, Hidden)> {
        let (mut id, mut bytes) = ([0; 8], Zeroizing::new([0; 32]));
        getrandom::fill(&mut id).ok()?;
        getrandom::fill(&mut *bytes).ok()?;
        let text = Hidden::new(base64::encode(&*bytes));
        Some((Self::of(&hexadecimal(&id), &text)?, text))
    }

    pub(super) fn of(id: &str, text: &Hidden) -> Option<Self> {
        let bytes = Zeroizing::new(base64::decode(text.reveal())?);
        let key = LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, &bytes).ok()?);
        Some(Self { id: id.to_owned(), key })
    }

    /// Bound to the name: what is kept under one cannot be put under another.
    pub(super) fn seal(&self, name: &str, value: &Hidden) -> Option<String> {
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).ok()?;
        let room = value.reveal().len() + CHACHA20_POLY1305.tag_len();
        let mut text = Vec::with_capacity(room);
        text.extend_from_slice(value.reveal().as_bytes());
        let (aad, once) = (Aad::from(name.as_bytes()), Nonce::assume_unique_for_key(nonce));
        self.key.seal_in_place_append_tag(once, aad, &mut text).ok()?;
        Some(base64::encode(&[&nonce[..], &text].concat()))
    }

    pub(super) fn open(&self, name: &str, sealed: &str) -> Option<Hidden> {
        let bytes = Zeroizing::new(base64::decode(sealed)?);
        let (nonce, text) = bytes.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut text = Zeroizing::new(text.to_vec());
        let open = self.key.open_in_place(nonce, Aad::from(name.as_bytes()), &mut text).ok()?;
        Some(Hidden::new(str::from_utf8(open).ok()?))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("id", &self.id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_key_opens_it_and_only_under_its_name() {
        let ((one, text), (other, _)) = (Key::fresh().unwrap(), Key::fresh().unwrap());
        let value = Hidden::new("c4nary \u{e9}");
        let sealed = one.seal("name", &value).unwrap();
        assert!(!sealed.contains("c4nary"));
        assert_ne!(sealed, one.seal("name", &value).unwrap());
        assert_eq!(Key::of(&one.id, &text).unwrap().open("name", &sealed), Some(value));
        assert_eq!(one.open("another", &sealed), None);
        assert_eq!(other.open("name", &sealed), None);
        let mut torn = sealed.clone().into_bytes();
        torn[20] ^= 1;
        for bad in ["", "AAAA", &sealed[4..], str::from_utf8(&torn).unwrap()] {
            assert_eq!(one.open("name", bad), None, "{bad}");
        }
    }
}
