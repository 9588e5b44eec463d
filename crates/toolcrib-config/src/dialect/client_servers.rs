//! Reads the parts that the files of other clients share: the server map, timeouts and tool filters.

use serde::de::DeserializeOwned;

use super::ServerDraft;
use super::restricting_keys::{reject_servers_beside_misplaced_keys, report_restricting_mistakes};
use crate::compile_context::CompileContext;
use crate::doc::{self, At, NodeId, NodeKind, describe_node};
use crate::model::policy::{ExposeKeys, FilterMode, PolicyKeys, TimeoutsKeys, ToolFilterKeys};
use crate::model::transport::TransportKind;
use crate::model::units::Period;
use crate::text;

/// Keys of another client's entry that have no effect in toolcrib.
pub(crate) struct ExtraClientKeys {
    /// Keys that do not affect the server, such as display settings or confirmation prompts.
    pub(crate) ignored: &'static [&'static str],
    /// Keys that may affect the server. Each one gives a warning.
    pub(crate) unsupported: &'static [&'static str],
}

/// Reads a map of servers; an invalid entry rejects only itself. `lower` turns an entry into native keys.
pub(crate) fn read_servers<T: DeserializeOwned + Default>(
    cx: &mut CompileContext<'_>,
    list: Option<NodeId>,
    extra_keys: &ExtraClientKeys,
    lower: impl Fn(&mut CompileContext<'_>, &mut ServerDraft, T),
) -> Vec<ServerDraft> {
    let Some(list) = list else {
        return Vec::new();
    };
    if !matches!(cx.doc.kind(list), NodeKind::Map(_) | NodeKind::Null) {
        let text = format!("expected a map of servers, found {}", describe_node(cx.doc, list));
        cx.error(list, "servers.invalid", text, "give each server a name");
    }
    let mut drafts = Vec::new();
    for (id, node) in cx.map_entries(list) {
        cx.enter_server(&id);
        let mut draft = ServerDraft::new(&id, node, cx.dialect);
        if let Some(entry) = read_entry::<T>(cx, &mut draft, extra_keys) {
            lower(cx, &mut draft, entry);
        }
        drafts.push(draft);
        cx.leave_server();
    }
    reject_servers_beside_misplaced_keys(cx, &mut drafts);
    drafts
}

fn read_entry<T: DeserializeOwned + Default>(
    cx: &mut CompileContext<'_>,
    draft: &mut ServerDraft,
    extra_keys: &ExtraClientKeys,
) -> Option<T> {
    let node = draft.node;
    if !matches!(cx.doc.kind(node), NodeKind::Map(_)) {
        let text = format!("a server is a map, found {}", describe_node(cx.doc, node));
        cx.error(node, "server.invalid", text, "give it a `command` or a `url`");
        draft.is_valid = false;
        return None;
    }
    let deserialized = doc::deserialize::<T>(cx.doc, node);
    draft.is_valid = deserialized.errors.is_empty();
    cx.report_value_errors(deserialized.errors);
    let (listed, unknown): (Vec<_>, Vec<_>) =
        deserialized.unknown.into_iter().partition(|unknown| {
            let key = &unknown.key.as_str();
            unknown.map == node
                && (extra_keys.ignored.contains(key) || extra_keys.unsupported.contains(key))
        });
    let (unknown, restrictions_valid) = report_restricting_mistakes(cx, node, unknown);
    draft.is_valid &= restrictions_valid;
    draft.extras = cx.report_unknown_keys(node, &unknown);
    for key in listed.into_iter().map(|unknown| unknown.key) {
        let Some(value) = cx.doc.get(node, &key) else {
            continue;
        };
        if extra_keys.unsupported.contains(&key.as_str()) {
            let text = format!("`{key}` is not supported; the server is used without it");
            cx.warning(value, "key.unsupported", text, "check that the server works without it");
        }
        draft.extras.insert(key, cx.doc.json(value));
    }
    deserialized.value
}

/// Maps a client's transport name to a transport kind.
pub(crate) fn transport_kind(
    cx: &mut CompileContext<'_>,
    draft: &mut ServerDraft,
    word: Option<At<String>>,
    words: &[(&str, TransportKind)],
) -> Option<At<TransportKind>> {
    let At { node, value } = word?;
    let word = value?;
    let found = words.iter().find(|(known, _)| *known == word);
    if found.is_none() {
        let known: Vec<&str> = words.iter().map(|(known, _)| *known).collect();
        let text = format!("unsupported type `{}`", text::clip(&word));
        let fix = format!("use one of {}", text::quoted_list(&known));
        cx.error(node, "transport.unsupported", text, &fix);
        draft.is_valid = false;
    }
    found.map(|(_, kind)| At::new(node, *kind))
}

/// Sets the tool filter from lists of original tool names. `deny` wins over `allow`; an empty `allow` offers
/// no tool.
pub(crate) fn set_tool_filter(
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

/// Sets the timeouts of the start and of one call. A client's call timeout is a total limit: progress does
/// not extend it.
pub(crate) fn set_timeouts(
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
