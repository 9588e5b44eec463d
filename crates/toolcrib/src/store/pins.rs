//! The definitions of tools as they were first seen, or last accepted.

use std::collections::HashMap;
use std::time::SystemTime;

use rusqlite::{Connection, OptionalExtension, Result, params};

use super::time::to_millis;

/// Whose definitions: a server's of a root.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PinnedServer {
    pub root: String,
    /// The server's key.
    pub key: String,
}

/// The definition of one tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    pub tool: String,
    /// The hash of its text as the server wrote it.
    pub text: [u8; 32],
    /// The hash of its meaning, in whatever order its members are written.
    pub meaning: [u8; 32],
    /// To tell what has changed; nothing where it is too long to be kept.
    pub definition: Option<String>,
}

/// All of a server's, without the definitions themselves.
pub(super) fn read(db: &Connection, server: &PinnedServer) -> Result<Vec<Pin>> {
    let sql = "SELECT tool, text, meaning FROM pins WHERE root = ?1 AND server = ?2";
    let mut rows = db.prepare(sql)?;
    let read = |row: &rusqlite::Row<'_>| {
        let (tool, text, meaning) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(Pin { tool, text, meaning, definition: None })
    };
    rows.query_map([&server.root, &server.key], read)?.collect()
}

/// The definitions of some tools; those that were not kept are left out.
pub(super) fn definitions(
    db: &Connection,
    server: &PinnedServer,
    tools: &[String],
) -> Result<HashMap<String, String>> {
    let sql = "SELECT definition FROM pins WHERE root = ?1 AND server = ?2 AND tool = ?3";
    let mut rows = db.prepare(sql)?;
    let mut found = HashMap::new();
    for tool in tools {
        let kept =
            rows.query_row([&server.root, &server.key, tool], |row| row.get(0)).optional()?;
        found.extend(kept.flatten().map(|definition| (tool.clone(), definition)));
    }
    Ok(found)
}

/// Writes pins. Known tools are updated; new ones are added up to `limit` rows, so that a server that invents names
/// cannot fill the disk.
pub(super) fn write(
    db: &Connection,
    server: &PinnedServer,
    pins: &[Pin],
    limit: usize,
    at: SystemTime,
) -> Result<()> {
    let change = db.unchecked_transaction()?;
    let count = "SELECT count(*) FROM pins WHERE root = ?1 AND server = ?2";
    let kept: i64 = change.query_row(count, [&server.root, &server.key], |row| row.get(0))?;
    let mut room = limit.saturating_sub(usize::try_from(kept).unwrap_or(usize::MAX));
    let mut known = change.prepare(
        "UPDATE pins SET text = ?4, meaning = ?5, definition = ?6, at = ?7
         WHERE root = ?1 AND server = ?2 AND tool = ?3",
    )?;
    let mut new = change.prepare(
        "INSERT INTO pins (root, server, tool, text, meaning, definition, at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?;
    for Pin { tool, text, meaning, definition } in pins {
        let row = params![server.root, server.key, tool, text, meaning, definition, to_millis(at)];
        if known.execute(row)? == 0 && room > 0 {
            new.execute(row)?;
            room -= 1;
        }
    }
    drop((known, new));
    change.commit()
}
