//! The reference of all problem codes: what each one means, an example and the fix.
//!
//! `docs/problems.md` and `toolcrib problems --explain CODE` are made from this table, and from nothing else.

mod api;
mod configuration;
mod servers;

use crate::Severity;

/// One problem code with its explanation.
#[derive(Clone, Copy, Debug)]
pub struct ProblemEntry {
    pub code: &'static str,
    /// The usual severity. A place may report the code with another one.
    pub severity: Severity,
    pub cause: &'static str,
    pub example: &'static str,
    pub fix: &'static str,
}

/// Declares a sorted list of entries: `"code", Severity: "cause", "example", "fix";`.
macro_rules! entries {
    ($vis:vis $name:ident; $($code:literal, $severity:ident: $cause:literal, $example:literal, $fix:literal;)*) => {
        $vis const $name: &[ProblemEntry] = &[$(ProblemEntry {
            code: $code,
            severity: crate::Severity::$severity,
            cause: $cause,
            example: $example,
            fix: $fix,
        }),*];
    };
}
use entries;

/// The sections of the reference, each sorted by code.
pub const PROBLEM_SECTIONS: [(&str, &[ProblemEntry]); 3] = [
    ("Configuration files", configuration::CONFIGURATION),
    ("Servers, credentials and tools", servers::SERVERS),
    ("Control API and gateway", api::API),
];

/// The entry of `code`.
pub fn explain_problem(code: &str) -> Option<&'static ProblemEntry> {
    all_entries().find(|entry| entry.code == code)
}

/// All codes, section by section.
pub fn problem_codes() -> impl Iterator<Item = &'static str> {
    all_entries().map(|entry| entry.code)
}

fn all_entries() -> impl Iterator<Item = &'static ProblemEntry> {
    PROBLEM_SECTIONS.into_iter().flat_map(|(_, entries)| entries)
}

/// The reference as the text of `docs/problems.md`.
pub fn problems_markdown() -> String {
    let mut text = String::from(INTRODUCTION);
    for (title, entries) in PROBLEM_SECTIONS {
        text.push_str(&format!("\n## {title}\n"));
        for entry in entries {
            let severity = format!("{:?}", entry.severity).to_lowercase();
            text.push_str(&format!(
                "\n### `{}`\n\n{} ({severity})\n\n- Example: {}\n- Fix: {}\n",
                entry.code, entry.cause, entry.example, entry.fix
            ));
        }
    }
    text
}

const INTRODUCTION: &str = "\
<!-- Generated from crates/toolcrib-config/src/problem_catalog. Do not edit. -->
# Problem codes

A problem is something wrong that a person can fix. `toolcrib check` shows problems of the configuration, `toolcrib
doctor` those of a server, `toolcrib status` how many there are. The code is stable: scripts may compare it. The text may change.
`toolcrib problems --explain CODE` prints one entry of this page. The severity is the usual one; a message may have
another where the configuration says so. Errors of the control API have the same codes in `error.code`.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_sorted_and_unique() {
        for (title, entries) in PROBLEM_SECTIONS {
            assert!(entries.is_sorted_by(|a, b| a.code < b.code), "{title}");
        }
        let mut codes: Vec<_> = problem_codes().collect();
        let count = codes.len();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), count, "a code is in two sections");
    }

    #[test]
    fn an_entry_is_found_by_its_code() {
        assert_eq!(
            explain_problem("env.missing").map(|entry| entry.severity),
            Some(Severity::Error)
        );
        assert!(explain_problem("env.mising").is_none());
    }
}
