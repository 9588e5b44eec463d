//! Version pins: select the version of a tool that is offered under its plain name.

use std::collections::{BTreeMap, HashMap};

/// The result of applying a server's pins to the tools that passed its filters.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PinResolution<'a> {
    /// Tools that are offered under another name than their own.
    pub(super) names: HashMap<usize, &'a str>,
    /// Dropped tools, with the tool that is used instead.
    pub(super) unused: HashMap<usize, usize>,
    pub(super) missing: Vec<MissingVersion<'a>>,
}

/// A pin to a version that the server does not have.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MissingVersion<'a> {
    pub(super) tool: &'a str,
    pub(super) wanted: &'a str,
    /// The replacement: the newest older version, otherwise the tool without a version.
    pub(super) used: Option<usize>,
}

/// Separators between a name and its version, on either side.
const SEPARATORS: [char; 6] = ['_', '-', '.', '@', ':', '/'];

pub(super) fn resolve_pins<'a>(
    pins: &'a BTreeMap<String, String>,
    tools: &[(usize, &str)],
) -> PinResolution<'a> {
    let mut resolution = PinResolution::default();
    for (tool, wanted) in pins {
        let candidates: Vec<(usize, Option<&str>)> = tools
            .iter()
            .filter(|(index, _)| !resolution.is_resolved(*index))
            .filter_map(|(index, name)| Some((*index, version_in(name, tool, wanted)?)))
            .collect();
        let exact = candidates
            .iter()
            .find(|(_, version)| version.is_some_and(|v| is_same_version(v, wanted)));
        let used = exact.or_else(|| fallback(&candidates, wanted)).map(|(index, _)| *index);
        if exact.is_none() {
            resolution.missing.push(MissingVersion { tool, wanted, used });
        }
        if let Some(used) = used {
            resolution.names.insert(used, tool);
            let others = candidates.iter().map(|(index, _)| *index).filter(|index| *index != used);
            resolution.unused.extend(others.map(|other| (other, used)));
        }
    }
    resolution
}

impl PinResolution<'_> {
    fn is_resolved(&self, index: usize) -> bool {
        self.names.contains_key(&index) || self.unused.contains_key(&index)
    }
}

/// Returns the newest version older than the wanted one, otherwise the tool without a version. Never returns a newer
/// version, because a pin excludes later changes.
fn fallback<'f, 'n>(
    candidates: &'f [(usize, Option<&'n str>)],
    wanted: &str,
) -> Option<&'f (usize, Option<&'n str>)> {
    let wanted = version_numbers(wanted);
    let older = candidates.iter().filter(|(_, version)| {
        version
            .and_then(version_numbers)
            .zip(wanted.as_ref())
            .is_some_and(|(numbers, w)| numbers < *w)
    });
    let newest = older.max_by_key(|(_, version)| version.and_then(version_numbers));
    newest.or_else(|| candidates.iter().find(|(_, version)| version.is_none()))
}

/// Matches `tool` in some version. Returns the version, or `Some(None)` for the plain name.
fn version_in<'n>(name: &'n str, tool: &str, wanted: &str) -> Option<Option<&'n str>> {
    if name == tool {
        return Some(None);
    }
    let behind = name.strip_prefix(tool).and_then(|rest| rest.strip_prefix(SEPARATORS));
    let before = name.strip_suffix(tool).and_then(|rest| rest.strip_suffix(SEPARATORS));
    let is_version = |version: &&str| *version == wanted || version_numbers(version).is_some();
    behind.filter(is_version).or(before.filter(is_version)).map(Some)
}

fn is_same_version(version: &str, wanted: &str) -> bool {
    let alike = version_numbers(version).zip(version_numbers(wanted));
    version == wanted || alike.is_some_and(|(version, wanted)| version == wanted)
}

/// Parses `v2`, `2`, `1.10.3` and `2025-11-25` as numbers. Returns `None` for other texts.
fn version_numbers(version: &str) -> Option<Vec<u64>> {
    let digits = version.strip_prefix(['v', 'V']).unwrap_or(version);
    let parts = digits.split(['.', '-', '_']).map(|part| {
        let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| part.parse().unwrap_or(u64::MAX))
    });
    let mut numbers = parts.collect::<Option<Vec<u64>>>()?;
    // Version 2 equals version 2.0.
    while numbers.len() > 1 && numbers.last() == Some(&0) {
        numbers.pop();
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the own name of the tool offered as `create`, and those of the dropped tools.
    fn pinned(wanted: &str, names: &[&str]) -> (Option<String>, Vec<String>, bool) {
        let pins = BTreeMap::from([("create".to_string(), wanted.to_string())]);
        let tools: Vec<_> = names.iter().copied().enumerate().collect();
        let resolution = resolve_pins(&pins, &tools);
        let own = |index: &usize| names[*index].to_string();
        let mut unused: Vec<_> = resolution.unused.keys().map(own).collect();
        unused.sort();
        (resolution.names.keys().next().map(own), unused, !resolution.missing.is_empty())
    }

    #[test]
    fn min_71_pinned_version_hides_the_others() {
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
    fn min_71_missing_version_falls_back_to_an_older_one() {
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
