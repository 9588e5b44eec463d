//! `toolcrib connect`: writes Toolcrib into another client's configuration and removes it again.

mod report;
mod token;

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use tokio::runtime::Builder;
use toolcrib_config::edit::{EditError, find_entry, with_entry, without_entry};
use toolcrib_config::{Platform, UserFolders};

use self::report::{list_clients, print_entry, report_outcome};
use super::serve;
use crate::Exit;
use crate::args::ConnectArgs;
use crate::atomic_file;
use crate::client_entries::{
    ConnectClient, EntryTransport, entry_dialog, is_toolcrib_entry, merge_entries, without_token,
};
use crate::output::Output;
use crate::replaced_entries::{EntryTarget, ReplacedEntries};
use crate::running_host;
use crate::settings::Settings;

pub(crate) fn run(settings: &Settings, out: &Output, args: &ConnectArgs) -> Exit {
    match connect(settings, out, args) {
        Ok(()) => Exit::Done,
        Err(text) => {
            out.print_error(&text);
            Exit::Failed
        }
    }
}

fn connect(settings: &Settings, out: &Output, args: &ConnectArgs) -> Result<(), String> {
    let platform = if cfg!(target_os = "macos") { Platform::MacOs } else { Platform::Linux };
    let folders =
        UserFolders::from_env(&settings.environment, platform).ok_or("HOME is not set")?;
    let Some(client) = args.client else {
        list_clients(settings, out, &folders);
        return Ok(());
    };
    let target = ClientTarget::new(client, choose_file(settings, args, &folders, client)?)?;
    if args.undo {
        let outcome = target.undo()?;
        target.revoke_token(settings)?;
        report_outcome(settings, out, &target, &outcome);
        return Ok(());
    }
    let planned = target.plan_entry(settings, out, args)?;
    if args.print {
        print_entry(settings, out, &target, &planned.entry);
        return Ok(());
    }
    let edited = target.edit_text(&planned.entry)?;
    let outcome = target.write(&planned, &edited);
    if let (Err(_), Some(token)) = (&outcome, target.new_token(&planned.entry)) {
        // The entry was not written, so no client has this token.
        target.end_token(settings, token)?;
    }
    report_outcome(settings, out, &target, &outcome?);
    Ok(())
}

/// Returns the user's own file, or the workspace's file with `--project`.
fn choose_file(
    settings: &Settings,
    args: &ConnectArgs,
    folders: &UserFolders,
    client: ConnectClient,
) -> Result<PathBuf, String> {
    if !args.project {
        return Ok(client.user_file(folders, settings.root()));
    }
    let file = client.project_file(folders, settings.root());
    file.ok_or_else(|| format!("{} has no workspace file; omit --project", client.name))
}

/// Outcome of `connect`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ConnectOutcome {
    Written,
    Updated,
    /// The entry pointed to another workspace and points to this one now.
    Replaced(EntryTarget),
    Unchanged,
    /// The file has its original content again.
    Restored,
    /// The replaced entry is back.
    Returned(Option<EntryTarget>),
    /// Only the entry was removed, because the file has changed since.
    Removed,
    /// There was no entry to remove.
    NotConnected,
}

/// The entry to write.
struct PlannedEntry {
    entry: Json,
    /// The other workspace that the existing entry points to.
    replaces: Option<EntryTarget>,
}

/// A client's configuration file and its Toolcrib entry.
struct ClientTarget {
    client: ConnectClient,
    file: PathBuf,
    text: Option<String>,
    /// The existing entry.
    entry: Option<Json>,
}

impl ClientTarget {
    fn new(client: ConnectClient, file: PathBuf) -> Result<Self, String> {
        // A symbolic link stays a link: the file it points to is changed.
        let file = file.canonicalize().unwrap_or(file);
        let text = read(&file)?;
        let text_or_none = text.as_deref().unwrap_or_default();
        let entry = find_entry(client.syntax, text_or_none, &client.path())
            .map_err(|error| format!("cannot parse {}: {error}", file.display()))?;
        if let Some(entry) =
            entry.as_ref().filter(|entry| !is_toolcrib_entry(entry) && !entry.is_null())
        {
            let kind = if entry.is_object() { "another server" } else { "something else" };
            let [section, name] = client.path();
            let file = file.display();
            return Err(format!(
                "{file} has {kind} at `{section}.{name}`; the file is not changed"
            ));
        }
        let entry = entry.filter(|entry| !entry.is_null());
        Ok(ClientTarget { client, file, text, entry })
    }

