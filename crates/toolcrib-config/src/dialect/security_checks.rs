//! Finds mistakes in a native file that make a security section or a server's entry invalid.
//!
//! Elsewhere a wrong value, an unknown key or a key without a value is ignored. In a security section that
//! would grant access that the user meant to deny.

use super::Dialect;
use super::restricting_keys::{self, RestrictionIntent};
use crate::compile_context::CompileContext;
use crate::doc::{Doc, NodeId, NodeKind, UnknownKey, ValueError};
use crate::model::host::{GatewayKeys, HostKeys};
use crate::model::policy::PolicyKeys;
use crate::model::security::SecuritySection;
use crate::text;

/// Returns the sections that mistakes make invalid, each with the node of the mistake.
pub(super) fn find_invalid_sections(
    doc: &Doc,
    errors: &[ValueError],
    unknown: &[UnknownKey],
) -> Vec<(SecuritySection, NodeId)> {
    let sections = SectionNodes::find(doc);
    let errors: Vec<NodeId> = errors.iter().map(|error| error.node.unwrap_or(Doc::ROOT)).collect();
    let mut found = sections_of_nodes(doc, &errors);
    let mut mistakes = errors;
    for unknown in unknown.iter().filter(|unknown| !unknown.key.starts_with("x-")) {
        let node = doc.entries(unknown.map).get(unknown.entry).map_or(unknown.map, |(_, v)| *v);
        let closed =
            sections.sections_of_unknown_key(unknown).iter().chain(sections_of_key(&unknown.key));
        found.extend(closed.map(|section| (*section, node)));
        mistakes.push(node);
    }
    found.extend(sections_among_names(doc, &mistakes));
    found.extend(misplaced_sections(doc));
    found
}

/// Returns the sections that contain these nodes.
pub(super) fn sections_of_nodes(doc: &Doc, nodes: &[NodeId]) -> Vec<(SecuritySection, NodeId)> {
    let sections = SectionNodes::find(doc);
    let of =
        |node: NodeId| sections.sections_of_value(node).iter().map(move |section| (*section, node));
    nodes.iter().copied().flat_map(of).collect()
}

