//! Hygiene of the whole tree, as pure rules over its files; `tests/tidy.rs` runs them.

pub mod collect;
mod docs;
mod leaks;
mod modules;
mod requirements;
mod rust;
mod source;

use std::fmt;

/// A file of the tree, by its path from the root.
#[derive(Debug, Clone)]
pub struct File {
    pub path: String,
    pub text: String,
    /// Length on disk; `text` may be longer where bytes had to be replaced.
    pub bytes: usize,
}

impl File {
    pub fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned(), bytes: text.len() }
    }

    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Written by a package manager: long, and full of hashes that look like anything.
    fn is_lock(&self) -> bool {
        ["Cargo.lock", "package-lock.json"].contains(&self.name())
    }
}

/// One breach of one rule.
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

/// What is wrong, and what is only worth knowing.
#[derive(Debug, Default)]
pub struct Report {
    pub findings: Vec<Finding>,
    pub notes: Vec<String>,
}

/// Every rule over every file.
pub fn inspect(files: &[File]) -> Report {
    let mut report = Report { findings: Vec::new(), notes: vec![format!("{} files", files.len())] };
    for file in files {
        report.findings.extend(rust::opens_with_purpose(file));
        report.findings.extend(rust::too_long(file));
        report.findings.extend(rust::unfinished(file));
        report.findings.extend(rust::lints_inherited(file));
        report.findings.extend(leaks::machine_paths(file));
        report.findings.extend(leaks::registry_hosts(file));
        report.findings.extend(leaks::too_big(file));
        report.findings.extend(docs::architecture_too_long(file));
        report.notes.extend(rust::getting_long(file));
    }
    report.findings.extend(docs::broken_links(files));
    report.findings.extend(requirements::undefined_ids(files));
    let modules = modules::check(files);
    report.findings.extend(modules.findings);
    report.notes.push(modules.note);
    report
}

fn finding(rule: &'static str, file: &File, line: usize, text: impl Into<String>) -> Finding {
    Finding { rule, path: file.path.clone(), line, text: text.into() }
}

/// A finding for each line in which `look` sees something.
fn by_line(rule: &'static str, file: &File, look: impl Fn(&str) -> Option<String>) -> Vec<Finding> {
    let lines = file.text.lines().enumerate();
    lines
        .filter_map(|(at, line)| look(line).map(|text| finding(rule, file, at + 1, text)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_reads_like_a_compiler_s() {
        let file = File::new("a.rs", "");
        let shown = finding("rule", &file, 3, "is wrong").to_string();
        assert_eq!(shown, "a.rs:3: is wrong [rule]");
    }

    /// Each rule has its own tests; this one shows that `inspect` asks all of them.
    #[test]
    fn inspect_runs_every_rule() {
        let rust =
            format!("fn a() {{ {}() }}\n// {}x/\n", concat!("to", "do!"), concat!("/ro", "ot/"));
        let long = "x\n".repeat(251) + "[gone](gone.md) " + concat!("py", "pi.org DO", "M-99");
        let files = [
            File::new("crates/a/src/a.rs", &rust),
            File::new("crates/a/src/b.rs", &("//! B.\n".to_owned() + &"fn b() {}\n".repeat(800))),
            File::new("crates/a/Cargo.toml", "[package]\n"),
            File::new("crates/toolcrib/src/store.rs", "//! S.\nuse crate::host;\n"),
            File::new("ARCHITECTURE.md", &long),
            File { bytes: 1 << 20, ..File::new("big.bin", "") },
        ];
        let mut rules: Vec<_> =
            inspect(&files).findings.iter().map(|finding| finding.rule).collect();
        rules.sort_unstable();
        rules.dedup();
        let all =
            ["architecture-length", "file-length", "file-size", "links", "lints", "machine-path"];
        let rest =
            ["module-direction", "purpose", "registry-host", "requirement-ids", "unfinished"];
        assert_eq!(rules, [&all[..], &rest[..]].concat());
    }
}
