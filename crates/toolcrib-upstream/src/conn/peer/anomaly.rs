//! Protocol violations of a server: counted by kind, logged once, never fatal.

use std::collections::BTreeMap;

/// Kind of protocol violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Anomaly {
    /// A banner or log line on the message stream.
    Noise,
    /// A message that cannot be parsed.
    Malformed,
    /// Invalid header lines.
    BadHeader,
    /// A message over the size limit.
    TooLarge,
    /// The stream ended inside a message.
    Truncated,
    /// A response to a request that was never sent.
    UnknownId,
    /// A response without an id.
    NoId,
    /// A second response to one request.
    Duplicate,
    /// A response to a cancelled request.
    Late,
    /// Progress for an unknown token.
    UnknownProgress,
    /// More concurrent requests than the limit.
    TooManyRequests,
    /// A response or cancellation was dropped because the server does not read.
    Unread,
}

/// Count of one kind, with its first example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnomalyReport {
    /// Kind of the violation.
    pub anomaly: Anomaly,
    /// Number of occurrences.
    pub count: u64,
    /// Short server output with secrets masked. Show it only to users that may see server output.
    pub example: String,
}

/// Counts of all kinds.
#[derive(Debug, Default)]
pub(super) struct AnomalyTally(BTreeMap<Anomaly, AnomalyReport>);

impl std::fmt::Display for Anomaly {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Anomaly::Noise => "it writes non-protocol output to the message stream",
            Anomaly::Malformed => "it sends malformed messages",
            Anomaly::BadHeader => "it sends invalid header lines",
            Anomaly::TooLarge => "it sends messages over the size limit",
            Anomaly::Truncated => "its stream ended inside a message",
            Anomaly::UnknownId => "it responds to unknown requests",
            Anomaly::NoId => "it sends responses without an id",
            Anomaly::Duplicate => "it responds to a request twice",
            Anomaly::Late => "it responds to cancelled requests",
            Anomaly::UnknownProgress => "it sends progress for unknown requests",
            Anomaly::TooManyRequests => "it exceeds the limit of concurrent requests",
            Anomaly::Unread => "it does not read its input",
        })
    }
}

impl Anomaly {
    /// Stable problem code.
    pub fn code(self) -> &'static str {
        match self {
            Anomaly::Noise => "stream.noise",
            Anomaly::Malformed => "message.malformed",
            Anomaly::BadHeader => "stream.header",
            Anomaly::TooLarge => "message.too_large",
            Anomaly::Truncated => "stream.truncated",
            Anomaly::UnknownId => "answer.unknown_id",
            Anomaly::NoId => "answer.no_id",
            Anomaly::Duplicate => "answer.duplicate",
            Anomaly::Late => "answer.late",
            Anomaly::UnknownProgress => "progress.unknown",
            Anomaly::TooManyRequests => "request.too_many",
            Anomaly::Unread => "stream.unread",
        }
    }
}

impl AnomalyTally {
    /// Counts one occurrence. Returns true for the first of its kind.
    pub(super) fn count(&mut self, anomaly: Anomaly, example: impl FnOnce() -> String) -> bool {
        let new = || AnomalyReport { anomaly, count: 0, example: example() };
        let report = self.0.entry(anomaly).or_insert_with(new);
        report.count += 1;
        report.count == 1
    }

    pub(super) fn all(&self) -> Vec<AnomalyReport> {
        self.0.values().cloned().collect()
    }
}
