//! What is remembered of a server between two runs: its lists, and how it wants to be spoken to.

use std::time::{Duration, SystemTime};

use rusqlite::{Connection, OptionalExtension, Result, Row, params};
use toolcrib_wire::{Era, Framing};

use super::time::{from_millis, to_millis};

/// What a row takes besides its lists, roughly, so that many small ones are bounded too.
const ROW: u64 = 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remembered {
    pub era: Option<Era>,
    pub framing: Option<Framing>,
    /// JSON, as whoever stored it wrote it.
    pub lists: Option<String>,
    pub at: SystemTime,
}

impl Remembered {
    /// The lists, if they are not older than the limit; zero means any age.
    pub fn lists_within(&self, limit: Duration, now: SystemTime) -> Option<&str> {
        // What comes from the future is as new as can be: clocks are set back.
        let age = now.duration_since(self.at).unwrap_or_default();
        self.lists.as_deref().filter(|_| limit.is_zero() || age <= limit)
    }
}

pub(super) fn read(db: &Connection, server: &str, hash: &str) -> Result<Option<Remembered>> {
    let sql = "SELECT era, framing, lists, at FROM catalogs WHERE server = ?1 AND hash = ?2";
    db.query_row(sql, [server, hash], remembered).optional()
}

/// Lists that alone are over the limit are left out; the rest is small and stays.
pub(super) fn write(
    db: &Connection,
    server: &str,
    hash: &str,
    what: &Remembered,
    limit: u64,
) -> Result<()> {
    let size = |lists: Option<&str>| ROW + lists.map_or(0, |lists| lists.len() as u64);
    let lists = what.lists.as_deref().filter(|lists| size(Some(lists)) <= limit);
    let change = db.unchecked_transaction()?;
    change.execute(
        "INSERT OR REPLACE INTO catalogs (server, hash, era, framing, lists, size, at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![
            server,
            hash,
            what.era.map(era_word),
            what.framing.map(framing_word),
            lists,
            i64::try_from(size(lists)).unwrap_or(i64::MAX),
            to_millis(what.at)
        ],
    )?;
    change.execute(
        "DELETE FROM catalogs WHERE rowid IN (
             SELECT id FROM (
                 SELECT rowid AS id, sum(size) OVER (ORDER BY at DESC, rowid DESC) AS total FROM catalogs
             ) WHERE total > ?1)",
        [i64::try_from(limit).unwrap_or(i64::MAX)],
    )?;
    change.commit()
}

fn remembered(row: &Row<'_>) -> Result<Remembered> {
    let word = |at: usize| row.get::<_, Option<String>>(at);
    Ok(Remembered {
        era: word(0)?.as_deref().and_then(era),
        framing: word(1)?.as_deref().and_then(framing),
        lists: row.get(2)?,
        at: from_millis(row.get(3)?),
    })
}

pub(super) fn era_word(era: Era) -> &'static str {
    match era {
        Era::Legacy => "legacy",
        Era::Modern => "modern",
    }
}

/// A word that is not known is as good as none: it is found out anew.
pub(super) fn era(word: &str) -> Option<Era> {
    [Era::Legacy, Era::Modern].into_iter().find(|era| era_word(*era) == word)
}

pub(super) fn framing_word(framing: Framing) -> &'static str {
    match framing {
        Framing::Newline => "newline",
        Framing::ContentLength => "content_length",
    }
}

pub(super) fn framing(word: &str) -> Option<Framing> {
    let all = [Framing::Newline, Framing::ContentLength];
    all.into_iter().find(|framing| framing_word(*framing) == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ext_22_lists_that_are_too_old_are_not_used() {
        let (at, minute) = (from_millis(1_000_000), Duration::from_secs(60));
        let lists = Some("[]".to_owned());
        let remembered = Remembered { era: None, framing: None, lists, at };
        let within = |limit, age| remembered.lists_within(limit, at + age).is_some();
        assert!(within(minute, minute));
        assert!(!within(minute, minute + Duration::from_millis(1)));
        assert!(within(Duration::ZERO, 1000 * minute), "zero means any age");
        assert!(remembered.lists_within(minute, at - minute).is_some(), "a clock was set back");
    }
}
