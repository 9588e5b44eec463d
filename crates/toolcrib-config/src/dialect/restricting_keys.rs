//! Detects misspelt and misplaced restricting keys: the keys of a server's entry that limit its callers or
//! its tools.
//!
//! Each format has its own restricting keys. A misspelt or misplaced one makes its entry invalid, because
//! ignoring the key would offer more than the user intended.

use super::{Dialect, ServerDraft};
use crate::compile_context::CompileContext;
use crate::doc::{Doc, NodeId, NodeKind, UnknownKey};
use crate::text;

/// Restricting keys of one format.
pub(super) struct RestrictingKeys {
    /// Keys of the entry itself.
    pub(super) keys: &'static [&'static str],
    /// Keys whose value is a map. Every unknown key in the map makes the entry invalid.
    groups: &'static [&'static str],
    /// Keys that belong inside a group, each with its path in the entry.
    inner: &'static [(&'static str, &'static str)],
}

/// Returns the restricting keys of a format.
pub(super) fn for_dialect(dialect: Dialect) -> RestrictingKeys {
    let keys = |keys| RestrictingKeys { keys, groups: &[], inner: &[] };
    match dialect {
        Dialect::Native => NATIVE,
        Dialect::Dominds => DOMINDS,
        Dialect::Holodeck => HOLODECK,
        Dialect::Dispatch => keys(&["disabled"]),
        Dialect::Opencode => keys(&["enabled", "disabled"]),
        Dialect::Minion => keys(&["RequiredCapabilities"]),
        Dialect::Docker => keys(&["enabledTools", "allow"]),
        Dialect::Codex => keys(&["enabled", "enabled_tools", "disabled_tools"]),
        Dialect::Gemini => keys(&["includeTools", "excludeTools"]),
        Dialect::Claude | Dialect::VsCode | Dialect::Cursor => keys(&[]),
    }
}

const NATIVE: RestrictingKeys = RestrictingKeys {
    keys: &[
        "enabled",
        "scope",
        "profile",
        "base",
        "expose",
        "client",
        "access",
        "auth_per_agent",
        "allow_commands",
        "url_policy",
        "inherit_env",
        "agents",
        "groups",
    ],
    groups: &["expose", "client", "access"],
    inner: &[
        ("tools", "expose.tools"),
        ("prompts", "expose.prompts"),
        ("resources", "expose.resources"),
        ("allow", "expose.tools.allow"),
        ("deny", "expose.tools.deny"),
        ("mode", "expose.tools.mode"),
        ("requires", "expose.tools.requires"),
        ("mime", "expose.resources.mime"),
        ("roots", "client.roots"),
        ("sampling", "client.sampling"),
        ("elicitation", "client.elicitation"),
        ("logging", "client.logging"),
        ("grant", "access.grant"),
        ("inherit", "inherit_env"),
    ],
};

const DOMINDS: RestrictingKeys = RestrictingKeys {
    keys: &["enabled", "tools", "prompts", "resources"],
    groups: &["tools", "prompts", "resources"],
    inner: &[
        ("whitelist", "tools.whitelist"),
        ("blacklist", "tools.blacklist"),
        ("mimeTypes", "resources.mimeTypes"),
        ("maxBytes", "resources.maxBytes"),
    ],
};

const HOLODECK: RestrictingKeys = RestrictingKeys {
    keys: &["load_tools", "load_prompts", "config"],
    groups: &[],
    inner: &[("allowed_tools", "config.allowed_tools")],
};

/// Restricting keys of other formats and clients. A user who writes one of them expects a restriction.
const OTHER_FORMATS: &[&str] = &[
    "enabled",
    "disabled",
    "tools",
    "allow",
    "deny",
    "whitelist",
    "blacklist",
    "enabled_tools",
    "disabled_tools",
    "include_tools",
    "exclude_tools",
    "allowed_tools",
    "denied_tools",
    "blocked_tools",
    "allow_tools",
    "deny_tools",
];

/// Keys that identify an entry as a server; every server has at least one.
const TRANSPORT_KEYS: &[&str] =
    &["command", "url", "httpUrl", "transport", "type", "docker", "image", "container", "profile"];

