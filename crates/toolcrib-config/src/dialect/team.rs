//! Reads Dominds' `team.yaml`: the toolsets of each member.

use serde::Deserialize;

use crate::compile_context::CompileContext;
use crate::doc::{At, Doc, NodeId, NodeKind, describe_node};
use crate::model::host::{GrantsKeys, HostKeys, MemberKeys};
use crate::text;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TeamMember {
    toolsets: Option<At<Vec<String>>>,
}

/// Reads the grants of a team file. Other keys of the file belong to Dominds. The error is the node of a
/// mistake that makes the list of members invalid.
pub(crate) fn read(cx: &mut CompileContext<'_>) -> Result<Option<At<HostKeys>>, NodeId> {
    if let Some((map, index, meant)) = find_misplaced_members(cx.doc) {
        cx.report_restricting_key(map, index, "the list of members", Some(meant));
        return Err(cx.doc.entries(map).get(index).map_or(map, |(_, value)| *value));
    }
    let Some(members) = cx.doc.get(Doc::ROOT, MEMBERS) else { return Ok(None) };
    if !matches!(cx.doc.kind(members), NodeKind::Map(_)) {
        let text = format!("`members` is a map, found {}", describe_node(cx.doc, members));
        cx.error(members, "value.invalid", text, "list members by their names");
        return Err(members);
    }
    let found = cx
        .map_entries(members)
        .into_iter()
        .map(|(name, node)| (name, At::new(node, read_member(cx, node))))
        .collect();
    let grants = GrantsKeys { members: Some(At::new(members, found)) };
    let host = HostKeys { grants: Some(At::new(members, grants)), ..HostKeys::default() };
    Ok(Some(At::new(members, host)))
}

/// Finds a misspelt `members`, one inside another map, or a member next to `members`. Returns the map, the
/// index of the key and the intended key.
fn find_misplaced_members(doc: &Doc) -> Option<(NodeId, usize, &'static str)> {
    let meant = |key: &str, value: NodeId| match key {
        MEMBERS | DEFAULTS => None,
        "default" => Some("members.default"),
        _ if text::find_misspelling(key, &[MEMBERS]).is_some() => Some(MEMBERS),
        "toolsets" => Some("members.NAME.toolsets"),
        _ => doc.get(value, "toolsets").map(|_| "members.NAME"),
    };
    let root = doc.entries(Doc::ROOT);
    let at_root = root.iter().enumerate().find_map(|(index, (key, value))| {
        meant(&key.name, *value).map(|meant| (Doc::ROOT, index, meant))
    });
    at_root.or_else(|| {
        root.iter().filter(|(key, _)| key.name != MEMBERS).find_map(|(_, map)| {
            let index = doc.entries(*map).iter().position(|(key, _)| key.name == MEMBERS)?;
            Some((*map, index, MEMBERS))
        })
    })
}

const MEMBERS: &str = "members";
/// Dominds' defaults of members; they may contain `toolsets`.
const DEFAULTS: &str = "member_defaults";

fn read_member(cx: &mut CompileContext<'_>, node: NodeId) -> MemberKeys {
    let deserialized = crate::doc::deserialize::<TeamMember>(cx.doc, node);
    cx.report_value_errors(deserialized.errors);
    let toolsets = deserialized.value.and_then(|member| member.toolsets);
    MemberKeys { toolsets, capabilities: None }
}
