//! The only place that prints: results on standard output, everything else on standard error.

use std::io::{IsTerminal, Write};

use serde_json::Value as Json;

/// Where a command writes. Colours appear on a terminal only; `NO_COLOR` is honoured.
#[derive(Debug)]
pub(crate) struct Out {
    quiet: bool,
}

impl Out {
    pub(crate) fn new(quiet: bool) -> Self {
        Self { quiet }
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

    /// Something that helps a person and that a script does not want.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet {
            self.say(text);
        }
    }

    /// How far slow work has come: one line on a terminal that the next one takes the place of, and nothing
    /// elsewhere. An empty one leaves the line free.
    pub(crate) fn progress(&self, text: &str) {
        if !self.quiet && std::io::stderr().is_terminal() {
            let mut err = anstream::stderr().lock();
            let _ = write!(err, "\r\x1b[2K{text}");
            let _ = err.flush();
        }
    }

    pub(crate) fn error(&self, text: &str) {
        let red = anstyle::Style::new().bold().fg_color(Some(anstyle::AnsiColor::Red.into()));
        self.say(&format!("{red}error{red:#}: {text}"));
    }

    fn say(&self, text: &str) {
        let mut err = anstream::stderr().lock();
        let _ = writeln!(err, "{text}");
    }
}
