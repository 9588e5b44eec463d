//! Detection of generated values: keys and tokens without a known prefix.

use super::secret_names::is_metadata_name;

/// Shorter values may be names, versions or dates.
const MIN_LENGTH: usize = 16;

/// Shorter parts may be names with a number.
const MIN_PART_LENGTH: usize = 8;

/// Generated text switches between letters and digits often.
const MIN_RUNS: usize = 4;
const MAX_MEAN_RUN: usize = 3;

/// Names with these last words belong to public generated values, such as `GIT_COMMIT`.
const PUBLIC_ID_WORDS: [&str; 10] =
    ["build", "checksum", "commit", "digest", "hash", "image", "ref", "revision", "tag", "version"];

/// Returns whether a value looks like a credential although neither its name nor its prefix says so.
pub(super) fn looks_generated(name: &str, text: &str) -> bool {
    let is_path_or_url = text.starts_with(['/', '~', '.']) || text.contains("://");
    text.len() >= MIN_LENGTH
        && !is_path_or_url
        && !text.contains(char::is_whitespace)
        && !is_metadata_name(name, &PUBLIC_ID_WORDS)
        && text.split(|c: char| !c.is_ascii_alphanumeric()).any(is_random)
}

/// Returns whether letters and digits alternate as in no word. A capital and the following small letters count as one
/// run.
fn is_random(part: &str) -> bool {
    let kind = |byte: u8| match byte {
        b'0'..=b'9' => 0,
        b'a'..=b'z' => 1,
        _ => 2,
    };
    let bytes = part.as_bytes();
    let changes = bytes.windows(2).filter(|two| match (kind(two[0]), kind(two[1])) {
        (2, 1) => false,
        (before, after) => before != after,
    });
    let runs = changes.count() + 1;
    let (has_digit, has_letter) =
        (bytes.iter().any(u8::is_ascii_digit), bytes.iter().any(u8::is_ascii_alphabetic));
    part.len() >= MIN_PART_LENGTH
        && has_digit
        && has_letter
        && runs >= MIN_RUNS
        && part.len() < MAX_MEAN_RUN * runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_values_are_distinguished_from_words_paths_versions_and_dates() {
        for text in [
            "9f86d081884c7d659a2feaa0c55ad015",
            "3f2504e0-4f89-41d3-9a0c-0305e82c3301",
            "kJ8sPq2LmZ0xWv4T",
            "prod:a8Kd93nXq01LzP7",
            "bPxRfi1Cy9/EK4mQ7Ab+zZ==",
        ] {
            assert!(looks_generated("V", text), "{text}");
        }
        for text in [
            "true",
            "production",
            "a1b2c3d4",
            "/usr/local/bin:/usr/bin:/bin",
            "/srv/a1b2c3d4e5f6a7b8",
            "https://h.test/a1b2c3d4e5f6a7b8",
            "claude-sonnet-4-20250514",
            "us-east-1-production-cluster2",
            "2025-11-25T12:00:00.123Z",
            "20251125T120000Z",
            "postgres15-alpine3.18",
            "x86_64-unknown-linux-gnu",
            "MyDatabaseServerName2",
            "john.doe1985@example.com",
            "192.168.100.200:8080",
            "12345678901234567890",
            "a sentence with 4f89a2c1d3",
        ] {
            assert!(!looks_generated("V", text), "{text}");
        }
        for name in ["PROJECT_ID", "GIT_COMMIT", "IMAGE_DIGEST", "KEY_NAME"] {
            assert!(!looks_generated(name, "9f86d081884c7d659a2feaa0c55ad015"), "{name}");
        }
    }
}
