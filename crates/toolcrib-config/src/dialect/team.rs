//! Dominds' `team.yaml`: which member has which toolsets.

use serde::Deserialize;

use crate::cx::Cx;
use crate::doc::{At, Doc, Kind, NodeId, describe};
use crate::model::host::{GrantsKeys, HostKeys, MemberKeys};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Member {
    toolsets: Option<At<Vec<String>>>,
}

/// The grants of a team file. Everything else in it belongs to another program. The error is the node of a list of
/// members that is none.
pub(crate) fn read(cx: &mut Cx<'_>) -> Result<Option<At<HostKeys>>, NodeId> {
    let Some(members) = cx.doc.get(Doc::ROOT, "members") else { return Ok(None) };
    if !matches!(cx.doc.kind(members), Kind::Map(_) | Kind::Null) {
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

fn member(cx: &mut Cx<'_>, node: NodeId) -> MemberKeys {
    let reading = crate::doc::read::<Member>(cx.doc, node);
    cx.tell_wrongs(reading.wrongs);
    let toolsets = reading.value.and_then(|member| member.toolsets);
    MemberKeys { toolsets, capabilities: None }
}
