//! Version pins: which of several versions of a tool is offered under its plain name.

use std::collections::{BTreeMap, HashMap};

/// What the pins of a server come to, over the tools that passed its filters.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Settled<'a> {
    /// Tools that are offered under another name than their own.
    pub(super) names: HashMap<usize, &'a str>,
    /// Tools that are left out, with the one that is used.
    pub(super) unused: HashMap<usize, usize>,
    pub(super) missing: Vec<Missing<'a>>,
}

/// A pin to a version that the server does not have.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Missing<'a> {
    pub(super) tool: &'a str,
    pub(super) wanted: &'a str,
    /// What is used in its place: the newest older version, else the tool without one.
    pub(super) used: Option<usize>,
}

/// Between a name and its version, on either side.
const BETWEEN: [char; 6] = ['_', '-', '.', '@', ':', '/'];

pub(super) fn settle<'a>(
    pins: &'a BTreeMap<String, String>,
    tools: &[(usize, &str)],
) -> Settled<'a> {
    let mut settled = Settled::default();
    for (tool, wanted) in pins {
        let family: Vec<(usize, Option<&str>)> = tools
            .iter()
            .filter(|(place, _)| !settled.is_settled(*place))
            .filter_map(|(place, name)| Some((*place, version_in(name, tool, wanted)?)))
            .collect();
        let exact = family.iter().find(|(_, version)| version.is_some_and(|v| same(v, wanted)));
        let used = exact.or_else(|| fallback(&family, wanted)).map(|(place, _)| *place);
        if exact.is_none() {
            settled.missing.push(Missing { tool, wanted, used });
        }
        if let Some(used) = used {
            settled.names.insert(used, tool);
            let others = family.iter().map(|(place, _)| *place).filter(|place| *place != used);
            settled.unused.extend(others.map(|other| (other, used)));
        }
    }
    settled
}

impl Settled<'_> {
    fn is_settled(&self, place: usize) -> bool {
        self.names.contains_key(&place) || self.unused.contains_key(&place)
    }
}

/// The newest that is older than wanted, else the one that names no version. A newer one is never taken:
/// whoever pins a version does not want what came after it.
fn fallback<'f, 'n>(
    family: &'f [(usize, Option<&'n str>)],
    wanted: &str,
) -> Option<&'f (usize, Option<&'n str>)> {
    let wanted = numbers(wanted);
    let older = family.iter().filter(|(_, version)| {
        version.and_then(numbers).zip(wanted.as_ref()).is_some_and(|(numbers, w)| numbers < *w)
    });
    let newest = older.max_by_key(|(_, version)| version.and_then(numbers));
    newest.or_else(|| family.iter().find(|(_, version)| version.is_none()))
}

/// Whether a name is `tool` in some version: the version, nothing for the plain name, or not at all.
fn version_in<'n>(name: &'n str, tool: &str, wanted: &str) -> Option<Option<&'n str>> {
    if name == tool {
        return Some(None);
    }
    let behind = name.strip_prefix(tool).and_then(|rest| rest.strip_prefix(BETWEEN));
    let before = name.strip_suffix(tool).and_then(|rest| rest.strip_suffix(BETWEEN));
    let is_version = |version: &&str| *version == wanted || numbers(version).is_some();
    behind.filter(is_version).or(before.filter(is_version)).map(Some)
}

fn same(version: &str, wanted: &str) -> bool {
    let alike = numbers(version).zip(numbers(wanted));
    version == wanted || alike.is_some_and(|(version, wanted)| version == wanted)
}

/// `v2`, `2`, `1.10.3` and `2025-11-25` as numbers; nothing for what is no version.
fn numbers(version: &str) -> Option<Vec<u64>> {
    let digits = version.strip_prefix(['v', 'V']).unwrap_or(version);
    let parts = digits.split(['.', '-', '_']).map(|part| {
        let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| part.parse().unwrap_or(u64::MAX))
    });
    let mut numbers = parts.collect::<Option<Vec<u64>>>()?;
    // Version 2 is version 2.0.
    while numbers.len() > 1 && numbers.last() == Some(&0) {
        numbers.pop();
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The own name of what is offered as `create`, and of what is left out.
    fn pinned(wanted: &str, names: &[&str]) -> (Option<String>, Vec<String>, bool) {
        let pins = BTreeMap::from([("create".to_string(), wanted.to_string())]);
        let tools: Vec<_> = names.iter().copied().enumerate().collect();
        let settled = settle(&pins, &tools);
        let own = |place: &usize| names[*place].to_string();
        let mut unused: Vec<_> = settled.unused.keys().map(own).collect();
        unused.sort();
        (settled.names.keys().next().map(own), unused, !settled.missing.is_empty())
    }

    #[test]
    fn min_71_a_pinned_version_is_used_and_the_others_are_not() {
        for (wanted, names, used, unused) in [
            (
                "v2",
                &["create", "create_v1", "create_v2"][..],
                "create_v2",
                &["create", "create_v1"][..],
            ),
            ("v2", &["v1_create", "v2_create", "delete"], "v2_create", &["v1_create"]),
            ("2", &["create@2.0", "create@3"], "create@2.0", &["create@3"]),
            ("beta", &["create", "create-beta"], "create-beta", &["create"]),
            ("v2", &["create_v2", "create_view", "recreate"], "create_v2", &[]),
        ] {
            let unused = unused.iter().map(ToString::to_string).collect();
            assert_eq!(pinned(wanted, names), (Some(used.to_string()), unused, false), "{names:?}");
        }
    }

    #[test]
    fn min_71_a_missing_version_falls_back_to_an_older_one_and_never_to_a_newer() {
        for (wanted, names, used) in [
            ("v3", &["create_v1", "create_v2", "create_v10"][..], Some("create_v2")),
            ("v3", &["create", "create_v4"], Some("create")),
            ("v3", &["create_v4"], None),
            ("beta", &["create", "create_v1"], Some("create")),
            ("v3", &["delete"], None),
        ] {
            let (found, _, missing) = pinned(wanted, names);
            assert_eq!((found.as_deref(), missing), (used, true), "{names:?}");
        }
    }
}
