//! Search for secrets in a text, by name and by appearance.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::{Map, Value as Json};

use super::generated_values::looks_generated;
use super::secret_names::is_secret;
use crate::value::SecretString;

/// Shorter values are common words, numbers and switches.
const MIN_LENGTH: usize = 6;

/// Minimum length of a value that only its appearance marks as a secret: that of the shortest issued keys.
const MIN_KEY_LENGTH: usize = 20;

/// Prefixes of well-known providers' keys.
const KEY_PREFIXES: [&str; 36] = [
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "gldt-",
    "sk-",
    "sk_live_",
    "sk_test_",
    "rk_live_",
    "whsec_",
    "xoxb-",
    "xoxp-",
    "xoxa-",
    "xoxr-",
    "xoxs-",
    "xapp-",
    "AKIA",
    "ASIA",
    "AIza",
    "ya29.",
    "eyJ",
    "npm_",
    "pypi-",
    "hf_",
    "dop_v1_",
    "SG.",
    "shpat_",
    "lin_api_",
    "ntn_",
    "gsk_",
    "xai-",
    "pplx-",
    "toolcrib_",
];

/// Scheme words before credentials.
const AUTH_SCHEMES: [&str; 6] = ["bearer", "basic", "token", "apikey", "negotiate", "digest"];

/// Common values of settings with secret-like names: `AUTH: required`.
const COMMON_VALUES: [&str; 16] = [
    "always",
    "basic",
    "bearer",
    "default",
    "digest",
    "disabled",
    "enabled",
    "example",
    "localhost",
    "negotiate",
    "oauth2",
    "optional",
    "password",
    "production",
    "required",
    "session",
];

/// Maximum depth of texts within texts.
const MAX_DEPTH: u8 = 4;

/// Finds the secrets in a text with this name. An empty name counts as none.
pub(super) fn find_secrets(name: &str, text: &str, found: &mut Vec<SecretString>) {
    search_text(name, text, Search::VALUES, MAX_DEPTH, &mut |secret| {
        found.push(SecretString::new(secret))
    });
}

/// Like [`find_secrets`], for a value that a server receives under a name. It may be a credential by its appearance
/// alone.
pub(super) fn find_value_secrets(name: &str, text: &str, found: &mut Vec<SecretString>) {
    find_secrets(name, text, found);
    if looks_generated(name, text.trim()) {
        push_credential(text, found);
    }
}

/// Adds a text that is a secret, regardless of name and length.
pub(super) fn push_credential(text: &str, found: &mut Vec<SecretString>) {
    report_credential(text, &mut |secret| found.push(SecretString::new(secret)));
}

/// Returns the ranges of secrets in a configured text for display. Ranges can mask short secrets, which cannot be
/// replaced at every occurrence. A secret with spaces is masked only if it is the whole text, because a command line
/// must not disappear behind `TOKEN=x; …`.
pub(super) fn secret_ranges(name: &str, text: &str) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    search_text(name, text, Search::DISPLAY, MAX_DEPTH, &mut |secret| match secret {
        Cow::Borrowed(part) => ranges.extend(range_in(part, text)),
        Cow::Owned(copy) => {
            let quoted = Json::String(copy.clone()).to_string();
            let escaped = quoted.trim_matches('"');
            for form in [copy.as_str(), escaped].iter().filter(|form| form.len() >= MIN_LENGTH) {
                let starts = text.match_indices(form).map(|(at, _)| at);
                ranges.extend(starts.map(|at| at..at + form.len()));
            }
        }
    });
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    ranges
}

/// Criteria for a secret.
#[derive(Clone, Copy)]
struct Search {
    /// Minimum length of a value with a secret name.
    min_length: usize,
    /// True if a named text may contain spaces.
    allows_spaces: bool,
    /// True if a named part of a text may contain spaces.
    allows_spaces_in_parts: bool,
}

impl Search {
    /// Criteria for values that are replaced at every occurrence.
    const VALUES: Search =
        Search { min_length: MIN_LENGTH, allows_spaces: true, allows_spaces_in_parts: true };
    /// Criteria for ranges of a displayed text.
    const DISPLAY: Search =
        Search { min_length: 1, allows_spaces: true, allows_spaces_in_parts: false };

