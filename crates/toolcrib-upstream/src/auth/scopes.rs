//! Scopes of a token request: configured or from the server, and never fewer than before.

use super::challenge::BearerChallenge;
use super::discovery::Discovery;

const OFFLINE: &str = "offline_access";

/// Chooses the scopes of a login. `before` holds the scopes of earlier logins and of challenges since.
pub(super) fn requested_scopes(
    configured: &[String],
    challenge: Option<&BearerChallenge>,
    discovery: &Discovery,
    before: &[String],
) -> Vec<String> {
    let challenged = challenge.and_then(|challenge| challenge.scopes.as_deref());
    let supported = discovery.scopes.as_deref();
    let base = match configured {
        // `before` already contains the scopes of pending challenges.
        [] if before.is_empty() => challenged.or(supported).unwrap_or_default(),
        [] => challenged.unwrap_or_default(),
        configured => configured,
    };
    union(before, base)
}

/// Adds `offline_access` if the issuer supports it.
pub(super) fn with_offline_access(scopes: Vec<String>, discovery: &Discovery) -> Vec<String> {
    let wish = discovery.issuer.scopes_supported.iter().find(|scope| *scope == OFFLINE);
    union(&scopes, wish.map(std::slice::from_ref).unwrap_or_default())
}

/// Returns whether the request needs `prompt=consent` (OpenID Connect Core, section 11).
pub(super) fn needs_consent(scopes: &[String]) -> bool {
    scopes.iter().any(|scope| scope == OFFLINE)
}

/// Returns the union in order, without duplicates.
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
    use crate::auth::metadata::IssuerMetadata;

    fn scope_list(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn check(configured: &str, challenged: Option<&str>, known: [Option<&str>; 3], expected: &str) {
        let [supported, of_issuer, before] = known;
        let server = Url::parse("https://a.example").unwrap();
        let mut issuer = IssuerMetadata::default_for(&server);
        issuer.scopes_supported = scope_list(of_issuer.unwrap_or_default());
        let scopes_of = supported.map(scope_list);
        let discovery =
            Discovery { issuer, resource: "https://a.example".to_owned(), scopes: scopes_of };
        let challenge =
            BearerChallenge { scopes: challenged.map(scope_list), ..BearerChallenge::default() };
        let before = scope_list(before.unwrap_or_default());
        let chosen =
            requested_scopes(&scope_list(configured), Some(&challenge), &discovery, &before);
        assert_eq!(with_offline_access(chosen, &discovery).join(" "), expected);
    }

    #[test]
    fn scopes_come_from_configuration_then_challenge_then_metadata() {
        check("", None, [None, None, None], "");
        check("", None, [Some("a b"), None, None], "a b");
        check("", Some("c"), [Some("a b"), None, None], "c");
        check("", Some(""), [Some("a b"), None, None], "");
        check("x", Some("c"), [Some("a b"), None, None], "x");
    }

    #[test]
    fn later_logins_never_request_fewer_scopes() {
        check("", Some("write"), [Some("profile"), None, Some("basic")], "basic write");
        check("", None, [Some("profile"), None, Some("basic write")], "basic write");
        check("x", Some("c"), [None, None, Some("basic x")], "basic x");
    }

    #[test]
    fn offline_access_is_requested_only_where_supported() {
        check("", Some("a"), [None, Some("a offline_access"), None], "a offline_access");
        check("", Some("a"), [None, Some("a"), None], "a");
    }
}
