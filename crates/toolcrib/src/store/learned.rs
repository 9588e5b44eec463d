//! Which era and framing worked with a server, by the hash of its definition.

use std::time::SystemTime;

use rusqlite::{Connection, Result, Row, params};
use toolcrib_config::Hash;
use toolcrib_config::model::transport::Framing;
use toolcrib_upstream::conn::Learned;
use toolcrib_wire as wire;

use super::catalog::{era, era_word, framing, framing_word};
use super::time::to_millis;

/// Definitions that are kept, the newest.
const ROWS: u32 = 1024;

pub(super) fn read(db: &Connection) -> Result<Vec<(Hash, Learned)>> {
    let mut rows = db.prepare("SELECT hash, era, framing FROM learned")?;
    let rows = rows.query_map([], learned)?;
    // A hash that cannot be read is nobody's.
    rows.filter_map(Result::transpose).collect()
}

pub(super) fn write(db: &Connection, hash: Hash, what: Learned, now: SystemTime) -> Result<()> {
    let change = db.unchecked_transaction()?;
    change.execute(
        "INSERT OR REPLACE INTO learned (hash, era, framing, at) VALUES (?1, ?2, ?3, ?4)",
        params![
            hash.to_string(),
            what.era.map(era_word),
            what.framing.and_then(spoken).map(framing_word),
            to_millis(now)
        ],
    )?;
    change.execute(
        "DELETE FROM learned WHERE rowid NOT IN (
             SELECT rowid FROM learned ORDER BY at DESC, rowid DESC LIMIT ?1)",
        [ROWS],
    )?;
    change.commit()
}

pub(super) fn forget(db: &Connection, hash: Hash) -> Result<()> {
    db.execute("DELETE FROM learned WHERE hash = ?1", [hash.to_string()]).map(drop)
}

fn learned(row: &Row<'_>) -> Result<Option<(Hash, Learned)>> {
    let word = |at: usize| row.get::<_, Option<String>>(at);
    let spoken = word(2)?.as_deref().and_then(framing);
    let what = Learned {
        era: word(1)?.as_deref().and_then(era),
        framing: spoken.map(|framing| match framing {
            wire::Framing::Newline => Framing::Newline,
            wire::Framing::ContentLength => Framing::ContentLength,
        }),
    };
    Ok(Hash::read(&row.get::<_, String>(0)?).map(|hash| (hash, what)))
}

fn spoken(framing: Framing) -> Option<wire::Framing> {
    match framing {
        Framing::Auto => None,
        Framing::Newline => Some(wire::Framing::Newline),
        Framing::ContentLength => Some(wire::Framing::ContentLength),
    }
}

#[cfg(test)]
mod tests {
    use toolcrib_wire::Era;

    use super::super::schema;
    use super::super::time::from_millis;
    use super::*;

    fn hash(number: u32) -> Hash {
        Hash::read(&format!("{number:064x}")).unwrap()
    }

    #[test]
    fn learned_rows_are_read_back_replaced_and_forgotten() {
        let mut db = Connection::open_in_memory().unwrap();
        schema::migrate(&mut db, 0).unwrap();
        let first = Learned { era: Some(Era::Legacy), framing: Some(Framing::ContentLength) };
        write(&db, hash(1), first, from_millis(1)).unwrap();
        assert_eq!(read(&db).unwrap(), [(hash(1), first)]);
        let second = Learned { era: Some(Era::Modern), framing: None };
        write(&db, hash(1), second, from_millis(2)).unwrap();
        assert_eq!(read(&db).unwrap(), [(hash(1), second)]);
        forget(&db, hash(1)).unwrap();
        assert_eq!(read(&db).unwrap(), []);
    }

    #[test]
    fn the_oldest_learned_rows_are_dropped_beyond_the_limit() {
        let mut db = Connection::open_in_memory().unwrap();
        schema::migrate(&mut db, 0).unwrap();
        for number in 0..ROWS + 5 {
            write(&db, hash(number), Learned::default(), from_millis(number.into())).unwrap();
        }
        let kept = read(&db).unwrap();
        assert_eq!(kept.len(), ROWS as usize);
        assert!(kept.iter().all(|(kept, _)| (0..5).all(|old| *kept != hash(old))));
    }
}