    /// Returns the criteria for parts of a text.
    fn inside(self) -> Self {
        Search { allows_spaces: self.allows_spaces_in_parts, ..self }
    }
}

/// Receives each secret: a part of the text, or a copy if the text has another spelling.
type OnSecret<'t, 'a> = dyn FnMut(Cow<'a, str>) + 't;

fn report_credential<'a>(text: &'a str, report: &mut OnSecret<'_, 'a>) {
    let bare = without_scheme(text).unwrap_or(text).trim();
    report(Cow::Borrowed(bare));
    // A multi-line key may be printed line by line.
    let lines = bare.lines().map(str::trim).filter(|_| bare.contains('\n'));
    lines.filter(|line| is_long_line(line)).for_each(|line| report(Cow::Borrowed(line)));
}

fn search_text<'a>(
    name: &str,
    text: &'a str,
    search: Search,
    depth: u8,
    report: &mut OnSecret<'_, 'a>,
) {
    let text = text.trim();
    let Some(depth) = depth.checked_sub(1).filter(|_| text.len() >= search.min_length) else {
        return;
    };
    if let Ok(map) = serde_json::from_str::<Map<String, Json>>(text) {
        let mut copy = |secret: Cow<'_, str>| report(Cow::Owned(secret.into_owned()));
        return map
            .iter()
            .for_each(|(key, value)| search_json(key, value, search, depth, &mut copy));
    }
    let is_named = is_secret(name) && is_plausible_secret(text, search.min_length);
    let bare = without_scheme(text).unwrap_or(text);
    let is_word = search.allows_spaces || !bare.contains(char::is_whitespace);
    if looks_secret(text, search.min_length) || (is_named && is_word) {
        report_credential(text, report);
    }
    find_url_passwords(text, search.min_length, report);
    for (inner, value) in named_values(text) {
        // Parts of a secret are secrets as well: the session in a cookie, the password in a DSN.
        let inner = if is_cookie(name) { name } else { inner };
        search_text(inner, value, search.inside(), depth, report);
    }
    for (flag, value) in flag_values(text) {
        search_text(flag, value, search.inside(), depth, report);
    }
}

/// Finds the secrets in every text of a JSON tree.
pub(super) fn find_json_secrets(name: &str, value: &Json, found: &mut Vec<SecretString>) {
    let mut report = |secret: Cow<'_, str>| found.push(SecretString::new(secret));
    search_json(name, value, Search::VALUES, MAX_DEPTH, &mut report);
}

