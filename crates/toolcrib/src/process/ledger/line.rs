//! The lines of a ledger file: one JSON object each, so that a torn or unknown line costs only itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::process::mark::{InstanceId, Mark};
use crate::process::sys::Realm;

/// One child as the ledger knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) mark: Mark,
    /// The program's file name: for people, and without arguments, which may hold secrets.
    pub(crate) program: String,
    /// `None` from the moment before the fork until the pid is known.
    pub(crate) leader: Option<Leader>,
}

/// The process that was started, told apart from every other one that has had or will have its pid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leader {
    pub(crate) pid: u32,
    pub(crate) group: u32,
    pub(crate) start: u64,
    pub(crate) realm: Realm,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// Written before the fork when it has no leader, and again with it after.
    Entry(Entry),
    Ended(Mark),
}

/// What a file says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) entries: Vec<Entry>,
    pub(crate) damaged: usize,
    /// Lines of kinds that a newer version writes.
    pub(crate) unknown: usize,
}

pub(crate) fn encode(line: &Line) -> serde_json::Result<String> {
    let mut text = serde_json::to_string(&Record::from(line))?;
    text.push('\n');
    Ok(text)
}

/// The entries that have not ended, and how many lines could not be read. Lines of another instance count as
/// damaged: the file's name says whose it is.
pub(crate) fn read(instance: InstanceId, text: &[u8]) -> Reading {
    let mut reading = Reading::default();
    let mut live = BTreeMap::new();
    for line in text
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
    {
        match decode(instance, line) {
            Ok(Line::Entry(entry)) => {
                live.insert(entry.mark, entry);
            }
            Ok(Line::Ended(mark)) => {
                live.remove(&mark);
            }
            Err(Unreadable::Damaged) => reading.damaged += 1,
            Err(Unreadable::Unknown) => reading.unknown += 1,
        }
    }
    reading.entries = live.into_values().collect();
    reading
}

/// The form on disk. Fields and kinds may be added; a reader ignores fields that it does not know.
#[derive(Serialize, Deserialize)]
struct Record {
    kind: String,
    owner: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    boot: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pids: Option<String>,
}

const INTENT: &str = "intent";
const STARTED: &str = "started";
const ENDED: &str = "ended";

#[derive(Debug, PartialEq, Eq)]
enum Unreadable {
    Damaged,
    Unknown,
}

fn decode(instance: InstanceId, line: &[u8]) -> Result<Line, Unreadable> {
    let record: Record = serde_json::from_slice(line).map_err(|_| Unreadable::Damaged)?;
    let mark = Mark::parse(&record.owner)
        .filter(|mark| mark.instance == instance)
        .ok_or(Unreadable::Damaged)?;
    match record.kind.as_str() {
        INTENT | STARTED => record
            .into_entry(mark)
            .map(Line::Entry)
            .ok_or(Unreadable::Damaged),
        ENDED => Ok(Line::Ended(mark)),
        _ => Err(Unreadable::Unknown),
    }
}

impl Record {
    fn into_entry(self, mark: Mark) -> Option<Entry> {
        let started = self.kind == STARTED;
        let program = self.program.clone()?;
        let leader = self.into_leader();
        (leader.is_some() == started).then_some(Entry {
            mark,
            program,
            leader,
        })
    }

    fn into_leader(self) -> Option<Leader> {
        let realm = Realm {
            boot: self.boot?,
            pids: self.pids?,
        };
        Some(Leader {
            pid: self.pid?,
            group: self.group?,
            start: self.start?,
            realm,
        })
    }
}

impl From<&Line> for Record {
    fn from(line: &Line) -> Self {
        let (kind, mark, entry) = match line {
            Line::Ended(mark) => (ENDED, mark, None),
            Line::Entry(entry) if entry.leader.is_none() => (INTENT, &entry.mark, Some(entry)),
            Line::Entry(entry) => (STARTED, &entry.mark, Some(entry)),
        };
        let leader = entry.and_then(|entry| entry.leader.as_ref());
        Self {
            kind: kind.to_owned(),
            owner: mark.to_string(),
            program: entry.map(|entry| entry.program.clone()),
            pid: leader.map(|leader| leader.pid),
            group: leader.map(|leader| leader.group),
            start: leader.map(|leader| leader.start),
            boot: leader.map(|leader| leader.realm.boot.clone()),
            pids: leader.map(|leader| leader.realm.pids.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef";

    fn instance() -> InstanceId {
        InstanceId::parse(ID).unwrap()
    }

    fn mark(session: u64) -> Mark {
        Mark {
            instance: instance(),
            session,
        }
    }

    fn intent(session: u64) -> Entry {
        Entry {
            mark: mark(session),
            program: "npx".to_owned(),
            leader: None,
        }
    }

    fn started(session: u64) -> Entry {
        let realm = Realm {
            boot: "b".to_owned(),
            pids: "pid:[1]".to_owned(),
        };
        let leader = Leader {
            pid: 10,
            group: 10,
            start: u64::MAX,
            realm,
        };
        Entry {
            leader: Some(leader),
            ..intent(session)
        }
    }

    fn text(lines: &[Line]) -> String {
        lines.iter().map(|line| encode(line).unwrap()).collect()
    }

    #[test]
    fn lines_read_back_as_written() {
        let text = text(&[Line::Entry(intent(1)), Line::Entry(started(2))]);
        let wanted = Reading {
            entries: vec![intent(1), started(2)],
            ..Reading::default()
        };
        assert_eq!(read(instance(), text.as_bytes()), wanted);
    }

    #[test]
    fn the_last_word_on_a_session_counts() {
        let lines = [
            Line::Entry(intent(1)),
            Line::Entry(started(1)),
            Line::Entry(intent(2)),
            Line::Ended(mark(2)),
        ];
        assert_eq!(
            read(instance(), text(&lines).as_bytes()).entries,
            [started(1)]
        );
    }

    #[test]
    fn a_bad_line_costs_only_itself() {
        let good = text(&[Line::Entry(started(1))]);
        for bad in [
            "{\"kind\":\"star",
            "null",
            "\u{0}\u{0}",
            "{\"kind\":\"ended\",\"owner\":\"nobody\"}",
            "{\"kind\":\"ended\",\"owner\":\"ffffffffffffffffffffffffffffffff:1\"}",
            &format!("{{\"kind\":\"started\",\"owner\":\"{ID}:1\",\"program\":\"npx\"}}"),
            &format!(
                "{{\"kind\":\"started\",\"owner\":\"{ID}:1\",\"program\":\"npx\",\"pid\":-1}}"
            ),
        ] {
            let wanted = Reading {
                entries: vec![started(1)],
                damaged: 1,
                unknown: 0,
            };
            assert_eq!(
                read(instance(), format!("{good}{bad}\n").as_bytes()),
                wanted,
                "{bad}"
            );
            assert_eq!(
                read(instance(), format!("{bad}\n{good}").as_bytes()),
                wanted,
                "{bad}"
            );
        }
    }

    #[test]
    fn what_a_newer_version_adds_is_no_damage() {
        let text = format!(
            "{{\"kind\":\"container\",\"owner\":\"{ID}:1\",\"id\":\"c0ffee\"}}\n\
             {{\"kind\":\"intent\",\"owner\":\"{ID}:2\",\"program\":\"npx\",\"colour\":\"red\"}}\n"
        );
        let wanted = Reading {
            entries: vec![intent(2)],
            damaged: 0,
            unknown: 1,
        };
        assert_eq!(read(instance(), text.as_bytes()), wanted);
    }
}