/// An unknown key that may have been meant to restrict the server.
pub(crate) struct RestrictionIntent {
    /// Path in the entry of the key that was probably meant.
    pub(crate) suggestion: Option<&'static str>,
}

impl RestrictingKeys {
    /// Returns the maps of an entry in which every unknown key makes the entry invalid.
    pub(super) fn group_nodes(&self, doc: &Doc, entry: NodeId) -> Vec<NodeId> {
        self.groups.iter().filter_map(|group| doc.get(entry, group)).collect()
    }

    /// Returns the intent if an unknown key at or below the entry may have been meant to restrict the server.
    /// `groups` are the entry's `group_nodes`, and `known` are the keys that are valid at this place.
    pub(super) fn find_intent(
        &self,
        doc: &Doc,
        (entry, groups): (NodeId, &[NodeId]),
        unknown: &UnknownKey,
        known: &[&str],
    ) -> Option<RestrictionIntent> {
        let key = unknown.key.as_str();
        if key.starts_with("x-") {
            return None;
        }
        if groups.iter().any(|group| doc.is_within(unknown.map, *group)) {
            return Some(RestrictionIntent { suggestion: self.nearest_in_group(key, known) });
        }
        if unknown.map != entry {
            // The map may have a similar key of its own.
            let is_own =
                text::find_misspelling(key, known).is_some_and(|(distance, _)| distance <= 1);
            return self.find_misplaced(key).filter(|_| !is_own).map(intent_for);
        }
        self.find_misspelt(key, known).or_else(|| self.find_misplaced(key)).map(intent_for).or_else(
            || {
                Self::restricts_in_other_formats(doc, entry, key)
                    .then_some(RestrictionIntent { suggestion: None })
            },
        )
    }

    /// Returns the restricting key of the entry that `key` misspells, unless another known key is nearer.
    pub(crate) fn find_misspelt(&self, key: &str, known: &[&str]) -> Option<&'static str> {
        let (distance, near) = text::find_misspelling(key, self.keys)?;
        let is_restricting = |other: &str| self.keys.iter().any(|it| text::is_same_key(it, other));
        let others: Vec<&str> =
            known.iter().copied().filter(|other| !is_restricting(other)).collect();
        text::find_misspelling(key, &others)
            .is_none_or(|(other, _)| distance <= other)
            .then_some(near)
    }

    /// Returns the path of a restricting key that stands in the wrong map.
    fn find_misplaced(&self, key: &str) -> Option<&'static str> {
        let entry = self.keys.iter().map(|known| (*known, *known));
        let mut all = entry.chain(self.inner.iter().copied());
        all.find(|(known, _)| text::is_same_key(known, key)).map(|(_, path)| path)
    }

    fn nearest_in_group(&self, key: &str, known: &[&str]) -> Option<&'static str> {
        let inner = || self.inner.iter().map(|(name, _)| *name);
        let near = text::nearest_word(key, known)?;
        inner().find(|name| *name == near).or_else(|| self.find_misplaced(key))
    }

    fn restricts_in_other_formats(doc: &Doc, entry: NodeId, key: &str) -> bool {
        let is = |other: &str| text::is_same_key(other, key);
        if !OTHER_FORMATS.iter().any(|other| is(other)) {
            return false;
        }
        let value = doc.get(entry, key).map(|value| doc.kind(value));
        let restricts_nothing = match value {
            Some(NodeKind::Bool(true)) => is("enabled"),
            Some(NodeKind::Bool(false)) => is("disabled"),
            Some(NodeKind::Seq(items)) => {
                let is_star = |item| matches!(doc.kind(item), NodeKind::Text(text) if text == "*");
                is("tools") && items.iter().any(|item| is_star(*item))
            }
            _ => false,
        };
        !restricts_nothing
    }

    /// Returns the restricting keys of an entry without a value, for example a list whose items are all
    /// commented out.
    pub(crate) fn find_missing_values(&self, doc: &Doc, entry: NodeId) -> Vec<NodeId> {
        let own = self.keys.iter().filter_map(|key| doc.get(entry, key));
        let groups = self.groups.iter().filter_map(|group| doc.get(entry, group));
        let children = |map: NodeId| doc.entries(map).iter().map(|(_, value)| *value);
        let inner = groups.flat_map(|group| {
            // A group contains the filters of tools, prompts and resources; deeper maps have user-defined
            // names.
            children(group).flat_map(move |child| std::iter::once(child).chain(children(child)))
        });
        own.chain(inner).filter(|node| matches!(doc.kind(*node), NodeKind::Null)).collect()
    }
}

