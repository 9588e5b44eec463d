//! Dominds' `team.yaml`: which member has which toolsets.

use serde::Deserialize;

use crate::cx::Cx;
use crate::doc::{At, Doc, Kind, NodeId, describe};
use crate::model::host::{GrantsKeys, HostKeys, MemberKeys};
use crate::text;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Member {
    toolsets: Option<At<Vec<String>>>,
}

/// The grants of a team file. Everything else in it belongs to another program. The error is the node of a mistake that
/// makes the list of members invalid.
pub(crate) fn read(cx: &mut Cx<'_>) -> Result<Option<At<HostKeys>>, NodeId> {
    if let Some((map, place, meant)) = misplaced_members(cx.doc) {
        cx.invalid_key(map, place, "the list of members", Some(meant));
        return Err(cx.doc.entries(map).get(place).map_or(map, |(_, value)| *value));
    }
    let Some(members) = cx.doc.get(Doc::ROOT, MEMBERS) else { return Ok(None) };
    if !matches!(cx.doc.kind(members), Kind::Map(_)) {
        let text = format!("`members` is a map, found {}", describe(cx.doc, members));
        cx.error(members, "value.invalid", text, "list members by their names");
        return Err(members);
    }
    let found = cx
        .children(members)
        .into_iter()
        .map(|(name, node)| (name, At::new(node, member(cx, node))))
        .collect();
    let grants = GrantsKeys { members: Some(At::new(members, found)) };
    let host = HostKeys { grants: Some(At::new(members, grants)), ..HostKeys::default() };
    Ok(Some(At::new(members, host)))
}

/// A misspelt `members`, one that stands in another map, and a member that stands beside `members`: the map and the
/// place of the key, and the key that was probably meant.
fn misplaced_members(doc: &Doc) -> Option<(NodeId, usize, &'static str)> {
    let meant = |key: &str, value: NodeId| match key {
        MEMBERS | DEFAULTS => None,
        "default" => Some("members.default"),
        _ if text::slip(key, &[MEMBERS]).is_some() => Some(MEMBERS),
        "toolsets" => Some("members.NAME.toolsets"),
        _ => doc.get(value, "toolsets").map(|_| "members.NAME"),
    };
    let root = doc.entries(Doc::ROOT);
    let at_root = root.iter().enumerate().find_map(|(place, (key, value))| {
        meant(&key.name, *value).map(|meant| (Doc::ROOT, place, meant))
    });
    at_root.or_else(|| {
        root.iter().filter(|(key, _)| key.name != MEMBERS).find_map(|(_, map)| {
            let place = doc.entries(*map).iter().position(|(key, _)| key.name == MEMBERS)?;
            Some((*map, place, MEMBERS))
        })
    })
}

const MEMBERS: &str = "members";
/// Dominds' own defaults of members; they may have `toolsets`, too.
const DEFAULTS: &str = "member_defaults";

fn member(cx: &mut Cx<'_>, node: NodeId) -> MemberKeys {
    let reading = crate::doc::read::<Member>(cx.doc, node);
    cx.tell_wrongs(reading.wrongs);
    let toolsets = reading.value.and_then(|member| member.toolsets);
    MemberKeys { toolsets, capabilities: None }
}
