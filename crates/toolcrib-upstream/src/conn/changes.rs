//! What changed from one catalogue of a server to the next.

use std::collections::HashMap;
use std::fmt;

use toolcrib_wire::Raw;
use toolcrib_wire::view::Tool;

use super::catalog::{Catalog, Entry, List};

/// One thing that changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub list: List,
    /// The name, or URI, that it had before; for what is new, the one that it has.
    pub name: String,
    pub kind: ChangeKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeKind {
    Added,
    Removed,
    /// The same but for the name; tools only.
    Renamed {
        to: String,
    },
    /// What it takes or gives is another; tools only.
    Schema,
    /// Anything else, as a description.
    Text,
}

/// Every difference, list by list: what went or changed in the old order, then what came in the new.
pub fn changes(old: &Catalog, new: &Catalog) -> Vec<Change> {
    let mut found = Vec::new();
    compare(&old.tools, &new.tools, tool_change, &mut found);
    pair_renamed(&old.tools, &new.tools, &mut found);
    compare(&old.prompts, &new.prompts, text_change, &mut found);
    compare(&old.resources, &new.resources, text_change, &mut found);
    compare(&old.templates, &new.templates, text_change, &mut found);
    found
}

fn compare<T: Entry>(
    old: &[T],
    new: &[T],
    differ: fn(&T, &T) -> Option<ChangeKind>,
    found: &mut Vec<Change>,
) {
    let before = by_key(old);
    let after = by_key(new);
    let gone = old.iter().filter_map(|item| {
        let kind = match after.get(item.key()) {
            Some(now) => differ(item, now),
            None => Some(ChangeKind::Removed),
        };
        kind.map(|kind| change(item, kind))
    });
    let come = new
        .iter()
        .filter(|item| !before.contains_key(item.key()))
        .map(|item| change(item, ChangeKind::Added));
    found.extend(gone.chain(come));
}

fn by_key<T: Entry>(items: &[T]) -> HashMap<&str, &T> {
    items.iter().map(|item| (item.key(), item)).collect()
}

fn change<T: Entry>(item: &T, kind: ChangeKind) -> Change {
    Change { list: T::OF, name: item.key().to_owned(), kind }
}

fn tool_change(old: &Tool, new: &Tool) -> Option<ChangeKind> {
    let outputs = match (old.output_schema(), new.output_schema()) {
        (Some(old), Some(new)) => same(old, new),
        (old, new) => old.is_none() && new.is_none(),
    };
    if outputs && same(old.input_schema(), new.input_schema()) {
        text_change(old, new)
    } else {
        Some(ChangeKind::Schema)
    }
}

fn text_change<T: Entry>(old: &T, new: &T) -> Option<ChangeKind> {
    (!same(old.text(), new.text())).then_some(ChangeKind::Text)
}

/// Equal as values: a server that writes its members in another order has changed nothing. What is too deep
/// to compare so counts as changed.
fn same(old: &Raw, new: &Raw) -> bool {
    let value = |raw: &Raw| serde_json::from_str::<serde_json::Value>(raw.text()).ok();
    old == new || value(old).is_some_and(|old| value(new) == Some(old))
}

/// A tool that went and one that came and are alike but for the name are one that was renamed, if no third
/// is like them.
fn pair_renamed(old: &[Tool], new: &[Tool], found: &mut Vec<Change>) {
    let (before, after) = (by_key(old), by_key(new));
    let of_kind = |kind: ChangeKind, tools: &HashMap<&str, &Tool>| {
        let mut alike: HashMap<_, Vec<String>> = HashMap::new();
        for change in found.iter().filter(|change| change.kind == kind) {
            if let Some(tool) = tools.get(change.name.as_str()) {
                let name = change.name.clone();
                alike.entry(likeness(tool)).or_default().push(name);
            }
        }
        alike
    };
    let gone = of_kind(ChangeKind::Removed, &before);
    let come = of_kind(ChangeKind::Added, &after);
    let renamed: HashMap<String, String> = gone
        .into_iter()
        .filter_map(|(likeness, from)| match (&from[..], &come.get(&likeness)?[..]) {
            ([from], [to]) => Some((from.clone(), to.clone())),
            _ => None,
        })
        .collect();
    let is_target = |change: &Change| renamed.values().any(|to| *to == change.name);
    found.retain(|change| change.kind != ChangeKind::Added || !is_target(change));
    for change in found.iter_mut() {
        match renamed.get(&change.name) {
            Some(to) if change.kind == ChangeKind::Removed => {
                change.kind = ChangeKind::Renamed { to: to.clone() };
            }
            _ => {}
        }
    }
}

