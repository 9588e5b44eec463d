//! Hygiene rules for the whole tree as pure functions over its files; `tests/tidy.rs` runs them.

mod code_paths;
mod docs;
mod eras;
pub mod git_files;
mod language;
mod leaks;
mod modules;
mod requirements;
mod rust;
mod source;

use std::fmt;

/// A file of the tree, by its path from the root.
#[derive(Debug, Clone)]
pub struct SourceFile {
    pub path: String,
    pub text: String,
    /// Length on disk. `text` may be longer, because invalid bytes were replaced.
    pub bytes: usize,
}

impl SourceFile {
    pub fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned(), bytes: text.len() }
    }

    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Returns true for files that a package manager writes: they are long and contain hashes that resemble
    /// anything.
    fn is_lock(&self) -> bool {
        ["Cargo.lock", "package-lock.json"].contains(&self.name())
    }
}

/// One violation of one rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub rule: &'static str,
    pub path: String,
    pub line: usize,
    pub text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {} [{}]", self.path, self.line, self.text, self.rule)
    }
}

/// Findings that fail the check, and notes that do not.
#[derive(Debug, Default)]
pub struct TidyReport {
    pub findings: Vec<Finding>,
    pub notes: Vec<String>,
}

/// Runs every rule over every file.
pub fn check_files(files: &[SourceFile]) -> TidyReport {
    let mut report =
        TidyReport { findings: Vec::new(), notes: vec![format!("{} files", files.len())] };
    for file in files {
        report.findings.extend(rust::check_purpose_line(file));
        report.findings.extend(rust::check_length(file));
        report.findings.extend(rust::check_unfinished(file));
        report.findings.extend(rust::check_lints(file));
        report.findings.extend(rust::check_installed_programs(file));
        report.findings.extend(leaks::check_machine_paths(file));
        report.findings.extend(leaks::check_registry_hosts(file));
        report.findings.extend(leaks::check_file_size(file));
        report.findings.extend(docs::check_architecture_length(file));
        report.findings.extend(eras::check_mentions(file));
        report.notes.extend(rust::note_length(file));
        report.findings.extend(language::relative_subjects(file));
        report.findings.extend(language::test_names(file));
    }
    report.findings.extend(language::vague_actors(files));
    report.findings.extend(language::shared_type_names(files));
    report.findings.extend(language::bare_verbs(files));
    report.findings.extend(code_paths::missing_functions(files));
    report.findings.extend(docs::check_links(files));
    report.findings.extend(requirements::check_ids(files));
    let modules = modules::check_directions(files);
    report.findings.extend(modules.findings);
    report.notes.push(modules.note);
    report
}

fn finding(rule: &'static str, file: &SourceFile, line: usize, text: impl Into<String>) -> Finding {
    Finding { rule, path: file.path.clone(), line, text: text.into() }
}

/// Returns a finding for each line for which `check` returns a text.
fn findings_by_line(
    rule: &'static str,
    file: &SourceFile,
    check: impl Fn(&str) -> Option<String>,
) -> Vec<Finding> {
    let lines = file.text.lines().enumerate();
    lines
        .filter_map(|(at, line)| check(line).map(|text| finding(rule, file, at + 1, text)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finding_is_formatted_like_a_compiler_error() {
        let file = SourceFile::new("a.rs", "");
        let shown = finding("rule", &file, 3, "is wrong").to_string();
        assert_eq!(shown, "a.rs:3: is wrong [rule]");
    }

    /// Each rule has its own tests; this test shows that `check_files` runs all of them.
    #[test]
    fn check_files_runs_every_rule() {
        let rust =
            format!("fn a() {{ {}() }}\n// {}x/\n", concat!("to", "do!"), concat!("/ro", "ot/"));
        let long = "x\n".repeat(251) + "[gone](gone.md) " + concat!("py", "pi.org DO", "M-99");
        let relative = concat!("//! Wh", "at.\n\n#[test]\nfn wh", "at_is() {}\npub struct A;\n");
        let verbs: String =
            (0..9).map(|at| format!("impl A{at} {{\n    fn take(&self) {{}}\n}}\n")).collect();
        let files = [
            SourceFile::new("crates/a/src/a.rs", &rust),
            SourceFile::new(
                "crates/a/src/b.rs",
                &("//! B.\n".to_owned() + &"fn b() {}\n".repeat(800)),
            ),
            SourceFile::new("crates/a/Cargo.toml", "[package]\n"),
            SourceFile::new("crates/a/tests/e.rs", "//! E.\nuse toolcrib_testkit::peers;\n"),
            SourceFile::new("crates/toolcrib/src/store.rs", "//! S.\nuse crate::host;\n"),
            SourceFile::new("ARCHITECTURE.md", &long),
            SourceFile::new("crates/a/src/c.rs", relative),
            SourceFile::new("crates/a/src/d.rs", &format!("//! D.\npub struct A;\n{verbs}")),
            SourceFile::new("README.md", &concat!("who", "ever\n").repeat(40)),
            SourceFile { bytes: 1 << 20, ..SourceFile::new("big.bin", "") },
        ];
        let mut rules: Vec<_> =
            check_files(&files).findings.iter().map(|finding| finding.rule).collect();
        rules.sort_unstable();
        rules.dedup();
        let all = [
            "architecture-length",
            "bare-verb",
            "code-path",
            "comment-subject",
            "file-length",
            "file-size",
            "installed-program",
            "links",
            "lints",
        ];
        let rest = [
            "machine-path",
            "module-direction",
            "purpose",
            "registry-host",
            "requirement-ids",
            "test-name",
            "type-name",
            "unfinished",
            "vague-actor",
        ];
        assert_eq!(rules, [&all[..], &rest[..]].concat());
    }
}
