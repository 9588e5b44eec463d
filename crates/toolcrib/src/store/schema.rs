//! The tables and their migrations.

use rusqlite::{Connection, Result, TransactionBehavior};

/// SQLite application id that identifies the store's file: "Tool" in ASCII.
pub(super) const APPLICATION: i32 = 0x546f_6f6c;

/// One migration per version. Migrations are only ever added. Tables come with the code that uses them.
const MIGRATIONS: &[&str] = &[
    "
    CREATE TABLE switches (
        dialog TEXT NOT NULL,
        server TEXT NOT NULL,
        enabled INTEGER NOT NULL,
        PRIMARY KEY (dialog, server)
    ) WITHOUT ROWID;
    CREATE TABLE overrides (
        server TEXT PRIMARY KEY,
        enabled INTEGER NOT NULL,
        who TEXT NOT NULL,
        at INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE calls (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        agent TEXT NOT NULL,
        dialog TEXT,
        server TEXT,
        tool TEXT NOT NULL,
        started INTEGER NOT NULL,
        micros INTEGER NOT NULL,
        ended TEXT NOT NULL,
        arguments TEXT
    );
    CREATE INDEX calls_started ON calls (started);
    CREATE TABLE catalogs (
        server TEXT NOT NULL,
        hash TEXT NOT NULL,
        era TEXT,
        framing TEXT,
        lists TEXT,
        size INTEGER NOT NULL,
        at INTEGER NOT NULL,
        PRIMARY KEY (server, hash)
    );
",
    "
    CREATE TABLE pins (
        root TEXT NOT NULL,
        server TEXT NOT NULL,
        tool TEXT NOT NULL,
        text BLOB NOT NULL,
        meaning BLOB NOT NULL,
        definition TEXT,
        at INTEGER NOT NULL,
        PRIMARY KEY (root, server, tool)
    ) WITHOUT ROWID;
",
    // The index took a third of the time of each record and only helped to find the oldest, which come first anyway.
    "
    DROP INDEX calls_started;
",
    "
    ALTER TABLE calls ADD COLUMN request_id TEXT;
",
    "
    CREATE TABLE learned (
        hash TEXT PRIMARY KEY,
        era TEXT,
        framing TEXT,
        at INTEGER NOT NULL
    );
",
];

/// The version that this program writes.
pub(super) const VERSION: usize = MIGRATIONS.len();

/// The owner of a file, and its version.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SchemaState {
    Empty,
    Ours(usize),
    Foreign,
}

pub(super) fn inspect(db: &Connection) -> Result<SchemaState> {
    let number = |name| db.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    let (application, version) = (number("application_id")?, number("user_version")?);
    let things: i64 = db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(match usize::try_from(version) {
        Ok(0) if application == 0 && things == 0 => SchemaState::Empty,
        Ok(version) if application == APPLICATION => SchemaState::Ours(version),
        _ => SchemaState::Foreign,
    })
}

/// Migrates in one transaction, so a kill halfway leaves the old version.
pub(super) fn migrate(db: &mut Connection, from: usize) -> Result<()> {
    let change = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for migration in MIGRATIONS.iter().skip(from) {
        change.execute_batch(migration)?;
    }
    change.pragma_update(None, "application_id", APPLICATION)?;
    change.pragma_update(None, "user_version", i32::try_from(VERSION).unwrap_or(i32::MAX))?;
    change.commit()
}

#[cfg(test)]
#[path = "schema_tests.rs"]
mod tests;
