//! Parser of `WWW-Authenticate` (RFC 9110), as far as bearer tokens use it.

use url::Url;

/// A bearer challenge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct BearerChallenge {
    /// URL of the server's metadata.
    pub(super) resource_metadata: Option<Url>,
    /// Required scopes. `None` if the challenge names none.
    pub(super) scopes: Option<Vec<String>>,
    pub(super) error: Option<String>,
}

impl BearerChallenge {
    /// Returns the first bearer challenge of the headers.
    pub(super) fn from_headers(headers: &[String]) -> Option<Self> {
        headers.iter().find_map(|header| Self::parse(header))
    }

    pub(super) fn is_insufficient_scope(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }

    fn parse(header: &str) -> Option<Self> {
        let mut found: Option<Self> = None;
        for part in parse_parts(header) {
            match (part, &mut found) {
                (HeaderPart::Scheme(scheme), None) if scheme.eq_ignore_ascii_case("bearer") => {
                    found = Some(Self::default());
                }
                // The next challenge begins.
                (HeaderPart::Scheme(_), Some(_)) => break,
                (HeaderPart::Param(name, value), Some(challenge)) => {
                    challenge.set_param(name, value)
                }
                _ => {}
            }
        }
        found
    }

    fn set_param(&mut self, name: &str, value: String) {
        match name.to_ascii_lowercase().as_str() {
            "resource_metadata" => self.resource_metadata = Url::parse(&value).ok(),
            "scope" => self.scopes = Some(value.split_whitespace().map(str::to_owned).collect()),
            "error" => self.error = Some(value),
            _ => {}
        }
    }
}

enum HeaderPart<'a> {
    Scheme(&'a str),
    Param(&'a str, String),
}

/// Splits a header into schemes and parameters, in order. Skips everything else, because the header is
/// untrusted.
fn parse_parts(header: &str) -> Vec<HeaderPart<'_>> {
    let mut parts = Vec::new();
    let mut rest = header;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let end = rest.find([' ', '\t', ',', '=']).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        if word.is_empty() && after.is_empty() {
            return parts;
        }
        match after.trim_start_matches([' ', '\t']).strip_prefix('=') {
            // A `token68` of other schemes may end with `=`.
            Some(value) if !word.is_empty() => {
                let (value, after) = parse_value(value.trim_start_matches([' ', '\t']));
                parts.push(HeaderPart::Param(word, value));
                rest = after;
            }
            Some(value) => rest = value,
            None => {
                parts.push(HeaderPart::Scheme(word));
                rest = after;
            }
        }
    }
}

/// Parses a value, quoted or not; returns it with the rest of the text.
fn parse_value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([' ', '\t', ',']).unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    };
    let mut value = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return (value, &quoted[at + 1..]),
            '\\' => value.extend(chars.next().map(|(_, char)| char)),
            other => value.push(other),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(header: &str, expected: Option<(Option<&str>, Option<&str>, Option<&str>)>) {
        let found = BearerChallenge::from_headers(&[header.to_owned()]);
        let found = found.as_ref().map(|challenge| {
            let scopes = challenge.scopes.as_ref().map(|scopes| scopes.join("+"));
            (
                challenge.resource_metadata.as_ref().map(Url::as_str),
                scopes,
                challenge.error.as_deref(),
            )
        });
        let found = found.as_ref().map(|(at, scopes, error)| (*at, scopes.as_deref(), *error));
        assert_eq!(found, expected, "{header}");
    }

    #[test]
    fn bearer_challenge_is_found_at_any_position() {
        let at = "https://a.example/m";
        check("Bearer", Some((None, None, None)));
        check("bearer realm=\"x, y\"", Some((None, None, None)));
        check(
            &format!("Bearer error=\"invalid_token\", resource_metadata=\"{at}\""),
            Some((Some(at), None, Some("invalid_token"))),
        );
        check("Basic realm=\"a\", Bearer scope=\"a b\"", Some((None, Some("a+b"), None)));
        check("Bearer scope=a, Basic scope=\"b\"", Some((None, Some("a"), None)));
        check("Bearer scope=\"\"", Some((None, Some(""), None)));
        check("Negotiate YII=, Bearer error=e", Some((None, None, Some("e"))));
        check("Bearer error = \"a\\\"b\"", Some((None, None, Some("a\"b"))));
    }

    #[test]
    fn malformed_challenges_are_ignored() {
        for header in ["", "Basic realm=\"Bearer\"", "=", ",,,", "= Bearer=", "\"", "a=\"b"] {
            check(header, None);
        }
        check("Bearer scope=\"a", Some((None, Some("a"), None)));
        check("Bearer resource_metadata=\"no address\"", Some((None, None, None)));
        check("Bearer \u{fc}=\u{fc}", Some((None, None, None)));
    }
}
