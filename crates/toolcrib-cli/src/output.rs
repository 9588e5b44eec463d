//! The only module that prints: results to standard output, everything else to standard error.

use std::io::{BufRead, IsTerminal, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value as Json;
use toolcrib_wire::RawJson;

use crate::{logging, terminal_text};

/// Longest accepted answer to a question.
const MAX_ANSWER: u64 = 1024;

/// The output of a command. Colours appear on terminals only; `NO_COLOR` is respected.
#[derive(Debug)]
pub(crate) struct Output {
    quiet: bool,
    /// True if a progress line is on the screen.
    has_progress_line: AtomicBool,
}

impl Output {
    pub(crate) fn new(quiet: bool) -> Self {
        Self { quiet, has_progress_line: AtomicBool::new(false) }
    }

    /// Prints the result of the command. A closed standard output is not an error.
    pub(crate) fn print_result(&self, text: &str) {
        let mut out = anstream::stdout().lock();
        let _ = out.write_all(text.as_bytes());
        let _ = out.flush();
    }

    pub(crate) fn print_json(&self, json: &Json) {
        self.print_result(&format!("{json:#}\n"));
    }

    /// Prints JSON unchanged on one line.
    pub(crate) fn print_raw_json(&self, raw: &RawJson) {
        self.write_bytes(raw.as_bytes());
        self.write_bytes(b"\n");
    }

    /// Prints text of a server: unchanged to a file, with control characters escaped to a terminal.
    pub(crate) fn print_server_text(&self, text: &str) {
        match std::io::stdout().is_terminal() {
            true => self.print_result(&terminal_text::printable_lines(text)),
            false => self.write_bytes(text.as_bytes()),
        }
        if !text.ends_with('\n') {
            self.write_bytes(b"\n");
        }
    }

    /// Prints bytes to a file or a pipe. Returns false if standard output is a terminal.
    pub(crate) fn print_binary(&self, bytes: &[u8]) -> bool {
        let goes = !std::io::stdout().is_terminal();
        if goes {
            self.write_bytes(bytes);
        }
        goes
    }

    fn write_bytes(&self, bytes: &[u8]) {
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(bytes);
        let _ = out.flush();
    }

    /// Prints a message for people. `--quiet` suppresses it.
    pub(crate) fn print_note(&self, text: &str) {
        if !self.quiet {
            self.write_message(text);
        }
    }

    /// Prints an action that the user must take before the command can continue.
    pub(crate) fn print_instruction(&self, text: &str) {
        self.write_message(text);
    }

    /// Returns whether progress is visible.
    pub(crate) fn shows_progress(&self) -> bool {
        !self.quiet && std::io::stderr().is_terminal()
    }

    /// Replaces the progress line on a terminal. An empty text clears it. Does nothing elsewhere.
    pub(crate) fn show_progress(&self, text: &str) {
        let has_progress_line = self.has_progress_line.swap(!text.is_empty(), Ordering::Relaxed);
        let is_news = has_progress_line || !text.is_empty();
        if is_news && self.shows_progress() {
            let mut err = anstream::stderr().lock();
            let _ = write!(err, "\r\x1b[2K{text}");
            let _ = err.flush();
        }
    }

    /// Prints a question without a line break.
    pub(crate) fn prompt(&self, text: &str) {
        logging::flush();
        let mut err = anstream::stderr().lock();
        let _ = write!(err, "{text}");
        let _ = err.flush();
    }

    /// Returns whether a user can answer questions.
    pub(crate) fn is_interactive(&self) -> bool {
        std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
    }

    /// Asks a yes-or-no question. Every answer except yes means no.
    pub(crate) fn confirm(&self, question: &str) -> bool {
        self.prompt(&format!("{question} [y/N] "));
        let mut answer = String::new();
        let was_read = std::io::stdin().lock().take(MAX_ANSWER).read_line(&mut answer).is_ok();
        was_read && matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
    }

    pub(crate) fn print_error(&self, text: &str) {
        let red = anstyle::Style::new().bold().fg_color(Some(anstyle::AnsiColor::Red.into()));
        self.write_message(&format!("{red}error{red:#}: {text}"));
    }

    /// Writes a log line. Only the log thread calls it, because it may block.
    pub(crate) fn write_log_line(text: &str) {
        write_line(text);
    }

    fn write_message(&self, text: &str) {
        queue_or_write_line(text);
    }
}

/// Writes a line after all queued log lines.
fn queue_or_write_line(text: &str) {
    if !logging::queue_line(text) {
        write_line(text);
    }
}

/// Writes a line in place of the progress line.
fn write_line(text: &str) {
    let mut err = anstream::stderr().lock();
    let clear = if std::io::stderr().is_terminal() { "\r\x1b[2K" } else { "" };
    let _ = writeln!(err, "{clear}{text}");
}
