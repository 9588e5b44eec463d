//! What a refusal says of how to come in: the `WWW-Authenticate` header of RFC 9110, as far as bearer tokens use it.

use url::Url;

/// The challenge for a bearer token, where a refusal holds one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Challenge {
    /// Where the server's metadata are.
    pub(super) resource_metadata: Option<Url>,
    /// What a token has to be good for; none where nothing is said.
    pub(super) scopes: Option<Vec<String>>,
    pub(super) error: Option<String>,
}

impl Challenge {
    /// The bearer challenge among all that the headers hold.
    pub(super) fn of(headers: &[String]) -> Option<Self> {
        headers.iter().find_map(|header| Self::read(header))
    }

    pub(super) fn lacks_scope(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }

    fn read(header: &str) -> Option<Self> {
        let mut found: Option<Self> = None;
        for part in parts(header) {
            match (part, &mut found) {
                (Part::Scheme(scheme), None) if scheme.eq_ignore_ascii_case("bearer") => {
                    found = Some(Self::default());
                }
                // The next challenge begins.
                (Part::Scheme(_), Some(_)) => break,
                (Part::Param(name, value), Some(challenge)) => challenge.take(name, value),
                _ => {}
            }
        }
        found
    }

    fn take(&mut self, name: &str, value: String) {
        match name.to_ascii_lowercase().as_str() {
            "resource_metadata" => self.resource_metadata = Url::parse(&value).ok(),
            "scope" => self.scopes = Some(value.split_whitespace().map(str::to_owned).collect()),
            "error" => self.error = Some(value),
            _ => {}
        }
    }
}

enum Part<'a> {
    Scheme(&'a str),
    Param(&'a str, String),
}

/// Schemes and parameters in their order. What is neither is passed over: a header is foreign text.
fn parts(header: &str) -> Vec<Part<'_>> {
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
            // `token68` of other schemes ends with this.
            Some(value) if !word.is_empty() => {
                let (value, after) = value_of(value.trim_start_matches([' ', '\t']));
                parts.push(Part::Param(word, value));
                rest = after;
            }
            Some(value) => rest = value,
            None => {
                parts.push(Part::Scheme(word));
                rest = after;
            }
        }
    }
}

/// A value, quoted or not, and what follows it.
fn value_of(text: &str) -> (String, &str) {
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
        let found = Challenge::of(&[header.to_owned()]);
        let found = found.as_ref().map(|it| {
            let scopes = it.scopes.as_ref().map(|scopes| scopes.join("+"));
            (it.resource_metadata.as_ref().map(Url::as_str), scopes, it.error.as_deref())
        });
        let found = found.as_ref().map(|(at, scopes, error)| (*at, scopes.as_deref(), *error));
        assert_eq!(found, expected, "{header}");
    }

    #[test]
    fn a_bearer_challenge_is_found_wherever_it_stands() {
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
    fn what_is_no_bearer_challenge_is_none_and_nothing_panics() {
        for header in ["", "Basic realm=\"Bearer\"", "=", ",,,", "= Bearer=", "\"", "a=\"b"] {
            check(header, None);
        }
        check("Bearer scope=\"a", Some((None, Some("a"), None)));
        check("Bearer resource_metadata=\"no address\"", Some((None, None, None)));
        check("Bearer \u{fc}=\u{fc}", Some((None, None, None)));
    }
}