    /// Builds the new entry, with the keys that the user added to the existing one.
    fn plan_entry(
        &self,
        settings: &Settings,
        out: &Output,
        args: &ConnectArgs,
    ) -> Result<PlannedEntry, String> {
        if args.http && !self.client.supports_http() {
            let name = self.client.name;
            return Err(format!("{name} does not support servers over HTTP; omit --http"));
        }
        // Without `--http` the URL is only compared, so an invalid gateway address does not matter.
        let usual = || configured_url(settings).unwrap_or_default();
        let url = if args.http { running_address(settings)? } else { usual() };
        let replaces = self.entry.as_ref().and_then(EntryTarget::from_entry);
        let replaces = replaces.filter(|place| !place.is_workspace(settings.root(), &url));
        let way = match args.http {
            true => self.http_transport(settings, out, args, url, replaces.is_some())?,
            false => stdio_transport(settings)?,
        };
        let entry = self.client.entry(&way).ok_or("this client does not support the transport")?;
        let before = self.entry.as_ref().map(|before| match replaces {
            Some(_) => merge_entries(&entry, &without_token(before)),
            None => merge_entries(&entry, before),
        });
        Ok(PlannedEntry { entry: before.unwrap_or(entry), replaces })
    }

    fn http_transport(
        &self,
        settings: &Settings,
        out: &Output,
        args: &ConnectArgs,
        url: String,
        is_other: bool,
    ) -> Result<EntryTransport, String> {
        let known = self.entry.as_ref().and_then(entry_dialog).map(str::to_owned);
        let dialog = match known {
            Some(known) => known,
            None => {
                let chance =
                    getrandom::u32().map_err(|_| "cannot read random bytes from the system")?;
                format!("{}-{chance:08x}", self.client.word)
            }
        };
        let token = self.client_token(settings, out, args, is_other)?;
        Ok(EntryTransport::Http { url, dialog, token })
    }

    /// Returns the file's text with the new entry.
    fn edit_text(&self, planned: &Json) -> Result<String, String> {
        let text = self.text.as_deref().unwrap_or_default();
        let edited = with_entry(self.client.syntax, text, &self.client.path(), planned);
        edited.map_err(|error| self.edit_error(&error, planned))
    }

    fn write(&self, planned: &PlannedEntry, edited: &str) -> Result<ConnectOutcome, String> {
        let outcome = match (&self.entry, &planned.replaces) {
            (Some(entry), _) if *entry == planned.entry => return Ok(ConnectOutcome::Unchanged),
            (Some(entry), Some(place)) => {
                self.replaced().push(entry)?;
                ConnectOutcome::Replaced(place.clone())
            }
            (Some(_), None) => ConnectOutcome::Updated,
            (None, _) => ConnectOutcome::Written,
        };
        // A file that already has a Toolcrib entry is not the original, so it gets no backup.
        if let (None, Some(text)) = (&self.entry, &self.text) {
            atomic_file::write_atomically(&self.backup(), text.as_bytes(), self.mode())?;
        }
        atomic_file::write_atomically(&self.file, edited.as_bytes(), self.mode())?;
        if outcome == ConnectOutcome::Written {
            self.replaced().clear()?;
        }
        Ok(outcome)
    }

    /// Restores the replaced entry if there is one, or else removes the entry.
    fn undo(&self) -> Result<ConnectOutcome, String> {
        let (Some(text), Some(entry)) = (&self.text, &self.entry) else {
            return Ok(ConnectOutcome::NotConnected);
        };
        let Some(before) = self.replaced().newest(entry)? else {
            self.replaced().clear()?;
            return self.remove_entry(text, entry);
        };
        let edited = with_entry(self.client.syntax, text, &self.client.path(), &before);
        let edited = edited.map_err(|error| self.edit_error(&error, &before))?;
        atomic_file::write_atomically(&self.file, edited.as_bytes(), self.mode())?;
        self.replaced().drop_newest(entry)?;
        Ok(ConnectOutcome::Returned(EntryTarget::from_entry(&before)))
    }

