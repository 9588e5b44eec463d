//! One page of a list, item by item: a bad item is reported and its neighbours stay.

use crate::json::{Json, Kind};
use crate::raw::Raw;
use crate::view::cache::Cache;
use crate::view::flaw::{self, Flaw};

/// Something that lists hold.
pub trait Item: Sized {
    /// The member of the result that holds the list.
    const LIST: &'static str;

    /// Reads one item. What must be there and is not makes it bad; other oddities are noted.
    fn read(raw: Raw, notes: &mut Vec<Flaw>) -> Result<Self, Flaw>;
}

/// One page of a list.
#[derive(Debug, Clone)]
pub struct Page<T> {
    pub items: Vec<T>,
    pub bad: Vec<BadItem>,
    /// Oddities of items that were kept, and of the page itself.
    pub notes: Vec<Note>,
    pub next_cursor: Option<String>,
    pub cache: Cache,
    /// How many items were not looked at because the page held more than the limit.
    pub left_out: usize,
}

/// An item that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadItem {
    pub index: usize,
    /// Its name, where that at least could be read.
    pub name: Option<String>,
    pub reason: Flaw,
}

/// Something odd that does no harm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The item, or none if it is about the page.
    pub index: Option<usize>,
    pub flaw: Flaw,
}

impl<T: Item> Page<T> {
    /// Reads a list result. It fails as a whole only if there is no list in it: a list that cannot be
    /// found is not an empty one.
    pub fn read(result: &Raw, limit: usize) -> Result<Page<T>, Flaw> {
        let json = result.json();
        flaw::object(json)?;
        let [list, cursor, ttl, scope] = json.pick([T::LIST, "nextCursor", "ttlMs", "cacheScope"]);
        let list = flaw::required(list, T::LIST, Kind::Array)?;
        let mut page = Page {
            items: Vec::new(),
            bad: Vec::new(),
            notes: Vec::new(),
            next_cursor: None,
            cache: Cache::read(ttl, scope),
            left_out: 0,
        };
        page.read_cursor(cursor);
        for (index, item) in list.items().enumerate() {
            if index < limit {
                page.read_item(index, result.part(item));
            } else {
                page.left_out += 1;
            }
        }
        Ok(page)
    }

    fn read_item(&mut self, index: usize, raw: Raw) {
        let mut notes = Vec::new();
        let name = raw.clone();
        match T::read(raw, &mut notes) {
            Ok(item) => self.items.push(item),
            Err(reason) => self.bad.push(BadItem { index, name: name_of(name.json()), reason }),
        }
        self.notes.extend(notes.into_iter().map(|flaw| Note { index: Some(index), flaw }));
    }

    /// An empty cursor is the end: asked for, it would give the first page again.
    fn read_cursor(&mut self, cursor: Option<Json<'_>>) {
        let Some(cursor) = cursor.filter(|cursor| !cursor.is_null()) else {
            return;
        };
        match cursor.as_str() {
            Some(text) => {
                self.next_cursor = Some(text.into_owned()).filter(|text| !text.is_empty())
            }
            None => {
                let flaw = Flaw::Mistyped {
                    field: "nextCursor",
                    expected: Kind::String,
                    found: cursor.kind(),
                };
                self.notes.push(Note { index: None, flaw });
            }
        }
    }
}

fn name_of(json: Json<'_>) -> Option<String> {
    let [name, uri] = json.pick(["name", "uri"]);
    let text = |value: Option<Json<'_>>| value.and_then(Json::as_str).map(|text| text.into_owned());
    text(name).or_else(|| text(uri)).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::view::{CacheScope, Resource, Tool};

    fn read<T: Item>(text: &str) -> Result<Page<T>, Flaw> {
        Page::read(&Raw::parse(text, &Limits::default()).unwrap(), 4)
    }

    #[test]
    fn one_bad_tool_is_reported_and_its_neighbours_stay() {
        let page = read::<Tool>(
            r#"{"tools":[{"name":"a","inputSchema":{}},{"name":"b"},7,{"name":"d","inputSchema":{},"annotations":{"readOnlyHint":"yes"}}]}"#,
        )
        .unwrap();
        assert_eq!(page.items.iter().map(Tool::name).collect::<Vec<_>>(), ["a", "d"]);
        let bad: Vec<_> = page
            .bad
            .iter()
            .map(|bad| (bad.index, bad.name.as_deref(), bad.reason.to_string()))
            .collect();
        assert_eq!(
            bad,
            [
                (1, Some("b"), "`inputSchema` is missing".to_owned()),
                (2, None, "expected an object, found a number".to_owned()),
            ]
        );
        let notes: Vec<_> =
            page.notes.iter().map(|note| (note.index, note.flaw.to_string())).collect();
        let odd = "`annotations.readOnlyHint` must be a boolean, found a string".to_owned();
        assert_eq!(notes.last(), Some(&(Some(3), odd)));
    }

    #[test]
    fn a_result_without_a_list_is_an_error_and_never_an_empty_list() {
        for (text, reason) in [
            (r#"{"tool":[]}"#, "`tools` is missing"),
            (r#"{"tools":{}}"#, "`tools` must be an array, found an object"),
            ("null", "expected an object, found null"),
        ] {
            assert_eq!(read::<Tool>(text).unwrap_err().to_string(), reason);
        }
        assert!(read::<Tool>(r#"{"tools":[]}"#).unwrap().items.is_empty());
    }

    #[test]
    fn cursor_and_cache_hints_are_read_with_the_page() {
        let page = read::<Resource>(
            r#"{"resources":[{"uri":"a:b","name":"b"}],"nextCursor":"x","ttlMs":500,"cacheScope":"public"}"#,
        )
        .unwrap();
        assert_eq!(page.next_cursor.as_deref(), Some("x"));
        assert_eq!(page.cache, Cache { ttl_ms: 500, scope: CacheScope::Public });
        for (cursor, notes) in [("\"\"", 0), ("null", 0), ("7", 1)] {
            let page =
                read::<Resource>(&format!(r#"{{"resources":[],"nextCursor":{cursor}}}"#)).unwrap();
            assert_eq!((page.next_cursor, page.notes.len()), (None, notes));
        }
    }

    #[test]
    fn items_beyond_the_limit_are_counted_and_cost_nothing() {
        let page = read::<Tool>(r#"{"tools":[1,2,3,4,5,6]}"#).unwrap();
        assert_eq!((page.bad.len(), page.left_out), (4, 2));
    }
}
