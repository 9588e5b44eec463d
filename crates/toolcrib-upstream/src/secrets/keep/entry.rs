//! What stands in a file of the keep: whose it is, and what is kept, as it is or sealed.

use std::fmt::Write;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use toolcrib_config::Hidden;
use zeroize::Zeroizing;

use super::seal::Key;

pub(super) enum Entry {
    Plain { name: String, value: Hidden },
    Sealed { name: String, key: String, sealed: String },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Zeroizing<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sealed: Option<String>,
}

/// The text of a file; nothing where there is no randomness to seal it with.
pub(super) fn text(name: &str, value: &Hidden, key: Option<&Key>) -> Option<Hidden> {
    let mut written = Written { name: name.to_owned(), value: None, key: None, sealed: None };
    match key {
        None => written.value = Some(Zeroizing::new(value.reveal().to_owned())),
        Some(key) => {
            written.key = Some(key.id.clone());
            written.sealed = Some(key.seal(name, value)?);
        }
    }
    serde_json::to_string(&written).ok().map(Hidden::new)
}

pub(super) fn read(text: Vec<u8>) -> Option<Entry> {
    let text = Zeroizing::new(text);
    match serde_json::from_slice(&text).ok()? {
        Written { name, value: Some(value), key: None, sealed: None } => {
            Some(Entry::Plain { name, value: Hidden::new(value.as_str()) })
        }
        Written { name, value: None, key: Some(key), sealed: Some(sealed) } => {
            Some(Entry::Sealed { name, key, sealed })
        }
        _ => None,
    }
}

/// What stands for a name in the names of files: names may hold addresses, and be of any length.
pub(super) fn digits(name: &str) -> String {
    hexadecimal(Sha256::digest(name.as_bytes()).get(..16).unwrap_or_default())
}

pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut digits, byte| {
        // A string takes whatever it is given.
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}
