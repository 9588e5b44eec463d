//! Finds the mistakes of a native file that make a security section, or a server's entry, invalid.
//!
//! A wrong value, an unknown key and a key without a value would each be ignored elsewhere. In a security section
//! that would open what the person meant to close.

use crate::cx::Cx;
use crate::doc::{Doc, Kind, NodeId, Unknown, Wrong};
use crate::model::security::Section;
use crate::text;

/// The sections that mistakes make invalid, each with the node of the mistake.
pub(super) fn invalid_sections(
    doc: &Doc,
    wrongs: &[Wrong],
    unknown: &[Unknown],
) -> Vec<(Section, NodeId)> {
    let sections = Sections::of(doc);
    let wrongs: Vec<NodeId> = wrongs.iter().map(|wrong| wrong.node.unwrap_or(Doc::ROOT)).collect();
    let mut found = sections_of(doc, &wrongs);
    for unknown in unknown.iter().filter(|unknown| !unknown.key.starts_with("x-")) {
        let node = doc.entries(unknown.map).get(unknown.entry).map_or(unknown.map, |(_, v)| *v);
        found.extend(sections.of_unknown(unknown).iter().map(|section| (*section, node)));
    }
    found
}

/// The sections that these nodes are in.
pub(super) fn sections_of(doc: &Doc, nodes: &[NodeId]) -> Vec<(Section, NodeId)> {
    let sections = Sections::of(doc);
    let of = |node: NodeId| sections.of_value(node).iter().map(move |section| (*section, node));
    nodes.iter().copied().flat_map(of).collect()
}

/// Keys of security sections that have no value, as after a list whose items are all commented out. A section without a
/// value is such a key, and so is an empty `oauth`.
pub(super) fn missing_values(doc: &Doc) -> Vec<NodeId> {
    let sections = Sections::of(doc);
    let oauth = sections.gateway.and_then(|gateway| doc.get(gateway, "oauth"));
    let empty =
        oauth.filter(|map| matches!(doc.kind(*map), Kind::Map(entries) if entries.is_empty()));
    let single = [
        (sections.gateway, "tokens"),
        (sections.gateway, "oauth"),
        (sections.host, "pins"),
        (sections.host, "permissions"),
        (sections.host, "grants"),
        (sections.host, "secrets"),
        (sections.host.and_then(|host| doc.get(host, "grants")), "members"),
    ];
    let single = single.into_iter().filter_map(|(map, key)| doc.get(map?, key));
    let single = single.chain(sections.gateway);
    let groups = [oauth, sections.permissions].into_iter().flatten();
    let secrets = sections.host.and_then(|host| doc.get(host, "secrets"));
    let stores = secrets.into_iter().flat_map(|map| doc.entries(map)).map(|(_, store)| *store);
    let groups = groups.chain(stores);
    let children = groups.flat_map(|map| doc.entries(map).iter().map(|(_, value)| *value));
    single.chain(children).filter(|node| is_null(doc, *node)).chain(empty).collect()
}

/// Reports keys without a value as errors.
pub(super) fn tell_missing(cx: &mut Cx<'_>, nodes: &[NodeId]) {
    for node in nodes {
        let text = format!("`{}` has no value", cx.doc.path(*node));
        cx.error(*node, "value.missing", text, "write the value, or remove the key");
    }
}

/// The keys of a server's entry, or of its `transport`, that decide who may use it and what it may do.
const ENTRY_KEYS: &[&str] = &[
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
];

/// The groups among them; every key in them counts.
const ENTRY_GROUPS: &[&str] = &["expose", "client", "access"];

/// Whether a key that an entry does not have was meant for one of the keys that restrict it.
pub(super) fn is_entry_key_misspelt(key: &str, known: &[&str]) -> bool {
    // A key such as `inherit_env` may be known elsewhere and not here.
    let near = text::nearest(key, known).or_else(|| text::nearest(key, ENTRY_KEYS));
    !key.starts_with("x-") && near.is_some_and(|near| ENTRY_KEYS.contains(&near))
}

/// Whether an unknown key below the entry makes the entry invalid.
pub(super) fn restricts(doc: &Doc, entry: NodeId, unknown: &Unknown) -> bool {
    if unknown.key.starts_with("x-") {
        return false;
    }
    let is_in = |map: NodeId, key: &str| {
        doc.get(map, key).is_some_and(|group| doc.is_within(unknown.map, group))
    };
    let transport = doc.get(entry, "transport");
    ENTRY_GROUPS.iter().any(|group| is_in(entry, group))
        || transport.is_some_and(|transport| is_in(transport, "env"))
        || (transport == Some(unknown.map)
            && (is_entry_key_misspelt(&unknown.key, unknown.known)
                || text::nearest(&unknown.key, unknown.known) == Some("env")))
}

