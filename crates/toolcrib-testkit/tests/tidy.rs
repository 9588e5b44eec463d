//! Runs every rule of `toolcrib_testkit::tidy` over every file that git knows.

use toolcrib_testkit::tidy::{check_files, git_files};
use toolcrib_testkit::workspace_root;

#[test]
fn tree_has_no_findings() {
    let files = git_files::list_files(&workspace_root()).unwrap_or_else(|error| panic!("{error}"));
    assert!(files.iter().any(|file| file.path == "Cargo.toml"), "git listed no files");
    let report = check_files(&files);
    for note in &report.notes {
        eprintln!("tidy: {note}");
    }
    let findings: Vec<_> = report.findings.iter().map(ToString::to_string).collect();
    assert!(findings.is_empty(), "tidy:\n{}", findings.join("\n"));
}
