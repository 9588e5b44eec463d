//! Stored catalogs: a server's lists, era and framing from an earlier run.

use std::time::{Duration, SystemTime};

use rusqlite::{Connection, OptionalExtension, Result, Row, params};
use toolcrib_wire::{Era, Framing};

use super::timestamps::{from_millis, to_millis};

/// Approximate size of a row without its lists, so many small rows are limited too.
const ROW_OVERHEAD: u64 = 1024;

/// Lists, era and framing of a server from an earlier run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredCatalog {
    /// The era that worked.
    pub era: Option<Era>,
    /// The framing that worked.
    pub framing: Option<Framing>,
    /// JSON in the writer's format.
    pub lists: Option<String>,
    /// The time of storing.
    pub at: SystemTime,
}

impl StoredCatalog {
    /// Returns the lists if they are not older than the limit. Zero means any age.
    pub fn lists_within(&self, limit: Duration, now: SystemTime) -> Option<&str> {
        // A time in the future counts as now, because clocks may be set back.
        let age = now.duration_since(self.at).unwrap_or_default();
        self.lists.as_deref().filter(|_| limit.is_zero() || age <= limit)
    }
}

pub(super) fn read(db: &Connection, server: &str, hash: &str) -> Result<Option<StoredCatalog>> {
    let sql = "SELECT era, framing, lists, at FROM catalogs WHERE server = ?1 AND hash = ?2";
    db.query_row(sql, [server, hash], read_row).optional()
}

/// Writes a catalog. Lists above the limit are omitted; the other columns are small.
pub(super) fn write(
    db: &Connection,
    server: &str,
    hash: &str,
    catalog: &StoredCatalog,
    limit: u64,
) -> Result<()> {
    let size = |lists: Option<&str>| ROW_OVERHEAD + lists.map_or(0, |lists| lists.len() as u64);
    let lists = catalog.lists.as_deref().filter(|lists| size(Some(lists)) <= limit);
    let change = db.unchecked_transaction()?;
    change.execute(
        "INSERT OR REPLACE INTO catalogs (server, hash, era, framing, lists, size, at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![
            server,
            hash,
            catalog.era.map(era_name),
            catalog.framing.map(framing_name),
            lists,
            i64::try_from(size(lists)).unwrap_or(i64::MAX),
            to_millis(catalog.at)
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

fn read_row(row: &Row<'_>) -> Result<StoredCatalog> {
    let text_at = |at: usize| row.get::<_, Option<String>>(at);
    Ok(StoredCatalog {
        era: text_at(0)?.as_deref().and_then(parse_era),
        framing: text_at(1)?.as_deref().and_then(parse_framing),
        lists: row.get(2)?,
        at: from_millis(row.get(3)?),
    })
}

pub(super) fn era_name(era: Era) -> &'static str {
    match era {
        Era::Legacy => "legacy",
        Era::Modern => "modern",
    }
}

/// An unknown name counts as absent, and the era is detected again.
pub(super) fn parse_era(name: &str) -> Option<Era> {
    [Era::Legacy, Era::Modern].into_iter().find(|era| era_name(*era) == name)
}

pub(super) fn framing_name(framing: Framing) -> &'static str {
    match framing {
        Framing::Newline => "newline",
        Framing::ContentLength => "content_length",
    }
}

pub(super) fn parse_framing(name: &str) -> Option<Framing> {
    let all = [Framing::Newline, Framing::ContentLength];
    all.into_iter().find(|framing| framing_name(*framing) == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ext_22_stored_lists_expire() {
        let (at, minute) = (from_millis(1_000_000), Duration::from_secs(60));
        let lists = Some("[]".to_owned());
        let catalog = StoredCatalog { era: None, framing: None, lists, at };
        let within = |limit, age| catalog.lists_within(limit, at + age).is_some();
        assert!(within(minute, minute));
        assert!(!within(minute, minute + Duration::from_millis(1)));
        assert!(within(Duration::ZERO, 1000 * minute), "zero means any age");
        assert!(catalog.lists_within(minute, at - minute).is_some(), "a clock was set back");
    }
}
