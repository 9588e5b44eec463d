//! Rule for requirement ids: every id in a file has a row in `docs/requirements.md`.

use std::collections::BTreeSet;

use super::{Finding, SourceFile, findings_by_line};

const TABLE: &str = "docs/requirements.md";

const ID_PREFIXES: [&str; 6] = ["DOM", "DIS", "HOL", "MIN", "DKR", "EXT"];

/// Separators between the first and the last id of a range.
const RANGE_SEPARATORS: [&str; 5] = ["..", "–", "-", " to ", "_to_"];

/// Finds ids without a row in the table; readers could not look them up.
pub(super) fn check_ids(files: &[SourceFile]) -> Vec<Finding> {
    let table = files.iter().filter(|file| file.path == TABLE);
    let rows: BTreeSet<String> = table.flat_map(|file| table_ids(&file.text)).collect();
    let others = files.iter().filter(|file| file.path != TABLE && !file.is_lock());
    let undefined = |line: &str| {
        let unknown: Vec<String> =
            find_ids(line).into_iter().filter(|id| !rows.contains(id)).collect();
        (!unknown.is_empty()).then(|| format!("no row of {TABLE}: {}", unknown.join(", ")))
    };
    others.flat_map(|file| findings_by_line("requirement-ids", file, undefined)).collect()
}

/// Returns the ids in the first column.
fn table_ids(text: &str) -> Vec<String> {
    let cells = text.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    cells.flat_map(find_ids).collect()
}

/// Returns the ids in a line, in capitals with `-` or in a function's name with `_`. Of a range it returns
/// the first and the last.
fn find_ids(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    for set in ID_PREFIXES {
        let name = set.to_ascii_lowercase();
        for (sign, prefix) in [('-', format!("{set}-")), ('_', format!("{name}_"))] {
            for (at, _) in line.match_indices(&prefix) {
                let before = line[..at].chars().next_back();
                if before.is_some_and(|c| c.is_alphanumeric() || (c == '_' && sign == '_')) {
                    continue;
                }
                let Some((number, rest)) = split_number(&line[at + prefix.len()..]) else {
                    continue;
                };
                found.push(format!("{set}-{number}"));
                let rest = RANGE_SEPARATORS.iter().find_map(|range| rest.strip_prefix(range));
                let rest = rest.map(|rest| rest.strip_prefix(&prefix).unwrap_or(rest));
                let last = rest.and_then(number_of_range);
                found.extend(last.map(|last| format!("{set}-{last}")));
            }
        }
    }
    found
}

fn number_of_range(text: &str) -> Option<&str> {
    split_number(text).map(|(number, _)| number)
}

/// Splits two or three digits from the remaining text.
fn split_number(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    (2..=3).contains(&end).then(|| text.split_at(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Assembled at run time, so that the rule does not find the id in this file.
    fn id(number: &str) -> String {
        format!("{}-{number}", "DOM")
    }

    fn undefined(path: &str, text: &str) -> Vec<String> {
        let table = format!("| Id | F |\n|---|---|\n| {} | M |\n| {} | M |\n", id("01"), id("102"));
        let files = [SourceFile::new(TABLE, &table), SourceFile::new(path, text)];
        check_ids(&files).into_iter().map(|finding| finding.text).collect()
    }

    #[test]
    fn defined_ids_pass() {
        let text = format!("/// {}, {}..102\nfn dom_01_to_102_hold() {{}}\n", id("01"), id("01"));
        assert_eq!(undefined("a.rs", &text), Vec::<String>::new());
    }

    #[test]
    fn undefined_ids_are_found() {
        let missing = format!("no row of {TABLE}: {}", id("03"));
        for text in [
            format!("// {}: it holds", id("03")),
            format!("// {}..03", id("01")),
            format!("fn {}_03_it_holds() {{}}", "dom"),
            format!("fn {}_01_to_03_hold() {{}}", "dom"),
            format!("see {} and {}", id("01"), id("03")),
        ] {
            assert_eq!(undefined("a.rs", &text), [missing.as_str()], "{text}");
        }
        assert_eq!(
            undefined("a.md", &format!("{} | x", id("03"))).len(),
            1,
            "only the requirements table defines ids"
        );
    }

    #[test]
    fn similar_words_are_not_ids() {
        let words = format!("let x_{}_03 = {}1; RAN{} {}", "dom", id(""), id("03"), id("1234"));
        assert_eq!(undefined("a.rs", &words), Vec::<String>::new());
    }
}
