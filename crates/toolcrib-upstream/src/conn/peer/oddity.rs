//! What a server does that it should not: counted by kind, told once, never the end.

use std::collections::BTreeMap;

/// A kind of odd behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Odd {
    /// A banner or a log line where messages belong.
    Noise,
    /// A message that cannot be used.
    Malformed,
    /// Header lines that cannot be used.
    BadHeader,
    /// A message over the limit.
    TooLarge,
    /// The stream ended within a message.
    Truncated,
    /// An answer to a request that was never made.
    UnknownId,
    /// An answer without an id.
    NoId,
    /// A second answer to one request.
    Duplicate,
    /// An answer to a request that was given up.
    Late,
    /// Progress of nothing that is under way.
    UnknownProgress,
    /// More requests at once than are answered.
    TooManyRequests,
    /// An answer or a cancellation was dropped because the server does not read.
    Unread,
}

/// One kind, how often it was seen, and what the first one looked like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Oddity {
    pub odd: Odd,
    pub count: u64,
    /// Written by the server, short, without secrets; for people who may see what it writes.
    pub example: String,
}

/// All kinds that were seen.
#[derive(Debug, Default)]
pub(super) struct Tally(BTreeMap<Odd, Oddity>);

impl std::fmt::Display for Odd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Odd::Noise => "it writes what is no message where messages belong",
            Odd::Malformed => "it sends messages that cannot be used",
            Odd::BadHeader => "it sends header lines that cannot be used",
            Odd::TooLarge => "it sends messages over the limit",
            Odd::Truncated => "its stream ended within a message",
            Odd::UnknownId => "it answers requests that were never made",
            Odd::NoId => "it sends answers without an id",
            Odd::Duplicate => "it answers a request twice",
            Odd::Late => "it answers requests that were given up",
            Odd::UnknownProgress => "it tells of progress of nothing that is under way",
            Odd::TooManyRequests => "it asks more at once than is answered",
            Odd::Unread => "it does not read what is sent to it",
        })
    }
}

impl Odd {
    /// Stable, for machines.
    pub fn code(self) -> &'static str {
        match self {
            Odd::Noise => "stream.noise",
            Odd::Malformed => "message.malformed",
            Odd::BadHeader => "stream.header",
            Odd::TooLarge => "message.too_large",
            Odd::Truncated => "stream.truncated",
            Odd::UnknownId => "answer.unknown_id",
            Odd::NoId => "answer.no_id",
            Odd::Duplicate => "answer.duplicate",
            Odd::Late => "answer.late",
            Odd::UnknownProgress => "progress.unknown",
            Odd::TooManyRequests => "request.too_many",
            Odd::Unread => "stream.unread",
        }
    }
}

impl Tally {
    /// Counts one; true if it is the first of its kind.
    pub(super) fn count(&mut self, odd: Odd, example: impl FnOnce() -> String) -> bool {
        let new = || Oddity { odd, count: 0, example: example() };
        let oddity = self.0.entry(odd).or_insert_with(new);
        oddity.count += 1;
        oddity.count == 1
    }

    pub(super) fn all(&self) -> Vec<Oddity> {
        self.0.values().cloned().collect()
    }
}
