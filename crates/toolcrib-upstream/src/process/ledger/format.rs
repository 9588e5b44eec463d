//! File format of the ledger: one JSON object per line, so that a torn or unknown line affects only itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::process::owner_mark::{HostInstanceId, OwnerMark};
use crate::process::remote_process::{ContainerBinding, RemoteProcess};
use crate::process::sys::{PidScope, ProcessIdentity};

/// A child in the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChildEntry {
    pub(crate) mark: OwnerMark,
    /// The program's file name, for messages. Without arguments, because they may hold secrets.
    pub(crate) program: String,
    /// `None` until the child is started and its pid is known. The pid is the group id as well.
    pub(crate) leader: Option<ProcessIdentity>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LedgerLine {
    /// The instance itself, on the first line. Its cgroup may never have been created.
    Host {
        host: ProcessIdentity,
        cgroup: Option<String>,
    },
    /// Written before the start without a leader, and after the start with one.
    Child(ChildEntry),
    /// Written before the process can exist, and again for each update.
    Remote(RemoteProcess),
    Ended(OwnerMark),
}

/// Parsed contents of a ledger.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct LedgerContents {
    pub(crate) host: Option<ProcessIdentity>,
    /// The folder of the instance's cgroup.
    pub(crate) cgroup: Option<String>,
    pub(crate) entries: Vec<ChildEntry>,
    pub(crate) remotes: Vec<RemoteProcess>,
    pub(crate) damaged: usize,
    /// Number of lines of unknown kinds, which a newer version wrote.
    pub(crate) unknown: usize,
}

pub(crate) fn encode_line(
    instance: HostInstanceId,
    line: &LedgerLine,
) -> serde_json::Result<String> {
    let mut text = serde_json::to_string(&line_record(instance, line))?;
    text.push('\n');
    Ok(text)
}

/// Returns the live entries and the number of unreadable lines. Lines of another instance count as damaged:
/// the file name determines the instance.
pub(crate) fn parse_ledger(instance: HostInstanceId, text: &[u8]) -> LedgerContents {
    let mut contents = LedgerContents::default();
    let (mut live, mut remotes) = (BTreeMap::new(), BTreeMap::new());
    for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        match decode_line(instance, line) {
            Ok(LedgerLine::Host { host, cgroup }) => {
                (contents.host, contents.cgroup) = (Some(host), cgroup);
            }
            Ok(LedgerLine::Child(entry)) => {
                live.insert(entry.mark, entry);
            }
            Ok(LedgerLine::Remote(process)) => {
                remotes.insert(process.mark, process);
            }
            Ok(LedgerLine::Ended(mark)) => {
                live.remove(&mark);
                remotes.remove(&mark);
            }
            Err(LineError::Damaged) => contents.damaged += 1,
            Err(LineError::Unknown) => contents.unknown += 1,
        }
    }
    contents.entries = live.into_values().collect();
    contents.remotes = remotes.into_values().collect();
    contents
}

/// JSON form of a line. New versions may add fields and kinds; a reader ignores unknown fields.
#[derive(Default, Serialize, Deserialize)]
struct LineRecord {
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
    /// True if the container was made for this process.
    #[serde(skip_serializing_if = "Option::is_none")]
    own: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exec: Option<String>,
}

const HOST: &str = "host";
const INTENT: &str = "intent";
const STARTED: &str = "started";
const REMOTE: &str = "guest";
const ENDED: &str = "ended";

/// Session number of the host line. Children count from 1.
const NO_SESSION: u64 = 0;

enum LineError {
    Damaged,
    Unknown,
}

fn line_record(instance: HostInstanceId, line: &LedgerLine) -> LineRecord {
    if let LedgerLine::Remote(process) = line {
        return remote_record(process);
    }
    let host = OwnerMark { instance, session: NO_SESSION };
    let (kind, mark, program, process) = match line {
        LedgerLine::Host { host: process, .. } => (HOST, &host, None, Some(process)),
        LedgerLine::Child(ChildEntry { mark, program, leader: None }) => {
            (INTENT, mark, Some(program), None)
        }
        LedgerLine::Child(ChildEntry { mark, program, leader }) => {
            (STARTED, mark, Some(program), leader.as_ref())
        }
        LedgerLine::Remote(process) => (REMOTE, &process.mark, None, None),
        LedgerLine::Ended(mark) => (ENDED, mark, None, None),
    };
    LineRecord {
        kind: kind.to_owned(),
        owner: mark.to_string(),
        program: program.cloned(),
        pid: process.map(|process| process.pid),
        start: process.map(|process| process.start),
        boot: process.map(|process| process.pid_scope.boot.clone()),
        pids: process.map(|process| process.pid_scope.pids.clone()),
        cgroup: match line {
            LedgerLine::Host { cgroup, .. } => cgroup.clone(),
            _ => None,
        },
        ..LineRecord::default()
    }
}

