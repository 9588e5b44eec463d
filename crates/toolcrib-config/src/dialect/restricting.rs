//! Restricting keys: the keys of a server's entry that limit who may use the server, or what it offers.
//!
//! Each format has its own. A misspelt or misplaced restricting key makes its entry invalid; as an ignored key it
//! would offer more than the person meant to offer.

use super::{Dialect, Draft};
use crate::cx::Cx;
use crate::doc::{Doc, Kind, NodeId, Unknown};
use crate::text;

/// The restricting keys of one format.
pub(super) struct Restricting {
    /// Keys of the entry itself.
    pub(super) keys: &'static [&'static str],
    /// Those whose value is a map. Every unknown key in it makes the entry invalid.
    groups: &'static [&'static str],
    /// Keys that belong into a group, each with its path in the entry.
    inner: &'static [(&'static str, &'static str)],
}

/// The restricting keys of a format.
pub(super) fn of(dialect: Dialect) -> Restricting {
    let keys = |keys| Restricting { keys, groups: &[], inner: &[] };
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

const NATIVE: Restricting = Restricting {
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

const DOMINDS: Restricting = Restricting {
    keys: &["enabled", "tools", "prompts", "resources"],
    groups: &["tools", "prompts", "resources"],
    inner: &[
        ("whitelist", "tools.whitelist"),
        ("blacklist", "tools.blacklist"),
        ("mimeTypes", "resources.mimeTypes"),
        ("maxBytes", "resources.maxBytes"),
    ],
};

const HOLODECK: Restricting = Restricting {
    keys: &["load_tools", "load_prompts", "config"],
    groups: &[],
    inner: &[("allowed_tools", "config.allowed_tools")],
};

/// Restricting keys of other formats and clients. A person who writes one of them expects that it restricts.
const OF_OTHERS: &[&str] = &[
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

/// Keys of which an entry needs one to be a server.
const REACH: &[&str] =
    &["command", "url", "httpUrl", "transport", "type", "docker", "image", "container", "profile"];

/// An unknown key that may have been meant to restrict the server.
pub(crate) struct Intent {
    /// The key that was probably meant, with its path in the entry.
    pub(crate) meant: Option<&'static str>,
}

impl Restricting {
    /// The maps of an entry in which every unknown key makes the entry invalid.
    pub(super) fn group_nodes(&self, doc: &Doc, entry: NodeId) -> Vec<NodeId> {
        self.groups.iter().filter_map(|group| doc.get(entry, group)).collect()
    }

    /// Whether an unknown key at or below the entry was meant to restrict the server; `groups` are the entry's
    /// `group_nodes`, and `known` are the keys that may stand in its place.
    pub(super) fn intent(
        &self,
        doc: &Doc,
        (entry, groups): (NodeId, &[NodeId]),
        unknown: &Unknown,
        known: &[&str],
    ) -> Option<Intent> {
        let key = unknown.key.as_str();
        if key.starts_with("x-") {
            return None;
        }
        if groups.iter().any(|group| doc.is_within(unknown.map, *group)) {
            return Some(Intent { meant: self.near_in_group(key, known) });
        }
        if unknown.map != entry {
            // A map may have a key of its own that looks alike.
            let is_own = text::slip(key, known).is_some_and(|(distance, _)| distance <= 1);
            return self.misplaced(key).filter(|_| !is_own).map(meant);
        }
        self.misspelt(key, known)
            .or_else(|| self.misplaced(key))
            .map(meant)
            .or_else(|| Self::is_of_others(doc, entry, key).then_some(Intent { meant: None }))
    }

    /// The restricting key of the entry that a key is a misspelling of, unless another key is nearer.
    pub(crate) fn misspelt(&self, key: &str, known: &[&str]) -> Option<&'static str> {
        let (distance, near) = text::slip(key, self.keys)?;
        let is_restricting = |other: &str| self.keys.iter().any(|it| text::is_same_key(it, other));
        let others: Vec<&str> =
            known.iter().copied().filter(|other| !is_restricting(other)).collect();
        text::slip(key, &others).is_none_or(|(other, _)| distance <= other).then_some(near)
    }

    /// The path of a restricting key that stands in the wrong map.
    fn misplaced(&self, key: &str) -> Option<&'static str> {
        let entry = self.keys.iter().map(|known| (*known, *known));
        let mut all = entry.chain(self.inner.iter().copied());
        all.find(|(known, _)| text::is_same_key(known, key)).map(|(_, path)| path)
    }

    fn near_in_group(&self, key: &str, known: &[&str]) -> Option<&'static str> {
        let inner = || self.inner.iter().map(|(name, _)| *name);
        let near = text::nearest(key, known)?;
        inner().find(|name| *name == near).or_else(|| self.misplaced(key))
    }

    fn is_of_others(doc: &Doc, entry: NodeId, key: &str) -> bool {
        let is = |other: &str| text::is_same_key(other, key);
        if !OF_OTHERS.iter().any(|other| is(other)) {
            return false;
        }
        let value = doc.get(entry, key).map(|value| doc.kind(value));
        let restricts_nothing = match value {
            Some(Kind::Bool(true)) => is("enabled"),
            Some(Kind::Bool(false)) => is("disabled"),
            Some(Kind::Seq(items)) => {
                let is_star = |item| matches!(doc.kind(item), Kind::Text(text) if text == "*");
                is("tools") && items.iter().any(|item| is_star(*item))
            }
            _ => false,
        };
        !restricts_nothing
    }

    /// Restricting keys of an entry that have no value, as after a list whose items are all commented out.
    pub(crate) fn missing_values(&self, doc: &Doc, entry: NodeId) -> Vec<NodeId> {
        let own = self.keys.iter().filter_map(|key| doc.get(entry, key));
        let groups = self.groups.iter().filter_map(|group| doc.get(entry, group));
        let children = |map: NodeId| doc.entries(map).iter().map(|(_, value)| *value);
        let inner = groups.flat_map(|group| {
            // Below a group stand the filters of tools, prompts and resources; deeper maps have names of the person's own.
            children(group).flat_map(move |child| std::iter::once(child).chain(children(child)))
        });
        own.chain(inner).filter(|node| matches!(doc.kind(*node), Kind::Null)).collect()
    }
}

