//! How things look: foreign text without its power over terminals, tables, colours.

use anstyle::{AnsiColor, Style};
use toolcrib_upstream::signals::{visible, visible_char};

/// What a server wrote is shown and never obeyed: control characters lose their meaning.
pub(crate) fn printable(text: &str) -> String {
    visible(text)
}

/// The same for text of several lines, which stay lines.
pub(crate) fn lines(text: &str) -> String {
    let keep = |c: char| if matches!(c, '\n' | '\t') { c.to_string() } else { visible_char(c) };
    text.chars().map(keep).collect()
}

/// As much of a text as fits beside others: its first line, within reason.
pub(crate) fn brief(text: &str) -> String {
    first_line(text, 80)
}

/// As much of what went wrong as one reads in a line.
pub(crate) fn reason(text: &str) -> String {
    first_line(text, 240)
}

fn first_line(text: &str, most: usize) -> String {
    let mut lines = text.trim().lines();
    let first = lines.next().unwrap_or_default().trim_end();
    let cut: String = first.chars().take(most).collect();
    let more = if cut.len() < first.len() || lines.next().is_some() { "…" } else { "" };
    printable(&cut) + more
}

/// A few names out of many.
pub(crate) fn few<'a>(names: impl Iterator<Item = &'a str>) -> String {
    const MOST: usize = 6;
    let names: Vec<&str> = names.collect();
    let shown: Vec<String> = names.iter().take(MOST).map(|name| printable(name)).collect();
    match names.len().saturating_sub(MOST) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

pub(crate) fn bold(colour: AnsiColor) -> Style {
    Style::new().bold().fg_color(Some(colour.into()))
}

/// Rows under a heading, each column as wide as its widest cell.
#[derive(Debug)]
pub(crate) struct Table {
    heading: Vec<&'static str>,
    rows: Vec<Vec<(String, Style)>>,
}

impl Table {
    pub(crate) fn new(heading: &[&'static str]) -> Self {
        Table { heading: heading.to_vec(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = (String, Style)>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Nothing at all where there are no rows.
    pub(crate) fn text(&self) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let heading = self.heading.iter().map(|word| ((*word).to_owned(), Style::new().dimmed()));
        let heading: Vec<(String, Style)> = heading.collect();
        let all = || std::iter::once(&heading).chain(&self.rows);
        let width = |column: usize| {
            let cells = all().filter_map(|row| row.get(column));
            cells.map(|(text, _)| text.chars().count()).max().unwrap_or_default()
        };
        let widths: Vec<usize> = (0..self.heading.len()).map(width).collect();
        all().map(|row| line(row, &widths)).collect()
    }
}

/// Without spaces at its end, whatever is empty there.
fn line(cells: &[(String, Style)], widths: &[usize]) -> String {
    let last = cells.iter().rposition(|(text, _)| !text.is_empty()).unwrap_or_default();
    let mut line = String::new();
    for (place, ((text, style), width)) in cells.iter().zip(widths).enumerate().take(last + 1) {
        // A column that has nothing in it is not there.
        let is_gap = place < last && *width > 0;
        let space = if is_gap { width - text.chars().count() + 2 } else { 0 };
        line += &format!("{style}{text}{style:#}{:space$}", "");
    }
    line + "\n"
}

/// A cell without a style.
pub(crate) fn plain(text: impl Into<String>) -> (String, Style) {
    (text.into(), Style::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dis_44_foreign_text_has_no_power() {
        assert_eq!(printable("a\x1b[31m\u{202e}b\nc\u{9b}ä"), r"a\u{1b}[31m\u{202e}b\nc\u{9b}ä");
        assert_eq!(lines("a\n\tb\r\x07"), "a\n\tb\\r\\u{7}");
        assert_eq!(brief("  one\x1b\ntwo"), r"one\u{1b}…");
        assert_eq!(brief(&"x".repeat(200)).chars().count(), 81);
    }

    #[test]
    fn columns_stand_under_each_other_and_lines_end_with_text() {
        let mut table = Table::new(&["NAME", "WHAT", "", "LAST"]);
        assert_eq!(table.text(), "");
        table.row([plain("a"), plain("bbbbbb"), plain(""), plain("")]);
        table.row([plain("ccccc"), plain("d"), plain(""), plain("e")]);
        let plain = anstream::adapter::strip_str(&table.text()).to_string();
        assert_eq!(plain, "NAME   WHAT    LAST\na      bbbbbb\nccccc  d       e\n");
    }

    #[test]
    fn of_many_names_a_few_are_told() {
        assert_eq!(few(["a", "b"].into_iter()), "a, b");
        assert_eq!(few(["x"; 8].into_iter()), "x, x, x, x, x, x and 2 more");
    }
}
