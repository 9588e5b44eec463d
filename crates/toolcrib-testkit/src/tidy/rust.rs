//! Rules for Rust sources and manifests: purpose first, not too long, finished, same lints everywhere.

use super::source::{has_word, without_tests};
use super::{File, Finding, by_line, finding};

const SOFT_LINES: usize = 400;
const HARD_LINES: usize = 700;

// Cut in two, here and in the tests, so that the rule does not find itself.
const MARKS: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];
const MACROS: [&str; 3] =
    [concat!("to", "do!"), concat!("unimple", "mented!"), concat!("d", "bg!")];
const SKIPPED: [&str; 2] = [concat!("#[", "ignore"), concat!("```", "ignore")];

/// The first line says what the file is for.
pub(super) fn opens_with_purpose(file: &File) -> Option<Finding> {
    let good = file.text.starts_with("//! ");
    (file.is_rust() && !good)
        .then(|| finding("purpose", file, 1, "the file must open with a `//! ` sentence"))
}

pub(super) fn too_long(file: &File) -> Option<Finding> {
    let lines = length(file);
    (lines > HARD_LINES).then(|| {
        finding(
            "file-length",
            file,
            HARD_LINES,
            format!("{lines} lines without tests, at most {HARD_LINES}"),
        )
    })
}

/// Only worth knowing: the file is on its way to two.
pub(super) fn getting_long(file: &File) -> Option<String> {
    let lines = length(file);
    (lines > SOFT_LINES && lines <= HARD_LINES)
        .then(|| format!("{}: {lines} lines without tests, better under {SOFT_LINES}", file.path))
}

fn length(file: &File) -> usize {
    let is_test = file.path.contains("/tests/") || file.name() == "tests.rs";
    if file.is_rust() && !is_test { without_tests(&file.text).len() } else { 0 }
}

/// No skipped test, no placeholder, no note to do it later: an issue is the place for that.
pub(super) fn unfinished(file: &File) -> Vec<Finding> {
    if file.is_lock() {
        return Vec::new();
    }
    let in_rust = file.is_rust();
    by_line("unfinished", file, |line| {
        let mark = MARKS.iter().find(|mark| has_word(line, mark));
        let mac = MACROS.iter().find(|name| in_rust && has_word(line, name));
        let skip = SKIPPED.iter().find(|text| in_rust && line.contains(**text));
        let found = mark.or(mac).or(skip).map(|found| format!("`{found}` is left in the tree"));
        found.or_else(|| {
            (in_rust && skips_conditionally(line))
                .then(|| "a test is skipped under a condition".to_owned())
        })
    })
}

fn skips_conditionally(line: &str) -> bool {
    line.trim_start().starts_with("#[cfg_attr(") && has_word(line, "ignore")
}

/// Every crate takes the workspace's lints, or its code is judged by other rules.
pub(super) fn lints_inherited(file: &File) -> Option<Finding> {
    let is_member = file.path.starts_with("crates/") && file.name() == "Cargo.toml";
    let inherits = |text: &str| {
        let mut lines = text.lines().map(str::trim).skip_while(|line| *line != "[lints]").skip(1);
        lines
            .by_ref()
            .take_while(|line| !line.starts_with('['))
            .any(|line| line == "workspace = true")
    };
    (is_member && !inherits(&file.text))
        .then(|| finding("lints", file, 1, "needs `[lints]` with `workspace = true`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rust(text: &str) -> File {
        File::new("crates/a/src/a.rs", text)
    }

    #[test]
    fn a_file_opens_with_its_purpose() {
        assert!(opens_with_purpose(&rust("//! What it does.\n")).is_none());
        assert!(opens_with_purpose(&rust("use std::fmt;\n//! Late.\n")).is_some());
        assert!(opens_with_purpose(&rust("")).is_some());
        assert!(opens_with_purpose(&File::new("a.md", "text")).is_none());
    }

    #[test]
    fn a_long_file_fails_and_a_longish_one_is_noted() {
        let lines = |count: usize| rust(&"fn a() {}\n".repeat(count));
        assert!(too_long(&lines(701)).is_some() && too_long(&lines(700)).is_none());
        assert!(getting_long(&lines(401)).is_some() && getting_long(&lines(400)).is_none());
        assert!(getting_long(&lines(701)).is_none(), "that one already fails");
    }

    #[test]
    fn tests_do_not_count_as_length() {
        let body = "fn a() {}\n".repeat(699);
        let tests = format!("{body}#[cfg(test)]\nmod tests {{\n{}}}\n", "    // x\n".repeat(500));
        assert!(too_long(&rust(&tests)).is_none());
        assert!(too_long(&File::new("crates/a/tests/it/big.rs", &"x\n".repeat(900))).is_none());
        assert!(
            too_long(&rust(&(tests + &"fn b() {}\n".repeat(2)))).is_some(),
            "code after the tests counts"
        );
    }

    #[test]
    fn whatever_is_left_for_later_is_found() {
        for text in MARKS.iter().chain(&MACROS).chain(&SKIPPED) {
            let found = unfinished(&rust(&format!("//! A.\n  {text}\n")));
            assert_eq!(found.len(), 1, "{text}");
            assert_eq!(found[0].line, 2);
        }
        let conditional = format!("#[cfg_attr({}, ignore)]", "unix");
        assert_eq!(unfinished(&rust(&conditional)).len(), 1);
    }

    #[test]
    fn finished_text_is_left_alone() {
        for text in
            ["a todo list", "mktemp a.XXXXXX", "please ignore", "#[cfg_attr(unix, allow(x))]"]
        {
            assert!(unfinished(&rust(text)).is_empty(), "{text}");
        }
        assert!(unfinished(&File::new("Cargo.lock", MARKS[0])).is_empty());
        assert!(unfinished(&File::new("a.md", MACROS[0])).is_empty(), "prose may speak of it");
        assert_eq!(unfinished(&File::new("a.md", MARKS[0])).len(), 1);
    }

    #[test]
    fn a_crate_with_its_own_lints_is_found() {
        let manifest = |text: &str| lints_inherited(&File::new("crates/a/Cargo.toml", text));
        assert!(manifest("[package]\n\n[lints]\nworkspace = true\n").is_none());
        assert!(manifest("[package]\nname = \"a\"\n").is_some());
        assert!(manifest("[lints]\n\n[dependencies]\nworkspace = true\n").is_some());
        assert!(lints_inherited(&File::new("Cargo.toml", "[workspace]\n")).is_none());
    }
}
