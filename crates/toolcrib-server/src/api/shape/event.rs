//! Events, each as one JSON object.

use serde_json::{Value, json};
use toolcrib::Event;
use toolcrib_upstream::conn::{Change, ChangeKind};
use toolcrib_upstream::signals::timestamp;
use toolcrib_wire::{ObjectWriter, Raw};

use super::{Leased, Reloaded, Requested, millis};

/// What is told of an event, with dialogs under the names that the listener knows. What servers wrote stays as it is.
pub fn event(event: &Event, name: &dyn Fn(&str) -> String) -> Raw {
    let number = |call: u64| i64::try_from(call).unwrap_or(i64::MAX);
    match event {
        Event::Progress { dialog, call, params } => ObjectWriter::new()
            .string("dialog", &name(dialog))
            .integer("call", number(*call))
            .json("params", params.json())
            .finish(),
        Event::Told { server, dialog, method, params, .. } => ObjectWriter::new()
            .string("server", server)
            .string_if("dialog", dialog.as_deref().map(name).as_deref())
            .string("method", method)
            .json_if("params", params.as_ref().map(Raw::json))
            .finish(),
        Event::Asked { dialog, question } => {
            let request = raw(&Requested::from(question.clone()));
            ObjectWriter::new()
                .string("dialog", &name(dialog))
                .json("request", request.json())
                .finish()
        }
        Event::Reloaded(reload) => raw(&Reloaded::from(&**reload)),
        Event::Problem(problem) => raw(problem),
        other => raw(&plain(other, name)),
    }
}

/// What has nothing in it that others wrote as JSON.
fn plain(event: &Event, name: &dyn Fn(&str) -> String) -> Value {
    match event {
        Event::State { server, state, error } => {
            json!({"server": **server, "state": state.as_str(), "error": error})
        }
        Event::Restarted { server, restarts } => json!({"server": **server, "restarts": restarts}),
        Event::Listed { server, changes } => {
            let changes: Vec<Value> = changes.iter().map(change).collect();
            json!({"server": **server, "changes": changes})
        }
        Event::Pinned { server, tools } => json!({"server": **server, "tools": tools}),
        Event::Published { version } => json!({"version": version}),
        Event::Offered { dialog } => json!({"dialog": name(dialog)}),
        Event::Leases { server, leases } => {
            let shown = |lease| {
                let leased = Leased::from(lease);
                Leased { dialog: name(&leased.dialog), ..leased }
            };
            let leases: Vec<Leased> = leases.iter().map(shown).collect();
            json!({"server": **server, "leases": leases})
        }
        Event::Called { call, record } => json!({
            "call": call,
            "agent": *record.agent,
            "dialog": record.dialog.as_deref().map(name),
            "server": record.server.as_deref(),
            "tool": *record.tool,
            "started": timestamp(record.started),
            "duration_ms": millis(record.duration),
            "ended": record.ended,
            "request_id": record.request_id.as_deref(),
        }),
        Event::Solved(id) => json!({"id": id}),
        Event::Reloaded(_)
        | Event::Progress { .. }
        | Event::Asked { .. }
        | Event::Told { .. }
        | Event::Problem(_) => Value::Null,
    }
}

fn change(change: &Change) -> Value {
    let (kind, to) = match &change.kind {
        ChangeKind::Added => ("added", None),
        ChangeKind::Removed => ("removed", None),
        ChangeKind::Renamed { to } => ("renamed", Some(to)),
        ChangeKind::Schema => ("schema", None),
        ChangeKind::Text => ("text", None),
    };
    json!({"list": change.list.to_string(), "name": change.name, "kind": kind, "to": to})
}

fn raw<T: serde::Serialize>(value: &T) -> Raw {
    Raw::of(value).unwrap_or_else(|_| ObjectWriter::new().finish())
}
