//! Differences between two catalogs of one server.

use std::collections::HashMap;
use std::fmt;

use toolcrib_wire::RawJson;
use toolcrib_wire::view::ToolView;

use super::catalog::{Catalog, CatalogItem, ListKind};

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogChange {
    pub list: ListKind,
    /// Name or URI in the old catalog; in the new one for added items.
    pub name: String,
    pub kind: ChangeKind,
}

/// Kind of a difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeKind {
    Added,
    Removed,
    /// Only the name differs. Tools only.
    Renamed {
        to: String,
    },
    /// The input or output schema differs. Tools only.
    Schema,
    /// Anything else differs, such as the description.
    Text,
}

/// Returns all differences list by list: removed and changed items in the old order, then added items in the new
/// order.
pub fn diff_catalogs(old: &Catalog, new: &Catalog) -> Vec<CatalogChange> {
    let mut changes = Vec::new();
    diff_list(&old.tools, &new.tools, tool_change, &mut changes);
    pair_renamed_tools(&old.tools, &new.tools, &mut changes);
    diff_list(&old.prompts, &new.prompts, text_change, &mut changes);
    diff_list(&old.resources, &new.resources, text_change, &mut changes);
    diff_list(&old.templates, &new.templates, text_change, &mut changes);
    changes
}

fn diff_list<T: CatalogItem>(
    old: &[T],
    new: &[T],
    differ: fn(&T, &T) -> Option<ChangeKind>,
    changes: &mut Vec<CatalogChange>,
) {
    let before = by_key(old);
    let after = by_key(new);
    let removed = old.iter().filter_map(|item| {
        let kind = match after.get(item.key()) {
            Some(now) => differ(item, now),
            None => Some(ChangeKind::Removed),
        };
        kind.map(|kind| new_change(item, kind))
    });
    let added = new
        .iter()
        .filter(|item| !before.contains_key(item.key()))
        .map(|item| new_change(item, ChangeKind::Added));
    changes.extend(removed.chain(added));
}

fn by_key<T: CatalogItem>(items: &[T]) -> HashMap<&str, &T> {
    items.iter().map(|item| (item.key(), item)).collect()
}

fn new_change<T: CatalogItem>(item: &T, kind: ChangeKind) -> CatalogChange {
    CatalogChange { list: T::KIND, name: item.key().to_owned(), kind }
}

fn tool_change(old: &ToolView, new: &ToolView) -> Option<ChangeKind> {
    let outputs = match (old.output_schema(), new.output_schema()) {
        (Some(old), Some(new)) => is_same_json(old, new),
        (old, new) => old.is_none() && new.is_none(),
    };
    if outputs && is_same_json(old.input_schema(), new.input_schema()) {
        text_change(old, new)
    } else {
        Some(ChangeKind::Schema)
    }
}

fn text_change<T: CatalogItem>(old: &T, new: &T) -> Option<ChangeKind> {
    (!is_same_json(old.definition(), new.definition())).then_some(ChangeKind::Text)
}

/// Compares as JSON values, because the member order is not a change. Values that are too deep to parse count as
/// changed.
fn is_same_json(old: &RawJson, new: &RawJson) -> bool {
    let value = |raw: &RawJson| serde_json::from_str::<serde_json::Value>(raw.text()).ok();
    old == new || value(old).is_some_and(|old| value(new) == Some(old))
}

/// Turns a removed and an added tool into a rename if they are equal except for the name and no third tool is equal to
/// them.
fn pair_renamed_tools(old: &[ToolView], new: &[ToolView], changes: &mut Vec<CatalogChange>) {
    let (before, after) = (by_key(old), by_key(new));
    let of_kind = |kind: ChangeKind, tools: &HashMap<&str, &ToolView>| {
        let mut groups: HashMap<_, Vec<String>> = HashMap::new();
        for change in changes.iter().filter(|change| change.kind == kind) {
            if let Some(tool) = tools.get(change.name.as_str()) {
                let name = change.name.clone();
                groups.entry(identity_without_name(tool)).or_default().push(name);
            }
        }
        groups
    };
    let removed = of_kind(ChangeKind::Removed, &before);
    let added = of_kind(ChangeKind::Added, &after);
    let renamed: HashMap<String, String> = removed
        .into_iter()
        .filter_map(|(likeness, from)| match (&from[..], &added.get(&likeness)?[..]) {
            ([from], [to]) => Some((from.clone(), to.clone())),
            _ => None,
        })
        .collect();
    let is_target = |change: &CatalogChange| renamed.values().any(|to| *to == change.name);
    changes.retain(|change| change.kind != ChangeKind::Added || !is_target(change));
    for change in changes.iter_mut() {
        match renamed.get(&change.name) {
            Some(to) if change.kind == ChangeKind::Removed => {
                change.kind = ChangeKind::Renamed { to: to.clone() };
            }
            _ => {}
        }
    }
}

