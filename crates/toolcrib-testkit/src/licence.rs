//! Checks the licences of dependencies, so that Toolcrib can be distributed under MIT or Apache-2.0.

use std::fmt;

use serde_json::Value;

/// Permissive licences that only require notices. Adding another licence needs a decision: copyleft and
/// advertising clauses would bind every distributor of the binary.
pub const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unicode-DFS-2016",
    "Unlicense",
    "Zlib",
];

/// Deeper than any real expression. The limit protects the stack from hostile input.
const MAX_DEPTH: usize = 32;

/// A syntax error in an SPDX expression: the expected and the found token.
#[derive(Debug, PartialEq, Eq)]
pub struct LicenceSyntaxError {
    expected: &'static str,
    found: String,
}

impl fmt::Display for LicenceSyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}, found {}", self.expected, self.found)
    }
}

impl std::error::Error for LicenceSyntaxError {}

/// Returns true if the expression can be satisfied with the licences in `allowed`.
///
/// ```
/// use toolcrib_testkit::licence::accepts;
/// assert_eq!(accepts("MIT OR GPL-3.0-only", &["MIT"]), Ok(true));
/// assert_eq!(accepts("MIT AND GPL-3.0-only", &["MIT"]), Ok(false));
/// ```
pub fn accepts(expression: &str, allowed: &[&str]) -> Result<bool, LicenceSyntaxError> {
    let mut parser = ExpressionParser { tokens: tokenize(expression), at: 0, allowed };
    let is_accepted = parser.parse_or(0)?;
    match parser.peek() {
        None => Ok(is_accepted),
        Some(word) => Err(syntax_error("the end", Some(word))),
    }
}

/// Returns one line for each package of `cargo metadata` whose licence is unknown or not allowed.
pub fn find_disallowed(metadata: &str) -> Result<Vec<String>, serde_json::Error> {
    let metadata: Value = serde_json::from_str(metadata)?;
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    if packages.is_empty() {
        return Ok(vec!["the metadata contains no package, so no licence was checked".to_owned()]);
    }
    Ok(packages.iter().filter_map(rejection_reason).collect())
}

fn rejection_reason(package: &Value) -> Option<String> {
    let name = format!(
        "{} {}",
        text_or_placeholder(&package["name"]),
        text_or_placeholder(&package["version"])
    );
    let Some(licence) = package["license"].as_str() else {
        return Some(format!("{name}: has no licence"));
    };
    match accepts(licence, ALLOWED) {
        Ok(true) => None,
        Ok(false) => Some(format!("{name}: `{licence}` is not allowed")),
        Err(error) => Some(format!("{name}: `{licence}` cannot be read: {error}")),
    }
}

fn text_or_placeholder(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

/// Splits an expression into tokens. Old crates write `A/B` for `A OR B`.
fn tokenize(expression: &str) -> Vec<String> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    spaced.split_whitespace().map(str::to_owned).collect()
}

/// Recursive-descent parser, loosest operator first: OR, AND, then one licence or a group.
struct ExpressionParser<'a> {
    tokens: Vec<String>,
    at: usize,
    allowed: &'a [&'a str],
}

impl ExpressionParser<'_> {
    fn parse_or(&mut self, depth: usize) -> Result<bool, LicenceSyntaxError> {
        let mut is_accepted = self.parse_and(depth)?;
        while self.consume("OR") {
            is_accepted |= self.parse_and(depth)?;
        }
        Ok(is_accepted)
    }

    fn parse_and(&mut self, depth: usize) -> Result<bool, LicenceSyntaxError> {
        let mut is_accepted = self.parse_term(depth)?;
        while self.consume("AND") {
            is_accepted &= self.parse_term(depth)?;
        }
        Ok(is_accepted)
    }

    fn parse_term(&mut self, depth: usize) -> Result<bool, LicenceSyntaxError> {
        if !self.consume("(") {
            return self.parse_licence();
        }
        if depth == MAX_DEPTH {
            return Err(syntax_error("fewer parentheses", self.peek()));
        }
        let is_accepted = self.parse_or(depth + 1)?;
        if self.consume(")") { Ok(is_accepted) } else { Err(syntax_error("`)`", self.peek())) }
    }

    fn parse_licence(&mut self) -> Result<bool, LicenceSyntaxError> {
        let mut name = self.parse_name()?;
        if self.consume("WITH") {
            name = format!("{name} WITH {}", self.parse_name()?);
        }
        Ok(self.allowed.contains(&name.as_str()))
    }

    fn parse_name(&mut self) -> Result<String, LicenceSyntaxError> {
        match self.peek() {
            Some(word) if !["OR", "AND", "WITH", "(", ")"].contains(&word) => {
                let word = word.to_owned();
                self.at += 1;
                Ok(word)
            }
            other => Err(syntax_error("a licence", other)),
        }
    }

    fn consume(&mut self, word: &str) -> bool {
        let found = self.peek() == Some(word);
        self.at += usize::from(found);
        found
    }

    fn peek(&self) -> Option<&str> {
        self.tokens.get(self.at).map(String::as_str)
    }
}

