//! Records of calls: who called what, how long it took and how it ended.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, Result, Row, Statement, params, params_from_iter};

use super::limits::Limits;
use super::time::{from_millis, to_millis};

#[derive(Clone, PartialEq, Eq)]
pub struct CallRecord {
    pub agent: Arc<str>,
    pub dialog: Option<Arc<str>>,
    /// The server's key; none for a tool of the host itself.
    pub server: Option<Arc<str>>,
    pub tool: Arc<str>,
    pub started: SystemTime,
    pub duration: Duration,
    /// `ok`, or the kind of error.
    pub ended: Cow<'static, str>,
    /// As JSON, where somebody asked for them to be kept. They may be secret and are never shown in logs.
    pub arguments: Option<Box<str>>,
    /// What the caller knows the call by.
    pub request_id: Option<Box<str>>,
}

/// A record that was written, with its number; later ones have higher ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    pub number: u64,
    pub call: CallRecord,
}

impl fmt::Debug for CallRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallRecord")
            .field("agent", &self.agent)
            .field("dialog", &self.dialog)
            .field("server", &self.server)
            .field("tool", &self.tool)
            .field("started", &self.started)
            .field("duration", &self.duration)
            .field("ended", &self.ended)
            .field("request_id", &self.request_id)
            .finish_non_exhaustive()
    }
}

/// Writes a batch, and forgets what is too old or too much, as one change.
pub(super) fn write(
    db: &Connection,
    calls: &[CallRecord],
    limits: &Limits,
    now: SystemTime,
) -> Result<()> {
    let change = db.unchecked_transaction()?;
    let mut many = change.prepare(&insert(TOGETHER))?;
    let mut bound = [const { [NOTHING; COLUMNS] }; TOGETHER];
    let (whole, rest) = calls.as_chunks::<TOGETHER>();
    for some in whole {
        rebind(&mut many, &mut bound, some)?;
        many.raw_execute()?;
    }
    drop(many);
    if !rest.is_empty() {
        change.execute(&insert(rest.len()), params_from_iter(rest.iter().flat_map(row)))?;
    }
    prune(&change, limits, now)?;
    change.commit()
}

/// Records that are written by one statement: each of those keeps account of the numbers that it gives.
const TOGETHER: usize = 32;

const COLUMNS: usize = 9;

const NOTHING: ToSqlOutput<'static> = ToSqlOutput::Owned(Value::Null);

/// What fails is undone with the whole change, so that no statement has to be able to undo itself.
fn insert(rows: usize) -> String {
    let values = vec!["(?, ?, ?, ?, ?, ?, ?, ?, ?)"; rows].join(", ");
    let names = "agent, dialog, server, tool, started, micros, ended, arguments, request_id";
    format!("INSERT OR FAIL INTO calls ({names}) VALUES {values}")
}

/// What a statement was given it keeps, and from one batch to the next most of it is the same.
fn rebind<'a>(
    statement: &mut Statement<'_>,
    bound: &mut [[ToSqlOutput<'a>; COLUMNS]],
    calls: &'a [CallRecord],
) -> Result<()> {
    let values = calls.iter().flat_map(row);
    for ((value, bound), place) in values.zip(bound.as_flattened_mut()).zip(1_usize..) {
        if value != *bound {
            statement.raw_bind_parameter(place, &value)?;
            *bound = value;
        }
    }
    Ok(())
}

/// Nothing is copied for it.
fn text(text: Option<&str>) -> ToSqlOutput<'_> {
    match text {
        Some(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
        None => NOTHING,
    }
}

fn row(call: &CallRecord) -> [ToSqlOutput<'_>; COLUMNS] {
    [
        text(Some(&call.agent)),
        text(call.dialog.as_deref()),
        text(call.server.as_deref()),
        text(Some(&call.tool)),
        to_millis(call.started).into(),
        i64::try_from(call.duration.as_micros()).unwrap_or(i64::MAX).into(),
        text(Some(&call.ended)),
        text(call.arguments.as_deref()),
        text(call.request_id.as_deref()),
    ]
}

/// The newest first, from below a number where one is given.
pub(super) fn read(db: &Connection, below: Option<u64>, limit: u32) -> Result<Vec<Recorded>> {
    let below = below.and_then(|number| i64::try_from(number).ok()).unwrap_or(i64::MAX);
    let mut rows = db.prepare(
        "SELECT id, agent, dialog, server, tool, started, micros, ended, arguments, request_id
         FROM calls WHERE id < ?1 ORDER BY id DESC LIMIT ?2",
    )?;
    rows.query_map(params![below, limit], recorded)?.collect()
}

/// Numbers grow by one, and only the oldest are ever removed: a number tells how many are newer. Records come in the
/// order in which their calls ended, so whatever is before the first that is young enough is old.
fn prune(db: &Connection, limits: &Limits, now: SystemTime) -> Result<()> {
    if let Some(oldest) = now.checked_sub(limits.calls_for) {
        db.execute(
            "DELETE FROM calls WHERE id < ifnull(
                 (SELECT id FROM calls WHERE started >= ?1 ORDER BY id LIMIT 1),
                 (SELECT max(id) + 1 FROM calls))",
            [to_millis(oldest)],
        )?;
    }
    let sql = "DELETE FROM calls WHERE id <= (SELECT max(id) FROM calls) - ?1";
    db.execute(sql, [limits.calls]).map(drop)
}

fn recorded(row: &Row<'_>) -> Result<Recorded> {
    let call = CallRecord {
        agent: row.get(1)?,
        dialog: row.get(2)?,
        server: row.get(3)?,
        tool: row.get(4)?,
        started: from_millis(row.get(5)?),
        duration: Duration::from_micros(u64::try_from(row.get::<_, i64>(6)?).unwrap_or(0)),
        ended: row.get::<_, String>(7)?.into(),
        arguments: row.get(8)?,
        request_id: row.get(9)?,
    };
    Ok(Recorded { number: u64::try_from(row.get::<_, i64>(0)?).unwrap_or(0), call })
}
