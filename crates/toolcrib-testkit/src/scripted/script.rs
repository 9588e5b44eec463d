//! Behaviour of a scripted server, as a value that fits on a command line.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Script {
    /// Steps before the first message is read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub start: Vec<Step>,
    /// Steps for a request or notification, by method or by `tools/call NAME`. Without an entry the server
    /// behaves correctly.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub on: BTreeMap<String, Vec<Step>>,
    /// Names of additional tools.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Number of tools on one page of the list; 0 means all.
    #[serde(skip_serializing_if = "is_zero")]
    pub page: usize,
    /// Uses `Content-Length` framing for output and accepts no other framing.
    #[serde(skip_serializing_if = "is_false")]
    pub content_length: bool,
    /// Encodes the streams as Latin-1.
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
    /// Keeps running when the input ends.
    #[serde(skip_serializing_if = "is_false")]
    pub ignore_end: bool,
    /// File to which every incoming message is appended as one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<PathBuf>,
}

/// One action. Steps of one message run in sequence; steps of different messages run in parallel. In texts
/// `$id` is replaced by the id of the request and `$token` by its progress token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Sleeps for this many milliseconds.
    Sleep(u64),
    /// Sends the default result.
    Respond,
    /// Sends this result.
    Result(Value),
    /// Sends this error.
    Error {
        code: i64,
        message: String,
    },
    /// Sends a result with a text of this many bytes.
    LargeResult(usize),
    /// Waits until this file exists.
    WaitForFile(PathBuf),
    /// Waits until this many messages have arrived, then continues all of them, the newest first.
    Barrier(usize),
    /// Sends a result with the process id and the number of calls in this process, as JSON:
    /// `{"pid":1,"count":1}`.
    CountCalls,
    /// Sends this text as a message.
    Message(String),
    /// Sends text outside of any framing.
    Raw(String),
    /// Sends a byte many times outside of any framing.
    Flood {
        byte: char,
        times: usize,
    },
    /// Sends a notification several times.
    Notify {
        method: String,
        params: Value,
        times: usize,
    },
    /// Sends progress several times, each after `every` milliseconds.
    Progress {
        times: usize,
        every: u64,
    },
    /// Sends a request to the client and waits for the response. The next `respond` sends the client's
    /// message.
    SendRequest {
        method: String,
        params: Value,
    },
    /// Adds a tool of this name and announces the changed list.
    AddTool(String),
    /// Runs the next of `turns` each time, then repeats the last one. The file keeps the count, so that a
    /// restarted server continues the sequence.
    Sequence {
        count: PathBuf,
        turns: Vec<Vec<Step>>,
    },
    Stderr(String),
    /// Writes this many bytes to stderr.
    StderrFlood(usize),
    /// Stops reading stdin.
    CloseStdin,
    Exit(i32),
    /// Ends like a killed process.
    Abort,
}

impl Script {
    /// Adds steps for a method or for `tools/call NAME`; the tool of that name is then listed.
    #[must_use]
    pub fn on(mut self, event: &str, steps: impl IntoIterator<Item = Step>) -> Self {
        self.on.insert(event.to_owned(), steps.into_iter().collect());
        self
    }

    #[must_use]
    pub fn start(mut self, steps: impl IntoIterator<Item = Step>) -> Self {
        self.start.extend(steps);
        self
    }

    /// Returns the script for the command line.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns the steps for a message.
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
