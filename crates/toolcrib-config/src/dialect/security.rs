//! Finds the mistakes of a native file that make a security section, or a server's entry, invalid.
//!
//! A wrong value, an unknown key and a key without a value would each be ignored elsewhere. In a security section
//! that would open what the person meant to close.

use super::Dialect;
use super::restricting::{self, Intent};
use crate::cx::Cx;
use crate::doc::{Doc, Kind, NodeId, Unknown, Wrong};
use crate::model::host::{GatewayKeys, HostKeys};
use crate::model::policy::PolicyKeys;
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
    let mut mistakes = wrongs;
    for unknown in unknown.iter().filter(|unknown| !unknown.key.starts_with("x-")) {
        let node = doc.entries(unknown.map).get(unknown.entry).map_or(unknown.map, |(_, v)| *v);
        let closed = sections.of_unknown(unknown).iter().chain(sections_of_key(&unknown.key));
        found.extend(closed.map(|section| (*section, node)));
        mistakes.push(node);
    }
    found.extend(sections_among_names(doc, &mistakes));
    found.extend(misplaced_sections(doc));
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

/// Reports the mistakes in the restricting keys of a native entry or profile. Returns the other unknown keys, and whether
/// there was no mistake. `known` are the keys that the entry may have.
pub(super) fn reject_restricting(
    cx: &mut Cx<'_>,
    entry: NodeId,
    unknown: Vec<Unknown>,
    known: &[&str],
) -> (Vec<Unknown>, bool) {
    let restricting = restricting::of(Dialect::Native);
    let transport = cx.doc.get(entry, "transport");
    let env = transport.and_then(|transport| cx.doc.get(transport, "env"));
    let groups = restricting.group_nodes(cx.doc, entry);
    let intent = |doc: &Doc, unknown: &Unknown| {
        let is_ours = !unknown.key.starts_with("x-");
        if env.is_some_and(|env| doc.is_within(unknown.map, env)) {
            return is_ours.then(|| Intent { meant: text::nearest(&unknown.key, unknown.known) });
        }
        if transport == Some(unknown.map) && is_ours {
            // Some restricting keys belong into `transport` as well as beside it.
            let own = text::nearest(&unknown.key, unknown.known).filter(|near| *near == "env");
            let meant = own.or_else(|| restricting.misspelt(&unknown.key, unknown.known));
            if meant.is_some() {
                return Some(Intent { meant });
            }
        }
        let known = if unknown.map == entry { known } else { unknown.known };
        restricting.intent(doc, (entry, &groups), unknown, known)
    };
    let (mut others, mut is_sound) = (Vec::new(), true);
    for unknown in unknown {
        match intent(cx.doc, &unknown) {
            Some(Intent { meant }) => {
                cx.invalid_key(unknown.map, unknown.entry, "the entry", meant);
                is_sound = false;
            }
            None => others.push(unknown),
        }
    }
    (others, is_sound)
}

/// Reports restricting keys among the variables of a server: `env` in the long form of a transport has them. Returns
/// whether there are none.
pub(super) fn reject_among_variables(cx: &mut Cx<'_>, entry: NodeId) -> bool {
    let Some(env) = cx.doc.get(entry, "env") else { return true };
    let is_restricting =
        |name: &str| matches!(name, "inherit" | "inherit_env" | "allow_commands" | "url_policy");
    let names = cx.doc.entries(env).iter();
    let found = names.enumerate().find(|(_, (key, _))| is_restricting(&key.name));
    let Some((place, (key, _))) = found else { return true };
    let meant = if key.name == "inherit" { "inherit_env" } else { key.name.as_str() };
    cx.invalid_key(env, place, "the entry", Some(meant));
    false
}

/// Keys without a value among those that restrict the entry.
pub(super) fn missing_in_entry(doc: &Doc, entry: NodeId) -> Vec<NodeId> {
    let restricting = restricting::of(Dialect::Native);
    let transport = doc.get(entry, "transport");
    let env = transport.and_then(|transport| doc.get(transport, "env"));
    let inherit = env.and_then(|env| doc.get(env, "inherit"));
    let of_transport = transport.map(|transport| restricting.missing_values(doc, transport));
    let mut found = restricting.missing_values(doc, entry);
    found.extend(of_transport.unwrap_or_default());
    found.extend(inherit.filter(|node| is_null(doc, *node)));
    found
}

/// The names among servers and profiles that are sections of the file, one level too deep.
fn misplaced_sections(doc: &Doc) -> Vec<(Section, NodeId)> {
    let of = |list: &str| doc.get(Doc::ROOT, list).map_or(&[][..], |list| doc.entries(list));
    let servers = of("servers").iter().filter(|(_, node)| !restricting::is_server(doc, *node));
    let profiles = of("profiles").iter().filter(|(key, node)| {
        let names = if key.name == "gateway" { GatewayKeys::NAMES } else { HostKeys::NAMES };
        let is_own = |name: &str| names.contains(&name) && !PolicyKeys::NAMES.contains(&name);
        doc.entries(*node).iter().any(|(key, _)| is_own(&key.name))
    });
    let sections = servers.chain(profiles).flat_map(|(key, node)| match key.name.as_str() {
        name @ ("gateway" | "host" | "include") => {
            sections_of_key(name).iter().map(|section| (*section, *node)).collect()
        }
        _ => Vec::new(),
    });
    sections.collect()
}

/// Names in maps of the person's own names (stores, members, inputs) that are keys of sections, and whose values have
/// mistakes: they were meant for those sections.
fn sections_among_names(doc: &Doc, mistakes: &[NodeId]) -> Vec<(Section, NodeId)> {
    let at = |path: &[&str]| path.iter().try_fold(Doc::ROOT, |node, key| doc.get(node, key));
    let maps = [at(&["host", "secrets"]), at(&["host", "grants", "members"]), at(&["inputs"])];
    let names = maps.into_iter().flatten().flat_map(|map| doc.entries(map));
    let wrong = names.filter(|(_, value)| mistakes.iter().any(|it| doc.is_within(*it, *value)));
    wrong
        .flat_map(|(key, value)| {
            sections_of_key(&key.name).iter().map(move |section| (*section, *value))
        })
        .collect()
}

/// The sections that a key belongs to wherever it stands.
fn sections_of_key(key: &str) -> &'static [Section] {
    let is = |names: &[&str]| names.iter().any(|name| text::is_same_key(name, key));
    if is(&["gateway", "tokens", "oauth", "origins", "issuer", "audience"]) {
        return &[Section::Gateway];
    }
    if is(&["host"]) {
        return &Section::HOST;
    }
    if is(&["include"]) {
        return &Section::UNREADABLE;
    }
    if is(&["members"]) {
        return &[Section::Grants];
    }
    let permission = ["spawn", "network", "docker"].into_iter().find(|name| is(&[name]));
    if let Some(section) = permission.and_then(Section::of_permission) {
        return alone(section);
    }
    let of_host = ["permissions", "grants", "pins", "secrets"].into_iter().find(|name| is(&[name]));
    of_host.map_or(&[], Section::of_host_key)
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
