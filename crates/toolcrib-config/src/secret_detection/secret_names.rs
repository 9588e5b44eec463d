//! Names of secrets: variables, headers, parameters and keys of a file.

/// A word with this suffix marks a secret, also in the plural: `token` in `GITHUBTOKEN`.
const SECRET_SUFFIXES: [&str; 14] = [
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "credential",
    "cookie",
    "signature",
    "apikey",
    "accesskey",
    "secretkey",
    "privatekey",
    "connectionstring",
];

/// This whole word marks a secret, also in the plural: `KEY`, but not `MONKEY`.
const SECRET_WORDS: [&str; 12] = [
    "key",
    "auth",
    "authorization",
    "authentication",
    "pass",
    "pat",
    "private",
    "bearer",
    "cred",
    "jwt",
    "dsn",
    "pwd",
];

/// A name that ends in one of these describes a secret without being one: `TOKEN_URL`, `KEY_FILE`.
const METADATA_WORDS: [&str; 29] = [
    "algorithm",
    "audience",
    "budget",
    "count",
    "dir",
    "domain",
    "enabled",
    "endpoint",
    "expiry",
    "file",
    "host",
    "id",
    "issuer",
    "length",
    "limit",
    "method",
    "mode",
    "name",
    "path",
    "port",
    "required",
    "scope",
    "scopes",
    "size",
    "sock",
    "timeout",
    "ttl",
    "type",
    "url",
];

/// A name with one of these words is a count: `MAX_TOKENS`.
const COUNT_WORDS: [&str; 5] = ["max", "min", "num", "maximum", "minimum"];

/// Returns whether a value of this name is a secret.
pub(crate) fn is_secret(name: &str) -> bool {
    let words = split_words(name);
    // `PWD` alone is the working directory.
    !are_metadata_words(&words, &[]) && words != ["pwd"] && has_secret_word(&words)
}

/// Returns whether a value below this key may be a secret. When in doubt, it is.
pub(crate) fn may_be_secret(key: &str) -> bool {
    let lower = key.to_ascii_lowercase();
    let has = |part: &&str| lower.contains(*part);
    SECRET_SUFFIXES.iter().any(has) || ["auth", "key"].iter().any(has) || is_secret(key)
}

/// Returns whether the name ends in one of `more`, or describes something harmless: an address, a path, a count.
pub(super) fn is_metadata_name(name: &str, more: &[&str]) -> bool {
    are_metadata_words(&split_words(name), more)
}

fn are_metadata_words(words: &[String], more: &[&str]) -> bool {
    let ends =
        |last: &String| METADATA_WORDS.contains(&last.as_str()) || more.contains(&last.as_str());
    words.last().is_some_and(ends) || words.iter().any(|word| COUNT_WORDS.contains(&word.as_str()))
}

fn has_secret_word(words: &[String]) -> bool {
    let is_connection = words.windows(2).any(|two| two == ["connection", "string"]);
    is_connection
        || words.iter().any(|word| {
            let one = word.strip_suffix('s').filter(|one| SECRET_WORDS.contains(one));
            let ends = |ending: &&str| word.trim_end_matches('s').ends_with(*ending);
            one.is_some()
                || SECRET_WORDS.contains(&word.as_str())
                || SECRET_SUFFIXES.iter().any(ends)
        })
}

/// Splits a name into lower-case words: `accessToken`, `ACCESS_TOKEN` and `Access-Token` give the same two.
fn split_words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        let begins = !c.is_alphanumeric() || (c.is_uppercase() && was_lower);
        if begins {
            words.push(String::new());
        }
        if let (true, Some(word)) = (c.is_alphanumeric(), words.last_mut()) {
            word.extend(c.to_lowercase());
        }
        was_lower = c.is_lowercase() || c.is_numeric();
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_names_are_recognised() {
        for name in [
            "TOKEN",
            "GITHUB_TOKEN",
            "GITHUBTOKEN",
            "githubToken",
            "SLACK_TOKENS",
            "CLIENT_SECRET",
            "API_KEY",
            "apiKey",
            "APIKEY",
            "OPENAI_API_KEYS",
            "X-Api-Key",
            "PASSWORD",
            "PGPASSWORD",
            "DB_PASSWD",
            "DB_PASS",
            "MYSQL_PWD",
            "SSH_PASSPHRASE",
            "AUTH",
            "Authorization",
            "Proxy-Authorization",
            "AUTH_HEADER",
            "GOOGLE_CREDENTIALS",
            "Cookie",
            "SESSION_COOKIE",
            "PRIVATE_KEY",
            "SIGNATURE",
            "SENTRY_DSN",
            "GITHUB_PAT",
            "AZURE_STORAGE_CONNECTION_STRING",
            "ConnectionString",
            "AWS_SECRET_ACCESS_KEY",
            "JWT",
        ] {
            assert!(is_secret(name), "{name}");
            assert!(may_be_secret(name), "{name}");
        }
    }

    #[test]
    fn similar_harmless_names_are_not_secret() {
        for name in [
            "",
            "_",
            "PWD",
            "OLDPWD",
            "PATH",
            "HOME",
            "LOG_LEVEL",
            "NODE_ENV",
            "MONKEY",
            "KEYBOARD_LAYOUT",
            "AUTHOR",
            "COMPASS",
            "TOKENIZERS_PARALLELISM",
            "MAX_TOKENS",
            "TOKEN_LIMIT",
            "TOKEN_URL",
            "KEY_FILE",
            "PRIVATE_KEY_PATH",
            "SSH_AUTH_SOCK",
            "AUTH_MODE",
            "AWS_ACCESS_KEY_ID",
            "PATTERN",
            "Accept",
            "Content-Type",
            "User-Agent",
        ] {
            assert!(!is_secret(name), "{name}");
        }
    }
}