/// Returns keys of security sections without a value, for example a list whose items are all commented out.
/// Empty sections and an empty `oauth` are included.
pub(super) fn find_missing_values(doc: &Doc) -> Vec<NodeId> {
    let sections = SectionNodes::find(doc);
    let oauth = sections.gateway.and_then(|gateway| doc.get(gateway, "oauth"));
    let empty =
        oauth.filter(|map| matches!(doc.kind(*map), NodeKind::Map(entries) if entries.is_empty()));
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
pub(super) fn report_missing_values(cx: &mut CompileContext<'_>, nodes: &[NodeId]) {
    for node in nodes {
        let text = format!("`{}` has no value", cx.doc.path(*node));
        cx.error(*node, "value.missing", text, "write the value, or remove the key");
    }
}

/// Reports the mistakes in the restricting keys of a native entry or profile. Returns the other unknown keys,
/// and true if there was no mistake. `known` are the keys that the entry may have.
pub(super) fn report_native_restricting_mistakes(
    cx: &mut CompileContext<'_>,
    entry: NodeId,
    unknown: Vec<UnknownKey>,
    known: &[&str],
) -> (Vec<UnknownKey>, bool) {
    let restricting = restricting_keys::for_dialect(Dialect::Native);
    let transport = cx.doc.get(entry, "transport");
    let env = transport.and_then(|transport| cx.doc.get(transport, "env"));
    let groups = restricting.group_nodes(cx.doc, entry);
    let intent = |doc: &Doc, unknown: &UnknownKey| {
        let is_ours = !unknown.key.starts_with("x-");
        if env.is_some_and(|env| doc.is_within(unknown.map, env)) {
            return is_ours.then(|| RestrictionIntent {
                suggestion: text::nearest_word(&unknown.key, unknown.known),
            });
        }
        if transport == Some(unknown.map) && is_ours {
            // Some restricting keys are valid in `transport` and in the entry itself.
            let own = text::nearest_word(&unknown.key, unknown.known).filter(|near| *near == "env");
            let suggestion = own.or_else(|| restricting.find_misspelt(&unknown.key, unknown.known));
            if suggestion.is_some() {
                return Some(RestrictionIntent { suggestion });
            }
        }
        let known = if unknown.map == entry { known } else { unknown.known };
        restricting.find_intent(doc, (entry, &groups), unknown, known)
    };
    let (mut others, mut is_valid) = (Vec::new(), true);
    for unknown in unknown {
        match intent(cx.doc, &unknown) {
            Some(RestrictionIntent { suggestion }) => {
                cx.report_restricting_key(unknown.map, unknown.entry, "the entry", suggestion);
                is_valid = false;
            }
            None => others.push(unknown),
        }
    }
    (others, is_valid)
}

/// Reports restricting keys among the variables of a server; they belong into `env` of the long form of a
/// transport. Returns true if there are none.
pub(super) fn report_restricting_variables(cx: &mut CompileContext<'_>, entry: NodeId) -> bool {
    let Some(env) = cx.doc.get(entry, "env") else { return true };
    let is_restricting =
        |name: &str| matches!(name, "inherit" | "inherit_env" | "allow_commands" | "url_policy");
    let names = cx.doc.entries(env).iter();
    let found = names.enumerate().find(|(_, (key, _))| is_restricting(&key.name));
    let Some((index, (key, _))) = found else { return true };
    let suggestion = if key.name == "inherit" { "inherit_env" } else { key.name.as_str() };
    cx.report_restricting_key(env, index, "the entry", Some(suggestion));
    false
}

/// Returns keys without a value among those that restrict the entry.
pub(super) fn find_missing_entry_values(doc: &Doc, entry: NodeId) -> Vec<NodeId> {
    let restricting = restricting_keys::for_dialect(Dialect::Native);
    let transport = doc.get(entry, "transport");
    let env = transport.and_then(|transport| doc.get(transport, "env"));
    let inherit = env.and_then(|env| doc.get(env, "inherit"));
    let of_transport = transport.map(|transport| restricting.find_missing_values(doc, transport));
    let mut found = restricting.find_missing_values(doc, entry);
    found.extend(of_transport.unwrap_or_default());
    found.extend(inherit.filter(|node| is_null(doc, *node)));
    found
}

/// Returns the names among servers and profiles that are sections of the file, one level too deep.
fn misplaced_sections(doc: &Doc) -> Vec<(SecuritySection, NodeId)> {
    let of = |list: &str| doc.get(Doc::ROOT, list).map_or(&[][..], |list| doc.entries(list));
    let servers =
        of("servers").iter().filter(|(_, node)| !restricting_keys::has_transport_key(doc, *node));
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

/// Returns sections whose keys are used as user-defined names (stores, members, inputs) with invalid values:
/// the values were meant for those sections.
fn sections_among_names(doc: &Doc, mistakes: &[NodeId]) -> Vec<(SecuritySection, NodeId)> {
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

/// Returns the sections that a key belongs to, wherever it stands.
fn sections_of_key(key: &str) -> &'static [SecuritySection] {
    let is = |names: &[&str]| names.iter().any(|name| text::is_same_key(name, key));
    if is(&["gateway", "tokens", "oauth", "origins", "issuer", "audience"]) {
        return &[SecuritySection::Gateway];
    }
    if is(&["host"]) {
        return &SecuritySection::HOST;
    }
    if is(&["include"]) {
        return &SecuritySection::UNREADABLE;
    }
    if is(&["members"]) {
        return &[SecuritySection::Grants];
    }
    let permission = ["spawn", "network", "docker"].into_iter().find(|name| is(&[name]));
    if let Some(section) = permission.and_then(SecuritySection::for_permission) {
        return single_section(section);
    }
    let of_host = ["permissions", "grants", "pins", "secrets"].into_iter().find(|name| is(&[name]));
    of_host.map_or(&[], SecuritySection::for_host_key)
}

fn is_null(doc: &Doc, node: NodeId) -> bool {
    matches!(doc.kind(node), NodeKind::Null)
}

/// Nodes of the security sections.
struct SectionNodes<'a> {
    doc: &'a Doc,
    gateway: Option<NodeId>,
    host: Option<NodeId>,
    include: Option<NodeId>,
    permissions: Option<NodeId>,
}

impl<'a> SectionNodes<'a> {
    fn find(doc: &'a Doc) -> Self {
        let get = |key| doc.get(Doc::ROOT, key);
        let host = get("host");
        let permissions = host.and_then(|host| doc.get(host, "permissions"));
        SectionNodes { doc, gateway: get("gateway"), host, include: get("include"), permissions }
    }

    fn is_in(&self, node: NodeId, section: Option<NodeId>) -> bool {
        section.is_some_and(|section| self.doc.is_within(node, section))
    }

    /// Returns the sections that contain a wrong value.
    fn sections_of_value(&self, node: NodeId) -> &'static [SecuritySection] {
        if node == Doc::ROOT || self.is_in(node, self.include) {
            return &SecuritySection::UNREADABLE;
        }
        if self.is_in(node, self.gateway) {
            return &[SecuritySection::Gateway];
        }
        if Some(node) == self.host {
            return &SecuritySection::HOST;
        }
        if let Some(permissions) = self.permissions.filter(|map| self.doc.is_within(node, *map)) {
            return self.sections_of_permission(permissions, node);
        }
        self.host
            .and_then(|host| self.key_above(host, node))
            .map_or(&[], SecuritySection::for_host_key)
    }

    fn sections_of_unknown_key(&self, unknown: &UnknownKey) -> &'static [SecuritySection] {
        let near = || text::nearest_word(&unknown.key, unknown.known);
        if unknown.map == Doc::ROOT {
            return match near() {
                Some("gateway") => &[SecuritySection::Gateway],
                Some("host") => &SecuritySection::HOST,
                Some("include") => &SecuritySection::UNREADABLE,
                _ => sections_of_misplaced_key(&unknown.key),
            };
        }
        if Some(unknown.map) == self.host {
            // `gateway` one level too deep has no effect.
            return match text::nearest_word(&unknown.key, &["gateway"]) {
                Some(_) => &[SecuritySection::Gateway],
                None => near().map_or(&[], SecuritySection::for_host_key),
            };
        }
        if Some(unknown.map) == self.permissions {
            return near()
                .and_then(SecuritySection::for_permission)
                .map_or(&SecuritySection::PERMISSIONS, single_section);
        }
        self.sections_of_value(unknown.map)
    }

    fn sections_of_permission(
        &self,
        permissions: NodeId,
        node: NodeId,
    ) -> &'static [SecuritySection] {
        let named = self.key_above(permissions, node).and_then(SecuritySection::for_permission);
        named.map_or(&SecuritySection::PERMISSIONS, single_section)
    }

    /// Returns the key of `map` at or above a node.
    fn key_above(&self, map: NodeId, node: NodeId) -> Option<&'a str> {
        let mut entries = self.doc.entries(map).iter();
        let (key, _) = entries.find(|(_, value)| self.doc.is_within(node, *value))?;
        Some(&key.name)
    }
}

/// Returns the sections that a top-level key was meant for, if it belongs one level deeper.
fn sections_of_misplaced_key(key: &str) -> &'static [SecuritySection] {
    let gateway = &["tokens", "oauth", "origins"];
    let host = &["permissions", "grants", "pins", "secrets"];
    match text::nearest_word(key, gateway) {
        Some(_) => &[SecuritySection::Gateway],
        None => text::nearest_word(key, host).map_or(&[], SecuritySection::for_host_key),
    }
}

fn single_section(section: SecuritySection) -> &'static [SecuritySection] {
    match section {
        SecuritySection::Gateway => &[SecuritySection::Gateway],
        SecuritySection::Spawn => &[SecuritySection::Spawn],
        SecuritySection::Network => &[SecuritySection::Network],
        SecuritySection::Docker => &[SecuritySection::Docker],
        SecuritySection::Grants => &[SecuritySection::Grants],
        SecuritySection::Pins => &[SecuritySection::Pins],
        SecuritySection::Secrets => &[SecuritySection::Secrets],
    }
}