/// Keys without a value among those that restrict the entry.
pub(super) fn missing_in_entry(doc: &Doc, entry: NodeId) -> Vec<NodeId> {
    let transport = doc.get(entry, "transport");
    let mut found: Vec<NodeId> =
        [Some(entry), transport, transport.and_then(|t| doc.get(t, "env"))]
            .into_iter()
            .flatten()
            .flat_map(|map| {
                let keys = ENTRY_KEYS.iter().chain(&["inherit"]);
                keys.filter_map(move |key| doc.get(map, key))
            })
            .collect();
    for group in ENTRY_GROUPS.iter().filter_map(|group| doc.get(entry, group)) {
        for (key, value) in doc.entries(group) {
            found.push(*value);
            if let "tools" | "prompts" | "resources" = key.name.as_str() {
                found.extend(doc.entries(*value).iter().map(|(_, value)| *value));
            }
        }
    }
    found.retain(|node| is_null(doc, *node));
    found
}

fn is_null(doc: &Doc, node: NodeId) -> bool {
    matches!(doc.kind(node), Kind::Null)
}

/// The nodes of the sections.
struct Sections<'a> {
    doc: &'a Doc,
    gateway: Option<NodeId>,
    host: Option<NodeId>,
    include: Option<NodeId>,
    permissions: Option<NodeId>,
}

impl<'a> Sections<'a> {
    fn of(doc: &'a Doc) -> Self {
        let get = |key| doc.get(Doc::ROOT, key);
        let host = get("host");
        let permissions = host.and_then(|host| doc.get(host, "permissions"));
        Sections { doc, gateway: get("gateway"), host, include: get("include"), permissions }
    }

    fn is_in(&self, node: NodeId, section: Option<NodeId>) -> bool {
        section.is_some_and(|section| self.doc.is_within(node, section))
    }

    /// The sections that a wrong value is in.
    fn of_value(&self, node: NodeId) -> &'static [Section] {
        if node == Doc::ROOT || self.is_in(node, self.include) {
            return &Section::UNREADABLE;
        }
        if self.is_in(node, self.gateway) {
            return &[Section::Gateway];
        }
        if Some(node) == self.host {
            return &Section::HOST;
        }
        if let Some(permissions) = self.permissions.filter(|map| self.doc.is_within(node, *map)) {
            return self.of_permission(permissions, node);
        }
        self.host.and_then(|host| self.key_above(host, node)).map_or(&[], Section::of_host_key)
    }

    fn of_unknown(&self, unknown: &Unknown) -> &'static [Section] {
        let near = || text::nearest(&unknown.key, unknown.known);
        if unknown.map == Doc::ROOT {
            return match near() {
                Some("gateway") => &[Section::Gateway],
                Some("host") => &Section::HOST,
                Some("include") => &Section::UNREADABLE,
                _ => misplaced(&unknown.key),
            };
        }
        if Some(unknown.map) == self.host {
            // `gateway` one level too deep protects nothing where it stands.
            return match text::nearest(&unknown.key, &["gateway"]) {
                Some(_) => &[Section::Gateway],
                None => near().map_or(&[], Section::of_host_key),
            };
        }
        if Some(unknown.map) == self.permissions {
            return near().and_then(Section::of_permission).map_or(&Section::PERMISSIONS, alone);
        }
        self.of_value(unknown.map)
    }

    fn of_permission(&self, permissions: NodeId, node: NodeId) -> &'static [Section] {
        let named = self.key_above(permissions, node).and_then(Section::of_permission);
        named.map_or(&Section::PERMISSIONS, alone)
    }

    /// The key of `map` at or above a node.
    fn key_above(&self, map: NodeId, node: NodeId) -> Option<&'a str> {
        let mut entries = self.doc.entries(map).iter();
        let (key, _) = entries.find(|(_, value)| self.doc.is_within(node, *value))?;
        Some(&key.name)
    }
}

/// The sections that a key of the file's first level was meant for, where it belongs one level deeper.
fn misplaced(key: &str) -> &'static [Section] {
    let gateway = &["tokens", "oauth", "origins"];
    let host = &["permissions", "grants", "pins", "secrets"];
    match text::nearest(key, gateway) {
        Some(_) => &[Section::Gateway],
        None => text::nearest(key, host).map_or(&[], Section::of_host_key),
    }
}

fn alone(section: Section) -> &'static [Section] {
    match section {
        Section::Gateway => &[Section::Gateway],
        Section::Spawn => &[Section::Spawn],
        Section::Network => &[Section::Network],
        Section::Docker => &[Section::Docker],
        Section::Grants => &[Section::Grants],
        Section::Pins => &[Section::Pins],
        Section::Secrets => &[Section::Secrets],
    }
}
