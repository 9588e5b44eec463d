//! Format version of a JSON state file.

use serde::Deserialize;

/// Returns the `version` member of a JSON file. A file without one has version 1.
///
/// A format that this program must not read, because it would lose data, gets a new version.
pub fn format_version(content: &[u8]) -> u64 {
    #[derive(Deserialize)]
    struct Versioned {
        version: u64,
    }
    serde_json::from_slice::<Versioned>(content).map_or(1, |file| file.version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_without_a_version_have_version_1() {
        for (content, version) in [
            (r#"{"folders":{}}"#, 1),
            (r#"[{"id":"a","name":"b"}]"#, 1),
            ("[]", 1),
            ("{", 1),
            ("", 1),
            (r#"{"version":1,"folders":{}}"#, 1),
            (r#"{"tokens":[],"version":7,"other":{"version":9}}"#, 7),
        ] {
            assert_eq!(format_version(content.as_bytes()), version, "{content}");
        }
    }
}
