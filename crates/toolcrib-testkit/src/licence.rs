//! Which licences a dependency may have, so that Toolcrib can be given away under MIT or Apache-2.0.

use std::fmt;

use serde_json::Value;

/// Permissive licences whose only duties are notices. A licence that is not here needs a decision,
/// not a line: copyleft and advertising clauses would bind everybody who ships the binary.
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

/// Deeper than any real expression; keeps a hostile one from using up the stack.
const MAX_DEPTH: usize = 32;

/// Text that is not an SPDX expression, and where it stops being one.
#[derive(Debug, PartialEq, Eq)]
pub struct Malformed {
    expected: &'static str,
    found: String,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}, found {}", self.expected, self.found)
    }
}

impl std::error::Error for Malformed {}

/// Whether the expression can be met with the licences in `allow`.
///
/// ```
/// use toolcrib_testkit::licence::accepts;
/// assert_eq!(accepts("MIT OR GPL-3.0-only", &["MIT"]), Ok(true));
/// assert_eq!(accepts("MIT AND GPL-3.0-only", &["MIT"]), Ok(false));
/// ```
pub fn accepts(expression: &str, allow: &[&str]) -> Result<bool, Malformed> {
    let mut reader = Reader { words: words(expression), at: 0, allow };
    let verdict = reader.either(0)?;
    match reader.peek() {
        None => Ok(verdict),
        Some(word) => Err(malformed("the end", Some(word))),
    }
}

/// One line for each package of `cargo metadata` whose licence is unknown or not allowed.
pub fn refused(metadata: &str) -> Result<Vec<String>, serde_json::Error> {
    let metadata: Value = serde_json::from_str(metadata)?;
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    if packages.is_empty() {
        return Ok(vec!["the metadata names no package: nothing was checked".to_owned()]);
    }
    Ok(packages.iter().filter_map(refusal).collect())
}

fn refusal(package: &Value) -> Option<String> {
    let name = format!("{} {}", text(&package["name"]), text(&package["version"]));
    let Some(licence) = package["license"].as_str() else {
        return Some(format!("{name}: names no licence"));
    };
    match accepts(licence, ALLOWED) {
        Ok(true) => None,
        Ok(false) => Some(format!("{name}: `{licence}` is not allowed")),
        Err(error) => Some(format!("{name}: `{licence}` cannot be read: {error}")),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

/// `A/B` is how old crates wrote `A OR B`.
fn words(expression: &str) -> Vec<String> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    spaced.split_whitespace().map(str::to_owned).collect()
}

/// Recursive descent, loosest operator first: OR, AND, then one licence or a group.
struct Reader<'a> {
    words: Vec<String>,
    at: usize,
    allow: &'a [&'a str],
}

impl Reader<'_> {
    fn either(&mut self, depth: usize) -> Result<bool, Malformed> {
        let mut verdict = self.both(depth)?;
        while self.take("OR") {
            verdict |= self.both(depth)?;
        }
        Ok(verdict)
    }

    fn both(&mut self, depth: usize) -> Result<bool, Malformed> {
        let mut verdict = self.one(depth)?;
        while self.take("AND") {
            verdict &= self.one(depth)?;
        }
        Ok(verdict)
    }

    fn one(&mut self, depth: usize) -> Result<bool, Malformed> {
        if !self.take("(") {
            return self.licence();
        }
        if depth == MAX_DEPTH {
            return Err(malformed("fewer parentheses", self.peek()));
        }
        let verdict = self.either(depth + 1)?;
        if self.take(")") { Ok(verdict) } else { Err(malformed("`)`", self.peek())) }
    }

    fn licence(&mut self) -> Result<bool, Malformed> {
        let mut name = self.name()?;
        if self.take("WITH") {
            name = format!("{name} WITH {}", self.name()?);
        }
        Ok(self.allow.contains(&name.as_str()))
    }

    fn name(&mut self) -> Result<String, Malformed> {
        match self.peek() {
            Some(word) if !["OR", "AND", "WITH", "(", ")"].contains(&word) => {
                let word = word.to_owned();
                self.at += 1;
                Ok(word)
            }
            other => Err(malformed("a licence", other)),
        }
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.peek() == Some(word);
        self.at += usize::from(found);
        found
    }

    fn peek(&self) -> Option<&str> {
        self.words.get(self.at).map(String::as_str)
    }
}

fn malformed(expected: &'static str, found: Option<&str>) -> Malformed {
    let found = found.map_or("the end".to_owned(), |word| format!("`{word}`"));
    Malformed { expected, found }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_mean_what_spdx_says() {
        for (expression, verdict) in [
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
            // An exception that nobody looked at is not the plain licence.
            ("MIT WITH Something-new", false),
        ] {
            assert_eq!(accepts(expression, ALLOWED), Ok(verdict), "{expression}");
        }
    }

    #[test]
    fn what_is_no_expression_is_refused_with_the_place() {
        for (text, words) in [
            ("", "expected a licence, found the end"),
            ("MIT OR", "expected a licence, found the end"),
            ("MIT MIT", "expected the end, found `MIT`"),
            ("(MIT", "expected `)`, found the end"),
            ("MIT)", "expected the end, found `)`"),
            ("WITH MIT", "expected a licence, found `WITH`"),
        ] {
            assert_eq!(accepts(text, ALLOWED).unwrap_err().to_string(), words, "{text}");
        }
    }

    #[test]
    fn deep_nesting_is_an_error_and_not_a_crash() {
        let deep = format!("{}MIT{}", "(".repeat(100_000), ")".repeat(100_000));
        assert!(accepts(&deep, ALLOWED).is_err());
    }

    #[test]
    fn a_package_that_may_not_be_shipped_is_named() {
        let metadata = r#"{"packages":[
            {"name":"good","version":"1.0.0","license":"MIT"},
            {"name":"bad","version":"2.0.0","license":"AGPL-3.0"},
            {"name":"odd","version":"3.0.0","license":"MIT OR"},
            {"name":"silent","version":"4.0.0","license":null}]}"#;
        let refused = refused(metadata).unwrap();
        assert_eq!(refused.len(), 3, "{refused:?}");
        assert_eq!(refused[0], "bad 2.0.0: `AGPL-3.0` is not allowed");
        assert!(refused[1].starts_with("odd 3.0.0:"), "{refused:?}");
        assert_eq!(refused[2], "silent 4.0.0: names no licence");
    }

    #[test]
    fn metadata_without_packages_does_not_pass() {
        assert_eq!(refused("{}").unwrap().len(), 1);
    }
}