/// Reports the mistakes in the restricting keys of an entry. Returns the other unknown keys, and whether there was no
/// mistake.
pub(crate) fn reject_restricting(
    cx: &mut Cx<'_>,
    entry: NodeId,
    unknown: Vec<Unknown>,
) -> (Vec<Unknown>, bool) {
    let restricting = of(cx.dialect);
    let missing = restricting.missing_values(cx.doc, entry);
    super::security::tell_missing(cx, &missing);
    let groups = restricting.group_nodes(cx.doc, entry);
    let mut others = Vec::new();
    let mut is_sound = missing.is_empty();
    for unknown in unknown {
        match restricting.intent(cx.doc, (entry, &groups), &unknown, unknown.known) {
            Some(Intent { meant }) => {
                let what = if entry == Doc::ROOT { "the file" } else { "the server's entry" };
                cx.invalid_key(unknown.map, unknown.entry, what, meant);
                is_sound = false;
            }
            None => others.push(unknown),
        }
    }
    (others, is_sound)
}

fn meant(path: &'static str) -> Intent {
    Intent { meant: Some(path) }
}

/// Makes the neighbours of restricting keys invalid that stand among the servers, as after a line that is not indented
/// enough. The key belongs to the server before it.
pub(super) fn reject_neighbours_of_misplaced_keys(cx: &mut Cx<'_>, drafts: &mut [Draft]) {
    let restricting = of(cx.dialect);
    let is_misplaced = |cx: &Cx<'_>, draft: &Draft| {
        restricting.misplaced(&draft.id).is_some() && !is_server(cx.doc, draft.node)
    };
    for place in neighbours(drafts, |draft| is_misplaced(cx, draft)) {
        let [key, draft] = place;
        let key = drafts.get(key).map(|draft| draft.id.clone()).unwrap_or_default();
        let Some(draft) = drafts.get_mut(draft) else { continue };
        cx.enter(&draft.id);
        tell_misplaced(cx, draft.node, &key, "server");
        cx.leave();
        draft.sound = false;
    }
}

/// Reports that a key beside an entry may belong into the entry.
pub(super) fn tell_misplaced(cx: &mut Cx<'_>, node: NodeId, key: &str, entry: &str) {
    let text = format!(
        "`{}` stands beside this {entry} and may belong into it; the entry is not used",
        text::clip(key)
    );
    let fix = format!("move `{}` into the {entry} that it is meant for", text::clip(key));
    cx.error(node, "key.misplaced", text, &fix);
}

/// The places of misplaced keys, each with the place of the entry that the key belongs to: the one before, or the one
/// after the keys that come first.
pub(super) fn neighbours<T>(entries: &[T], is_misplaced: impl Fn(&T) -> bool) -> Vec<[usize; 2]> {
    let found: Vec<bool> = entries.iter().map(is_misplaced).collect();
    let is_entry = |place: &usize| found.get(*place) == Some(&false);
    let misplaced = (0..found.len()).filter(|place| !is_entry(place));
    misplaced
        .filter_map(|place| {
            let before = (0..place).rev().find(is_entry);
            let entry = before.or_else(|| (place..found.len()).find(is_entry))?;
            Some([place, entry])
        })
        .collect()
}

/// Whether a map says how a server is reached.
pub(super) fn is_server(doc: &Doc, node: NodeId) -> bool {
    REACH.iter().any(|key| doc.get(node, key).is_some())
}

/// Whether a name among the servers or profiles is a restricting key.
pub(super) fn is_restricting(dialect: Dialect, name: &str) -> bool {
    of(dialect).misplaced(name).is_some()
}
