//! The tree is tidy: every rule of `toolcrib_testkit::tidy` over every file that git knows.

use toolcrib_testkit::tidy::{collect, inspect};
use toolcrib_testkit::workspace_root;

#[test]
fn the_tree_is_tidy() {
    let files = collect::tree(&workspace_root()).unwrap_or_else(|error| panic!("{error}"));
    assert!(files.iter().any(|file| file.path == "Cargo.toml"), "the files were not found");
    let report = inspect(&files);
    for note in &report.notes {
        eprintln!("tidy: {note}");
    }
    let findings: Vec<_> = report.findings.iter().map(ToString::to_string).collect();
    assert!(findings.is_empty(), "tidy:\n{}", findings.join("\n"));
}
