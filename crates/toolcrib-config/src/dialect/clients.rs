//! What the files of other clients have in common: a map of servers, limits and lists of tools.

use serde::de::DeserializeOwned;

use super::Draft;
use super::restricting::{reject_neighbours_of_misplaced_keys, reject_restricting};
use crate::cx::Cx;
use crate::doc::{self, At, Kind, NodeId, describe};
use crate::model::policy::{ExposeKeys, FilterMode, PolicyKeys, TimeoutsKeys, ToolFilterKeys};
use crate::model::transport::TransportKind;
use crate::model::units::Period;
use crate::text;

/// Keys of a client's entry that are known and do nothing here.
pub(crate) struct Foreign {
    /// Nothing is lost without them: how the client shows the server, whom it asks.
    pub(crate) passed: &'static [&'static str],
    /// The server may behave otherwise without them, so each is told.
    pub(crate) unsupported: &'static [&'static str],
}

/// Reads a map of servers; one bad entry rejects only itself. `lower` turns an entry into native keys.
pub(crate) fn servers<T: DeserializeOwned + Default>(
    cx: &mut Cx<'_>,
    list: Option<NodeId>,
    foreign: &Foreign,
    lower: impl Fn(&mut Cx<'_>, &mut Draft, T),
) -> Vec<Draft> {
    let Some(list) = list else {
        return Vec::new();
    };
    if !matches!(cx.doc.kind(list), Kind::Map(_) | Kind::Null) {
        let text = format!("expected a map of servers, found {}", describe(cx.doc, list));
        cx.error(list, "servers.invalid", text, "give each server a name");
    }
    let mut drafts = Vec::new();
    for (id, node) in cx.children(list) {
        cx.enter(&id);
        let mut draft = Draft::new(&id, node, cx.dialect);
        if let Some(entry) = entry::<T>(cx, &mut draft, foreign) {
            lower(cx, &mut draft, entry);
        }
        drafts.push(draft);
        cx.leave();
    }
    reject_neighbours_of_misplaced_keys(cx, &mut drafts);
    drafts
}

fn entry<T: DeserializeOwned + Default>(
    cx: &mut Cx<'_>,
    draft: &mut Draft,
    foreign: &Foreign,
) -> Option<T> {
    let node = draft.node;
    if !matches!(cx.doc.kind(node), Kind::Map(_)) {
        let text = format!("a server is a map, found {}", describe(cx.doc, node));
        cx.error(node, "server.invalid", text, "give it a `command` or a `url`");
        draft.sound = false;
        return None;
    }
    let reading = doc::read::<T>(cx.doc, node);
    draft.sound = reading.wrongs.is_empty();
    cx.tell_wrongs(reading.wrongs);
    let (listed, unknown): (Vec<_>, Vec<_>) = reading.unknown.into_iter().partition(|unknown| {
        let key = &unknown.key.as_str();
        unknown.map == node && (foreign.passed.contains(key) || foreign.unsupported.contains(key))
    });
    let (unknown, is_restricted) = reject_restricting(cx, node, unknown);
    draft.sound &= is_restricted;
    draft.extras = cx.tell_unknown(node, &unknown);
    for key in listed.into_iter().map(|unknown| unknown.key) {
        let Some(value) = cx.doc.get(node, &key) else {
            continue;
        };
        if foreign.unsupported.contains(&key.as_str()) {
            let text = format!("`{key}` is not supported; the server is used without it");
            cx.warning(value, "key.unsupported", text, "check that the server does without it");
        }
        draft.extras.insert(key, cx.doc.json(value));
    }
    reading.value
}

/// The kind of transport that a word stands for in one client.
pub(crate) fn kind(
    cx: &mut Cx<'_>,
    draft: &mut Draft,
    word: Option<At<String>>,
    words: &[(&str, TransportKind)],
) -> Option<At<TransportKind>> {
    let At { node, value } = word?;
    let word = value?;
    let found = words.iter().find(|(known, _)| *known == word);
    if found.is_none() {
        let known: Vec<&str> = words.iter().map(|(known, _)| *known).collect();
        let text = format!("unsupported type `{}`", text::clip(&word));
        let fix = format!("use one of {}", text::list(&known));
        cx.error(node, "transport.unsupported", text, &fix);
        draft.sound = false;
    }
    found.map(|(_, kind)| At::new(node, *kind))
}

/// Lists of the tools' own names, of which the second wins. A list of nothing offers nothing.
pub(crate) fn filter(
    policy: &mut PolicyKeys,
    allow: Option<At<Vec<String>>>,
    deny: Option<At<Vec<String>>>,
) {
    let Some(node) = allow.as_ref().or(deny.as_ref()).map(|at| at.node) else {
        return;
    };
    let tools = ToolFilterKeys {
        allow,
        deny,
        mode: Some(At::new(node, FilterMode::DenyWins)),
        requires: None,
    };
    policy.expose = Some(At::new(
        node,
        ExposeKeys { tools: Some(At::new(node, tools)), ..ExposeKeys::default() },
    ));
}

/// Limits of the start and of one call. A client's limit of a call holds in all, progress or not.
pub(crate) fn timeouts(
    policy: &mut PolicyKeys,
    startup: Option<At<Period>>,
    call: Option<At<Period>>,
) {
    let Some(node) = startup.as_ref().or(call.as_ref()).map(|at| at.node) else {
        return;
    };
    let keys = TimeoutsKeys {
        startup,
        request: call.clone(),
        request_max: call,
        ..TimeoutsKeys::default()
    };
    policy.timeouts = Some(At::new(node, keys));
}