/// Reports the mistakes in the restricting keys of an entry. Returns the other unknown keys, and true if
/// there was no mistake.
pub(crate) fn report_restricting_mistakes(
    cx: &mut CompileContext<'_>,
    entry: NodeId,
    unknown: Vec<UnknownKey>,
) -> (Vec<UnknownKey>, bool) {
    let restricting = for_dialect(cx.dialect);
    let missing = restricting.find_missing_values(cx.doc, entry);
    super::security_checks::report_missing_values(cx, &missing);
    let groups = restricting.group_nodes(cx.doc, entry);
    let mut others = Vec::new();
    let mut is_valid = missing.is_empty();
    for unknown in unknown {
        match restricting.find_intent(cx.doc, (entry, &groups), &unknown, unknown.known) {
            Some(RestrictionIntent { suggestion }) => {
                let what = if entry == Doc::ROOT { "the file" } else { "the server's entry" };
                cx.report_restricting_key(unknown.map, unknown.entry, what, suggestion);
                is_valid = false;
            }
            None => others.push(unknown),
        }
    }
    (others, is_valid)
}

fn intent_for(path: &'static str) -> RestrictionIntent {
    RestrictionIntent { suggestion: Some(path) }
}

/// Rejects servers next to a restricting key that stands among the servers, for example after a line with too
/// little indentation. The key belongs to the server before it.
pub(super) fn reject_servers_beside_misplaced_keys(
    cx: &mut CompileContext<'_>,
    drafts: &mut [ServerDraft],
) {
    let restricting = for_dialect(cx.dialect);
    let is_misplaced = |cx: &CompileContext<'_>, draft: &ServerDraft| {
        restricting.find_misplaced(&draft.id).is_some() && !has_transport_key(cx.doc, draft.node)
    };
    for [key, draft] in pair_with_neighbours(drafts, |draft| is_misplaced(cx, draft)) {
        let key = drafts.get(key).map(|draft| draft.id.clone()).unwrap_or_default();
        let Some(draft) = drafts.get_mut(draft) else { continue };
        cx.enter_server(&draft.id);
        report_misplaced_key(cx, draft.node, &key, "server");
        cx.leave_server();
        draft.is_valid = false;
    }
}

/// Reports that a key next to an entry may belong inside the entry.
pub(super) fn report_misplaced_key(
    cx: &mut CompileContext<'_>,
    node: NodeId,
    key: &str,
    entry: &str,
) {
    let text = format!(
        "`{}` is next to this {entry} and may belong inside it; the entry is not used",
        text::clip(key)
    );
    let fix = format!("move `{}` into the {entry} that it is meant for", text::clip(key));
    cx.error(node, "key.misplaced", text, &fix);
}

/// Returns the index of each misplaced key with the index of the entry that it belongs to: the preceding
/// entry, or for keys before the first entry the following one.
pub(super) fn pair_with_neighbours<T>(
    entries: &[T],
    is_misplaced: impl Fn(&T) -> bool,
) -> Vec<[usize; 2]> {
    let found: Vec<bool> = entries.iter().map(is_misplaced).collect();
    let is_entry = |index: &usize| found.get(*index) == Some(&false);
    let misplaced = (0..found.len()).filter(|index| !is_entry(index));
    misplaced
        .filter_map(|index| {
            let before = (0..index).rev().find(is_entry);
            let entry = before.or_else(|| (index..found.len()).find(is_entry))?;
            Some([index, entry])
        })
        .collect()
}

/// Returns true if a map has a key that identifies a server.
pub(super) fn has_transport_key(doc: &Doc, node: NodeId) -> bool {
    TRANSPORT_KEYS.iter().any(|key| doc.get(node, key).is_some())
}

/// Returns true if a name among the servers or profiles is a restricting key.
pub(super) fn is_restricting_key(dialect: Dialect, name: &str) -> bool {
    for_dialect(dialect).find_misplaced(name).is_some()
}
