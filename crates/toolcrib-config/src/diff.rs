//! Difference between two configurations, server by server.

use std::collections::HashMap;

use crate::model::{Config, ServerSpec, SourceOutcome};

/// The changes from an old configuration to a new one: the servers of the new one in order, with kept old servers at
/// their old places, then the servers to stop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigDiff {
    /// The changes in load order.
    pub changes: Vec<ServerChange>,
}

/// The change of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerChange {
    /// `<source>#<id>`.
    pub key: String,
    /// The action for the server.
    pub action: ChangeAction,
}

/// The action that a change requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeAction {
    /// The definition has not changed.
    Keep,
    /// The new definition is invalid, so the last good one stays.
    KeepLastGood,
    Start,
    Replace,
    Stop,
}

impl ConfigDiff {
    /// Returns the action for a server.
    pub fn action(&self, key: &str) -> Option<ChangeAction> {
        self.changes.iter().find(|change| change.key == key).map(|change| change.action)
    }

    /// Returns whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.changes
            .iter()
            .all(|change| matches!(change.action, ChangeAction::Keep | ChangeAction::KeepLastGood))
    }
}

/// Compares definitions by hash. For a file or server that can no longer be read, its dialect decides whether the
/// running server continues.
pub fn diff(old: &Config, new: &Config) -> ConfigDiff {
    let before: HashMap<String, &ServerSpec> =
        old.servers.iter().map(|spec| (spec.key(), spec)).collect();
    let mut changes: Vec<ServerChange> = new
        .servers
        .iter()
        .map(|spec| {
            let key = spec.key();
            let action = match before.get(&key) {
                None => ChangeAction::Start,
                Some(old) if is_same_definition(old, spec) => ChangeAction::Keep,
                Some(_) => ChangeAction::Replace,
            };
            ServerChange { key, action }
        })
        .collect();
    let after: std::collections::HashSet<String> =
        changes.iter().map(|change| change.key.clone()).collect();
    let mut before: Option<String> = None;
    for spec in &old.servers {
        let key = spec.key();
        let is_gone = !after.contains(&key);
        if is_gone && !keeps_running(new, spec) {
            changes.push(ServerChange { key, action: ChangeAction::Stop });
            continue;
        }
        if is_gone {
            let place = index_after(&changes, before.as_deref());
            changes.insert(
                place,
                ServerChange { key: key.clone(), action: ChangeAction::KeepLastGood },
            );
        }
        before = Some(key);
    }
    ConfigDiff { changes }
}

/// A server whose trust has changed counts as changed, even with the same definition.
fn is_same_definition(old: &ServerSpec, new: &ServerSpec) -> bool {
    old.hash == new.hash && old.is_withheld() == new.is_withheld()
}

/// Returns the index after the previous server. Order matters, because the first server keeps a name.
fn index_after(changes: &[ServerChange], before: Option<&str>) -> usize {
    let is_match = |change: &ServerChange| Some(change.key.as_str()) == before;
    changes.iter().position(is_match).map_or(0, |place| place + 1)
}

/// Returns whether a server that the new configuration lacks was rejected instead of removed.
fn keeps_running(new: &Config, spec: &ServerSpec) -> bool {
    let rejected = |r: &crate::model::RejectedServer| {
        r.source == spec.source && r.id == spec.id && r.keep_last_good
    };
    new.source(&spec.source).is_some_and(|source| source.outcome == SourceOutcome::Rejected)
        || new.rejected.iter().any(rejected)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dialect;
    use crate::testing::compile_text;

    const OLD: &str = "version: 1\nservers:\n  a: { transport: stdio, command: x }\n  b: { transport: stdio, command: x }\n  c: { transport: stdio, command: x }\n";

    fn actions(dialect: Dialect, old: &str, new: &str) -> Vec<(String, ChangeAction)> {
        let plan = diff(&compile_text(dialect, old), &compile_text(dialect, new));
        let id = |key: &str| key.rsplit('#').next().unwrap().to_string();
        plan.changes.iter().map(|change| (id(&change.key), change.action)).collect()
    }

    fn check(old: &str, new: &str, expected: &[(&str, ChangeAction)]) {
        let expected: Vec<_> =
            expected.iter().map(|(id, action)| (id.to_string(), *action)).collect();
        assert_eq!(actions(Dialect::Dominds, old, new), expected);
    }

    #[test]
    fn diff_has_one_change_per_server() {
        let new = "version: 1\nservers:\n  b: { command: x, transport: stdio } # moved\n  a: { transport: stdio, command: y }\n  d: { transport: stdio, command: x }\n";
        let expected = [
            ("b", ChangeAction::Keep),
            ("a", ChangeAction::Replace),
            ("d", ChangeAction::Start),
            ("c", ChangeAction::Stop),
        ];
        check(OLD, new, &expected);
    }

    #[test]
    fn dom_90_invalid_server_keeps_running_with_last_good_definition() {
        let new = OLD.replace("b: { transport: stdio", "b: { transport: sse");
        // The server keeps its place and therefore its name.
        check(
            OLD,
            &new,
            &[
                ("a", ChangeAction::Keep),
                ("b", ChangeAction::KeepLastGood),
                ("c", ChangeAction::Keep),
            ],
        );
    }

    #[test]
    fn dom_89_invalid_file_changes_nothing() {
        let all = ["a", "b", "c"].map(|id| (id, ChangeAction::KeepLastGood));
        check(OLD, "version: 2\n", &all);
        check(OLD, "version: 1\nservers: {", &all);
    }

    #[test]
    fn empty_file_stops_all_servers() {
        check(OLD, "version: 1\n", &["a", "b", "c"].map(|id| (id, ChangeAction::Stop)));
    }
}
