//! What a scripted server does, as a value that fits on a command line.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Script {
    /// Done before anything is read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub start: Vec<Step>,
    /// What happens on a request or notification, by method, or by `tools/call NAME`. Without an entry the
    /// server behaves.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub on: BTreeMap<String, Vec<Step>>,
    /// Tools beside the built-in ones, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// How many tools are on one page of the list; 0 means all.
    #[serde(skip_serializing_if = "is_zero")]
    pub page: usize,
    /// Answers are set off by `Content-Length`, and only that is understood.
    #[serde(skip_serializing_if = "is_false")]
    pub content_length: bool,
    /// The streams are Latin-1.
    #[serde(skip_serializing_if = "is_false")]
    pub latin1: bool,
    /// Refuses `initialize`.
    #[serde(skip_serializing_if = "is_false")]
    pub modern_only: bool,
    /// Refuses `server/discover`.
    #[serde(skip_serializing_if = "is_false")]
    pub legacy_only: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub ignore_sigterm: bool,
    /// Goes on when its input ends.
    #[serde(skip_serializing_if = "is_false")]
    pub ignore_end: bool,
    /// A file to which every message that comes in is appended, one a line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<PathBuf>,
}

/// One thing to do. Steps of one message follow each other; those of different messages run side by side. In
/// texts `$id` stands for the id of the request and `$token` for its progress token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Milliseconds.
    Sleep(u64),
    /// The answer of a server that behaves.
    Answer,
    /// This result.
    Result(Value),
    /// This error.
    Error {
        code: i64,
        message: String,
    },
    /// A result with a text of this many bytes.
    Big(usize),
    /// Waits until this file exists.
    Until(PathBuf),
    /// Waits until this many are held, then all go on, the newest first.
    Hold(usize),
    /// A result that tells the process and how often this was done in it, as JSON: `{"pid":1,"count":1}`.
    Count,
    /// A message, whatever it is.
    Message(String),
    /// Bytes outside of any framing.
    Raw(String),
    /// So many times a byte, outside of any framing.
    Flood {
        byte: char,
        times: usize,
    },
    /// A notification, so many times.
    Notify {
        method: String,
        params: Value,
        times: usize,
    },
    /// Progress, so many times, each after this many milliseconds.
    Progress {
        times: usize,
        every: u64,
    },
    /// A request to the client; goes on when it is answered. The next `answer` is the client's message.
    Ask {
        method: String,
        params: Value,
    },
    /// From now on this process has a tool of that name, and says that its list has changed.
    Offer(String),
    /// Each time the next of these, then the last one again and again. The file counts, so that a server that
    /// is started anew goes on where the one before it ended.
    Turns {
        count: PathBuf,
        turns: Vec<Vec<Step>>,
    },
    Stderr(String),
    /// So many bytes.
    StderrFlood(usize),
    /// Nothing is read any more.
    CloseStdin,
    Exit(i32),
    /// Ends as if killed.
    Abort,
}

impl Script {
    /// Adds what happens on a method, or on `tools/call NAME`; that tool is then listed.
    #[must_use]
    pub fn on(mut self, what: &str, steps: impl IntoIterator<Item = Step>) -> Self {
        self.on.insert(what.to_owned(), steps.into_iter().collect());
        self
    }

    #[must_use]
    pub fn start(mut self, steps: impl IntoIterator<Item = Step>) -> Self {
        self.start.extend(steps);
        self
    }

    /// For the command line.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The steps for a message.
    pub(super) fn steps(&self, method: &str, name: Option<&str>) -> Option<&[Step]> {
        let by_name = name.and_then(|name| self.on.get(&format!("{method} {name}")));
        by_name.or_else(|| self.on.get(method)).map(Vec::as_slice)
    }
}

fn is_false(flag: &bool) -> bool {
    !flag
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}
