//! Settings of people: switches of dialogs and overrides of servers.

use std::collections::BTreeMap;
use std::time::SystemTime;

use rusqlite::{Connection, Result, params};

use super::timestamps::{from_millis, to_millis};

/// A person's decision to enable or disable a server, which overrides its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerOverride {
    /// True if the server is enabled.
    pub enabled: bool,
    /// The person who set the override.
    pub set_by: String,
    /// The time of the decision.
    pub at: SystemTime,
}

pub(super) fn switches(db: &Connection, dialog: &str) -> Result<Vec<(String, bool)>> {
    let mut rows = db.prepare("SELECT server, enabled FROM switches WHERE dialog = ?1")?;
    rows.query_map([dialog], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

pub(super) fn set_switch(db: &Connection, dialog: &str, server: &str, on: bool) -> Result<()> {
    let sql = "INSERT OR REPLACE INTO switches (dialog, server, enabled) VALUES (?1, ?2, ?3)";
    db.execute(sql, params![dialog, server, on]).map(drop)
}

pub(super) fn forget_dialog(db: &Connection, dialog: &str) -> Result<()> {
    db.execute("DELETE FROM switches WHERE dialog = ?1", [dialog]).map(drop)
}

pub(super) fn overrides(db: &Connection) -> Result<BTreeMap<String, ServerOverride>> {
    let mut rows = db.prepare("SELECT server, enabled, who, at FROM overrides")?;
    let read = |row: &rusqlite::Row<'_>| {
        let at = from_millis(row.get(3)?);
        Ok((row.get(0)?, ServerOverride { enabled: row.get(1)?, set_by: row.get(2)?, at }))
    };
    rows.query_map([], read)?.collect()
}

pub(super) fn set_override(db: &Connection, server: &str, to: &ServerOverride) -> Result<()> {
    let sql = "INSERT OR REPLACE INTO overrides (server, enabled, who, at) VALUES (?1, ?2, ?3, ?4)";
    db.execute(sql, params![server, to.enabled, to.set_by, to_millis(to.at)]).map(drop)
}

pub(super) fn clear_override(db: &Connection, server: &str) -> Result<()> {
    db.execute("DELETE FROM overrides WHERE server = ?1", [server]).map(drop)
}