fn remote_record(process: &RemoteProcess) -> LineRecord {
    let (own, container, exec) = match &process.binding {
        ContainerBinding::Dedicated { container, exec } => (true, container.clone(), exec),
        ContainerBinding::Shared { container, exec } => (false, Some(container.clone()), exec),
    };
    LineRecord {
        kind: REMOTE.to_owned(),
        owner: process.mark.to_string(),
        engine: Some(process.engine.clone()),
        container,
        own: Some(own),
        exec: exec.clone(),
        ..LineRecord::default()
    }
}

fn decode_line(instance: HostInstanceId, line: &[u8]) -> Result<LedgerLine, LineError> {
    let record: LineRecord = serde_json::from_slice(line).map_err(|_| LineError::Damaged)?;
    let mark = OwnerMark::parse(&record.owner).filter(|mark| mark.instance == instance);
    let mark = mark.ok_or(LineError::Damaged)?;
    let line = match record.kind.as_str() {
        HOST => {
            record.process().map(|host| LedgerLine::Host { host, cgroup: record.cgroup.clone() })
        }
        INTENT => record.entry(mark, None),
        STARTED => record.process().and_then(|leader| record.entry(mark, Some(leader))),
        REMOTE => record.remote(mark),
        ENDED => Some(LedgerLine::Ended(mark)),
        _ => return Err(LineError::Unknown),
    };
    line.ok_or(LineError::Damaged)
}

impl LineRecord {
    fn entry(&self, mark: OwnerMark, leader: Option<ProcessIdentity>) -> Option<LedgerLine> {
        Some(LedgerLine::Child(ChildEntry { mark, program: self.program.clone()?, leader }))
    }

    fn remote(self, mark: OwnerMark) -> Option<LedgerLine> {
        let binding = match (self.own?, self.container) {
            (true, container) => ContainerBinding::Dedicated { container, exec: self.exec },
            (false, container) => {
                ContainerBinding::Shared { container: container?, exec: self.exec }
            }
        };
        Some(LedgerLine::Remote(RemoteProcess { mark, engine: self.engine?, binding }))
    }

    fn process(&self) -> Option<ProcessIdentity> {
        let pid_scope = PidScope { boot: self.boot.clone()?, pids: self.pids.clone()? };
        Some(ProcessIdentity { pid: self.pid?, start: self.start?, pid_scope })
    }
}

#[cfg(test)]
mod tests {
    use std::slice;

    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef";

    fn instance() -> HostInstanceId {
        HostInstanceId::parse(ID).unwrap()
    }

    fn mark(session: u64) -> OwnerMark {
        OwnerMark { instance: instance(), session }
    }

    fn intent(session: u64) -> ChildEntry {
        ChildEntry { mark: mark(session), program: "npx".to_owned(), leader: None }
    }

    fn started(session: u64) -> ChildEntry {
        let pid_scope = PidScope { boot: "b".to_owned(), pids: "pid:[1]".to_owned() };
        let leader = ProcessIdentity { pid: 10, start: u64::MAX, pid_scope };
        ChildEntry { leader: Some(leader), ..intent(session) }
    }

    fn remote(session: u64, binding: ContainerBinding) -> RemoteProcess {
        RemoteProcess { mark: mark(session), engine: "unix:///run/engine".to_owned(), binding }
    }

    fn bindings() -> [ContainerBinding; 4] {
        let (container, exec) = (Some("c0ffee".to_owned()), Some("e".to_owned()));
        [
            ContainerBinding::Dedicated { container: None, exec: None },
            ContainerBinding::Dedicated { container, exec: exec.clone() },
            ContainerBinding::Shared { container: "c0ffee".to_owned(), exec: None },
            ContainerBinding::Shared { container: "c0ffee".to_owned(), exec },
        ]
    }

