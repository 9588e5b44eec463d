//! Output of `toolcrib connect`: its outcome and the list of clients.

use serde_json::{Value as Json, json};
use toolcrib_config::UserFolders;

use super::{ClientTarget, ConnectOutcome};
use crate::client_entries::CLIENTS;
use crate::output::Output;
use crate::replaced_entries::EntryTarget;
use crate::settings::Settings;
use crate::terminal_text::{Table, plain_cell, printable};

pub(super) fn print_entry(
    settings: &Settings,
    out: &Output,
    target: &ClientTarget,
    planned: &Json,
) {
    match settings.json {
        true => out.print_json(&json!({
            "client": target.client.word, "file": target.file, "action": "print", "entry": planned,
        })),
        false => {
            out.print_note(&format!("{}, in {}:", target.client.name, target.file.display()));
            out.print_result(&target.snippet(planned));
        }
    }
}

pub(super) fn report_outcome(
    settings: &Settings,
    out: &Output,
    target: &ClientTarget,
    outcome: &ConnectOutcome,
) {
    let backup = Some(target.backup()).filter(|backup| backup.exists());
    if settings.json {
        let (replaced, returned) = match outcome {
            ConnectOutcome::Replaced(place) => (Some(place.to_json()), None),
            ConnectOutcome::Returned(place) => (None, place.as_ref().map(EntryTarget::to_json)),
            _ => (None, None),
        };
        return out.print_json(&json!({
            "client": target.client.word, "file": target.file, "action": outcome_word(outcome),
            "backup": backup, "replaced": replaced, "returned": returned,
        }));
    }
    let kept = backup.map(|backup| format!("; backup: {}", backup.display()));
    out.print_result(&outcome_sentence(target, outcome, &kept.unwrap_or_default()));
    let name = target.client.name;
    match outcome {
        ConnectOutcome::Written | ConnectOutcome::Updated => {
            out.print_note(&format!("restart {name} to apply the change; `--undo` reverts it"));
        }
        ConnectOutcome::Replaced(_) => {
            out.print_note(&format!(
                "restart {name} to apply the change; `--undo` restores the previous entry"
            ));
        }
        _ => {}
    }
}

fn outcome_word(outcome: &ConnectOutcome) -> &'static str {
    match outcome {
        ConnectOutcome::Written => "written",
        ConnectOutcome::Updated | ConnectOutcome::Replaced(_) => "updated",
        ConnectOutcome::Unchanged => "unchanged",
        ConnectOutcome::Restored => "restored",
        ConnectOutcome::Returned(_) => "returned",
        ConnectOutcome::Removed => "removed",
        ConnectOutcome::NotConnected => "nothing",
    }
}

fn outcome_sentence(target: &ClientTarget, outcome: &ConnectOutcome, kept: &str) -> String {
    let (name, file) = (target.client.name, target.file.display());
    // The target comes from a file that any program may have written.
    let shown = |place: &EntryTarget| printable(&place.to_string());
    match outcome {
        ConnectOutcome::Written => format!("added Toolcrib to {name}: {file}{kept}\n"),
        ConnectOutcome::Updated => format!("updated Toolcrib in {name}: {file}\n"),
        ConnectOutcome::Replaced(place) => {
            let place = shown(place);
            format!("updated Toolcrib in {name}: {file}; the previous entry pointed to {place}\n")
        }
        ConnectOutcome::Unchanged => format!("{name} is already connected: {file}\n"),
        ConnectOutcome::Restored => format!("restored {file}\n"),
        ConnectOutcome::Returned(place) => {
            let place = place.as_ref().map_or_else(|| "before".to_owned(), shown);
            format!("restored the previous entry of {name}, which points to {place}: {file}\n")
        }
        ConnectOutcome::Removed => {
            format!("removed Toolcrib from {file}, which has changed since{kept}\n")
        }
        ConnectOutcome::NotConnected => format!("{name} is not connected: {file}\n"),
    }
}

/// Lists every client and its files.
pub(super) fn list_clients(settings: &Settings, out: &Output, folders: &UserFolders) {
    let files = CLIENTS.iter().flat_map(|client| {
        let own = Some(client.user_file(folders, settings.root()));
        let project = client.project_file(folders, settings.root());
        [("user", own), ("project", project)]
            .into_iter()
            .filter_map(move |(scope, file)| Some((client, scope, file?)))
    });
    let rows = files.map(|(client, scope, file)| {
        let state = match ClientTarget::new(*client, file.clone()) {
            Ok(ClientTarget { entry: Some(_), .. }) => "connected",
            Ok(ClientTarget { text: Some(_), .. }) => "there",
            Ok(_) => "missing",
            Err(_) => "unusable",
        };
        (client.word, scope, state, file)
    });
    if settings.json {
        let all: Vec<Json> = rows
            .map(|(client, scope, state, file)| {
                json!({"client": client, "scope": scope, "state": state, "file": file})
            })
            .collect();
        return out.print_json(&json!({ "clients": all }));
    }
    let mut table = Table::new(&["CLIENT", "", "FILE", "IS"]);
    for (client, scope, state, file) in rows {
        table.add_row([client, scope, &file.display().to_string(), state].map(plain_cell));
    }
    out.print_result(&table.render());
    out.print_note(
        "`toolcrib connect CLIENT` adds Toolcrib to the user's file, or with --project to the workspace's",
    );
}
