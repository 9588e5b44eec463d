//! What stands in a file of the keep: whose it is, and what is kept.

use std::fmt::Write;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use toolcrib_config::Hidden;

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) value: Hidden,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    value: String,
}

impl Entry {
    pub(super) fn text(&self) -> Hidden {
        let value = self.value.reveal().to_owned();
        let written = Written { name: self.name.clone(), value };
        // Two texts are always JSON.
        Hidden::new(serde_json::to_string(&written).unwrap_or_default())
    }

    pub(super) fn read(text: Vec<u8>) -> Option<Self> {
        let Written { name, value } = serde_json::from_slice(&text).ok()?;
        Some(Entry { name, value: Hidden::new(value) })
    }
}

/// What stands for a name in the names of files: names may hold addresses, and be of any length.
pub(super) fn digits(name: &str) -> String {
    Sha256::digest(name.as_bytes()).iter().take(16).fold(String::new(), |mut digits, byte| {
        // A string takes whatever it is given.
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}
