//! Stored server traits: the era and framing that worked, by the hash of the server's definition.

use std::time::SystemTime;

use rusqlite::{Connection, Result, Row, params};
use toolcrib_config::ConfigHash;
use toolcrib_config::model::transport::FramingMode;
use toolcrib_upstream::conn::ServerTraits;
use toolcrib_wire as wire;

use super::catalog::{era_name, framing_name, parse_era, parse_framing};
use super::timestamps::to_millis;

/// Maximum stored definitions. The newest are kept.
const MAX_ROWS: u32 = 1024;

pub(super) fn read(db: &Connection) -> Result<Vec<(ConfigHash, ServerTraits)>> {
    let mut rows = db.prepare("SELECT hash, era, framing FROM learned")?;
    let rows = rows.query_map([], read_row)?;
    // Rows with an invalid hash are skipped.
    rows.filter_map(Result::transpose).collect()
}

pub(super) fn write(
    db: &Connection,
    hash: ConfigHash,
    traits: ServerTraits,
    now: SystemTime,
) -> Result<()> {
    let change = db.unchecked_transaction()?;
    change.execute(
        "INSERT OR REPLACE INTO learned (hash, era, framing, at) VALUES (?1, ?2, ?3, ?4)",
        params![
            hash.to_string(),
            traits.era.map(era_name),
            traits.framing.and_then(wire_framing).map(framing_name),
            to_millis(now)
        ],
    )?;
    change.execute(
        "DELETE FROM learned WHERE rowid NOT IN (
             SELECT rowid FROM learned ORDER BY at DESC, rowid DESC LIMIT ?1)",
        [MAX_ROWS],
    )?;
    change.commit()
}

pub(super) fn delete(db: &Connection, hash: ConfigHash) -> Result<()> {
    db.execute("DELETE FROM learned WHERE hash = ?1", [hash.to_string()]).map(drop)
}

fn read_row(row: &Row<'_>) -> Result<Option<(ConfigHash, ServerTraits)>> {
    let text_at = |at: usize| row.get::<_, Option<String>>(at);
    let framing = text_at(2)?.as_deref().and_then(parse_framing);
    let traits = ServerTraits {
        era: text_at(1)?.as_deref().and_then(parse_era),
        framing: framing.map(|framing| match framing {
            wire::Framing::Newline => FramingMode::Newline,
            wire::Framing::ContentLength => FramingMode::ContentLength,
        }),
    };
    Ok(ConfigHash::parse(&row.get::<_, String>(0)?).map(|hash| (hash, traits)))
}

fn wire_framing(framing: FramingMode) -> Option<wire::Framing> {
    match framing {
        FramingMode::Auto => None,
        FramingMode::Newline => Some(wire::Framing::Newline),
        FramingMode::ContentLength => Some(wire::Framing::ContentLength),
    }
}

#[cfg(test)]
mod tests {
    use toolcrib_wire::Era;

    use super::super::schema;
    use super::super::timestamps::from_millis;
    use super::*;

    fn hash(number: u32) -> ConfigHash {
        ConfigHash::parse(&format!("{number:064x}")).unwrap()
    }

    #[test]
    fn server_traits_are_read_back_replaced_and_deleted() {
        let mut db = Connection::open_in_memory().unwrap();
        schema::migrate(&mut db, 0).unwrap();
        let first =
            ServerTraits { era: Some(Era::Legacy), framing: Some(FramingMode::ContentLength) };
        write(&db, hash(1), first, from_millis(1)).unwrap();
        assert_eq!(read(&db).unwrap(), [(hash(1), first)]);
        let second = ServerTraits { era: Some(Era::Modern), framing: None };
        write(&db, hash(1), second, from_millis(2)).unwrap();
        assert_eq!(read(&db).unwrap(), [(hash(1), second)]);
        delete(&db, hash(1)).unwrap();
        assert_eq!(read(&db).unwrap(), []);
    }

    #[test]
    fn oldest_server_traits_are_dropped_beyond_the_limit() {
        let mut db = Connection::open_in_memory().unwrap();
        schema::migrate(&mut db, 0).unwrap();
        for number in 0..MAX_ROWS + 5 {
            write(&db, hash(number), ServerTraits::default(), from_millis(number.into())).unwrap();
        }
        let kept = read(&db).unwrap();
        assert_eq!(kept.len(), MAX_ROWS as usize);
        assert!(kept.iter().all(|(kept, _)| (0..5).all(|old| *kept != hash(old))));
    }
}
