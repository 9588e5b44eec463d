//! Encryption of stored credentials with a key from the keyring.

use std::fmt;

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use toolcrib_config::SecretString;
use toolcrib_wire::base64;
use zeroize::Zeroizing;

use super::entry::hex;

/// A key that encrypts credentials.
pub(super) struct SealingKey {
    /// Stored with each sealed value, so that two concurrently created keys do not conflict.
    pub(super) id: String,
    key: LessSafeKey,
}

impl SealingKey {
    /// Generates a key, and its text form for the keyring.
    pub(super) fn generate() -> Option<(Self, SecretString)> {
        let (mut id, mut bytes) = ([0; 8], Zeroizing::new([0; 32]));
        getrandom::fill(&mut id).ok()?;
        getrandom::fill(&mut *bytes).ok()?;
        let text = SecretString::new(base64::encode(&*bytes));
        Some((Self::from_text(&hex(&id), &text)?, text))
    }

    pub(super) fn from_text(id: &str, text: &SecretString) -> Option<Self> {
        let bytes = Zeroizing::new(base64::decode(text.reveal())?);
        let key = LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, &bytes).ok()?);
        Some(Self { id: id.to_owned(), key })
    }

    /// Encrypts a value. The name is authenticated data, so a value cannot be moved to another name.
    pub(super) fn seal(&self, name: &str, value: &SecretString) -> Option<String> {
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).ok()?;
        let room = value.reveal().len() + CHACHA20_POLY1305.tag_len();
        let mut text = Vec::with_capacity(room);
        text.extend_from_slice(value.reveal().as_bytes());
        let (aad, once) = (Aad::from(name.as_bytes()), Nonce::assume_unique_for_key(nonce));
        self.key.seal_in_place_append_tag(once, aad, &mut text).ok()?;
        Some(base64::encode(&[&nonce[..], &text].concat()))
    }

    pub(super) fn open(&self, name: &str, sealed: &str) -> Option<SecretString> {
        let bytes = Zeroizing::new(base64::decode(sealed)?);
        let (nonce, text) = bytes.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut text = Zeroizing::new(text.to_vec());
        let open = self.key.open_in_place(nonce, Aad::from(name.as_bytes()), &mut text).ok()?;
        Some(SecretString::new(str::from_utf8(open).ok()?))
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealingKey").field("id", &self.id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealed_value_opens_only_with_its_key_and_name() {
        let ((one, text), (other, _)) =
            (SealingKey::generate().unwrap(), SealingKey::generate().unwrap());
        let value = SecretString::new("c4nary \u{e9}");
        let sealed = one.seal("name", &value).unwrap();
        assert!(!sealed.contains("c4nary"));
        assert_ne!(sealed, one.seal("name", &value).unwrap());
        assert_eq!(
            SealingKey::from_text(&one.id, &text).unwrap().open("name", &sealed),
            Some(value)
        );
        assert_eq!(one.open("another", &sealed), None);
        assert_eq!(other.open("name", &sealed), None);
        let mut corrupted = sealed.clone().into_bytes();
        corrupted[20] ^= 1;
        for bad in ["", "AAAA", &sealed[4..], str::from_utf8(&corrupted).unwrap()] {
            assert_eq!(one.open("name", bad), None, "{bad}");
        }
    }
}
