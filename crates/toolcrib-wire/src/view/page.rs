//! One page of a list. A bad item is reported and the other items stay.

use crate::json::{Json, JsonKind};
use crate::raw_json::RawJson;
use crate::view::cache_hints::CacheHints;
use crate::view::field_error::{self, FieldError};

/// An item type of a list.
pub trait ListItem: Sized {
    /// The member of the result that holds the list.
    const LIST: &'static str;

    /// Reads one item. A missing required member is an error; other problems are added to `warnings`.
    fn read(raw: RawJson, warnings: &mut Vec<FieldError>) -> Result<Self, FieldError>;
}

/// One page of a list.
#[derive(Debug, Clone)]
pub struct Page<T> {
    /// The valid items.
    pub items: Vec<T>,
    /// The invalid items.
    pub bad: Vec<BadItem>,
    /// Problems of items that were kept, and of the page itself.
    pub warnings: Vec<PageWarning>,
    /// The cursor of the next page.
    pub next_cursor: Option<String>,
    /// The cache hints of the page.
    pub cache: CacheHints,
    /// Number of items beyond the limit, which were not read.
    pub left_out: usize,
}

/// An item that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadItem {
    /// The index in the list.
    pub index: usize,
    /// The name of the item, if it was readable.
    pub name: Option<String>,
    /// The error in the item.
    pub reason: FieldError,
}

/// A problem that does not prevent the use of the item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageWarning {
    /// The index of the item, or `None` for the page.
    pub index: Option<usize>,
    /// The problem.
    pub error: FieldError,
}

impl<T: ListItem> Page<T> {
    /// Reads a list result. It fails only if the list itself is missing: a missing list is not an empty list.
    pub fn read(result: &RawJson, limit: usize) -> Result<Page<T>, FieldError> {
        let json = result.json();
        field_error::require_object(json)?;
        let [list, cursor, ttl, scope] = json.pick([T::LIST, "nextCursor", "ttlMs", "cacheScope"]);
        let list = field_error::require_member(list, T::LIST, JsonKind::Array)?;
        let mut page = Page {
            items: Vec::new(),
            bad: Vec::new(),
            warnings: Vec::new(),
            next_cursor: None,
            cache: CacheHints::read(ttl, scope),
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

    fn read_item(&mut self, index: usize, raw: RawJson) {
        let mut warnings = Vec::new();
        let name = raw.clone();
        match T::read(raw, &mut warnings) {
            Ok(item) => self.items.push(item),
            Err(reason) => self.bad.push(BadItem { index, name: item_name(name.json()), reason }),
        }
        self.warnings
            .extend(warnings.into_iter().map(|error| PageWarning { index: Some(index), error }));
    }

    /// Reads the cursor. An empty cursor is the end, because a request with it would return the first page again.
    fn read_cursor(&mut self, cursor: Option<Json<'_>>) {
        let Some(cursor) = cursor.filter(|cursor| !cursor.is_null()) else {
            return;
        };
        match cursor.as_str() {
            Some(text) => {
                self.next_cursor = Some(text.into_owned()).filter(|text| !text.is_empty())
            }
            None => {
                let error = FieldError::WrongType {
                    field: "nextCursor",
                    expected: JsonKind::String,
                    found: cursor.kind(),
                };
                self.warnings.push(PageWarning { index: None, error });
            }
        }
    }
}

fn item_name(json: Json<'_>) -> Option<String> {
    let [name, uri] = json.pick(["name", "uri"]);
    let text = |value: Option<Json<'_>>| value.and_then(Json::as_str).map(|text| text.into_owned());
    text(name).or_else(|| text(uri)).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::MessageLimits;
    use crate::view::{CacheScope, ResourceView, ToolView};

    fn read<T: ListItem>(text: &str) -> Result<Page<T>, FieldError> {
        Page::read(&RawJson::parse(text, &MessageLimits::default()).unwrap(), 4)
    }

    #[test]
    fn bad_tool_is_reported_and_the_others_stay() {
        let page = read::<ToolView>(
            r#"{"tools":[{"name":"a","inputSchema":{}},{"name":"b"},7,{"name":"d","inputSchema":{},"annotations":{"readOnlyHint":"yes"}}]}"#,
        )
        .unwrap();
        assert_eq!(page.items.iter().map(ToolView::name).collect::<Vec<_>>(), ["a", "d"]);
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
        let warnings: Vec<_> = page
            .warnings
            .iter()
            .map(|warning| (warning.index, warning.error.to_string()))
            .collect();
        let odd = "`annotations.readOnlyHint` must be a boolean, found a string".to_owned();
        assert_eq!(warnings.last(), Some(&(Some(3), odd)));
    }

    #[test]
    fn result_without_a_list_is_an_error() {
        for (text, reason) in [
            (r#"{"tool":[]}"#, "`tools` is missing"),
            (r#"{"tools":{}}"#, "`tools` must be an array, found an object"),
            ("null", "expected an object, found null"),
        ] {
            assert_eq!(read::<ToolView>(text).unwrap_err().to_string(), reason);
        }
        assert!(read::<ToolView>(r#"{"tools":[]}"#).unwrap().items.is_empty());
    }

    #[test]
    fn page_includes_cursor_and_cache_hints() {
        let page = read::<ResourceView>(
            r#"{"resources":[{"uri":"a:b","name":"b"}],"nextCursor":"x","ttlMs":500,"cacheScope":"public"}"#,
        )
        .unwrap();
        assert_eq!(page.next_cursor.as_deref(), Some("x"));
        assert_eq!(page.cache, CacheHints { ttl_ms: 500, scope: CacheScope::Public });
        for (cursor, warnings) in [("\"\"", 0), ("null", 0), ("7", 1)] {
            let page =
                read::<ResourceView>(&format!(r#"{{"resources":[],"nextCursor":{cursor}}}"#))
                    .unwrap();
            assert_eq!((page.next_cursor, page.warnings.len()), (None, warnings));
        }
    }

    #[test]
    fn items_beyond_the_limit_are_counted_and_not_parsed() {
        let page = read::<ToolView>(r#"{"tools":[1,2,3,4,5,6]}"#).unwrap();
        assert_eq!((page.bad.len(), page.left_out), (4, 2));
    }
}
