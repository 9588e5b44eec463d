//! The lines of a ledger file: one JSON object each, so that a torn or unknown line costs only itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::process::guest::{Guest, Home};
use crate::process::mark::{InstanceId, Mark};
use crate::process::sys::{Identity, Realm};

/// One child as the ledger knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) mark: Mark,
    /// The program's file name: for people, and without arguments, which may hold secrets.
    pub(crate) program: String,
    /// `None` from the moment before it is started until the pid is known.
    /// Its pid names its group as well.
    pub(crate) leader: Option<Identity>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// The instance itself; the first line of its file. Its cgroup's folder may never have come to be.
    Host {
        host: Identity,
        cgroup: Option<String>,
    },
    /// Written before the start when it has no leader, and again with it after.
    Entry(Entry),
    /// Written before the guest can exist, and again whenever more of it is known.
    Guest(Guest),
    Ended(Mark),
}

/// What a file says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) host: Option<Identity>,
    /// The folder of the instance's cgroup.
    pub(crate) cgroup: Option<String>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) guests: Vec<Guest>,
    pub(crate) damaged: usize,
    /// Lines of kinds that a newer version writes.
    pub(crate) unknown: usize,
}

pub(crate) fn encode(instance: InstanceId, line: &Line) -> serde_json::Result<String> {
    let mut text = serde_json::to_string(&record(instance, line))?;
    text.push('\n');
    Ok(text)
}

/// The entries that have not ended, and how many lines could not be read. Lines of another instance count as
/// damaged: the file's name says whose it is.
pub(crate) fn read(instance: InstanceId, text: &[u8]) -> Reading {
    let mut reading = Reading::default();
    let (mut live, mut guests) = (BTreeMap::new(), BTreeMap::new());
    for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        match decode(instance, line) {
            Ok(Line::Host { host, cgroup }) => {
                (reading.host, reading.cgroup) = (Some(host), cgroup);
            }
            Ok(Line::Entry(entry)) => {
                live.insert(entry.mark, entry);
            }
            Ok(Line::Guest(guest)) => {
                guests.insert(guest.mark, guest);
            }
            Ok(Line::Ended(mark)) => {
                live.remove(&mark);
                guests.remove(&mark);
            }
            Err(Unreadable::Damaged) => reading.damaged += 1,
            Err(Unreadable::Unknown) => reading.unknown += 1,
        }
    }
    reading.entries = live.into_values().collect();
    reading.guests = guests.into_values().collect();
    reading
}

/// The form on disk. Fields and kinds may be added; a reader ignores fields that it does not know.
#[derive(Default, Serialize, Deserialize)]
struct Record {
    kind: String,
    owner: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    boot: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pids: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cgroup: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    engine: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    container: Option<String>,
    /// Whether the container was made for the guest.
    #[serde(skip_serializing_if = "Option::is_none")]
    own: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exec: Option<String>,
}

const HOST: &str = "host";
const INTENT: &str = "intent";
const STARTED: &str = "started";
const GUEST: &str = "guest";
const ENDED: &str = "ended";

/// Sessions count from 1: this one is the host itself.
const NO_SESSION: u64 = 0;

enum Unreadable {
    Damaged,
    Unknown,
}

fn record(instance: InstanceId, line: &Line) -> Record {
    if let Line::Guest(guest) = line {
        return guest_record(guest);
    }
    let host = Mark { instance, session: NO_SESSION };
    let (kind, mark, program, process) = match line {
        Line::Host { host: process, .. } => (HOST, &host, None, Some(process)),
        Line::Entry(Entry { mark, program, leader: None }) => (INTENT, mark, Some(program), None),
        Line::Entry(Entry { mark, program, leader }) => {
            (STARTED, mark, Some(program), leader.as_ref())
        }
        Line::Guest(guest) => (GUEST, &guest.mark, None, None),
        Line::Ended(mark) => (ENDED, mark, None, None),
    };
    Record {
        kind: kind.to_owned(),
        owner: mark.to_string(),
        program: program.cloned(),
        pid: process.map(|process| process.pid),
        start: process.map(|process| process.start),
        boot: process.map(|process| process.realm.boot.clone()),
        pids: process.map(|process| process.realm.pids.clone()),
        cgroup: match line {
            Line::Host { cgroup, .. } => cgroup.clone(),
            _ => None,
        },
        ..Record::default()
    }
}

fn guest_record(guest: &Guest) -> Record {
    let (own, container, exec) = match &guest.home {
        Home::Own { container, exec } => (true, container.clone(), exec),
        Home::Shared { container, exec } => (false, Some(container.clone()), exec),
    };
    Record {
        kind: GUEST.to_owned(),
        owner: guest.mark.to_string(),
        engine: Some(guest.engine.clone()),
        container,
        own: Some(own),
        exec: exec.clone(),
        ..Record::default()
    }
}