    /// Restores the original file if it was not changed since. The file is unchanged if adding the entry to the backup
    /// gives the current text.
    fn remove_entry(&self, text: &str, entry: &Json) -> Result<ConnectOutcome, String> {
        let (syntax, path) = (self.client.syntax, self.client.path());
        let before = read(&self.backup())?;
        let again = with_entry(syntax, before.as_deref().unwrap_or_default(), &path, entry);
        let is_unchanged = again.is_ok_and(|again| again == text);
        let failed = |path: &Path, error: std::io::Error| {
            format!("cannot remove {}: {error}", path.display())
        };
        match (is_unchanged, before) {
            (true, Some(before)) => {
                atomic_file::write_atomically(&self.file, before.as_bytes(), self.mode())?;
                fs::remove_file(self.backup()).map_err(|error| failed(&self.backup(), error))?;
                Ok(ConnectOutcome::Restored)
            }
            (true, None) => {
                fs::remove_file(&self.file).map_err(|error| failed(&self.file, error))?;
                Ok(ConnectOutcome::Restored)
            }
            (false, _) => {
                let without = without_entry(syntax, text, &path);
                let without = without.map_err(|error| {
                    format!(
                        "{} is not changed: {error}; remove the entry by hand",
                        self.file.display()
                    )
                })?;
                atomic_file::write_atomically(&self.file, without.as_bytes(), self.mode())?;
                Ok(ConnectOutcome::Removed)
            }
        }
    }

    fn edit_error(&self, error: &EditError, planned: &Json) -> String {
        let (file, snippet) = (self.file.display(), self.snippet(planned));
        format!("{file} is not changed: {error}. Add this entry by hand:\n{snippet}")
    }

    /// Returns a file that contains only the entry.
    fn snippet(&self, planned: &Json) -> String {
        with_entry(self.client.syntax, "", &self.client.path(), planned).unwrap_or_default()
    }

    fn backup(&self) -> PathBuf {
        let name = self.file.file_name().unwrap_or_default().to_string_lossy();
        self.file.with_file_name(format!("{name}.toolcrib-backup"))
    }

    fn replaced(&self) -> ReplacedEntries {
        ReplacedEntries::beside(&self.file)
    }

    fn mode(&self) -> u32 {
        let found = fs::metadata(&self.file);
        found.map_or(atomic_file::PRIVATE_MODE, |found| found.permissions().mode() & 0o7777)
    }
}

/// Returns the URL of the workspace's running host, or else the configured URL.
fn running_address(settings: &Settings) -> Result<String, String> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start: {error}"))?;
    let running = runtime.block_on(running_host::find(settings));
    match running.and_then(|running| running.url) {
        Some(url) => Ok(format!("{url}/mcp")),
        None => configured_url(settings),
    }
}

fn configured_url(settings: &Settings) -> Result<String, String> {
    Ok(format!("http://{}/mcp", serve::configured_address(&settings.compile_trusted().gateway)?))
}

/// Returns an entry that starts this program for this workspace and these files.
fn stdio_transport(settings: &Settings) -> Result<EntryTransport, String> {
    let text = |path: &Path| {
        let text = path.to_str().map(str::to_owned);
        text.ok_or_else(|| {
            format!(
                "the path {} is not valid Unicode and cannot be written to the file",
                path.display()
            )
        })
    };
    let program = std::env::current_exe();
    let program =
        program.map_err(|error| format!("cannot find the path of this program: {error}"))?;
    let mut args: Vec<String> = ["serve", "--stdio", "--root"].map(str::to_owned).to_vec();
    args.push(text(settings.root())?);
    if let Some(named) = &settings.workspace.config_file {
        args.extend(["--config".to_owned(), text(&named.path)?]);
        let dialect = named.dialect.map(|dialect| dialect.as_str().to_owned());
        args.extend(dialect.into_iter().flat_map(|word| ["--dialect".to_owned(), word]));
    }
    Ok(EntryTransport::Stdio { program: text(&program)?, args })
}

fn read(path: &Path) -> Result<Option<String>, String> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("cannot read {}: {error}", path.display())),
    }
}
