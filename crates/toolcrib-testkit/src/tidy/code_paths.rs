//! Rule for ARCHITECTURE.md: each function of the described code paths exists.

use super::{Finding, SourceFile, finding};

const DOCUMENT: &str = "ARCHITECTURE.md";

/// The least number of steps, so that a changed format cannot switch the rule off.
const MIN_STEPS: usize = 30;

/// Steps are written as ``1. `path/to/file.rs: function` text``.
pub(super) fn missing_functions(files: &[SourceFile]) -> Vec<Finding> {
    let Some(document) = files.iter().find(|file| file.path == DOCUMENT) else { return Vec::new() };
    let steps: Vec<_> = document
        .text
        .lines()
        .enumerate()
        .filter_map(|(at, line)| Some((at + 1, parse_step(line)?)))
        .collect();
    let too_few = (steps.len() < MIN_STEPS).then(|| {
        let text =
            format!("only {} steps of code paths were found, expected {MIN_STEPS}", steps.len());
        finding("code-path", document, 1, text)
    });
    let missing = steps.into_iter().filter_map(|(line, (path, function))| {
        let declaration = format!("fn {function}");
        let has = |file: &SourceFile| {
            file.text
                .match_indices(&declaration)
                .any(|(at, _)| ends_name(&file.text, at + declaration.len()))
        };
        let is_there = files.iter().any(|file| file.path == path && has(file));
        (!is_there).then(|| {
            finding("code-path", document, line, format!("`{path}` has no function `{function}`"))
        })
    });
    too_few.into_iter().chain(missing).collect()
}

fn parse_step(line: &str) -> Option<(&str, &str)> {
    let (number, rest) = line.split_once(". `")?;
    number.parse::<u32>().ok()?;
    let (step, _) = rest.split_once('`')?;
    step.split_once(": ").filter(|(path, _)| path.ends_with(".rs"))
}

fn ends_name(text: &str, at: usize) -> bool {
    text[at..].starts_with(['(', '<'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(step: &str) -> usize {
        let steps = format!("{step}\n").repeat(MIN_STEPS);
        let files = [
            SourceFile::new(DOCUMENT, &steps),
            SourceFile::new("a.rs", "async fn run<T>() {}\nfn runs() {}\n"),
        ];
        missing_functions(&files).len()
    }

    #[test]
    fn existing_functions_pass() {
        assert_eq!(check("1. `a.rs: run` runs."), 0);
        assert_eq!(check("12. `a.rs: runs` runs."), 0);
    }

    #[test]
    fn missing_functions_and_files_are_found() {
        assert_eq!(check("1. `a.rs: ru` runs."), MIN_STEPS);
        assert_eq!(check("1. `b.rs: run` runs."), MIN_STEPS);
    }

    #[test]
    fn document_without_steps_is_found() {
        assert_eq!(missing_functions(&[SourceFile::new(DOCUMENT, "# Architecture\n")]).len(), 1);
    }
}
