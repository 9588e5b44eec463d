//! The only place that prints: results on standard output, everything else on standard error.

use std::io::{BufRead, IsTerminal, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value as Json;
use toolcrib_wire::Raw;

use crate::{logging, shown};

/// No answer to a question is longer.
const LONGEST: u64 = 1024;

/// Where a command writes. Colours appear on a terminal only; `NO_COLOR` is honoured.
#[derive(Debug)]
pub(crate) struct Out {
    quiet: bool,
    /// Whether a line tells of progress now.
    is_telling: AtomicBool,
}

impl Out {
    pub(crate) fn new(quiet: bool) -> Self {
        Self { quiet, is_telling: AtomicBool::new(false) }
    }

    /// The result of the command. A reader that went away is no failure of ours.
    pub(crate) fn result(&self, text: &str) {
        let mut out = anstream::stdout().lock();
        let _ = out.write_all(text.as_bytes());
        let _ = out.flush();
    }

    pub(crate) fn json(&self, json: &Json) {
        self.result(&format!("{json:#}\n"));
    }

    /// JSON as it is, on one line: nothing of it is written anew.
    pub(crate) fn raw(&self, raw: &Raw) {
        self.bytes(raw.as_bytes());
        self.bytes(b"\n");
    }

    /// What a server wrote: byte for byte, but on a terminal without anything that the terminal would obey.
    pub(crate) fn foreign(&self, text: &str) {
        match std::io::stdout().is_terminal() {
            true => self.result(&shown::lines(text)),
            false => self.bytes(text.as_bytes()),
        }
        if !text.ends_with('\n') {
            self.bytes(b"\n");
        }
    }

    /// What is no text goes into files and pipes only. False if standard output is a terminal.
    pub(crate) fn binary(&self, bytes: &[u8]) -> bool {
        let goes = !std::io::stdout().is_terminal();
        if goes {
            self.bytes(bytes);
        }
        goes
    }

    fn bytes(&self, bytes: &[u8]) {
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(bytes);
        let _ = out.flush();
    }

    /// Something that helps a person and that a script does not want.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet {
            self.say(text);
        }
    }

    /// Something that a person has to do before the command can go on.
    pub(crate) fn instruct(&self, text: &str) {
        self.say(text);
    }

    /// Whether anybody would see how far slow work has come.
    pub(crate) fn shows_progress(&self) -> bool {
        !self.quiet && std::io::stderr().is_terminal()
    }

    /// How far slow work has come: one line on a terminal that the next one takes the place of, and nothing
    /// elsewhere. An empty one leaves the line free.
    pub(crate) fn progress(&self, text: &str) {
        let is_telling = self.is_telling.swap(!text.is_empty(), Ordering::Relaxed);
        let is_news = is_telling || !text.is_empty();
        if is_news && self.shows_progress() {
            let mut err = anstream::stderr().lock();
            let _ = write!(err, "\r\x1b[2K{text}");
            let _ = err.flush();
        }
    }

    /// A question: whoever answers types behind it.
    pub(crate) fn ask(&self, text: &str) {
        logging::flush();
        let mut err = anstream::stderr().lock();
        let _ = write!(err, "{text}");
        let _ = err.flush();
    }

    /// Whether there is somebody who could be asked.
    pub(crate) fn can_ask(&self) -> bool {
        std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
    }

    /// Asks; whatever is not a yes is a no.
    pub(crate) fn asks(&self, question: &str) -> bool {
        self.ask(&format!("{question} [y/N] "));
        let mut answer = String::new();
        let heard = std::io::stdin().lock().take(LONGEST).read_line(&mut answer).is_ok();
        heard && matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
    }

    pub(crate) fn error(&self, text: &str) {
        let red = anstyle::Style::new().bold().fg_color(Some(anstyle::AnsiColor::Red.into()));
        self.say(&format!("{red}error{red:#}: {text}"));
    }

    /// Writes a line of the log. Only the log's own thread calls this, since it may block.
    pub(crate) fn log(text: &str) {
        write_line(text);
    }

    fn say(&self, text: &str) {
        say(text);
    }
}

/// A line behind those that the log has not written yet.
fn say(text: &str) {
    if !logging::queue(text) {
        write_line(text);
    }
}

/// A line, in place of what is told of progress.
fn write_line(text: &str) {
    let mut err = anstream::stderr().lock();
    let clear = if std::io::stderr().is_terminal() { "\r\x1b[2K" } else { "" };
    let _ = writeln!(err, "{clear}{text}");
}