fn search_json<'a>(
    name: &str,
    value: &'a Json,
    search: Search,
    depth: u8,
    report: &mut OnSecret<'_, 'a>,
) {
    match value {
        Json::String(text) => search_text(name, text, search, depth, report),
        Json::Array(items) => {
            items.iter().for_each(|item| search_json(name, item, search, depth, report));
        }
        Json::Object(map) => {
            map.iter().for_each(|(key, value)| search_json(key, value, search, depth, report));
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

/// Returns named parts of a text: `Name: value`, and `name=value` in URLs, arguments and connection strings.
fn named_values(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let is_name = |name: &str| name.chars().all(|c| c.is_alphanumeric() || "-_".contains(c));
    let header = text.split_once(':').filter(|(_, value)| !value.starts_with("//"));
    let whole = [header, text.split_once('=')].into_iter().flatten();
    let whole = whole.filter(move |(name, _)| is_name(name));
    let pieces = text.split([';', '&', '?', '#', ',', ' ', '\n']);
    let named = pieces.filter_map(|piece| piece.split_once('='));
    whole.chain(named).map(|(name, value)| (name, value.trim_matches(['"', '\''])))
}

/// Returns the words of a command line that follow a flag: `--token abc`.
fn flag_values(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let next = text.split_whitespace().skip(1);
    let both = text.split_whitespace().zip(next).filter(|(flag, _)| is_flag(flag));
    both.map(|(flag, value)| (flag, value.trim_matches(['"', '\''])))
}

/// Returns whether the next argument is the value of this one.
pub(super) fn is_flag(arg: &str) -> bool {
    arg.starts_with('-') && !arg.contains(['=', ' '])
}

/// Finds passwords in the URLs of a text, or long user names without a password.
fn find_url_passwords<'a>(text: &'a str, min_length: usize, report: &mut OnSecret<'_, 'a>) {
    for rest in text.split("://").skip(1) {
        let authority = rest.split(['/', '?', '#', ' ', '"', '\'']).next().unwrap_or_default();
        let Some((userinfo, _)) = authority.rsplit_once('@') else { continue };
        let secret = match userinfo.split_once(':') {
            Some((_, password)) if is_plausible_secret(password, min_length) => password,
            None if userinfo.len() >= MIN_KEY_LENGTH => userinfo,
            _ => continue,
        };
        report(Cow::Borrowed(secret));
        let encoded = secret.replace('+', "%2B");
        let decoded = url::form_urlencoded::parse(encoded.as_bytes()).next();
        let decoded = decoded.filter(|_| secret.contains('%'));
        decoded.into_iter().for_each(|(text, _)| report(Cow::Owned(text.into_owned())));
    }
}

/// Returns the range of a substring in its text.
fn range_in(part: &str, text: &str) -> Option<Range<usize>> {
    let start = (part.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
    let end = start + part.len();
    (start < end && end <= text.len()).then_some(start..end)
}

fn is_cookie(name: &str) -> bool {
    name.to_ascii_lowercase().contains("cookie")
}

/// Returns whether a text is a secret by its appearance.
fn looks_secret(text: &str, min_length: usize) -> bool {
    let is_key = |text: &str| {
        let is_sign = |c: char| c.is_ascii_alphanumeric() || "_-.+/=:".contains(c);
        text.len() >= MIN_KEY_LENGTH
            && KEY_PREFIXES.iter().any(|beginning| text.starts_with(beginning))
            && text.chars().all(is_sign)
            && text.contains(|c: char| c.is_ascii_digit())
    };
    let behind = without_scheme(text).filter(|rest| !rest.contains(char::is_whitespace));
    behind.is_some_and(|rest| is_plausible_secret(rest, min_length))
        || is_key(text)
        || text.contains("PRIVATE KEY-----")
}

/// Returns credentials without their scheme word.
fn without_scheme(text: &str) -> Option<&str> {
    let (scheme, rest) = text.trim().split_once(' ')?;
    AUTH_SCHEMES.iter().any(|it| it.eq_ignore_ascii_case(scheme)).then(|| rest.trim())
}

/// Returns whether a text with a secret name is a secret.
fn is_plausible_secret(text: &str, min_length: usize) -> bool {
    text.len() >= min_length
        && !COMMON_VALUES.iter().any(|word| word.eq_ignore_ascii_case(text))
        && !is_path_or_url(text)
}

/// Returns whether the text is a path, or a URL without anything that could be a secret.
fn is_path_or_url(text: &str) -> bool {
    // Random text may start with a slash, but only paths contain dots.
    let is_path = ["/", "~/", "./", "../"].iter().any(|start| text.starts_with(start));
    if is_path {
        return text.contains('.') && !text.contains(char::is_whitespace);
    }
    let Some((_, rest)) = text.split_once("://") else { return false };
    !rest.contains(['@', '?', '=', ' '])
        && rest.split('/').skip(1).all(|part| part.len() < MIN_KEY_LENGTH)
}

fn is_long_line(line: &str) -> bool {
    line.len() >= MIN_KEY_LENGTH && !line.starts_with("-----")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, text: &str, expected: &[&str]) {
        let mut found = Vec::new();
        find_secrets(name, text, &mut found);
        let mut found: Vec<&str> = found.iter().map(SecretString::reveal).collect();
        found.dedup();
        assert_eq!(found, expected, "{name}={text}");
    }

    #[test]
    fn values_with_secret_names_are_secrets() {
        check("API_TOKEN", "hunter2", &["hunter2"]);
        check("DB_PASSWORD", "correct horse battery", &["correct horse battery"]);
        check("Authorization", "Bearer abcdef", &["abcdef"]);
        check("authorization", "bearer  abcdef ", &["abcdef"]);
        check("Proxy-Authorization", "Basic YTpi", &["YTpi"]);
        check("X-Api-Key", "0123456", &["0123456"]);
        check("AWS_SECRET_ACCESS_KEY", "/bPxRfi+CYEXAMPLEKEY", &["/bPxRfi+CYEXAMPLEKEY"]);
        check(
            "WEBHOOK_SECRET",
            "https://h.test/0123456789abcdef0123",
            &["https://h.test/0123456789abcdef0123"],
        );
    }

    #[test]
    fn common_words_numbers_and_paths_are_not_secrets() {
        for (name, text) in [
            ("LOG_LEVEL", "debug-everything"),
            ("NODE_ENV", "production"),
            ("PORT", "7420"),
            ("HOME", "/srv/someone"),
            ("MAX_TOKENS", "1000000"),
            ("AUTH", "required"),
            ("AUTH", "Basic"),
            ("PASSWORD", "admin"),
            ("API_KEY", ""),
            ("SSH_KEY", "/srv/someone/.ssh/id_rsa"),
            ("GOOGLE_APPLICATION_CREDENTIALS", "~/keys/app.json"),
            ("AUTH_SERVER", "https://login.example.com/realms/main"),
            ("DATABASE_URL", "postgres://db.example.com:5432/app"),
            ("REMOTE", "ssh://git@example.com/x.git"),
            ("GREETING", "Bearer of good news"),
            ("MODEL", "sk-learn"),
            ("OPTIONS", "--color=always --verbose"),
            ("TIME", "12:30:45.678901"),
        ] {
            check(name, text, &[]);
        }
    }

    #[test]
    fn values_with_known_key_prefixes_are_secrets() {
        for key in [
            "ghp_0123456789abcdefABCDEF0123456789abcd",
            "github_pat_11ABCDEFG0123456789_abcdef",
            "sk-proj-0123456789abcdef",
            "xoxb-123456789012-abcdefghijkl",
            "AKIA0123456789ABCDEF",
            "glpat-0123456789abcdefghij",
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln",
        ] {
            check("V", key, &[key]);
            check("", &format!("--header=Authorization: Bearer {key}"), &[key]);
        }
        check("V", "Bearer abcdef", &["abcdef"]);
        check("V", "https://x-0123456789abcdefghij@git.test/r", &["x-0123456789abcdefghij"]);
    }

    #[test]
    fn only_the_secret_part_of_a_text_is_found() {
        check("DATABASE_URL", "postgres://app:hunter2@db:5432/app", &["hunter2"]);
        check("REDIS", "redis://:p%40ss%2Bword@r", &["p%40ss%2Bword", "p@ss+word"]);
        check("URL", "https://h.test/mcp?mode=a&api_key=abcdef#x", &["abcdef"]);
        check("DB", "Server=db;User=app;Password='hunter2';", &["hunter2"]);
        check("DB", "host=db password=hunter2 user=app", &["hunter2"]);
        check("", "Authorization:Bearer abcdef", &["abcdef"]);
        check("", "X-Api-Key: abcdef", &["abcdef"]);
        check("", "-e=GITHUB_TOKEN=abcdef", &["abcdef"]);
        let cookie = "session=abcdef; theme=dark";
        check("Cookie", cookie, &[cookie, "abcdef; theme=dark", "abcdef"]);
        let headers =
            r#"{"Authorization": "Bearer abcdef", "Version": "2022-06-28", "list": ["x"]}"#;
        check("HEADERS", headers, &["abcdef"]);
    }

    #[test]
    fn multi_line_keys_are_found_line_by_line() {
        let line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC";
        let key = format!("-----BEGIN PRIVATE KEY-----\n{line}\nabc=\n-----END PRIVATE KEY-----");
        check("V", &format!("{key}\n"), &[&key, line]);
        let json = serde_json::json!({"type": "service_account", "private_key": key}).to_string();
        check("GOOGLE_CREDENTIALS", &json, &[&key, line]);
    }

    #[test]
    fn search_depth_is_limited() {
        let deep = "a=".repeat(50_000);
        check("", &deep, &[]);
    }
}
