//! File format of a credential: its name and its value, plain or sealed.

use std::fmt::Write;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use toolcrib_config::SecretString;
use zeroize::Zeroizing;

use super::sealing_key::SealingKey;

pub(super) enum CredentialEntry {
    Plain { name: String, value: SecretString },
    Sealed { name: String, key: String, sealed: String },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EntryFile {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Zeroizing<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sealed: Option<String>,
}

/// Serializes an entry. Returns `None` if the system has no randomness to seal with.
pub(super) fn serialize_entry(
    name: &str,
    value: &SecretString,
    key: Option<&SealingKey>,
) -> Option<SecretString> {
    let mut file = EntryFile { name: name.to_owned(), value: None, key: None, sealed: None };
    match key {
        None => file.value = Some(Zeroizing::new(value.reveal().to_owned())),
        Some(key) => {
            file.key = Some(key.id.clone());
            file.sealed = Some(key.seal(name, value)?);
        }
    }
    serde_json::to_string(&file).ok().map(SecretString::new)
}

pub(super) fn parse_entry(text: Vec<u8>) -> Option<CredentialEntry> {
    let text = Zeroizing::new(text);
    match serde_json::from_slice(&text).ok()? {
        EntryFile { name, value: Some(value), key: None, sealed: None } => {
            Some(CredentialEntry::Plain { name, value: SecretString::new(value.as_str()) })
        }
        EntryFile { name, value: None, key: Some(key), sealed: Some(sealed) } => {
            Some(CredentialEntry::Sealed { name, key, sealed })
        }
        _ => None,
    }
}

/// Returns the file stem for a credential name: a hash, because names may hold URLs and have any length.
pub(super) fn file_stem(name: &str) -> String {
    hex(Sha256::digest(name.as_bytes()).get(..16).unwrap_or_default())
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