    fn text(lines: &[LedgerLine]) -> String {
        lines.iter().map(|line| encode_line(instance(), line).unwrap()).collect()
    }

    #[test]
    fn child_lines_round_trip() {
        let host = started(0).leader;
        for cgroup in [None, Some("/sys/fs/cgroup/x".to_owned())] {
            let host_line =
                LedgerLine::Host { host: host.clone().unwrap(), cgroup: cgroup.clone() };
            let text =
                text(&[host_line, LedgerLine::Child(intent(1)), LedgerLine::Child(started(2))]);
            let entries = vec![intent(1), started(2)];
            let wanted =
                LedgerContents { host: host.clone(), cgroup, entries, ..LedgerContents::default() };
            assert_eq!(parse_ledger(instance(), text.as_bytes()), wanted);
        }
    }

    #[test]
    fn remote_process_lines_round_trip_and_the_last_one_wins() {
        for binding in bindings() {
            let recorded = remote(1, binding);
            let early = remote(1, ContainerBinding::Dedicated { container: None, exec: None });
            let lines = [early, recorded.clone()].map(LedgerLine::Remote);
            let remotes = parse_ledger(instance(), text(&lines).as_bytes()).remotes;
            assert_eq!(remotes, slice::from_ref(&recorded));
            let lines = [LedgerLine::Remote(recorded), LedgerLine::Ended(mark(1))];
            assert_eq!(
                parse_ledger(instance(), text(&lines).as_bytes()),
                LedgerContents::default()
            );
        }
    }

    #[test]
    fn last_line_of_a_session_wins() {
        let lines = [
            LedgerLine::Child(intent(1)),
            LedgerLine::Child(started(1)),
            LedgerLine::Child(intent(2)),
            LedgerLine::Ended(mark(2)),
        ];
        assert_eq!(parse_ledger(instance(), text(&lines).as_bytes()).entries, [started(1)]);
    }

    #[test]
    fn damaged_line_affects_only_itself() {
        let good = text(&[LedgerLine::Child(started(1))]);
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
            let wanted = LedgerContents {
                entries: vec![started(1)],
                damaged: 1,
                ..LedgerContents::default()
            };
            assert_eq!(
                parse_ledger(instance(), format!("{good}{bad}\n").as_bytes()),
                wanted,
                "{bad}"
            );
            assert_eq!(
                parse_ledger(instance(), format!("{bad}\n{good}").as_bytes()),
                wanted,
                "{bad}"
            );
        }
    }

    #[test]
    fn ledger_of_the_first_version_is_read() {
        // The first version knew neither cgroups nor processes in containers.
        let text = format!(
            "{{\"kind\":\"host\",\"owner\":\"{ID}:0\",\"pid\":9,\"start\":7,\"boot\":\"b\",\"pids\":\"pid:[1]\"}}\n\
             {{\"kind\":\"intent\",\"owner\":\"{ID}:1\",\"program\":\"npx\"}}\n\
             {{\"kind\":\"started\",\"owner\":\"{ID}:1\",\"program\":\"npx\",\"pid\":10,\
               \"start\":18446744073709551615,\"boot\":\"b\",\"pids\":\"pid:[1]\"}}\n\
             {{\"kind\":\"intent\",\"owner\":\"{ID}:2\",\"program\":\"npx\"}}\n\
             {{\"kind\":\"ended\",\"owner\":\"{ID}:2\"}}\n"
        );
        let contents = parse_ledger(instance(), text.as_bytes());
        assert_eq!(contents.entries, [started(1)]);
        assert_eq!(contents.host.unwrap().pid, 9);
        assert_eq!((contents.damaged, contents.unknown, contents.cgroup), (0, 0, None));
    }

    #[test]
    fn unknown_kinds_and_fields_are_not_damage() {
        let text = format!(
            "{{\"kind\":\"pod\",\"owner\":\"{ID}:1\",\"id\":\"c0ffee\"}}\n\
             {{\"kind\":\"intent\",\"owner\":\"{ID}:2\",\"program\":\"npx\",\"colour\":\"red\"}}\n"
        );
        let wanted =
            LedgerContents { entries: vec![intent(2)], unknown: 1, ..LedgerContents::default() };
        assert_eq!(parse_ledger(instance(), text.as_bytes()), wanted);
    }
}
