//! Which scopes are asked for: what is configured, else what the server says, and never less than before.

use super::challenge::Challenge;
use super::discover::Found;

const OFFLINE: &str = "offline_access";

/// The scopes of a login. `before` is what was asked for earlier, and what the server has asked for since.
pub(super) fn scopes(
    configured: &[String],
    challenge: Option<&Challenge>,
    found: &Found,
    before: &[String],
) -> Vec<String> {
    let challenged = challenge.and_then(|challenge| challenge.scopes.as_deref());
    let supported = found.scopes.as_deref();
    let base = match configured {
        // What was challenged for in between is among `before` already.
        [] if before.is_empty() => challenged.or(supported).unwrap_or_default(),
        [] => challenged.unwrap_or_default(),
        configured => configured,
    };
    union(before, base)
}

/// The same, with the wish for a token that outlives the person's presence, where the issuer knows such a wish.
pub(super) fn offline(scopes: Vec<String>, found: &Found) -> Vec<String> {
    let wish = found.issuer.scopes_supported.iter().find(|scope| *scope == OFFLINE);
    union(&scopes, wish.map(std::slice::from_ref).unwrap_or_default())
}

/// Whether a person has to be asked again for the wish to count (OpenID Connect Core, 11).
pub(super) fn needs_consent(scopes: &[String]) -> bool {
    scopes.iter().any(|scope| scope == OFFLINE)
}

/// All of both, each once, the first ones first.
pub(super) fn union(first: &[String], second: &[String]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for scope in first.iter().chain(second) {
        if !all.contains(scope) {
            all.push(scope.clone());
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::*;
    use crate::auth::metadata::Issuer;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn check(configured: &str, challenged: Option<&str>, known: [Option<&str>; 3], expected: &str) {
        let [supported, of_issuer, before] = known;
        let server = Url::parse("https://a.example").unwrap();
        let mut issuer = Issuer::assumed(&server);
        issuer.scopes_supported = words(of_issuer.unwrap_or_default());
        let scopes_of = supported.map(words);
        let found = Found { issuer, resource: "https://a.example".to_owned(), scopes: scopes_of };
        let challenge = Challenge { scopes: challenged.map(words), ..Challenge::default() };
        let before = words(before.unwrap_or_default());
        let chosen = scopes(&words(configured), Some(&challenge), &found, &before);
        assert_eq!(offline(chosen, &found).join(" "), expected);
    }

    #[test]
    fn scopes_are_configured_or_challenged_for_or_all_that_are_supported_or_none() {
        check("", None, [None, None, None], "");
        check("", None, [Some("a b"), None, None], "a b");
        check("", Some("c"), [Some("a b"), None, None], "c");
        check("", Some(""), [Some("a b"), None, None], "");
        check("x", Some("c"), [Some("a b"), None, None], "x");
    }

    #[test]
    fn a_later_login_never_asks_for_less() {
        check("", Some("write"), [Some("profile"), None, Some("basic")], "basic write");
        check("", None, [Some("profile"), None, Some("basic write")], "basic write");
        check("x", Some("c"), [None, None, Some("basic x")], "basic x");
    }

    #[test]
    fn a_token_for_later_is_wished_for_only_where_the_issuer_knows_it() {
        check("", Some("a"), [None, Some("a offline_access"), None], "a offline_access");
        check("", Some("a"), [None, Some("a"), None], "a");
    }
}
