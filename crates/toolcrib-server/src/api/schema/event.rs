//! JSON form of host events.

use serde_json::{Value, json};
use toolcrib::HostEvent;
use toolcrib_upstream::conn::{CatalogChange, ChangeKind};
use toolcrib_upstream::signals::format_timestamp;
use toolcrib_wire::{ObjectWriter, RawJson};

use super::{LeaseView, PendingRequestView, ReloadReport, millis};

/// Renders an event. `name` maps dialog ids to the listener's names. Data from servers stays unchanged.
pub fn event_json(event: &HostEvent, name: &dyn Fn(&str) -> String) -> RawJson {
    let number = |call: u64| i64::try_from(call).unwrap_or(i64::MAX);
    match event {
        HostEvent::CallProgress { dialog, call, params } => ObjectWriter::new()
            .string("dialog", &name(dialog))
            .integer("call", number(*call))
            .json("params", params.json())
            .finish(),
        HostEvent::ServerNotification { server, dialog, method, params, .. } => ObjectWriter::new()
            .string("server", server)
            .string_if("dialog", dialog.as_deref().map(name).as_deref())
            .string("method", method)
            .json_if("params", params.as_ref().map(RawJson::json))
            .finish(),
        HostEvent::ClientRequest { dialog, request: question } => {
            let request = raw(&PendingRequestView::from(question.clone()));
            ObjectWriter::new()
                .string("dialog", &name(dialog))
                .json("request", request.json())
                .finish()
        }
        HostEvent::Reloaded(reload) => raw(&ReloadReport::from(&**reload)),
        HostEvent::Problem(problem) => raw(problem),
        other => raw(&event_fields(other, name)),
    }
}

/// Renders events that contain no JSON from servers.
fn event_fields(event: &HostEvent, name: &dyn Fn(&str) -> String) -> Value {
    match event {
        HostEvent::StateChanged { server, state, error } => {
            json!({"server": **server, "state": state.as_str(), "error": error})
        }
        HostEvent::Restarted { server, restarts } => {
            json!({"server": **server, "restarts": restarts})
        }
        HostEvent::ListsChanged { server, changes } => {
            let changes: Vec<Value> = changes.iter().map(change_json).collect();
            json!({"server": **server, "changes": changes})
        }
        HostEvent::ToolsPinned { server, tools } => json!({"server": **server, "tools": tools}),
        HostEvent::SnapshotPublished { version } => json!({"version": version}),
        HostEvent::DialogListsChanged { dialog } => json!({"dialog": name(dialog)}),
        HostEvent::LeasesChanged { server, leases } => {
            let shown = |lease| {
                let leased = LeaseView::from(lease);
                LeaseView { dialog: name(&leased.dialog), ..leased }
            };
            let leases: Vec<LeaseView> = leases.iter().map(shown).collect();
            json!({"server": **server, "leases": leases})
        }
        HostEvent::CallEnded { call, record } => json!({
            "call": call,
            "agent": *record.agent,
            "dialog": record.dialog.as_deref().map(name),
            "server": record.server.as_deref(),
            "tool": *record.tool,
            "started": format_timestamp(record.started),
            "duration_ms": millis(record.duration),
            "ended": record.ended,
            "request_id": record.request_id.as_deref(),
        }),
        HostEvent::ProblemSolved(id) => json!({"id": id}),
        HostEvent::Reloaded(_)
        | HostEvent::CallProgress { .. }
        | HostEvent::ClientRequest { .. }
        | HostEvent::ServerNotification { .. }
        | HostEvent::Problem(_) => Value::Null,
    }
}

fn change_json(change: &CatalogChange) -> Value {
    let (kind, to) = match &change.kind {
        ChangeKind::Added => ("added", None),
        ChangeKind::Removed => ("removed", None),
        ChangeKind::Renamed { to } => ("renamed", Some(to)),
        ChangeKind::Schema => ("schema", None),
        ChangeKind::Text => ("text", None),
    };
    json!({"list": change.list.to_string(), "name": change.name, "kind": kind, "to": to})
}

fn raw<T: serde::Serialize>(value: &T) -> RawJson {
    RawJson::from_value(value).unwrap_or_else(|_| ObjectWriter::new().finish())
}
