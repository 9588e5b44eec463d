//! What has to be done to get from one configuration to the next, server by server.

use std::collections::HashMap;

use crate::model::{Config, Outcome, ServerSpec};

/// The steps from an old configuration to a new one: the new one's servers in order, among them at their old places
/// those that go on as they were, then those that end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub steps: Vec<Step>,
}

/// What is done with one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// `<source>#<id>`.
    pub key: String,
    pub action: Action,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing that matters has changed.
    Keep,
    /// It is written wrongly now; what was good goes on.
    KeepLastGood,
    Start,
    Replace,
    Stop,
}

impl Plan {
    pub fn action(&self, key: &str) -> Option<Action> {
        self.steps.iter().find(|step| step.key == key).map(|step| step.action)
    }

    /// Whether nothing has to be done.
    pub fn is_empty(&self) -> bool {
        self.steps.iter().all(|step| matches!(step.action, Action::Keep | Action::KeepLastGood))
    }
}

/// Compares by the hash of each definition; where a file or a server cannot be read any more, its
/// dialect says whether what ran before goes on.
pub fn diff(old: &Config, new: &Config) -> Plan {
    let before: HashMap<String, &ServerSpec> =
        old.servers.iter().map(|spec| (spec.key(), spec)).collect();
    let mut steps: Vec<Step> = new
        .servers
        .iter()
        .map(|spec| {
            let key = spec.key();
            let action = match before.get(&key) {
                None => Action::Start,
                Some(old) if is_same(old, spec) => Action::Keep,
                Some(_) => Action::Replace,
            };
            Step { key, action }
        })
        .collect();
    let after: std::collections::HashSet<String> =
        steps.iter().map(|step| step.key.clone()).collect();
    let mut before: Option<String> = None;
    for spec in &old.servers {
        let key = spec.key();
        let is_gone = !after.contains(&key);
        if is_gone && !goes_on(new, spec) {
            steps.push(Step { key, action: Action::Stop });
            continue;
        }
        if is_gone {
            let place = place_after(&steps, before.as_deref());
            steps.insert(place, Step { key: key.clone(), action: Action::KeepLastGood });
        }
        before = Some(key);
    }
    Plan { steps }
}

/// A server that may be started now is another than one that might not, whatever its definition.
fn is_same(old: &ServerSpec, new: &ServerSpec) -> bool {
    old.hash == new.hash && old.is_withheld() == new.is_withheld()
}

/// Behind the one that was before it: whoever comes first keeps a name, so a place is worth something.
fn place_after(steps: &[Step], before: Option<&str>) -> usize {
    let is_it = |step: &Step| Some(step.key.as_str()) == before;
    steps.iter().position(is_it).map_or(0, |place| place + 1)
}

/// Whether a server that the new configuration lacks was rejected rather than removed.
fn goes_on(new: &Config, spec: &ServerSpec) -> bool {
    let rejected =
        |r: &crate::model::Rejected| r.source == spec.source && r.id == spec.id && r.keep_last_good;
    new.source(&spec.source).is_some_and(|source| source.outcome == Outcome::Rejected)
        || new.rejected.iter().any(rejected)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dialect;
    use crate::testing::compiled;

    const OLD: &str = "version: 1\nservers:\n  a: { transport: stdio, command: x }\n  b: { transport: stdio, command: x }\n  c: { transport: stdio, command: x }\n";

    fn actions(dialect: Dialect, old: &str, new: &str) -> Vec<(String, Action)> {
        let plan = diff(&compiled(dialect, old), &compiled(dialect, new));
        let id = |key: &str| key.rsplit('#').next().unwrap().to_string();
        plan.steps.iter().map(|step| (id(&step.key), step.action)).collect()
    }

    fn check(old: &str, new: &str, expected: &[(&str, Action)]) {
        let expected: Vec<_> =
            expected.iter().map(|(id, action)| (id.to_string(), *action)).collect();
        assert_eq!(actions(Dialect::Dominds, old, new), expected);
    }

    #[test]
    fn each_server_has_its_own_step() {
        let new = "version: 1\nservers:\n  b: { command: x, transport: stdio } # moved\n  a: { transport: stdio, command: y }\n  d: { transport: stdio, command: x }\n";
        let expected = [
            ("b", Action::Keep),
            ("a", Action::Replace),
            ("d", Action::Start),
            ("c", Action::Stop),
        ];
        check(OLD, new, &expected);
    }

    #[test]
    fn dom_90_a_server_that_is_wrong_now_goes_on_as_it_was() {
        let new = OLD.replace("b: { transport: stdio", "b: { transport: sse");
        // At its old place: what it is called is still its own.
        check(OLD, &new, &[("a", Action::Keep), ("b", Action::KeepLastGood), ("c", Action::Keep)]);
    }

    #[test]
    fn dom_89_a_file_that_is_wrong_now_changes_nothing() {
        let all = ["a", "b", "c"].map(|id| (id, Action::KeepLastGood));
        check(OLD, "version: 2\n", &all);
        check(OLD, "version: 1\nservers: {", &all);
    }

    #[test]
    fn an_empty_file_ends_everything() {
        check(OLD, "version: 1\n", &["a", "b", "c"].map(|id| (id, Action::Stop)));
    }
}
