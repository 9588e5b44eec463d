//! Call records: caller, tool, duration and outcome.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, Result, Row, Statement, params, params_from_iter};

use super::limits::StoreLimits;
use super::timestamps::{from_millis, to_millis};

/// The record of one call.
#[derive(Clone, PartialEq, Eq)]
pub struct CallRecord {
    /// The calling agent.
    pub agent: Arc<str>,
    /// The dialog of the call.
    pub dialog: Option<Arc<str>>,
    /// The server's key. `None` for a tool of the host.
    pub server: Option<Arc<str>>,
    /// The name of the tool.
    pub tool: Arc<str>,
    /// The start of the call.
    pub started: SystemTime,
    /// The duration of the call.
    pub duration: Duration,
    /// `ok`, or the kind of error.
    pub ended: Cow<'static, str>,
    /// JSON, if the configuration keeps arguments. They may be secret and are never logged.
    pub arguments: Option<Box<str>>,
    /// The caller's id of the call.
    pub request_id: Option<Box<str>>,
}

/// A stored call record. Later records have higher numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredCall {
    /// The number of the record.
    pub number: u64,
    /// The record.
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

/// Writes a batch and prunes old records in one transaction.
pub(super) fn write(
    db: &Connection,
    calls: &[CallRecord],
    limits: &StoreLimits,
    now: SystemTime,
) -> Result<()> {
    let change = db.unchecked_transaction()?;
    let mut many = change.prepare(&insert_sql(ROWS_PER_STATEMENT))?;
    let mut bound = [const { [NULL; COLUMNS] }; ROWS_PER_STATEMENT];
    let (chunks, rest) = calls.as_chunks::<ROWS_PER_STATEMENT>();
    for chunk in chunks {
        bind_changed(&mut many, &mut bound, chunk)?;
        many.raw_execute()?;
    }
    drop(many);
    if !rest.is_empty() {
        change.execute(
            &insert_sql(rest.len()),
            params_from_iter(rest.iter().flat_map(column_values)),
        )?;
    }
    prune(&change, limits, now)?;
    change.commit()
}

/// Records per statement. Each statement updates the number sequence, so fewer statements are faster.
const ROWS_PER_STATEMENT: usize = 32;

const COLUMNS: usize = 9;

const NULL: ToSqlOutput<'static> = ToSqlOutput::Owned(Value::Null);

/// Uses `OR FAIL`: an error rolls back the whole transaction, so statements need no rollback of their own.
fn insert_sql(rows: usize) -> String {
    let values = vec!["(?, ?, ?, ?, ?, ?, ?, ?, ?)"; rows].join(", ");
    let names = "agent, dialog, server, tool, started, micros, ended, arguments, request_id";
    format!("INSERT OR FAIL INTO calls ({names}) VALUES {values}")
}

/// Binds only changed values. Statements keep their bindings, and most values repeat from batch to batch.
fn bind_changed<'a>(
    statement: &mut Statement<'_>,
    bound: &mut [[ToSqlOutput<'a>; COLUMNS]],
    calls: &'a [CallRecord],
) -> Result<()> {
    let values = calls.iter().flat_map(column_values);
    for ((value, bound), index) in values.zip(bound.as_flattened_mut()).zip(1_usize..) {
        if value != *bound {
            statement.raw_bind_parameter(index, &value)?;
            *bound = value;
        }
    }
    Ok(())
}

/// Borrows the text.
fn text_value(text: Option<&str>) -> ToSqlOutput<'_> {
    match text {
        Some(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
        None => NULL,
    }
}

fn column_values(call: &CallRecord) -> [ToSqlOutput<'_>; COLUMNS] {
    [
        text_value(Some(&call.agent)),
        text_value(call.dialog.as_deref()),
        text_value(call.server.as_deref()),
        text_value(Some(&call.tool)),
        to_millis(call.started).into(),
        i64::try_from(call.duration.as_micros()).unwrap_or(i64::MAX).into(),
        text_value(Some(&call.ended)),
        text_value(call.arguments.as_deref()),
        text_value(call.request_id.as_deref()),
    ]
}

/// Reads records, newest first, below a number if one is given.
pub(super) fn read(db: &Connection, below: Option<u64>, limit: u32) -> Result<Vec<StoredCall>> {
    let below = below.and_then(|number| i64::try_from(number).ok()).unwrap_or(i64::MAX);
    let mut rows = db.prepare(
        "SELECT id, agent, dialog, server, tool, started, micros, ended, arguments, request_id
         FROM calls WHERE id < ?1 ORDER BY id DESC LIMIT ?2",
    )?;
    rows.query_map(params![below, limit], read_row)?.collect()
}

/// Deletes records beyond the count and age limits. Numbers grow by one and only the oldest records are deleted, so a
/// number tells how many records are newer. Records are in order of their calls' ends, so all records before the
/// first young one are old.
fn prune(db: &Connection, limits: &StoreLimits, now: SystemTime) -> Result<()> {
    if let Some(oldest) = now.checked_sub(limits.max_record_age) {
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

fn read_row(row: &Row<'_>) -> Result<StoredCall> {
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
    Ok(StoredCall { number: u64::try_from(row.get::<_, i64>(0)?).unwrap_or(0), call })
}
