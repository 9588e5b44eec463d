//! The table of problem codes: its page is up to date, and it has exactly the codes that the sources use.
#![allow(clippy::unwrap_used, reason = "a failed setup fails the test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use toolcrib_config::{problem_codes, problems_markdown};

#[test]
#[expect(clippy::disallowed_methods, reason = "the test also updates the page")]
fn committed_problem_page_is_up_to_date() {
    let path = repository_root().join("docs/problems.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, problems_markdown()).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    let how = "run `UPDATE_DOCS=1 cargo test -p toolcrib-config --test problem_catalog` and commit the file";
    assert!(committed == problems_markdown(), "{} is not up to date: {how}", path.display());
}

#[test]
fn catalog_has_exactly_the_codes_of_the_sources() {
    let sources = source_texts();
    let listed: BTreeSet<&str> = problem_codes().collect();
    let unused: Vec<_> = listed
        .iter()
        .filter(|code| !sources.iter().any(|text| text.contains(&format!("\"{code}\""))))
        .collect();
    assert!(unused.is_empty(), "no source reports these codes: {unused:?}");
    let reported: BTreeSet<&str> = sources.iter().flat_map(|text| reported_codes(text)).collect();
    assert!(reported.len() > 100, "only {} codes were found in the sources", reported.len());
    let missing: Vec<_> = reported.difference(&listed).collect();
    assert!(missing.is_empty(), "the table in problem_catalog/ lacks {missing:?}");
}

#[test]
fn reported_codes_are_found_in_the_usual_forms() {
    let text = r#"
        Problem::warning("a.b", text); cx.error(node, "c.d", text); cx.error(
            node,
            "e.f", text);
        fn code() { match it { Self::A => "g.h", Self::B { .. } => { "i.j" } } }
        fn path() { match it { Self::A => "p.q" } }
        let path = "k.l"; Defect::new("m.n", offset); ApiError::new(Kind::Closed, "o.p", text)
    "#;
    let found: Vec<_> = reported_codes(text).collect();
    assert_eq!(found, ["a.b", "c.d", "e.f", "g.h", "i.j", "m.n", "o.p"]);
}

/// String literals of the form `word.word` in the positions where code is reported: after `error(`, `warning(`,
/// `info(` or `new(` with at most one argument before, and after `=>` in functions named `code`.
fn reported_codes(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices('"').filter_map(move |(at, _)| {
        let rest = &text[at + 1..];
        let code = &rest[..rest.find('"')?];
        let is_code = code.contains('.')
            && code.split('.').all(|part| {
                !part.is_empty() && part.chars().all(|c| c.is_ascii_lowercase() || c == '_')
            });
        (is_code && is_reported(&text[..at])).then_some(code)
    })
}

fn is_reported(before: &str) -> bool {
    let before = before.trim_end().trim_end_matches('{').trim_end();
    if before.ends_with("=>") {
        // Other functions map values to configuration paths.
        let function = before.rfind("fn ").map(|at| &before[at + 3..]);
        return function.is_some_and(|rest| rest.starts_with("code("));
    }
    let Some(open) = before.rfind('(') else { return false };
    let argument = before[open + 1..].trim();
    let is_second = argument.ends_with(',') && argument.matches(',').count() == 1;
    let name = before[..open]
        .rsplit(|c: char| !c.is_alphanumeric() && c != '_')
        .next()
        .unwrap_or_default();
    let reports = ["error", "warning", "info"].contains(&name)
        || (name == "new"
            && ["Defect::new", "ApiError::new", "Problem::new"]
                .iter()
                .any(|path| before[..open].ends_with(path)));
    reports && (argument.is_empty() || is_second)
}

/// The sources of all crates without their tests and test support.
fn source_texts() -> Vec<String> {
    let mut texts = Vec::new();
    let mut folders = vec![repository_root().join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            let is_skipped =
                ["tests", "examples", "benches", "toolcrib-testkit", "problem_catalog"]
                    .contains(&name)
                    || name.ends_with("tests.rs")
                    || name == "testing.rs";
            if is_skipped {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".rs") {
                let text = fs::read_to_string(path).unwrap();
                let end = text.find("#[cfg(test)]\nmod ").unwrap_or(text.len());
                texts.push(text[..end].to_owned());
            }
        }
    }
    texts
}

fn repository_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
