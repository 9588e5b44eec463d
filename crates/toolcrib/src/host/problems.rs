//! The current problems of a host, in groups that are replaced together.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use toolcrib_config::Problem;

/// All problems by group.
#[derive(Debug, Default)]
pub(super) struct ProblemTable(Mutex<BTreeMap<String, Vec<Problem>>>);

/// The changes of a problem group.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ProblemChanges {
    /// New problems, and problems with a new text.
    pub(super) added: Vec<Problem>,
    /// Known problems at a new location in the file.
    pub(super) moved: Vec<Problem>,
    /// Ids of the problems that no longer exist.
    pub(super) removed: Vec<String>,
}

impl ProblemTable {
    /// Replaces the problems of a group and returns the changes.
    pub(super) fn set(&self, problem_group: &str, now: Vec<Problem>) -> ProblemChanges {
        let mut all = self.lock();
        let before = match now.is_empty() {
            true => all.remove(problem_group),
            false => all.insert(problem_group.to_owned(), now.clone()),
        };
        drop(all);
        let before = before.unwrap_or_default();
        let removed = before.iter().filter(|old| now.iter().all(|new| new.id != old.id));
        let removed = removed.map(|old| old.id.clone()).collect();
        let changed = now.into_iter().filter(|new| !before.contains(new));
        let (moved, added) =
            changed.partition(|new| before.iter().any(|old| differs_only_in_location(old, new)));
        ProblemChanges { added, moved, removed }
    }

    /// Removes a group and all groups with this prefix. Returns the ids of the removed problems.
    pub(super) fn remove_group(&self, problem_group: &str) -> Vec<String> {
        let mut all = self.lock();
        let (removed, left) = std::mem::take(&mut *all)
            .into_iter()
            .partition::<BTreeMap<_, _>, _>(|(known, _)| known.starts_with(problem_group));
        *all = left;
        removed.into_values().flatten().map(|problem| problem.id).collect()
    }

    /// Whether there are no problems.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    pub(super) fn all(&self) -> Vec<Problem> {
        self.lock().values().flatten().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Vec<Problem>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether two problems differ at most in their location.
fn differs_only_in_location(old: &Problem, new: &Problem) -> bool {
    old.id == new.id && old.severity == new.severity && old.text == new.text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(id: &str, text: &str) -> Problem {
        let mut problem = Problem::error("code", text);
        problem.id = id.to_owned();
        problem
    }

    #[test]
    fn dom_92_problem_ends_with_its_cause() {
        let problems = ProblemTable::default();
        let (a, b) = (problem("a", "x"), problem("b", "y"));
        let changed = problems.set("config", vec![a.clone(), b.clone()]);
        assert_eq!((changed.added.len(), changed.removed.len()), (2, 0));
        problems.set("server", vec![problem("c", "z")]);
        // Equal problems are no change.
        assert_eq!(problems.set("config", vec![a.clone(), b]), ProblemChanges::default());
        let changed = problems.set("config", vec![problem("a", "worse")]);
        let (added, removed) = (vec![problem("a", "worse")], vec!["b".into()]);
        assert_eq!(changed, ProblemChanges { added, moved: Vec::new(), removed });
        let elsewhere = Problem { line: Some(7), ..problem("a", "worse") };
        let changed = problems.set("config", vec![elsewhere.clone()]);
        assert_eq!(changed, ProblemChanges { moved: vec![elsewhere], ..ProblemChanges::default() });
        problems.set("config", Vec::new());
        assert_eq!(problems.all(), [problem("c", "z")]);
        problems.set("server output t", vec![problem("d", "z")]);
        assert_eq!(problems.remove_group("server"), ["c", "d"]);
        assert_eq!(problems.all(), []);
    }
}
