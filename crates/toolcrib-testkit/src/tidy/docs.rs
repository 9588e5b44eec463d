//! Rules for documents: relative links are valid, and ARCHITECTURE.md stays short.

use std::collections::BTreeSet;

use super::{Finding, SourceFile, finding};

const MAX_ARCHITECTURE_LINES: usize = 250;

/// Limits the length of ARCHITECTURE.md, so that it stays readable.
pub(super) fn check_architecture_length(file: &SourceFile) -> Option<Finding> {
    let lines = file.text.lines().count();
    let long = file.path == "ARCHITECTURE.md" && lines > MAX_ARCHITECTURE_LINES;
    long.then(|| {
        let text = format!("{lines} lines, at most {MAX_ARCHITECTURE_LINES}");
        finding("architecture-length", file, MAX_ARCHITECTURE_LINES, text)
    })
}

/// Finds relative links of Markdown files that name no file or folder of the tree.
pub(super) fn check_links(files: &[SourceFile]) -> Vec<Finding> {
    let known = known_paths(files);
    let documents = files.iter().filter(|file| file.path.ends_with(".md"));
    documents.flat_map(|file| broken_links_in(file, &known)).collect()
}

fn broken_links_in(file: &SourceFile, known: &BTreeSet<&str>) -> Vec<Finding> {
    let links = links(&file.text);
    let broken = links.into_iter().filter(|(_, link)| !resolves(&file.path, link, known));
    broken
        .map(|(line, link)| finding("links", file, line, format!("`{link}` does not exist")))
        .collect()
}

/// Returns all files and the folders that contain them.
fn known_paths(files: &[SourceFile]) -> BTreeSet<&str> {
    let mut known = BTreeSet::from([""]);
    for file in files {
        known.insert(&file.path);
        known.extend(file.path.match_indices('/').map(|(at, _)| &file.path[..at]));
    }
    known
}

/// Returns the targets of `](target)` outside of code, with their lines.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut links = Vec::new();
    let mut fenced = false;
    for (at, line) in text.lines().enumerate() {
        fenced ^= line.trim_start().starts_with("```");
        if fenced {
            continue;
        }
        let prose = line.split('`').step_by(2);
        let targets = prose
            .flat_map(|prose| prose.split("](").skip(1))
            .filter_map(|rest| rest.split([')', ' ']).next());
        links.extend(targets.map(|target| (at + 1, target)));
    }
    links
}

fn resolves(from: &str, link: &str, known: &BTreeSet<&str>) -> bool {
    let path = link.split('#').next().unwrap_or_default();
    if path.is_empty() || path.contains("://") || path.starts_with("mailto:") {
        return true;
    }
    let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
    resolve_path(folder, path).is_some_and(|path| known.contains(path.as_str()))
}

/// Resolves `path` relative to `folder`. Returns `None` if it leaves the tree.
fn resolve_path(folder: &str, path: &str) -> Option<String> {
    let mut steps: Vec<&str> = folder.split('/').filter(|step| !step.is_empty()).collect();
    for step in path.trim_end_matches('/').split('/') {
        match step {
            "." => {}
            ".." => {
                steps.pop()?;
            }
            step => steps.push(step),
        }
    }
    Some(steps.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(path: &str, text: &str) -> Vec<String> {
        let files = [
            SourceFile::new(path, text),
            SourceFile::new("docs/a.md", ""),
            SourceFile::new("src/lib.rs", ""),
        ];
        check_links(&files).into_iter().map(|finding| finding.text).collect()
    }

    #[test]
    fn valid_links_pass() {
        let good = "[a](docs/a.md) [b](docs) [c](docs/a.md#part \"title\") [d](#here) [e](https://x.y/z) [f](./src/)";
        assert!(broken("README.md", good).is_empty());
        assert!(broken("docs/b.md", "[a](a.md) [b](../src/lib.rs) [c](..)").is_empty());
    }

    #[test]
    fn broken_links_are_found() {
        assert_eq!(broken("README.md", "see [a](docs/b.md)"), ["`docs/b.md` does not exist"]);
        assert_eq!(broken("docs/b.md", "[a](lib.rs) [b](../../x)").len(), 2);
    }

    #[test]
    fn links_in_code_are_ignored() {
        assert!(broken("README.md", "`[a](gone)`\n```\n[b](gone)\n```\n").is_empty());
        assert_eq!(broken("README.md", "`x` [a](gone)\n```\n```\n[b](gone)\n").len(), 2);
    }

    #[test]
    fn long_architecture_document_is_found() {
        let lines = |path: &str, count: usize| {
            check_architecture_length(&SourceFile::new(path, &"x\n".repeat(count)))
        };
        assert!(lines("ARCHITECTURE.md", 251).is_some());
        assert!(lines("ARCHITECTURE.md", 250).is_none());
        assert!(lines("README.md", 251).is_none());
    }
}
