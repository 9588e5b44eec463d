//! What is told of what `toolcrib connect` did, and of the clients there are.

use serde_json::{Value as Json, json};
use toolcrib_config::Person;

use super::{Done, Target};
use crate::clients::CLIENTS;
use crate::out::Out;
use crate::replaced::Place;
use crate::settings::Settings;
use crate::shown::{Table, plain, printable};

pub(super) fn print(settings: &Settings, out: &Out, target: &Target, wanted: &Json) {
    match settings.json {
        true => out.json(&json!({
            "client": target.client.word, "file": target.file, "action": "print", "entry": wanted,
        })),
        false => {
            out.note(&format!("{}, in {}:", target.client.name, target.file.display()));
            out.result(&target.snippet(wanted));
        }
    }
}

pub(super) fn tell(settings: &Settings, out: &Out, target: &Target, done: &Done) {
    let backup = Some(target.backup()).filter(|backup| backup.exists());
    if settings.json {
        let (replaced, returned) = match done {
            Done::Replaced(place) => (Some(place.to_json()), None),
            Done::Returned(place) => (None, place.as_ref().map(Place::to_json)),
            _ => (None, None),
        };
        return out.json(&json!({
            "client": target.client.word, "file": target.file, "action": action(done),
            "backup": backup, "replaced": replaced, "returned": returned,
        }));
    }
    let kept = backup.map(|backup| format!("; the file as it was is {}", backup.display()));
    out.result(&sentence(target, done, &kept.unwrap_or_default()));
    let name = target.client.name;
    match done {
        Done::Written | Done::Updated => {
            out.note(&format!("restart {name} to make it look; `--undo` takes it back"));
        }
        Done::Replaced(_) => {
            out.note(&format!("restart {name} to make it look; `--undo` gives back what it had"));
        }
        _ => {}
    }
}

fn action(done: &Done) -> &'static str {
    match done {
        Done::Written => "written",
        Done::Updated | Done::Replaced(_) => "updated",
        Done::Unchanged => "unchanged",
        Done::Restored => "restored",
        Done::Returned(_) => "returned",
        Done::Removed => "removed",
        Done::Nothing => "nothing",
    }
}

fn sentence(target: &Target, done: &Done, kept: &str) -> String {
    let (name, file) = (target.client.name, target.file.display());
    // It stands in a file that anybody may have written.
    let shown = |place: &Place| printable(&place.to_string());
    match done {
        Done::Written => format!("{name} has Toolcrib now: {file}{kept}\n"),
        Done::Updated => format!("{name} has Toolcrib as it is now: {file}\n"),
        Done::Replaced(place) => {
            let place = shown(place);
            format!("{name} has Toolcrib as it is now: {file}; it had that of {place} before\n")
        }
        Done::Unchanged => format!("{name} has Toolcrib already: {file}\n"),
        Done::Restored => format!("{file} is as it was before\n"),
        Done::Returned(place) => {
            let place = place.as_ref().map_or_else(|| "before".to_owned(), shown);
            format!("{name} has the Toolcrib of {place} again: {file}\n")
        }
        Done::Removed => {
            format!("{file} has changed since, so only Toolcrib was taken out{kept}\n")
        }
        Done::Nothing => format!("{name} has no Toolcrib: {file}\n"),
    }
}

/// Every client and its files.
pub(super) fn list(settings: &Settings, out: &Out, person: &Person) {
    let files = CLIENTS.iter().flat_map(|client| {
        let own = Some(client.own_file(person, settings.root()));
        let project = client.project_file(person, settings.root());
        [("user", own), ("project", project)]
            .into_iter()
            .filter_map(move |(scope, file)| Some((client, scope, file?)))
    });
    let rows = files.map(|(client, scope, file)| {
        let state = match Target::new(*client, file.clone()) {
            Ok(Target { entry: Some(_), .. }) => "connected",
            Ok(Target { text: Some(_), .. }) => "there",
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
        return out.json(&json!({ "clients": all }));
    }
    let mut table = Table::new(&["CLIENT", "", "FILE", "IS"]);
    for (client, scope, state, file) in rows {
        table.row([client, scope, &file.display().to_string(), state].map(plain));
    }
    out.result(&table.text());
    out.note(
        "`toolcrib connect CLIENT` writes Toolcrib there; with --project into the workspace's",
    );
}