fn decode(instance: InstanceId, line: &[u8]) -> Result<Line, Unreadable> {
    let record: Record = serde_json::from_slice(line).map_err(|_| Unreadable::Damaged)?;
    let mark = Mark::parse(&record.owner).filter(|mark| mark.instance == instance);
    let mark = mark.ok_or(Unreadable::Damaged)?;
    let line = match record.kind.as_str() {
        HOST => record.process().map(|host| Line::Host { host, cgroup: record.cgroup.clone() }),
        INTENT => record.entry(mark, None),
        STARTED => record.process().and_then(|leader| record.entry(mark, Some(leader))),
        GUEST => record.guest(mark),
        ENDED => Some(Line::Ended(mark)),
        _ => return Err(Unreadable::Unknown),
    };
    line.ok_or(Unreadable::Damaged)
}

impl Record {
    fn entry(&self, mark: Mark, leader: Option<Identity>) -> Option<Line> {
        Some(Line::Entry(Entry { mark, program: self.program.clone()?, leader }))
    }

    fn guest(self, mark: Mark) -> Option<Line> {
        let home = match (self.own?, self.container) {
            (true, container) => Home::Own { container, exec: self.exec },
            (false, container) => Home::Shared { container: container?, exec: self.exec },
        };
        Some(Line::Guest(Guest { mark, engine: self.engine?, home }))
    }

    fn process(&self) -> Option<Identity> {
        let realm = Realm { boot: self.boot.clone()?, pids: self.pids.clone()? };
        Some(Identity { pid: self.pid?, start: self.start?, realm })
    }
}

#[cfg(test)]
mod tests {
    use std::slice;

    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef";

    fn instance() -> InstanceId {
        InstanceId::parse(ID).unwrap()
    }

    fn mark(session: u64) -> Mark {
        Mark { instance: instance(), session }
    }

    fn intent(session: u64) -> Entry {
        Entry { mark: mark(session), program: "npx".to_owned(), leader: None }
    }

    fn started(session: u64) -> Entry {
        let realm = Realm { boot: "b".to_owned(), pids: "pid:[1]".to_owned() };
        let leader = Identity { pid: 10, start: u64::MAX, realm };
        Entry { leader: Some(leader), ..intent(session) }
    }

    fn guest(session: u64, home: Home) -> Guest {
        Guest { mark: mark(session), engine: "unix:///run/engine".to_owned(), home }
    }

    fn homes() -> [Home; 4] {
        let (container, exec) = (Some("c0ffee".to_owned()), Some("e".to_owned()));
        [
            Home::Own { container: None, exec: None },
            Home::Own { container, exec: exec.clone() },
            Home::Shared { container: "c0ffee".to_owned(), exec: None },
            Home::Shared { container: "c0ffee".to_owned(), exec },
        ]
    }

    fn text(lines: &[Line]) -> String {
        lines.iter().map(|line| encode(instance(), line).unwrap()).collect()
    }

    #[test]
    fn lines_read_back_as_written() {
        let host = started(0).leader;
        for cgroup in [None, Some("/sys/fs/cgroup/x".to_owned())] {
            let begun = Line::Host { host: host.clone().unwrap(), cgroup: cgroup.clone() };
            let text = text(&[begun, Line::Entry(intent(1)), Line::Entry(started(2))]);
            let entries = vec![intent(1), started(2)];
            let wanted = Reading { host: host.clone(), cgroup, entries, ..Reading::default() };
            assert_eq!(read(instance(), text.as_bytes()), wanted);
        }
    }

    #[test]
    fn guests_read_back_as_written_and_the_last_word_on_each_counts() {
        for home in homes() {
            let noted = guest(1, home);
            let early = guest(1, Home::Own { container: None, exec: None });
            let lines = [early, noted.clone()].map(Line::Guest);
            let guests = read(instance(), text(&lines).as_bytes()).guests;
            assert_eq!(guests, slice::from_ref(&noted));
            let lines = [Line::Guest(noted), Line::Ended(mark(1))];
            assert_eq!(read(instance(), text(&lines).as_bytes()), Reading::default());
        }
    }

    #[test]
    fn the_last_word_on_a_session_counts() {
        let lines = [
            Line::Entry(intent(1)),
            Line::Entry(started(1)),
            Line::Entry(intent(2)),
            Line::Ended(mark(2)),
        ];
        assert_eq!(read(instance(), text(&lines).as_bytes()).entries, [started(1)]);
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
            &format!("{{\"kind\":\"guest\",\"owner\":\"{ID}:2\",\"engine\":\"e\",\"own\":false}}"),
        ] {
            let wanted = Reading { entries: vec![started(1)], damaged: 1, ..Reading::default() };
            assert_eq!(read(instance(), format!("{good}{bad}\n").as_bytes()), wanted, "{bad}");
            assert_eq!(read(instance(), format!("{bad}\n{good}").as_bytes()), wanted, "{bad}");
        }
    }

    #[test]
    fn what_a_newer_version_adds_is_no_damage() {
        let text = format!(
            "{{\"kind\":\"pod\",\"owner\":\"{ID}:1\",\"id\":\"c0ffee\"}}\n\
             {{\"kind\":\"intent\",\"owner\":\"{ID}:2\",\"program\":\"npx\",\"colour\":\"red\"}}\n"
        );
        let wanted = Reading { entries: vec![intent(2)], unknown: 1, ..Reading::default() };
        assert_eq!(read(instance(), text.as_bytes()), wanted);
    }
}
