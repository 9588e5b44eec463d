//! `toolcrib trust`: shows what a folder's configuration would run, and trusts it.

use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};
use tokio::runtime::Builder;
use toolcrib::TrustFile;
use toolcrib_config::LaunchDefinition;
use toolcrib_upstream::signals::{chain, format_timestamp};

use crate::Exit;
use crate::args::TrustArgs;
use crate::output::Output;
use crate::problem_report::plural;
use crate::running_host;
use crate::settings::Settings;
use crate::terminal_text::{Table, plain_cell, printable, printable_lines};
use crate::trust_prompt;

pub(crate) fn run(settings: &Settings, out: &Output, args: &TrustArgs) -> Exit {
    let done = match settings.trust_file() {
        None => Err("set HOME or TOOLCRIB_STATE_DIR: trust is stored there".to_owned()),
        Some(file) if args.list => list_folders(settings, out, &file),
        Some(file) if args.forget => {
            forget_folder(settings, out, &file, &target_folder(settings, args))
        }
        Some(file) => {
            show_and_trust(settings, out, &file, &target_folder(settings, args), args.show)
        }
    };
    match done {
        Ok(()) => Exit::Done,
        Err(text) => {
            out.print_error(&printable_lines(&text));
            Exit::Failed
        }
    }
}

fn target_folder(settings: &Settings, args: &TrustArgs) -> PathBuf {
    match &args.dir {
        Some(dir) => settings.environment.cwd().join(dir),
        None => settings.root().to_path_buf(),
    }
}

fn list_folders(settings: &Settings, out: &Output, file: &TrustFile) -> Result<(), String> {
    let folders = file.folders().map_err(|error| chain(&error))?;
    if settings.json {
        let launches_json =
            folders.iter().map(|it| json!({"path": it.path, "at": format_timestamp(it.at)}));
        out.print_json(&json!({"folders": launches_json.collect::<Vec<Json>>()}));
        return Ok(());
    }
    let mut table = Table::new(&["FOLDER", "SINCE"]);
    for it in &folders {
        let path = printable(&it.path.display().to_string());
        table.add_row([plain_cell(path), plain_cell(format_timestamp(it.at))]);
    }
    out.print_result(&table.render());
    if folders.is_empty() {
        out.print_note("no folder is trusted");
    }
    Ok(())
}

fn forget_folder(
    settings: &Settings,
    out: &Output,
    file: &TrustFile,
    dir: &Path,
) -> Result<(), String> {
    let was_there = file.forget(dir).map_err(|error| chain(&error))?;
    let name = printable(&dir.display().to_string());
    if !was_there {
        return Err(format!("{name} is not trusted; `toolcrib trust --list` shows what is"));
    }
    reload_hosts(settings, dir)?;
    match settings.json {
        true => out.print_json(&json!({"folder": dir, "trusted": false})),
        false => out.print_result(&format!("{name} is no longer trusted\n")),
    }
    Ok(())
}

fn show_and_trust(
    settings: &Settings,
    out: &Output,
    file: &TrustFile,
    dir: &Path,
    only_show: bool,
) -> Result<(), String> {
    let dir = dir.canonicalize().ok().filter(|dir| dir.is_dir());
    let dir = dir.ok_or("there is no such folder")?;
    let launches = settings.for_folder(&dir).compile().launches();
    if !only_show {
        let hashes = launches.iter().map(|launch| launch.hash);
        file.trust(&dir, hashes).map_err(|error| chain(&error))?;
        reload_hosts(settings, &dir)?;
    }
    let name = printable(&dir.display().to_string());
    if settings.json {
        let launches_json: Vec<Json> = launches.iter().map(launch_json).collect();
        out.print_json(&json!({"folder": dir, "trusted": !only_show, "launches": launches_json}));
        return Ok(());
    }
    if launches.is_empty() {
        out.print_note(&format!("the configuration in {name} runs nothing"));
    }
    out.print_result(&trust_prompt::describe_launches(launches.iter()));
    if !only_show {
        let count = launches.iter().filter(|launch| launch.server.is_some()).count();
        out.print_note(&format!("{name} is trusted: {}", plural(count, "server")));
    }
    Ok(())
}

/// Reloads the hosts that may wait for trust: the host of the folder and the host of the workspace.
fn reload_hosts(settings: &Settings, dir: &Path) -> Result<(), String> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start: {error}"))?;
    runtime.block_on(async {
        let of_folder = running_host::find(&settings.for_folder(dir)).await;
        let here = running_host::find(settings).await.filter(|it| Some(it) != of_folder.as_ref());
        for host in of_folder.iter().chain(&here) {
            trust_prompt::reload_host(host).await?;
        }
        Ok(())
    })
}

fn launch_json(launch: &LaunchDefinition) -> Json {
    json!({"server": launch.server, "hash": launch.hash.to_string(), "launch": launch.masked_keys})
}
