//! Reference pages for users, generated from the argument parser and from the JSON Schema.
//!
//! `docs/cli.md` and `docs/configuration-reference.md` are committed. The tests compare them with the generated text, and
//! rewrite them with `UPDATE_DOCS=1`.

mod command_line;
mod configuration;

use std::fs;
use std::path::Path;

#[test]
fn committed_cli_page_is_up_to_date() {
    check_page("cli.md", &command_line::page());
}

#[test]
fn committed_configuration_reference_is_up_to_date() {
    check_page("configuration-reference.md", &configuration::page());
}

#[expect(clippy::disallowed_methods, reason = "the test also updates the page")]
fn check_page(name: &str, generated: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, generated).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    let how = "run `UPDATE_DOCS=1 cargo test -p toolcrib-cli reference` and commit the file";
    assert!(committed == generated, "docs/{name} is not up to date: {how}");
}

/// A row of a Markdown table.
fn table_row(cells: &[&str]) -> String {
    let cells: Vec<String> = cells.iter().map(|cell| table_cell(cell)).collect();
    format!("| {} |\n", cells.join(" | "))
}

/// Text on one line, with the column separator escaped.
fn table_cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

#[test]
fn table_cells_are_single_lines_with_escaped_separators() {
    assert_eq!(table_row(&["`a|b`", "two\n  lines"]), "| `a\\|b` | two lines |\n");
}
