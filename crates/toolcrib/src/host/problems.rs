//! What is wrong now: told when it comes, taken back when its cause is gone.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use toolcrib_config::Problem;

/// All problems, by the matter that they belong to.
#[derive(Debug, Default)]
pub(super) struct Problems(Mutex<BTreeMap<String, Vec<Problem>>>);

/// What became of the problems of a matter.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Changed {
    /// New, or with another text.
    pub(super) come: Vec<Problem>,
    /// Known, at another place of the file.
    pub(super) moved: Vec<Problem>,
    /// Their ids.
    pub(super) gone: Vec<String>,
}

impl Problems {
    /// All that is wrong in one matter: what was there before and is no more is taken back.
    pub(super) fn set(&self, matter: &str, now: Vec<Problem>) -> Changed {
        let mut all = self.all_mut();
        let before = match now.is_empty() {
            true => all.remove(matter),
            false => all.insert(matter.to_owned(), now.clone()),
        };
        drop(all);
        let before = before.unwrap_or_default();
        let gone = before.iter().filter(|old| now.iter().all(|new| new.id != old.id));
        let gone = gone.map(|old| old.id.clone()).collect();
        let changed = now.into_iter().filter(|new| !before.contains(new));
        let (moved, come) = changed.partition(|new| before.iter().any(|old| is_same(old, new)));
        Changed { come, moved, gone }
    }

    /// A matter and all that is part of it are closed. The ids of what was wrong in them.
    pub(super) fn forget(&self, matter: &str) -> Vec<String> {
        let mut all = self.all_mut();
        let (gone, left) = std::mem::take(&mut *all)
            .into_iter()
            .partition::<BTreeMap<_, _>, _>(|(known, _)| known.starts_with(matter));
        *all = left;
        gone.into_values().flatten().map(|problem| problem.id).collect()
    }

    /// Whether nothing is wrong anywhere.
    pub(super) fn is_empty(&self) -> bool {
        self.all_mut().is_empty()
    }

    pub(super) fn all(&self) -> Vec<Problem> {
        self.all_mut().values().flatten().cloned().collect()
    }

    fn all_mut(&self) -> MutexGuard<'_, BTreeMap<String, Vec<Problem>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether two problems differ at most in their places.
fn is_same(old: &Problem, new: &Problem) -> bool {
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
    fn dom_92_a_problem_goes_with_its_cause() {
        let problems = Problems::default();
        let (a, b) = (problem("a", "x"), problem("b", "y"));
        let changed = problems.set("config", vec![a.clone(), b.clone()]);
        assert_eq!((changed.come.len(), changed.gone.len()), (2, 0));
        problems.set("server", vec![problem("c", "z")]);
        // The same again is no news.
        assert_eq!(problems.set("config", vec![a.clone(), b]), Changed::default());
        let changed = problems.set("config", vec![problem("a", "worse")]);
        let (come, gone) = (vec![problem("a", "worse")], vec!["b".into()]);
        assert_eq!(changed, Changed { come, moved: Vec::new(), gone });
        let elsewhere = Problem { line: Some(7), ..problem("a", "worse") };
        let changed = problems.set("config", vec![elsewhere.clone()]);
        assert_eq!(changed, Changed { moved: vec![elsewhere], ..Changed::default() });
        problems.set("config", Vec::new());
        assert_eq!(problems.all(), [problem("c", "z")]);
        problems.set("server output t", vec![problem("d", "z")]);
        assert_eq!(problems.forget("server"), ["c", "d"]);
        assert_eq!(problems.all(), []);
    }
}
