//! `toolcrib import`: converts other clients' servers to a `toolcrib.yaml`.

use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};
use toolcrib_config::{
    ClientApp, ClientConfigFile, Config, ConfigFile, ImportedConfig, Lookup, Platform, Problem,
    SecretVisibility, UserFolders, Workspace, client_files, compile, import,
};

use crate::Exit;
use crate::args::ImportArgs;
use crate::atomic_file;
use crate::client_entries::is_toolcrib_entry;
use crate::output::Output;
use crate::problem_report::{plural, render_problems};
use crate::settings::Settings;

pub(crate) fn run(settings: &Settings, out: &Output, args: &ImportArgs) -> Exit {
    match import_all(settings, out, args) {
        Ok(outcome) => {
            outcome.print(settings, out);
            Exit::Done
        }
        Err(text) => {
            out.print_error(&text);
            Exit::Failed
        }
    }
}

/// Outcome of an import.
struct ImportOutcome {
    written: PathBuf,
    backup: Option<PathBuf>,
    found: Vec<ClientServers>,
    imported: ImportedConfig,
}

/// A client's file and its compiled servers.
struct ClientServers {
    file: ClientConfigFile,
    config: Config,
}

fn import_all(
    settings: &Settings,
    out: &Output,
    args: &ImportArgs,
) -> Result<ImportOutcome, String> {
    let target = target_path(settings, args)?;
    if target.exists() && !args.force {
        let target = target.display();
        return Err(format!(
            "{target} exists and is not changed; --force replaces it after a backup"
        ));
    }
    let found = find_client_files(settings, args)?;
    if found.iter().all(|found| found.config.servers.is_empty()) {
        found.iter().for_each(|found| print_problems(out, found));
        return Err("no servers were found in the files of other clients".to_string());
    }
    let configs: Vec<Config> = found.iter().map(|found| found.config.clone()).collect();
    let imported = import(&configs);
    let text = format!("{}{}", file_header(&found), imported.text);
    let backup = atomic_file::replace_with_backup(&target, text.as_bytes())?;
    Ok(ImportOutcome { written: target, backup, found, imported })
}

fn target_path(settings: &Settings, args: &ImportArgs) -> Result<PathBuf, String> {
    let folder = match args.user {
        false => Some(settings.root()),
        true => settings.workspace.home.as_deref(),
    };
    let folder = folder.ok_or("cannot find the folder of your own configuration; set HOME")?;
    Ok(folder.join("toolcrib.yaml"))
}

/// Returns the existing client files. The user's own file gets only the user's files, not those of the workspace.
fn find_client_files(settings: &Settings, args: &ImportArgs) -> Result<Vec<ClientServers>, String> {
    let platform = if cfg!(target_os = "macos") { Platform::MacOs } else { Platform::Linux };
    let folders =
        UserFolders::from_env(&settings.environment, platform).ok_or("HOME is not set")?;
    let wanted =
        |client: ClientApp| args.client.as_ref().is_none_or(|only| only.0.contains(&client));
    let in_root = |path: &Path| {
        path.starts_with(settings.root()) && !folders.home.starts_with(settings.root())
    };
    let files = client_files(&folders, settings.root());
    let there = files
        .into_iter()
        .filter(|file| wanted(file.client) && !(args.user && in_root(&file.path)))
        .filter(|file| {
            settings.environment.file(&file.path) != toolcrib_config::FileLookup::Missing
        });
    Ok(there.map(|file| compile_client_file(settings, file)).collect())
}

fn compile_client_file(settings: &Settings, file: ClientConfigFile) -> ClientServers {
    let named = ConfigFile { path: file.path.clone(), dialect: Some(file.dialect) };
    let workspace = Workspace { config_file: Some(named), ..settings.workspace.clone() };
    let mut config = compile(&workspace, &settings.environment);
    // A client may be connected to Toolcrib. A host that imported that entry would start itself endlessly.
    config
        .servers
        .retain(|spec| !is_toolcrib_entry(&json!(spec.native(SecretVisibility::Revealed))));
    ClientServers { config, file }
}

fn file_header(found: &[ClientServers]) -> String {
    let from = found.iter().filter(|found| !found.config.servers.is_empty());
    let lines: String =
        from.map(|found| format!("# Imported from {}\n", found.file.path.display())).collect();
    format!("{lines}# `toolcrib explain` shows every setting and where it comes from.\n")
}

fn print_problems(out: &Output, found: &ClientServers) {
    let shown: Vec<&Problem> = found.config.problems.iter().collect();
    out.print_result(&render_problems(&found.config, &shown));
}

impl ImportOutcome {
    fn print(&self, settings: &Settings, out: &Output) {
        if settings.json {
            return out.print_json(&self.document());
        }
        self.found.iter().for_each(|found| print_problems(out, found));
        for (id, key) in &self.imported.servers {
            out.print_result(&format!("{id}  from {key}\n"));
        }
        for (key, lost) in &self.imported.lost {
            out.print_result(&format!("not carried over: `{lost}` of {key}\n"));
        }
        for rejected in self.rejected() {
            out.print_result(&format!("not carried over: server {rejected}; see above\n"));
        }
        let servers = plural(self.imported.servers.len(), "server");
        out.print_note(&format!("wrote {servers} to {}", self.written.display()));
        if let Some(backup) = &self.backup {
            out.print_note(&format!("the previous file is now {}", backup.display()));
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
