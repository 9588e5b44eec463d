//! The ways in which a text may write a secret.

use toolcrib_config::Hidden;
use toolcrib_wire::{Raw, base64};
use url::Url;

/// A shorter text stands in any text by chance.
pub(super) const SHORTEST: usize = 4;

/// A shorter line of a secret may be a common line.
const SHORTEST_LINE: usize = 12;

/// The base64 of anything that holds a shorter secret is not looked for: too little of it is certain.
const SHORTEST_INNER: usize = 8;

/// What encoders of addresses leave as it is, besides letters and digits: RFC 3986, `encodeURIComponent`, Python's
/// `quote`, `encodeURI`, and forms.
const KEPT: [&str; 5] = ["-._~", "-_.!~*'()", "-._~/", ";,/?:@&=+$-_.!~*'()#", "*-._"];

/// A secret as it is, in a JSON text inside of a text (also twice), in an address and in base64; and each long line of it.
pub(super) fn forms_of(secret: &str) -> Vec<Hidden> {
    // A short secret stays short enough to be ignored, however it is written.
    if secret.len() < SHORTEST {
        return Vec::new();
    }
    let is_worth = |line: &&str| line.len() >= SHORTEST_LINE && !line.starts_with("-----");
    let lines = secret.lines().map(str::trim).filter(is_worth);
    let lines = lines.filter(|_| secret.trim().contains('\n'));
    let texts = [secret].into_iter().chain(lines);
    let forms = texts.flat_map(|text| {
        let once = escaped(text);
        let twice = escaped(&once);
        let plain = [text.to_owned(), once, twice];
        plain.into_iter().chain(percent_forms(text)).chain(base64_forms(text.as_bytes()))
    });
    forms.map(Hidden::new).collect()
}

fn escaped(text: &str) -> String {
    let quoted = Raw::string(text);
    let inner = quoted.text().strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    inner.unwrap_or_default().to_owned()
}

fn percent_forms(text: &str) -> Vec<String> {
    let query = Url::parse("http://h/").ok().map(|mut url| {
        url.set_query(Some(text));
        url.query().unwrap_or_default().to_owned()
    });
    let encoded = KEPT.iter().flat_map(|kept| {
        let upper = percent_encoded(text, kept, |byte| format!("%{byte:02X}"));
        let lower = percent_encoded(text, kept, |byte| format!("%{byte:02x}"));
        [upper, lower]
    });
    let mut forms: Vec<String> = encoded.chain(query).collect();
    let plus: Vec<String> = forms.iter().map(|form| form.replace("%20", "+")).collect();
    forms.extend(plus);
    forms
}

fn percent_encoded(text: &str, kept: &str, write: fn(u8) -> String) -> String {
    let encoded = text.bytes().map(|byte| match byte {
        b if b.is_ascii_alphanumeric() || kept.as_bytes().contains(&b) => char::from(b).to_string(),
        b => write(b),
    });
    encoded.collect()
}

/// In both alphabets, with padding and without; and the part that is the same wherever the secret stands in a longer
/// text that was encoded, such as `user:secret`.
fn base64_forms(bytes: &[u8]) -> Vec<String> {
    let whole = base64::encode(bytes);
    let bare = whole.trim_end_matches('=').to_owned();
    let mut forms = vec![whole, bare];
    if bytes.len() >= SHORTEST_INNER {
        forms.extend((0..3).filter_map(|before| inner_base64(bytes, before)));
    }
    let url_safe: Vec<String> =
        forms.iter().map(|form| form.replace('+', "-").replace('/', "_")).collect();
    forms.extend(url_safe);
    forms
}

/// The characters that depend on the secret alone, where `before` bytes stand before it in a group of three.
fn inner_base64(bytes: &[u8], before: usize) -> Option<String> {
    let padded = [&[0; 2][..before.min(2)], bytes].concat();
    let first = (before * 8).div_ceil(6);
    let end = padded.len() * 8 / 6;
    base64::encode(&padded).get(first..end).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(secret: &str, form: &str) -> bool {
        forms_of(secret).iter().any(|known| form.contains(known.reveal()))
    }

    #[test]
    fn base64_of_a_secret_is_known_wherever_the_secret_stands_in_what_was_encoded() {
        let secret = "c4nary-\u{fe}?~>é1";
        for before in ["", "a", "ab", "abc", "user:", "{\"k\":\""] {
            for after in ["", "x", "xy", "\n", "\"}"] {
                let text = base64::encode(format!("{before}{secret}{after}").as_bytes());
                assert!(has(secret, &text), "{text}");
                let url_safe = text.replace('+', "-").replace('/', "_");
                assert!(has(secret, url_safe.trim_end_matches('=')), "{url_safe}");
            }
        }
        assert!(has("abcd", "YWJjZA=="));
        assert!(!has("abc", "YWJj"));
    }

    #[test]
    fn percent_encoded_secrets_are_known_in_the_ways_of_common_encoders() {
        let secret = "a b/c+d~(e)'é";
        for form in [
            "a%20b%2Fc%2Bd~%28e%29%27%C3%A9",
            "a%20b%2fc%2bd~%28e%29%27%c3%a9",
            "a%20b%2Fc%2Bd~(e)'%C3%A9",
            "a%20b/c%2Bd~%28e%29%27%C3%A9",
            "a%20b/c+d~(e)'%C3%A9",
            "a+b%2Fc%2Bd%7E%28e%29%27%C3%A9",
        ] {
            assert!(has(secret, form), "{form}");
        }
    }

    #[test]
    fn long_lines_of_a_secret_are_known_and_short_ones_are_not() {
        let secret = "-----BEGIN KEY-----\nMIIEvQIBADAN\n  abc=\n-----END KEY-----\n";
        assert!(has(secret, "it begins with MIIEvQIBADAN"));
        assert!(has(secret, &base64::encode(b"MIIEvQIBADAN")));
        assert!(!has(secret, "abc=") && !has(secret, "-----BEGIN KEY-----"));
    }
}