fn syntax_error(expected: &'static str, found: Option<&str>) -> LicenceSyntaxError {
    let found = found.map_or("the end".to_owned(), |word| format!("`{word}`"));
    LicenceSyntaxError { expected, found }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spdx_expressions_are_evaluated() {
        for (expression, is_accepted) in [
            ("MIT", true),
            ("GPL-3.0-only", false),
            ("MIT OR Apache-2.0", true),
            ("GPL-2.0 OR MIT", true),
            ("MIT/Apache-2.0", true),
            ("MIT AND GPL-2.0", false),
            // AND binds tighter than OR.
            ("MIT OR MIT AND GPL-2.0", true),
            ("(MIT OR MIT) AND GPL-2.0", false),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
            ("Apache-2.0 WITH LLVM-exception", true),
            ("GPL-2.0 WITH Classpath-exception-2.0", false),
            // An unknown exception differs from the plain licence.
            ("MIT WITH Something-new", false),
        ] {
            assert_eq!(accepts(expression, ALLOWED), Ok(is_accepted), "{expression}");
        }
    }

    #[test]
    fn syntax_errors_name_the_unexpected_token() {
        for (text, message) in [
            ("", "expected a licence, found the end"),
            ("MIT OR", "expected a licence, found the end"),
            ("MIT MIT", "expected the end, found `MIT`"),
            ("(MIT", "expected `)`, found the end"),
            ("MIT)", "expected the end, found `)`"),
            ("WITH MIT", "expected a licence, found `WITH`"),
        ] {
            assert_eq!(accepts(text, ALLOWED).unwrap_err().to_string(), message, "{text}");
        }
    }

    #[test]
    fn deep_nesting_is_an_error() {
        let deep = format!("{}MIT{}", "(".repeat(100_000), ")".repeat(100_000));
        assert!(accepts(&deep, ALLOWED).is_err());
    }

    #[test]
    fn disallowed_packages_are_named() {
        let metadata = r#"{"packages":[
            {"name":"good","version":"1.0.0","license":"MIT"},
            {"name":"bad","version":"2.0.0","license":"AGPL-3.0"},
            {"name":"odd","version":"3.0.0","license":"MIT OR"},
            {"name":"silent","version":"4.0.0","license":null}]}"#;
        let disallowed = find_disallowed(metadata).unwrap();
        assert_eq!(disallowed.len(), 3, "{disallowed:?}");
        assert_eq!(disallowed[0], "bad 2.0.0: `AGPL-3.0` is not allowed");
        assert!(disallowed[1].starts_with("odd 3.0.0:"), "{disallowed:?}");
        assert_eq!(disallowed[2], "silent 4.0.0: has no licence");
    }

    /// `cargo deny` reads `deny.toml`, and `make test` uses [`ALLOWED`].
    #[test]
    fn deny_toml_allows_the_same_licences() {
        let text = std::fs::read_to_string(crate::workspace_root().join("deny.toml")).unwrap();
        let (_, rest) = text.split_once("\nallow = [").unwrap();
        let (list, _) = rest.split_once(']').unwrap();
        let allowed: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
        assert_eq!(allowed, ALLOWED);
    }

    #[test]
    fn metadata_without_packages_is_rejected() {
        assert_eq!(find_disallowed("{}").unwrap().len(), 1);
    }
}
