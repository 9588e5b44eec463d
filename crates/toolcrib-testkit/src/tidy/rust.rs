//! Rules for Rust sources and manifests: purpose line, length, unfinished work and workspace lints.

use super::source::{has_word, without_tests};
use super::{Finding, SourceFile, finding, findings_by_line};

const SOFT_LINES: usize = 400;
const HARD_LINES: usize = 700;

// Cut in two, here and in the tests, so that the rule does not find itself.
const MARKERS: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];
const MACROS: [&str; 3] =
    [concat!("to", "do!"), concat!("unimple", "mented!"), concat!("d", "bg!")];
const SKIPPED_TESTS: [&str; 2] = [concat!("#[", "ignore"), concat!("```", "ignore")];

/// Folders of crates that may use installed programs.
const MAY_NEED_PROGRAMS: [&str; 3] =
    ["crates/toolcrib-e2e/", "crates/toolcrib-cli/", "crates/toolcrib-testkit/"];
/// Items of this crate that start installed programs.
const INSTALLED_PROGRAMS: [&str; 5] =
    ["peers::", "toolcrib_testkit::peers", "openid_provider", "OpenIdProvider", "run_suite"];

/// Checks that the first line states the file's purpose.
pub(super) fn check_purpose_line(file: &SourceFile) -> Option<Finding> {
    let good = file.text.starts_with("//! ");
    (file.is_rust() && !good)
        .then(|| finding("purpose", file, 1, "the file must open with a `//! ` sentence"))
}

pub(super) fn check_length(file: &SourceFile) -> Option<Finding> {
    let lines = lines_without_tests(file);
    (lines > HARD_LINES).then(|| {
        finding(
            "file-length",
            file,
            HARD_LINES,
            format!("{lines} lines without tests, at most {HARD_LINES}"),
        )
    })
}

/// Notes files that are close to the limit.
pub(super) fn note_length(file: &SourceFile) -> Option<String> {
    let lines = lines_without_tests(file);
    (lines > SOFT_LINES && lines <= HARD_LINES)
        .then(|| format!("{}: {lines} lines without tests, better under {SOFT_LINES}", file.path))
}

fn lines_without_tests(file: &SourceFile) -> usize {
    let is_test = file.path.contains("/tests/") || file.name() == "tests.rs";
    if file.is_rust() && !is_test { without_tests(&file.text).len() } else { 0 }
}

/// Finds skipped tests, placeholders and notes about later work; these belong into issues.
pub(super) fn check_unfinished(file: &SourceFile) -> Vec<Finding> {
    if file.is_lock() {
        return Vec::new();
    }
    let in_rust = file.is_rust();
    findings_by_line("unfinished", file, |line| {
        let mark = MARKERS.iter().find(|mark| has_word(line, mark));
        let mac = MACROS.iter().find(|name| in_rust && has_word(line, name));
        let skip = SKIPPED_TESTS.iter().find(|text| in_rust && line.contains(**text));
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

/// Checks that every crate inherits the workspace's lints.
pub(super) fn check_lints(file: &SourceFile) -> Option<Finding> {
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

/// Finds tests of installed programs outside of the crates that may need them. The other crates' tests run on
/// any machine.
pub(super) fn check_installed_programs(file: &SourceFile) -> Vec<Finding> {
    let may_need = MAY_NEED_PROGRAMS.iter().any(|folder| file.path.starts_with(folder));
    if !file.is_rust() || !file.path.starts_with("crates/") || may_need {
        return Vec::new();
    }
    findings_by_line("installed-program", file, |line| {
        let name = INSTALLED_PROGRAMS.iter().find(|name| has_word(line, name))?;
        Some(format!("`{name}` needs installed programs: move the test to toolcrib-e2e"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rust(text: &str) -> SourceFile {
        SourceFile::new("crates/a/src/a.rs", text)
    }

    #[test]
    fn file_without_a_purpose_line_is_found() {
        assert!(check_purpose_line(&rust("//! What it does.\n")).is_none());
        assert!(check_purpose_line(&rust("use std::fmt;\n//! Late.\n")).is_some());
        assert!(check_purpose_line(&rust("")).is_some());
        assert!(check_purpose_line(&SourceFile::new("a.md", "text")).is_none());
    }

    #[test]
    fn long_files_are_found_and_longish_files_noted() {
        let lines = |count: usize| rust(&"fn a() {}\n".repeat(count));
        assert!(check_length(&lines(701)).is_some() && check_length(&lines(700)).is_none());
        assert!(note_length(&lines(401)).is_some() && note_length(&lines(400)).is_none());
        assert!(note_length(&lines(701)).is_none(), "a failing file is not noted as well");
    }

    #[test]
    fn tests_do_not_count_as_length() {
        let body = "fn a() {}\n".repeat(699);
        let tests = format!("{body}#[cfg(test)]\nmod tests {{\n{}}}\n", "    // x\n".repeat(500));
        assert!(check_length(&rust(&tests)).is_none());
        assert!(
            check_length(&SourceFile::new("crates/a/tests/it/big.rs", &"x\n".repeat(900)))
                .is_none()
        );
        assert!(
            check_length(&rust(&(tests + &"fn b() {}\n".repeat(2)))).is_some(),
            "code after the tests counts as length"
        );
    }

    #[test]
    fn unfinished_markers_are_found() {
        for text in MARKERS.iter().chain(&MACROS).chain(&SKIPPED_TESTS) {
            let found = check_unfinished(&rust(&format!("//! A.\n  {text}\n")));
            assert_eq!(found.len(), 1, "{text}");
            assert_eq!(found[0].line, 2);
        }
        let conditional = format!("#[cfg_attr({}, ignore)]", "unix");
        assert_eq!(check_unfinished(&rust(&conditional)).len(), 1);
    }

    #[test]
    fn ordinary_text_has_no_findings() {
        for text in
            ["a todo list", "mktemp a.XXXXXX", "please ignore", "#[cfg_attr(unix, allow(x))]"]
        {
            assert!(check_unfinished(&rust(text)).is_empty(), "{text}");
        }
        assert!(check_unfinished(&SourceFile::new("Cargo.lock", MARKERS[0])).is_empty());
        assert!(
            check_unfinished(&SourceFile::new("a.md", MACROS[0])).is_empty(),
            "documents may mention macros"
        );
        assert_eq!(check_unfinished(&SourceFile::new("a.md", MARKERS[0])).len(), 1);
    }

    #[test]
    fn crate_without_workspace_lints_is_found() {
        let manifest = |text: &str| check_lints(&SourceFile::new("crates/a/Cargo.toml", text));
        assert!(manifest("[package]\n\n[lints]\nworkspace = true\n").is_none());
        assert!(manifest("[package]\nname = \"a\"\n").is_some());
        assert!(manifest("[lints]\n\n[dependencies]\nworkspace = true\n").is_some());
        assert!(check_lints(&SourceFile::new("Cargo.toml", "[workspace]\n")).is_none());
    }

    #[test]
    fn installed_programs_are_found_outside_of_end_to_end_tests() {
        let uses = |path: &str| {
            check_installed_programs(&SourceFile::new(path, "use toolcrib_testkit::peers;\n")).len()
        };
        assert_eq!(uses("crates/toolcrib-upstream/tests/it/main.rs"), 1);
        assert_eq!(uses("crates/toolcrib-e2e/tests/it/main.rs"), 0);
        assert_eq!(uses("crates/toolcrib-cli/tests/it/main.rs"), 0);
    }
}
