//! Entries in a section of a YAML file. Edits replace whole lines; other forms are left unchanged.

use std::ops::Range;

use serde_json::{Map, Value as Json};

use crate::yaml_writer::to_yaml;

/// Indentation of the first entry in an empty section.
const INDENT: usize = 2;

pub(super) fn insert_entry(text: &str, path: &[&str], entry: &Json) -> Option<String> {
    let [section, name] = path else { return None };
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let Some(section_lines) = Section::find(&lines, section, name) else {
        let block = entry_block(name, entry, INDENT);
        return Some(format!("{}{section}:\n{block}", with_final_newline(text)));
    };
    let range = section_lines.entry.unwrap_or(section_lines.end..section_lines.end);
    let (before, after) = (lines.get(..range.start)?, lines.get(range.end..)?);
    let block = entry_block(name, entry, section_lines.indent);
    Some(format!("{}{block}{}", with_final_newline(&before.concat()), after.concat()))
}

pub(super) fn remove_entry(text: &str, path: &[&str]) -> Option<String> {
    let [section, name] = path else { return None };
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let range = Section::find(&lines, section, name)?.entry?;
    Some(lines.get(..range.start)?.concat() + &lines.get(range.end..)?.concat())
}

/// A top-level key and the lines below it.
struct Section {
    indent: usize,
    /// The line after the section's last line with content.
    end: usize,
    entry: Option<Range<usize>>,
}

impl Section {
    fn find(lines: &[&str], section: &str, name: &str) -> Option<Self> {
        let head = lines.iter().position(|line| is_key_line(line, 0, section))?;
        let below = lines.iter().enumerate().skip(head + 1);
        let content = below.filter_map(|(at, line)| Some((at, indentation(line)?)));
        let content: Vec<(usize, usize)> = content.take_while(|(_, indent)| *indent > 0).collect();
        let indent = content.first().map_or(INDENT, |(_, indent)| *indent);
        let end = content.last().map_or(head, |(at, _)| *at) + 1;
        let is_entry = |(at, _): &(usize, usize)| {
            lines.get(*at).is_some_and(|it| is_key_line(it, indent, name))
        };
        let entry = content.iter().position(is_entry).map(|first| {
            let rest = content.iter().skip(first + 1);
            let last = rest.take_while(|(_, deep)| *deep > indent).last();
            let begin = content.get(first).map_or(end, |(at, _)| *at);
            begin..last.map_or(begin, |(at, _)| *at) + 1
        });
        Some(Section { indent, end, entry })
    }
}

/// Returns the indentation of a line, or `None` for a blank line or a comment.
fn indentation(line: &str) -> Option<usize> {
    let text = line.trim_start_matches(' ');
    let is_blank = text.trim().is_empty() || text.starts_with('#');
    (!is_blank).then_some(line.len() - text.len())
}

/// Returns whether a line consists of this key and its value is on the following lines.
fn is_key_line(line: &str, deep: usize, key: &str) -> bool {
    let rest = line.get(deep..).and_then(|rest| rest.strip_prefix(key)?.strip_prefix(':'));
    indentation(line) == Some(deep)
        && rest.is_some_and(|rest| rest.trim().is_empty() || rest.trim_start().starts_with('#'))
}

fn entry_block(name: &str, entry: &Json, indent: usize) -> String {
    let named = Map::from_iter([(name.to_owned(), entry.clone())]);
    let text = to_yaml(&Json::Object(named));
    text.lines().map(|line| format!("{}{line}\n", " ".repeat(indent))).collect()
}

/// Adds a missing line break at the end.
fn with_final_newline(text: &str) -> String {
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    format!("{text}{end}")
}
