//! Encodings of a secret that a text may contain.

use toolcrib_config::SecretString;
use toolcrib_wire::{RawJson, base64};
use url::Url;

/// Minimum length of a masked text. Shorter ones match by chance.
pub(super) const MIN_SECRET_LENGTH: usize = 4;

/// Minimum length of a line of a multi-line secret. Shorter lines may be common.
const MIN_LINE_LENGTH: usize = 12;

/// Minimum length for matching inside of longer base64 data. Shorter secrets determine too few characters.
const MIN_INNER_LENGTH: usize = 8;

/// Characters besides letters and digits that URL encoders keep: RFC 3986, `encodeURIComponent`, Python's
/// `quote`, `encodeURI`, and forms.
const UNRESERVED_SETS: [&str; 5] = ["-._~", "-_.!~*'()", "-._~/", ";,/?:@&=+$-_.!~*'()#", "*-._"];

/// Returns the encodings of a secret: plain, JSON-escaped once and twice, percent-encoded and base64, and
/// those of each long line.
pub(super) fn secret_forms(secret: &str) -> Vec<SecretString> {
    // A short secret is ignored in every encoding.
    if secret.len() < MIN_SECRET_LENGTH {
        return Vec::new();
    }
    let is_worth = |line: &&str| line.len() >= MIN_LINE_LENGTH && !line.starts_with("-----");
    let lines = secret.lines().map(str::trim).filter(is_worth);
    let lines = lines.filter(|_| secret.trim().contains('\n'));
    let texts = [secret].into_iter().chain(lines);
    let forms = texts.flat_map(|text| {
        let once = json_escape(text);
        let twice = json_escape(&once);
        let plain = [text.to_owned(), once, twice];
        plain.into_iter().chain(percent_forms(text)).chain(base64_forms(text.as_bytes()))
    });
    forms.map(SecretString::new).collect()
}

fn json_escape(text: &str) -> String {
    let quoted = RawJson::string(text);
    let inner = quoted.text().strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    inner.unwrap_or_default().to_owned()
}

fn percent_forms(text: &str) -> Vec<String> {
    let query = Url::parse("http://h/").ok().map(|mut url| {
        url.set_query(Some(text));
        url.query().unwrap_or_default().to_owned()
    });
    let encoded = UNRESERVED_SETS.iter().flat_map(|unreserved| {
        let upper = percent_encode(text, unreserved, |byte| format!("%{byte:02X}"));
        let lower = percent_encode(text, unreserved, |byte| format!("%{byte:02x}"));
        [upper, lower]
    });
    let mut forms: Vec<String> = encoded.chain(query).collect();
    let plus: Vec<String> = forms.iter().map(|form| form.replace("%20", "+")).collect();
    forms.extend(plus);
    forms
}

fn percent_encode(text: &str, unreserved: &str, write: fn(u8) -> String) -> String {
    let encoded = text.bytes().map(|byte| match byte {
        b if b.is_ascii_alphanumeric() || unreserved.as_bytes().contains(&b) => {
            char::from(b).to_string()
        }
        b => write(b),
    });
    encoded.collect()
}

/// Returns base64 encodings in both alphabets, with and without padding, and the part that is independent of
/// surrounding data, as in `user:secret`.
fn base64_forms(bytes: &[u8]) -> Vec<String> {
    let whole = base64::encode(bytes);
    let bare = whole.trim_end_matches('=').to_owned();
    let mut forms = vec![whole, bare];
    if bytes.len() >= MIN_INNER_LENGTH {
        forms.extend((0..3).filter_map(|before| inner_base64(bytes, before)));
    }
    let url_safe: Vec<String> =
        forms.iter().map(|form| form.replace('+', "-").replace('/', "_")).collect();
    forms.extend(url_safe);
    forms
}

/// Returns the base64 characters that depend on the secret alone, if `before` bytes precede it in a group of
/// three.
fn inner_base64(bytes: &[u8], before: usize) -> Option<String> {
    let padded = [&[0; 2][..before.min(2)], bytes].concat();
    let first = (before * 8).div_ceil(6);
    let end = padded.len() * 8 / 6;
    base64::encode(&padded).get(first..end).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has_form(secret: &str, form: &str) -> bool {
        secret_forms(secret).iter().any(|known| form.contains(known.reveal()))
    }

    #[test]
    fn base64_forms_match_at_any_offset() {
        let secret = "c4nary-\u{fe}?~>é1";
        for before in ["", "a", "ab", "abc", "user:", "{\"k\":\""] {
            for after in ["", "x", "xy", "\n", "\"}"] {
                let text = base64::encode(format!("{before}{secret}{after}").as_bytes());
                assert!(has_form(secret, &text), "{text}");
                let url_safe = text.replace('+', "-").replace('/', "_");
                assert!(has_form(secret, url_safe.trim_end_matches('=')), "{url_safe}");
            }
        }
        assert!(has_form("abcd", "YWJjZA=="));
        assert!(!has_form("abc", "YWJj"));
    }

    #[test]
    fn percent_encoded_forms_match_common_encoders() {
        let secret = "a b/c+d~(e)'é";
        for form in [
            "a%20b%2Fc%2Bd~%28e%29%27%C3%A9",
            "a%20b%2fc%2bd~%28e%29%27%c3%a9",
            "a%20b%2Fc%2Bd~(e)'%C3%A9",
            "a%20b/c%2Bd~%28e%29%27%C3%A9",
            "a%20b/c+d~(e)'%C3%A9",
            "a+b%2Fc%2Bd%7E%28e%29%27%C3%A9",
        ] {
            assert!(has_form(secret, form), "{form}");
        }
    }

    #[test]
    fn long_lines_of_a_secret_have_forms_and_short_ones_do_not() {
        let secret = "-----BEGIN KEY-----\nMIIEvQIBADAN\n  abc=\n-----END KEY-----\n";
        assert!(has_form(secret, "it begins with MIIEvQIBADAN"));
        assert!(has_form(secret, &base64::encode(b"MIIEvQIBADAN")));
        assert!(!has_form(secret, "abc=") && !has_form(secret, "-----BEGIN KEY-----"));
    }
}
