//! What of a text is a secret: by the name that it has, and by how it looks.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::{Map, Value as Json};

use super::name::is_secret;
use super::random::looks_generated;
use crate::value::Hidden;

/// What is shorter is a common word, a number, a switch.
const SHORTEST: usize = 6;

/// What only looks like a secret is at least as long as the shortest that are given out.
const SHORTEST_KEY: usize = 20;

/// How secrets of well-known makers begin.
const BEGINNINGS: [&str; 36] = [
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

/// Words that stand before credentials.
const SCHEMES: [&str; 6] = ["bearer", "basic", "token", "apikey", "negotiate", "digest"];

/// Values of settings whose names sound like those of secrets: `AUTH: required`.
const COMMON: [&str; 16] = [
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

/// How deep texts in texts are looked into.
const DEPTH: u8 = 4;

/// What must not be shown of a text that has this name; an empty name is none.
pub(super) fn secrets(name: &str, text: &str, found: &mut Vec<Hidden>) {
    seek(name, text, Search::VALUES, DEPTH, &mut |secret| found.push(Hidden::new(secret)));
}

/// The same for a value that a server is given under a name, which may be a credential by its looks alone.
pub(super) fn given(name: &str, text: &str, found: &mut Vec<Hidden>) {
    secrets(name, text, found);
    if looks_generated(name, text.trim()) {
        whole(text, found);
    }
}

/// What must not be shown of a text that is a secret, whatever it is called and however short it is.
pub(super) fn whole(text: &str, found: &mut Vec<Hidden>) {
    tell_whole(text, &mut |secret| found.push(Hidden::new(secret)));
}

/// The places of secrets in a configured text, for output that shows the rest of it. Positions make it possible to mask
/// short secrets as well, which cannot be replaced wherever they occur. A secret with spaces is only masked if it is the
/// whole text: a command line must not disappear behind `TOKEN=x; …`.
pub(super) fn places(name: &str, text: &str) -> Vec<Range<usize>> {
    let mut places = Vec::new();
    seek(name, text, Search::DISPLAY, DEPTH, &mut |secret| match secret {
        Cow::Borrowed(part) => places.extend(place_of(part, text)),
        Cow::Owned(copy) => {
            let quoted = Json::String(copy.clone()).to_string();
            let escaped = quoted.trim_matches('"');
            for form in [copy.as_str(), escaped].iter().filter(|form| form.len() >= SHORTEST) {
                let starts = text.match_indices(form).map(|(at, _)| at);
                places.extend(starts.map(|at| at..at + form.len()));
            }
        }
    });
    places.sort_unstable_by_key(|place| (place.start, place.end));
    places
}

/// What counts as a secret.
#[derive(Clone, Copy)]
struct Search {
    /// The shortest text that does where its name says so.
    shortest: usize,
    /// Whether a named text with spaces does.
    has_spaces: bool,
    /// Whether a named part of a text does that has spaces.
    parts_have_spaces: bool,
}

impl Search {
    /// Values that are replaced wherever they occur.
    const VALUES: Search = Search { shortest: SHORTEST, has_spaces: true, parts_have_spaces: true };
    /// Places in a text that is shown.
    const DISPLAY: Search = Search { shortest: 1, has_spaces: true, parts_have_spaces: false };

    /// The same for parts of a text.
    fn inside(self) -> Self {
        Search { has_spaces: self.parts_have_spaces, ..self }
    }
}

/// Takes each secret that is found: a part of the text, or a copy where the text writes it in another way.
type Tell<'t, 'a> = dyn FnMut(Cow<'a, str>) + 't;

fn tell_whole<'a>(text: &'a str, tell: &mut Tell<'_, 'a>) {
    let bare = without_scheme(text).unwrap_or(text).trim();
    tell(Cow::Borrowed(bare));
    // A key of many lines may be told line by line.
    let lines = bare.lines().map(str::trim).filter(|_| bare.contains('\n'));
    lines.filter(|line| is_long_line(line)).for_each(|line| tell(Cow::Borrowed(line)));
}

fn seek<'a>(name: &str, text: &'a str, search: Search, depth: u8, tell: &mut Tell<'_, 'a>) {
    let text = text.trim();
    let Some(depth) = depth.checked_sub(1).filter(|_| text.len() >= search.shortest) else {
        return;
    };
    if let Ok(map) = serde_json::from_str::<Map<String, Json>>(text) {
        let mut copy = |secret: Cow<'_, str>| tell(Cow::Owned(secret.into_owned()));
        return map.iter().for_each(|(key, value)| seek_json(key, value, search, depth, &mut copy));
    }
    let is_named = is_secret(name) && is_worth(text, search.shortest);
    let bare = without_scheme(text).unwrap_or(text);
    let is_word = search.has_spaces || !bare.contains(char::is_whitespace);
    if looks_secret(text, search.shortest) || (is_named && is_word) {
        tell_whole(text, tell);
    }
    passwords_in(text, search.shortest, tell);
    for (inner, value) in pairs(text) {
        // What a secret consists of is one as well: the session in a cookie, the password in a DSN.
        let inner = if is_cookie(name) { name } else { inner };
        seek(inner, value, search.inside(), depth, tell);
    }
    for (flag, value) in flags(text) {
        seek(flag, value, search.inside(), depth, tell);
    }
}

/// The same of every text in a tree.
pub(super) fn in_json(name: &str, value: &Json, found: &mut Vec<Hidden>) {
    let mut tell = |secret: Cow<'_, str>| found.push(Hidden::new(secret));
    seek_json(name, value, Search::VALUES, DEPTH, &mut tell);
}

fn seek_json<'a>(name: &str, value: &'a Json, search: Search, depth: u8, tell: &mut Tell<'_, 'a>) {
    match value {
        Json::String(text) => seek(name, text, search, depth, tell),
        Json::Array(items) => {
            items.iter().for_each(|item| seek_json(name, item, search, depth, tell));
        }
        Json::Object(map) => {
            map.iter().for_each(|(key, value)| seek_json(key, value, search, depth, tell));
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

/// Texts in a text that have names: `Name: value`, and `name=value` in addresses, arguments and connection strings.
fn pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let is_name = |name: &str| name.chars().all(|c| c.is_alphanumeric() || "-_".contains(c));
    let header = text.split_once(':').filter(|(_, value)| !value.starts_with("//"));
    let whole = [header, text.split_once('=')].into_iter().flatten();
    let whole = whole.filter(move |(name, _)| is_name(name));
    let pieces = text.split([';', '&', '?', '#', ',', ' ', '\n']);
    let named = pieces.filter_map(|piece| piece.split_once('='));
    whole.chain(named).map(|(name, value)| (name, value.trim_matches(['"', '\''])))
}

/// Words of a command line that follow a flag: `--token abc`.
fn flags(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let next = text.split_whitespace().skip(1);
    let both = text.split_whitespace().zip(next).filter(|(flag, _)| is_flag(flag));
    both.map(|(flag, value)| (flag, value.trim_matches(['"', '\''])))
}

/// Whether the next argument is the value of this one.
pub(super) fn is_flag(arg: &str) -> bool {
    arg.starts_with('-') && !arg.contains(['=', ' '])
}

/// What says who asks in the addresses of a text: the password, or a long name without one.
fn passwords_in<'a>(text: &'a str, shortest: usize, tell: &mut Tell<'_, 'a>) {
    for rest in text.split("://").skip(1) {
        let authority = rest.split(['/', '?', '#', ' ', '"', '\'']).next().unwrap_or_default();
        let Some((who, _)) = authority.rsplit_once('@') else { continue };
        let secret = match who.split_once(':') {
            Some((_, password)) if is_worth(password, shortest) => password,
            None if who.len() >= SHORTEST_KEY => who,
            _ => continue,
        };
        tell(Cow::Borrowed(secret));
        let encoded = secret.replace('+', "%2B");
        let decoded = url::form_urlencoded::parse(encoded.as_bytes()).next();
        let decoded = decoded.filter(|_| secret.contains('%'));
        decoded.into_iter().for_each(|(text, _)| tell(Cow::Owned(text.into_owned())));
    }
}

/// Where a part of a text stands in it.
fn place_of(part: &str, text: &str) -> Option<Range<usize>> {
    let start = (part.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
    let end = start + part.len();
    (start < end && end <= text.len()).then_some(start..end)
}

fn is_cookie(name: &str) -> bool {
    name.to_ascii_lowercase().contains("cookie")
}

/// Whether it is one, whatever its name.
fn looks_secret(text: &str, shortest: usize) -> bool {
    let is_key = |text: &str| {
        let is_sign = |c: char| c.is_ascii_alphanumeric() || "_-.+/=:".contains(c);
        text.len() >= SHORTEST_KEY
            && BEGINNINGS.iter().any(|beginning| text.starts_with(beginning))
            && text.chars().all(is_sign)
            && text.contains(|c: char| c.is_ascii_digit())
    };
    let behind = without_scheme(text).filter(|rest| !rest.contains(char::is_whitespace));
    behind.is_some_and(|rest| is_worth(rest, shortest))
        || is_key(text)
        || text.contains("PRIVATE KEY-----")
}

/// Credentials without the word that stands before them.
fn without_scheme(text: &str) -> Option<&str> {
    let (scheme, rest) = text.trim().split_once(' ')?;
    SCHEMES.iter().any(|it| it.eq_ignore_ascii_case(scheme)).then(|| rest.trim())
}

/// Whether a text that has the name of a secret is one.
fn is_worth(text: &str, shortest: usize) -> bool {
    text.len() >= shortest
        && !COMMON.iter().any(|word| word.eq_ignore_ascii_case(text))
        && !is_place(text)
}

/// Where a secret is, or who gives it out: a path, or an address with nothing in it that could be one.
fn is_place(text: &str) -> bool {
    // Random letters may begin with a slash; only paths have dots.
    let is_path = ["/", "~/", "./", "../"].iter().any(|start| text.starts_with(start));
    if is_path {
        return text.contains('.') && !text.contains(char::is_whitespace);
    }
    let Some((_, rest)) = text.split_once("://") else { return false };
    !rest.contains(['@', '?', '=', ' '])
        && rest.split('/').skip(1).all(|part| part.len() < SHORTEST_KEY)
}

fn is_long_line(line: &str) -> bool {
    line.len() >= SHORTEST_KEY && !line.starts_with("-----")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, text: &str, expected: &[&str]) {
        let mut found = Vec::new();
        secrets(name, text, &mut found);
        let mut found: Vec<&str> = found.iter().map(Hidden::reveal).collect();
        found.dedup();
        assert_eq!(found, expected, "{name}={text}");
    }

    #[test]
    fn what_has_the_name_of_a_secret_is_one() {
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
    fn common_words_numbers_and_places_are_none() {
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
    fn what_looks_like_a_secret_is_one_whatever_its_name() {
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
    fn of_a_longer_text_only_the_secret_is_hidden() {
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
    fn a_key_of_many_lines_is_hidden_line_by_line() {
        let line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC";
        let key = format!("-----BEGIN PRIVATE KEY-----\n{line}\nabc=\n-----END PRIVATE KEY-----");
        check("V", &format!("{key}\n"), &[&key, line]);
        let json = serde_json::json!({"type": "service_account", "private_key": key}).to_string();
        check("GOOGLE_CREDENTIALS", &json, &[&key, line]);
    }

    #[test]
    fn texts_in_texts_have_an_end() {
        let deep = "a=".repeat(50_000);
        check("", &deep, &[]);
    }
}
