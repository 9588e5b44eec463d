//! `toolcrib trust`: what the configuration of a folder would run, and whether it may.

use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};
use tokio::runtime::Builder;
use toolcrib::store::TrustFile;
use toolcrib_config::Launch;
use toolcrib_upstream::signals::{chain, timestamp};

use crate::Exit;
use crate::args::Trust;
use crate::out::Out;
use crate::report::plural;
use crate::running;
use crate::settings::Settings;
use crate::shown::{Table, lines, plain, printable};
use crate::trust;

pub(crate) fn run(settings: &Settings, out: &Out, args: &Trust) -> Exit {
    let done = match settings.trust_file() {
        None => Err("set HOME or TOOLCRIB_STATE_DIR: what is trusted is kept there".to_owned()),
        Some(file) if args.list => list(settings, out, &file),
        Some(file) if args.forget => forget(settings, out, &file, &folder(settings, args)),
        Some(file) => show(settings, out, &file, &folder(settings, args), args.show),
    };
    match done {
        Ok(()) => Exit::Done,
        Err(text) => {
            out.error(&lines(&text));
            Exit::Failed
        }
    }
}

fn folder(settings: &Settings, args: &Trust) -> PathBuf {
    match &args.dir {
        Some(dir) => settings.world.cwd().join(dir),
        None => settings.root().to_path_buf(),
    }
}

fn list(settings: &Settings, out: &Out, file: &TrustFile) -> Result<(), String> {
    let folders = file.folders().map_err(|error| chain(&error))?;
    if settings.json {
        let told = folders.iter().map(|it| json!({"path": it.path, "at": timestamp(it.at)}));
        out.json(&json!({"folders": told.collect::<Vec<Json>>()}));
        return Ok(());
    }
    let mut table = Table::new(&["FOLDER", "SINCE"]);
    for it in &folders {
        let path = printable(&it.path.display().to_string());
        table.row([plain(path), plain(timestamp(it.at))]);
    }
    out.result(&table.text());
    if folders.is_empty() {
        out.note("no folder is trusted");
    }
    Ok(())
}

fn forget(settings: &Settings, out: &Out, file: &TrustFile, dir: &Path) -> Result<(), String> {
    let was_there = file.forget(dir).map_err(|error| chain(&error))?;
    let name = printable(&dir.display().to_string());
    if !was_there {
        return Err(format!("{name} is not trusted; `toolcrib trust --list` shows what is"));
    }
    wake(settings, dir)?;
    match settings.json {
        true => out.json(&json!({"folder": dir, "trusted": false})),
        false => out.result(&format!("{name} is not trusted any more\n")),
    }
    Ok(())
}

fn show(
    settings: &Settings,
    out: &Out,
    file: &TrustFile,
    dir: &Path,
    only_show: bool,
) -> Result<(), String> {
    let dir = dir.canonicalize().ok().filter(|dir| dir.is_dir());
    let dir = dir.ok_or("there is no such folder")?;
    let launches = settings.elsewhere(&dir).compile().launches();
    if !only_show {
        let hashes = launches.iter().map(|launch| launch.hash);
        file.trust(&dir, hashes).map_err(|error| chain(&error))?;
        wake(settings, &dir)?;
    }
    let name = printable(&dir.display().to_string());
    if settings.json {
        let told: Vec<Json> = launches.iter().map(to_json).collect();
        out.json(&json!({"folder": dir, "trusted": !only_show, "launches": told}));
        return Ok(());
    }
    if launches.is_empty() {
        out.note(&format!("nothing is configured in {name} that would run"));
    }
    out.result(&trust::text(launches.iter()));
    if !only_show {
        let count = launches.iter().filter(|launch| launch.server.is_some()).count();
        out.note(&format!("{name} is trusted: {}", plural(count, "server")));
    }
    Ok(())
}

/// Tells the hosts that may have waited for it: that of the folder, and that of the workspace.
fn wake(settings: &Settings, dir: &Path) -> Result<(), String> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start: {error}"))?;
    runtime.block_on(async {
        let of_folder = running::find(&settings.elsewhere(dir)).await;
        let here = running::find(settings).await.filter(|it| Some(it) != of_folder.as_ref());
        for host in of_folder.iter().chain(&here) {
            trust::wake(host).await?;
        }
        Ok(())
    })
}

fn to_json(launch: &Launch) -> Json {
    json!({"server": launch.server, "hash": launch.hash.to_string(), "launch": launch.shown})
}
