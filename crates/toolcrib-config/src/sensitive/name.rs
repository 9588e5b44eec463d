//! Which names are those of secrets, whatever they name: variables, headers, parameters, keys of a file.

/// A word of the name ends in one of these, as it is or in the plural: `token` in `GITHUBTOKEN`.
const ENDINGS: [&str; 14] = [
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

/// A word of the name is one of these, as it is or in the plural: `KEY`, but not `MONKEY`.
const WORDS: [&str; 12] = [
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

/// A name that ends so tells something about a secret, and not the secret: `TOKEN_URL`, `KEY_FILE`.
const ABOUT: [&str; 29] = [
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

/// A name with one of these counts something: `MAX_TOKENS`.
const MEASURES: [&str; 5] = ["max", "min", "num", "maximum", "minimum"];

/// Whether what has this name is a secret.
pub(crate) fn is_secret(name: &str) -> bool {
    let words = words(name);
    // On its own it is the working directory, which everybody has.
    !are_about(&words, &[]) && words != ["pwd"] && has_secret_word(&words)
}

/// Whether what stands below a key of this name in a file may be a secret: in doubt it is.
pub(crate) fn may_be_secret(key: &str) -> bool {
    let lower = key.to_ascii_lowercase();
    let has = |part: &&str| lower.contains(*part);
    ENDINGS.iter().any(has) || ["auth", "key"].iter().any(has) || is_secret(key)
}

/// Whether the name ends with one of `more`, or is that of something that no secret is: an address, a place, a count.
pub(super) fn is_about(name: &str, more: &[&str]) -> bool {
    are_about(&words(name), more)
}

fn are_about(words: &[String], more: &[&str]) -> bool {
    let ends = |last: &String| ABOUT.contains(&last.as_str()) || more.contains(&last.as_str());
    words.last().is_some_and(ends) || words.iter().any(|word| MEASURES.contains(&word.as_str()))
}

fn has_secret_word(words: &[String]) -> bool {
    let is_connection = words.windows(2).any(|two| two == ["connection", "string"]);
    is_connection
        || words.iter().any(|word| {
            let one = word.strip_suffix('s').filter(|one| WORDS.contains(one));
            let ends = |ending: &&str| word.trim_end_matches('s').ends_with(*ending);
            one.is_some() || WORDS.contains(&word.as_str()) || ENDINGS.iter().any(ends)
        })
}

/// The words of a name in lower case: `accessToken`, `ACCESS_TOKEN` and `Access-Token` have the same two.
fn words(name: &str) -> Vec<String> {
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
    fn the_name_of_a_secret_says_so() {
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
    fn what_only_sounds_like_it_is_none() {
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
