//! `toolcrib import`: other clients' servers become a `toolcrib.yaml`.

use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};
use toolcrib_config::{
    Client, ClientFile, Config, Imported, Lookup, Named, Person, Problem, Show, System, Workspace,
    client_files, compile, import,
};

use crate::Exit;
use crate::args::Import;
use crate::clients::is_ours;
use crate::file;
use crate::out::Out;
use crate::report::{plural, problems};
use crate::settings::Settings;

pub(crate) fn run(settings: &Settings, out: &Out, args: &Import) -> Exit {
    match import_all(settings, out, args) {
        Ok(done) => {
            done.tell(settings, out);
            Exit::Done
        }
        Err(text) => {
            out.error(&text);
            Exit::Failed
        }
    }
}

/// What an import did.
struct Done {
    written: PathBuf,
    backup: Option<PathBuf>,
    found: Vec<Found>,
    imported: Imported,
}

/// A client's file and what it holds.
struct Found {
    file: ClientFile,
    config: Config,
}

fn import_all(settings: &Settings, out: &Out, args: &Import) -> Result<Done, String> {
    let target = target(settings, args)?;
    if target.exists() && !args.force {
        let target = target.display();
        return Err(format!(
            "{target} exists; it is kept. With --force it is replaced, after a backup"
        ));
    }
    let found = found(settings, args)?;
    if found.iter().all(|found| found.config.servers.is_empty()) {
        found.iter().for_each(|found| tell_problems(out, found));
        return Err("no servers were found in the files of other clients".to_string());
    }
    let configs: Vec<Config> = found.iter().map(|found| found.config.clone()).collect();
    let imported = import(&configs);
    let text = format!("{}{}", header(&found), imported.text);
    let backup = file::replace(&target, text.as_bytes())?;
    Ok(Done { written: target, backup, found, imported })
}

fn target(settings: &Settings, args: &Import) -> Result<PathBuf, String> {
    let folder = match args.user {
        false => Some(settings.root()),
        true => settings.workspace.home.as_deref(),
    };
    let folder = folder.ok_or("there is no folder for your own configuration; set HOME")?;
    Ok(folder.join("toolcrib.yaml"))
}

/// The files that are there. Into a person's own file go only their own, not those of the workspace.
fn found(settings: &Settings, args: &Import) -> Result<Vec<Found>, String> {
    let system = if cfg!(target_os = "macos") { System::MacOs } else { System::Linux };
    let person = Person::of(&settings.world, system).ok_or("HOME is not set")?;
    let wanted = |client: Client| args.client.as_ref().is_none_or(|only| only.0.contains(&client));
    let in_root = |path: &Path| {
        path.starts_with(settings.root()) && !person.home.starts_with(settings.root())
    };
    let files = client_files(&person, settings.root());
    let there = files
        .into_iter()
        .filter(|file| wanted(file.client) && !(args.user && in_root(&file.path)))
        .filter(|file| settings.world.file(&file.path) != toolcrib_config::File::Missing);
    Ok(there.map(|file| read(settings, file)).collect())
}

fn read(settings: &Settings, file: ClientFile) -> Found {
    let named = Named { path: file.path.clone(), dialect: Some(file.dialect) };
    let workspace = Workspace { named: Some(named), ..settings.workspace.clone() };
    let mut config = compile(&workspace, &settings.world);
    // A client may have Toolcrib itself, and a host that starts itself would never end doing so.
    config.servers.retain(|spec| !is_ours(&json!(spec.native(Show::Revealed))));
    Found { config, file }
}

fn header(found: &[Found]) -> String {
    let from = found.iter().filter(|found| !found.config.servers.is_empty());
    let lines: String =
        from.map(|found| format!("# Taken over from {}\n", found.file.path.display())).collect();
    format!("{lines}# `toolcrib explain` shows every setting and where it comes from.\n")
}

fn tell_problems(out: &Out, found: &Found) {
    let shown: Vec<&Problem> = found.config.problems.iter().collect();
    out.result(&problems(&found.config, &shown));
}

impl Done {
    fn tell(&self, settings: &Settings, out: &Out) {
        if settings.json {
            return out.json(&self.document());
        }
        self.found.iter().for_each(|found| tell_problems(out, found));
        for (id, key) in &self.imported.servers {
            out.result(&format!("{id}  from {key}\n"));
        }
        for (key, lost) in &self.imported.lost {
            out.result(&format!("not carried over: `{lost}` of {key}\n"));
        }
        for rejected in self.rejected() {
            out.result(&format!("not carried over: server {rejected}; see above\n"));
        }
        let servers = plural(self.imported.servers.len(), "server");
        out.note(&format!("wrote {servers} to {}", self.written.display()));
        if let Some(backup) = &self.backup {
            out.note(&format!("the file that was there is now {}", backup.display()));
        }
    }

    fn rejected(&self) -> impl Iterator<Item = String> {
        let all = self.found.iter().flat_map(|found| &found.config.rejected);
        all.map(|rejected| format!("{}#{}", rejected.source, rejected.id))
    }

    fn document(&self) -> Json {
        let servers: Vec<Json> = self
            .imported
            .servers
            .iter()
            .map(|(id, key)| json!({ "id": id, "from": key }))
            .collect();
        let keys =
            self.imported.lost.iter().map(|(key, lost)| json!({ "server": key, "key": lost }));
        let lost: Vec<Json> =
            keys.chain(self.rejected().map(|key| json!({ "server": key, "key": null }))).collect();
        let problems: Vec<&Problem> =
            self.found.iter().flat_map(|found| &found.config.problems).collect();
        json!({ "written": self.written, "backup": self.backup, "servers": servers, "lost": lost, "problems": problems })
    }
}
