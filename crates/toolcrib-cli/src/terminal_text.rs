//! Terminal output: escaped text, tables and styles.

use anstyle::{AnsiColor, Style};
use toolcrib_upstream::signals::{escape_invisible, escape_invisible_char};

/// Escapes control characters, so that text of a server cannot control the terminal.
pub(crate) fn printable(text: &str) -> String {
    escape_invisible(text)
}

/// Escapes control characters except line breaks and tabs.
pub(crate) fn printable_lines(text: &str) -> String {
    let keep =
        |c: char| if matches!(c, '\n' | '\t') { c.to_string() } else { escape_invisible_char(c) };
    text.chars().map(keep).collect()
}

/// Returns the first line, cut to 80 characters.
pub(crate) fn brief(text: &str) -> String {
    first_line(text, 80)
}

/// Returns the first line of an error, cut to 240 characters.
pub(crate) fn error_line(text: &str) -> String {
    first_line(text, 240)
}

fn first_line(text: &str, most: usize) -> String {
    let mut lines = text.trim().lines();
    let first = lines.next().unwrap_or_default().trim_end();
    let cut: String = first.chars().take(most).collect();
    let more = if cut.len() < first.len() || lines.next().is_some() { "…" } else { "" };
    printable(&cut) + more
}

/// Joins names and abbreviates a long list.
pub(crate) fn name_list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    const MAX_NAMES: usize = 6;
    let names: Vec<&str> = names.collect();
    let shown: Vec<String> = names.iter().take(MAX_NAMES).map(|name| printable(name)).collect();
    match names.len().saturating_sub(MAX_NAMES) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

pub(crate) fn bold_style(colour: AnsiColor) -> Style {
    Style::new().bold().fg_color(Some(colour.into()))
}

/// A table with a heading. Columns are as wide as their widest cell.
#[derive(Debug)]
pub(crate) struct Table {
    heading: Vec<&'static str>,
    rows: Vec<Vec<(String, Style)>>,
}

impl Table {
    pub(crate) fn new(heading: &[&'static str]) -> Self {
        Table { heading: heading.to_vec(), rows: Vec::new() }
    }

    pub(crate) fn add_row(&mut self, cells: impl IntoIterator<Item = (String, Style)>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Renders the table, or nothing without rows.
    pub(crate) fn render(&self) -> String {
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
        all().map(|row| render_row(row, &widths)).collect()
    }
}

/// Renders one row without trailing spaces.
fn render_row(cells: &[(String, Style)], widths: &[usize]) -> String {
    let last = cells.iter().rposition(|(text, _)| !text.is_empty()).unwrap_or_default();
    let mut line = String::new();
    for (place, ((text, style), width)) in cells.iter().zip(widths).enumerate().take(last + 1) {
        // An empty column takes no space.
        let is_gap = place < last && *width > 0;
        let space = if is_gap { width - text.chars().count() + 2 } else { 0 };
        line += &format!("{style}{text}{style:#}{:space$}", "");
    }
    line + "\n"
}

/// Returns a cell without a style.
pub(crate) fn plain_cell(text: impl Into<String>) -> (String, Style) {
    (text.into(), Style::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dis_44_foreign_text_cannot_control_the_terminal() {
        assert_eq!(printable("a\x1b[31m\u{202e}b\nc\u{9b}ä"), r"a\u{1b}[31m\u{202e}b\nc\u{9b}ä");
        assert_eq!(printable_lines("a\n\tb\r\x07"), "a\n\tb\\r\\u{7}");
        assert_eq!(brief("  one\x1b\ntwo"), r"one\u{1b}…");
        assert_eq!(brief(&"x".repeat(200)).chars().count(), 81);
    }

    #[test]
    fn table_aligns_columns_without_trailing_spaces() {
        let mut table = Table::new(&["NAME", "WHAT", "", "LAST"]);
        assert_eq!(table.render(), "");
        table.add_row([plain_cell("a"), plain_cell("bbbbbb"), plain_cell(""), plain_cell("")]);
        table.add_row([plain_cell("ccccc"), plain_cell("d"), plain_cell(""), plain_cell("e")]);
        let plain = anstream::adapter::strip_str(&table.render()).to_string();
        assert_eq!(plain, "NAME   WHAT    LAST\na      bbbbbb\nccccc  d       e\n");
    }

    #[test]
    fn name_list_is_shortened() {
        assert_eq!(name_list(["a", "b"].into_iter()), "a, b");
        assert_eq!(name_list(["x"; 8].into_iter()), "x, x, x, x, x, x and 2 more");
    }
}
