//! What of a text is a secret: by the name that it has, and by how it looks.

use serde_json::{Map, Value as Json};

use super::name::is_secret;
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
    seek(name, text, DEPTH, found);
}

/// What must not be shown of a text that is a secret, whatever it is called and however short it is.
pub(super) fn whole(text: &str, found: &mut Vec<Hidden>) {
    let bare = without_scheme(text).unwrap_or(text).trim();
    found.push(Hidden::new(bare));
    // A key of many lines may be told line by line.
    let lines = bare.lines().map(str::trim).filter(|_| bare.contains('\n'));
    found.extend(lines.filter(|line| is_long_line(line)).map(Hidden::new));
}

fn seek(name: &str, text: &str, depth: u8, found: &mut Vec<Hidden>) {
    let text = text.trim();
    let Some(depth) = depth.checked_sub(1).filter(|_| text.len() >= SHORTEST) else { return };
    if let Ok(map) = serde_json::from_str::<Map<String, Json>>(text) {
        return map.iter().for_each(|(key, value)| seek_json(key, value, depth, found));
    }
    if looks_secret(text) || (is_secret(name) && is_worth(text)) {
        whole(text, found);
    }
    password_of(text, found);
    for (inner, value) in pairs(text) {
        // What a secret consists of is one as well: the session in a cookie, the password in a DSN.
        let inner = if is_cookie(name) { name } else { inner };
        seek(inner, value, depth, found);
    }
}

/// The same of every text in a tree.
pub(super) fn in_json(name: &str, value: &Json, found: &mut Vec<Hidden>) {
    seek_json(name, value, DEPTH, found);
}

fn seek_json(name: &str, value: &Json, depth: u8, found: &mut Vec<Hidden>) {
    match value {
        Json::String(text) => seek(name, text, depth, found),
        Json::Array(items) => items.iter().for_each(|item| seek_json(name, item, depth, found)),
        Json::Object(map) => {
            map.iter().for_each(|(key, value)| seek_json(key, value, depth, found));
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

/// What says who asks in the addresses of a text: the password, or a long name without one.
fn password_of(text: &str, found: &mut Vec<Hidden>) {
    for rest in text.split("://").skip(1) {
        let authority = rest.split(['/', '?', '#', ' ', '"', '\'']).next().unwrap_or_default();
        let Some((who, _)) = authority.rsplit_once('@') else { continue };
        let secret = match who.split_once(':') {
            Some((_, password)) if is_worth(password) => password,
            None if who.len() >= SHORTEST_KEY => who,
            _ => continue,
        };
        found.push(Hidden::new(secret));
        let encoded = secret.replace('+', "%2B");
        let decoded = url::form_urlencoded::parse(encoded.as_bytes()).next();
        found.extend(decoded.filter(|_| secret.contains('%')).map(|(text, _)| Hidden::new(text)));
    }
}

fn is_cookie(name: &str) -> bool {
    name.to_ascii_lowercase().contains("cookie")
}

/// Whether it is one, whatever its name.
fn looks_secret(text: &str) -> bool {
    let is_key = |text: &str| {
        let is_sign = |c: char| c.is_ascii_alphanumeric() || "_-.+/=:".contains(c);
        text.len() >= SHORTEST_KEY
            && BEGINNINGS.iter().any(|beginning| text.starts_with(beginning))
            && text.chars().all(is_sign)
            && text.contains(|c: char| c.is_ascii_digit())
    };
    let behind = without_scheme(text).filter(|rest| !rest.contains(char::is_whitespace));
    behind.is_some_and(is_worth) || is_key(text) || text.contains("PRIVATE KEY-----")
}

/// Credentials without the word that stands before them.
fn without_scheme(text: &str) -> Option<&str> {
    let (scheme, rest) = text.trim().split_once(' ')?;
    SCHEMES.iter().any(|it| it.eq_ignore_ascii_case(scheme)).then(|| rest.trim())
}

/// Whether a text that has the name of a secret is one.
fn is_worth(text: &str) -> bool {
    text.len() >= SHORTEST
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
