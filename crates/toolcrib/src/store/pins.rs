//! Pinned tool definitions: as first seen, or as last accepted.

use std::collections::HashMap;
use std::time::SystemTime;

use rusqlite::{Connection, OptionalExtension, Result, params};

use super::timestamps::to_millis;

/// The server of a workspace root.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PinnedServer {
    /// The workspace root.
    pub root: String,
    /// The server's key.
    pub key: String,
}

/// The pinned definition of one tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// The name of the tool.
    pub tool: String,
    /// Hash of the text as the server wrote it.
    pub text: [u8; 32],
    /// Hash of the canonical form, independent of the order of members.
    pub meaning: [u8; 32],
    /// The canonical definition, for diffs. `None` if it is too long to store.
    pub definition: Option<String>,
}

/// Reads all pins of a server without the definitions.
pub(super) fn read(db: &Connection, server: &PinnedServer) -> Result<Vec<Pin>> {
    let sql = "SELECT tool, text, meaning FROM pins WHERE root = ?1 AND server = ?2";
    let mut rows = db.prepare(sql)?;
    let read = |row: &rusqlite::Row<'_>| {
        let (tool, text, meaning) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(Pin { tool, text, meaning, definition: None })
    };
    rows.query_map([&server.root, &server.key], read)?.collect()
}

/// Reads the definitions of some tools. Definitions that were not stored are omitted.
pub(super) fn definitions(
    db: &Connection,
    server: &PinnedServer,
    tools: &[String],
) -> Result<HashMap<String, String>> {
    let sql = "SELECT definition FROM pins WHERE root = ?1 AND server = ?2 AND tool = ?3";
    let mut rows = db.prepare(sql)?;
    let mut found = HashMap::new();
    for tool in tools {
        let definition_row =
            rows.query_row([&server.root, &server.key, tool], |row| row.get(0)).optional()?;
        found.extend(definition_row.flatten().map(|definition| (tool.clone(), definition)));
    }
    Ok(found)
}

/// Writes pins. Known tools are updated; new tools are added up to `limit` rows, so a server that invents names
/// cannot fill the disk.
pub(super) fn write(
    db: &Connection,
    server: &PinnedServer,
    pins: &[Pin],
    limit: usize,
    at: SystemTime,
) -> Result<()> {
    let change = db.unchecked_transaction()?;
    let sql = "SELECT count(*) FROM pins WHERE root = ?1 AND server = ?2";
    let count: i64 = change.query_row(sql, [&server.root, &server.key], |row| row.get(0))?;
    let mut room = limit.saturating_sub(usize::try_from(count).unwrap_or(usize::MAX));
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
