//! Problem reports in the style of a compiler: location, excerpt with caret, text and fix.

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use toolcrib_config::{Config, Problem, ServerSpec, Severity};
use toolcrib_upstream::signals::escape_invisible_char;

use crate::Exit;
use crate::output::Output;
use crate::terminal_text::{printable, printable_lines};

/// Renders problems with errors last, close to the prompt.
pub(crate) fn render_problems(config: &Config, problems: &[&Problem]) -> String {
    let mut sorted = problems.to_vec();
    sorted.sort_by_key(|problem| {
        (std::cmp::Reverse(problem.severity), problem.source.clone(), problem.line)
    });
    let renderer = Renderer::styled();
    let rendered =
        sorted.iter().map(|problem| renderer.render(&[problem_group(config, problem)]) + "\n\n");
    rendered.collect()
}

/// Formats counts such as `2 errors, 1 warning`.
pub(crate) fn count_by_severity(problems: &[Problem]) -> String {
    let words =
        [(Severity::Error, "error"), (Severity::Warning, "warning"), (Severity::Info, "remark")];
    let counted: Vec<String> = words
        .iter()
        .map(|(severity, word)| (problems.iter().filter(|p| p.severity == *severity).count(), word))
        .filter(|(n, _)| *n > 0)
        .map(|(n, word)| plural(n, word))
        .collect();
    if counted.is_empty() { "no problems".to_string() } else { counted.join(", ") }
}

pub(crate) fn plural(n: usize, word: &str) -> String {
    let ending = match (n, word.ends_with('s')) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{n} {word}{ending}")
}

/// Reports an unknown server. If the server exists but is invalid, prints its problems instead.
pub(crate) fn report_unknown_server(config: &Config, out: &Output, name: &str) -> Exit {
    let own: Vec<&Problem> =
        config.problems.iter().filter(|problem| problem.server.as_deref() == Some(name)).collect();
    let ids: Vec<&str> = config.servers.iter().map(|spec| spec.id.as_str()).collect();
    let same: Vec<String> =
        config.servers.iter().filter(|spec| spec.id == name).map(ServerSpec::key).collect();
    let shown = printable(name);
    if !own.is_empty() {
        out.print_result(&render_problems(config, &own));
        out.print_error(&format!("server `{shown}` is invalid"));
    } else if !same.is_empty() {
        out.print_error(&format!(
            "several servers are called `{shown}`: {}",
            printable(&same.join(", "))
        ));
    } else if ids.is_empty() {
        out.print_error("no server is configured here");
    } else {
        out.print_error(&format!(
            "there is no server `{shown}`; there are {}",
            printable(&ids.join(", "))
        ));
    }
    Exit::Failed
}

/// Builds one problem's report. Text from files and servers is escaped.
fn problem_group<'a>(config: &'a Config, problem: &'a Problem) -> Group<'a> {
    let level = match problem.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Info => Level::INFO,
    };
    let mut group = Group::with_title(
        level.primary_title(printable_lines(&problem.text)).id(problem.code.as_str()),
    );
    if let Some(excerpt) = excerpt(config, problem) {
        group = group.element(excerpt);
    } else if let Some(source) = &problem.source {
        group = group.element(Level::NOTE.message(format!("in {}", printable(source))));
    }
    if let Some(server) = &problem.server {
        group = group.element(Level::NOTE.message(format!("server `{}`", printable(server))));
    }
    if let Some(fix) = &problem.fix {
        group = group.element(Level::HELP.message(printable_lines(fix)));
    }
    group
}

/// Longer lines are cut around the column, so that minified files stay readable.
const MAX_WIDTH: usize = 160;

fn excerpt<'a>(
    config: &'a Config,
    problem: &'a Problem,
) -> Option<Snippet<'a, annotate_snippets::Annotation<'a>>> {
    let (label, line, column) = (problem.source.as_deref()?, problem.line?, problem.column?);
    let (text, column) = config.source(label)?.excerpt(line, column)?;
    let column = column.saturating_sub(1);
    let from = column.saturating_sub(MAX_WIDTH / 2);
    let shown: String = text.chars().skip(from).take(MAX_WIDTH).map(printable_char).collect();
    let span = word_range(&shown, column - from);
    let snippet = Snippet::source(shown).path(printable(label)).line_start(line as usize);
    Some(snippet.annotation(AnnotationKind::Primary.span(span)))
}

/// Replaces an unprintable character by one character, because columns count characters.
fn printable_char(c: char) -> char {
    match c == '\t' || escape_invisible_char(c).chars().eq([c]) {
        true => c,
        false => char::REPLACEMENT_CHARACTER,
    }
}

/// Returns the byte range of the word at a column.
fn word_range(line: &str, column: usize) -> std::ops::Range<usize> {
    let start = line.char_indices().nth(column).map_or(line.len(), |(at, _)| at);
    let rest = line.get(start..).unwrap_or_default();
    let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''));
    let length = match quote {
        Some(quote) => {
            rest.char_indices().skip(1).find(|(_, c)| *c == quote).map(|(at, c)| at + c.len_utf8())
        }
        None => rest.find(|c: char| c.is_whitespace() || matches!(c, ',' | '}' | ']' | ':')),
    };
    let end = start + length.unwrap_or(rest.len());
    start..end.max((start + 1).min(line.len())).max(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caret_covers_the_word() {
        let check = |line: &str, column: usize, expected: &str| {
            assert_eq!(&line[word_range(line, column)], expected, "{line} at {column}");
        };
        check("  transport: sse # no", 13, "sse");
        check("a: { b: c }", 8, "c");
        check("args: [\"x y\", z]", 7, "\"x y\"");
        check("é: ü", 3, "ü");
        check("short", 99, "");
    }
}