/// Description and schemas, without the name.
fn identity_without_name(tool: &ToolView) -> (String, String, Option<String>) {
    (
        tool.description().unwrap_or_default().into_owned(),
        tool.input_schema().text().to_owned(),
        tool.output_schema().map(|schema| schema.text().to_owned()),
    )
}

impl fmt::Display for CatalogChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CatalogChange { list, name, kind } = self;
        match kind {
            ChangeKind::Added => write!(f, "{list}: `{name}` added"),
            ChangeKind::Removed => write!(f, "{list}: `{name}` removed"),
            ChangeKind::Renamed { to } => write!(f, "{list}: `{name}` renamed to `{to}`"),
            ChangeKind::Schema => write!(f, "{list}: schema of `{name}` changed"),
            ChangeKind::Text => write!(f, "{list}: description of `{name}` changed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use toolcrib_wire::MessageLimits;
    use toolcrib_wire::view::{ListItem, PromptView};

    use super::*;

    fn read<T: ListItem>(text: &str) -> T {
        let raw = RawJson::parse(text, &MessageLimits::default()).unwrap();
        T::read(raw, &mut Vec::new()).unwrap()
    }

    fn tool(name: &str, description: &str, schema: &str) -> ToolView {
        read(&format!(
            r#"{{"name":"{name}","description":"{description}","inputSchema":{schema}}}"#
        ))
    }

    fn tools(tools: Vec<ToolView>) -> Catalog {
        Catalog { tools, ..Catalog::default() }
    }

    fn diff_lines(old: &Catalog, new: &Catalog) -> Vec<String> {
        let changes = diff_catalogs(old, new);
        changes.iter().map(CatalogChange::to_string).collect()
    }

    #[test]
    fn min_64_diff_names_the_tool_and_the_kind_of_change() {
        let old = tools(vec![
            tool("kept", "k", "{}"),
            tool("gone", "g", "{}"),
            tool("sharper", "s", r#"{"a":1}"#),
            tool("old_name", "r", r#"{"r":1}"#),
            tool("reworded", "w", "{}"),
        ]);
        let new = tools(vec![
            tool("new", "n", "{}"),
            tool("kept", "k", "{}"),
            tool("sharper", "s", r#"{"a":2}"#),
            tool("new_name", "r", r#"{"r":1}"#),
            tool("reworded", "ww", "{}"),
        ]);
        assert_eq!(
            diff_lines(&old, &new),
            [
                "tools: `gone` removed",
                "tools: schema of `sharper` changed",
                "tools: `old_name` renamed to `new_name`",
                "tools: description of `reworded` changed",
                "tools: `new` added",
            ]
        );
        assert_eq!(diff_lines(&new, &new), Vec::<String>::new());
    }

    #[test]
    fn member_order_is_not_a_change() {
        let old = tools(vec![tool("t", "d", r#"{"a":1,"b":{"c":1,"d":2}}"#)]);
        let new = tools(vec![tool("t", "d", r#"{ "b":{"d":2,"c":1}, "a":1 }"#)]);
        assert_eq!(diff_lines(&old, &new), Vec::<String>::new());
    }

    #[test]
    fn ambiguous_rename_is_reported_as_removed_and_added() {
        let old = tools(vec![tool("a", "d", "{}"), tool("b", "d", "{}")]);
        let new = tools(vec![tool("c", "d", "{}")]);
        assert_eq!(
            diff_lines(&old, &new),
            ["tools: `a` removed", "tools: `b` removed", "tools: `c` added"]
        );
    }

    #[test]
    fn output_schema_changes_are_reported() {
        let with = |schema: &str| {
            tools(vec![read(&format!(r#"{{"name":"t","inputSchema":{{}}{schema}}}"#))])
        };
        let (none, one, two) =
            (with(""), with(r#","outputSchema":{"a":1}"#), with(r#","outputSchema":{"a":2}"#));
        for (old, new) in [(&none, &one), (&one, &two), (&two, &none)] {
            assert_eq!(diff_lines(old, new), ["tools: schema of `t` changed"]);
        }
    }

    #[test]
    fn prompts_are_diffed() {
        let prompts = |text: &[&str]| Catalog {
            prompts: text.iter().map(|text| read::<PromptView>(text)).collect(),
            ..Catalog::default()
        };
        let old = prompts(&[r#"{"name":"a"}"#, r#"{"name":"b"}"#]);
        let new = prompts(&[r#"{"name":"b","description":"x"}"#, r#"{"name":"c"}"#]);
        assert_eq!(
            diff_lines(&old, &new),
            ["prompts: `a` removed", "prompts: description of `b` changed", "prompts: `c` added"]
        );
    }
}
