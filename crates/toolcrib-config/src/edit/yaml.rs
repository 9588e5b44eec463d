//! An entry in a section of a YAML file, by whole lines: what is written in any other way is left alone.

use std::ops::Range;

use serde_json::{Map, Value as Json};

use crate::yaml::to_yaml;

/// Where a section that has no entries yet has its first.
const INDENT: usize = 2;

pub(super) fn put(text: &str, path: &[&str], entry: &Json) -> Option<String> {
    let [section, name] = path else { return None };
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let Some(found) = Section::find(&lines, section, name) else {
        let block = block(name, entry, INDENT);
        return Some(format!("{}{section}:\n{block}", closed(text)));
    };
    let place = found.entry.unwrap_or(found.end..found.end);
    let (before, after) = (lines.get(..place.start)?, lines.get(place.end..)?);
    let block = block(name, entry, found.indent);
    Some(format!("{}{block}{}", closed(&before.concat()), after.concat()))
}

pub(super) fn take(text: &str, path: &[&str]) -> Option<String> {
    let [section, name] = path else { return None };
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let place = Section::find(&lines, section, name)?.entry?;
    Some(lines.get(..place.start)?.concat() + &lines.get(place.end..)?.concat())
}

/// A key at the beginning of a line, and what is below it.
struct Section {
    indent: usize,
    /// Behind the last line of the section that says anything.
    end: usize,
    entry: Option<Range<usize>>,
}

impl Section {
    fn find(lines: &[&str], section: &str, name: &str) -> Option<Self> {
        let head = lines.iter().position(|line| is_head(line, 0, section))?;
        let below = lines.iter().enumerate().skip(head + 1);
        let content = below.filter_map(|(at, line)| Some((at, indent(line)?)));
        let content: Vec<(usize, usize)> = content.take_while(|(_, indent)| *indent > 0).collect();
        let indent = content.first().map_or(INDENT, |(_, indent)| *indent);
        let end = content.last().map_or(head, |(at, _)| *at) + 1;
        let is_entry =
            |(at, _): &(usize, usize)| lines.get(*at).is_some_and(|it| is_head(it, indent, name));
        let entry = content.iter().position(is_entry).map(|first| {
            let rest = content.iter().skip(first + 1);
            let last = rest.take_while(|(_, deep)| *deep > indent).last();
            let begin = content.get(first).map_or(end, |(at, _)| *at);
            begin..last.map_or(begin, |(at, _)| *at) + 1
        });
        Some(Section { indent, end, entry })
    }
}

/// How far a line is indented; nothing for one that says nothing.
fn indent(line: &str) -> Option<usize> {
    let text = line.trim_start_matches(' ');
    let says_nothing = text.trim().is_empty() || text.starts_with('#');
    (!says_nothing).then_some(line.len() - text.len())
}

/// Whether a line is this key with everything else below it.
fn is_head(line: &str, deep: usize, key: &str) -> bool {
    let rest = line.get(deep..).and_then(|rest| rest.strip_prefix(key)?.strip_prefix(':'));
    indent(line) == Some(deep)
        && rest.is_some_and(|rest| rest.trim().is_empty() || rest.trim_start().starts_with('#'))
}

fn block(name: &str, entry: &Json, indent: usize) -> String {
    let named = Map::from_iter([(name.to_owned(), entry.clone())]);
    let text = to_yaml(&Json::Object(named));
    text.lines().map(|line| format!("{}{line}\n", " ".repeat(indent))).collect()
}

/// The last line ends, too.
fn closed(text: &str) -> String {
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    format!("{text}{end}")
}