/// What a tool is but for its name.
fn likeness(tool: &Tool) -> (String, String, Option<String>) {
    (
        tool.description().unwrap_or_default().into_owned(),
        tool.input_schema().text().to_owned(),
        tool.output_schema().map(|schema| schema.text().to_owned()),
    )
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Change { list, name, kind } = self;
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
    use toolcrib_wire::Limits;
    use toolcrib_wire::view::{Item, Prompt};

    use super::*;

    fn read<T: Item>(text: &str) -> T {
        let raw = Raw::parse(text, &Limits::default()).unwrap();
        T::read(raw, &mut Vec::new()).unwrap()
    }

    fn tool(name: &str, description: &str, schema: &str) -> Tool {
        read(&format!(
            r#"{{"name":"{name}","description":"{description}","inputSchema":{schema}}}"#
        ))
    }

    fn tools(tools: Vec<Tool>) -> Catalog {
        Catalog { tools, ..Catalog::default() }
    }

    fn told(old: &Catalog, new: &Catalog) -> Vec<String> {
        let changes = changes(old, new);
        changes.iter().map(Change::to_string).collect()
    }

    #[test]
    fn min_64_a_report_names_tool_and_kind() {
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
            told(&old, &new),
            [
                "tools: `gone` removed",
                "tools: schema of `sharper` changed",
                "tools: `old_name` renamed to `new_name`",
                "tools: description of `reworded` changed",
                "tools: `new` added",
            ]
        );
        assert_eq!(told(&new, &new), Vec::<String>::new());
    }

    #[test]
    fn another_order_of_members_is_no_change() {
        let old = tools(vec![tool("t", "d", r#"{"a":1,"b":{"c":1,"d":2}}"#)]);
        let new = tools(vec![tool("t", "d", r#"{ "b":{"d":2,"c":1}, "a":1 }"#)]);
        assert_eq!(told(&old, &new), Vec::<String>::new());
    }

    #[test]
    fn which_of_two_was_renamed_is_not_guessed() {
        let old = tools(vec![tool("a", "d", "{}"), tool("b", "d", "{}")]);
        let new = tools(vec![tool("c", "d", "{}")]);
        assert_eq!(
            told(&old, &new),
            ["tools: `a` removed", "tools: `b` removed", "tools: `c` added"]
        );
    }

    #[test]
    fn an_output_schema_that_comes_or_changes_is_told() {
        let with = |schema: &str| {
            tools(vec![read(&format!(r#"{{"name":"t","inputSchema":{{}}{schema}}}"#))])
        };
        let (none, one, two) =
            (with(""), with(r#","outputSchema":{"a":1}"#), with(r#","outputSchema":{"a":2}"#));
        for (old, new) in [(&none, &one), (&one, &two), (&two, &none)] {
            assert_eq!(told(old, new), ["tools: schema of `t` changed"]);
        }
    }

    #[test]
    fn prompts_are_compared_too() {
        let prompts = |text: &[&str]| Catalog {
            prompts: text.iter().map(|text| read::<Prompt>(text)).collect(),
            ..Catalog::default()
        };
        let old = prompts(&[r#"{"name":"a"}"#, r#"{"name":"b"}"#]);
        let new = prompts(&[r#"{"name":"b","description":"x"}"#, r#"{"name":"c"}"#]);
        assert_eq!(
            told(&old, &new),
            ["prompts: `a` removed", "prompts: description of `b` changed", "prompts: `c` added"]
        );
    }
}
