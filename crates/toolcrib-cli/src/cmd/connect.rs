//! `toolcrib connect`: Toolcrib is written into the configuration of another client, and taken out again.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};
use tokio::runtime::Builder;
use toolcrib::access::DEFAULT_AGENT;
use toolcrib::signals::chain;
use toolcrib_config::edit::{EditError, entry, with_entry, without_entry};
use toolcrib_config::model::host::Gateway;
use toolcrib_config::{Person, System};
use toolcrib_server::identity::Tokens;

use super::serve;
use crate::Exit;
use crate::args::Connect;
use crate::clients::{CLIENTS, Client, Way, dialog_of, is_ours, merged, token_of};
use crate::file;
use crate::out::Out;
use crate::running;
use crate::settings::Settings;
use crate::shown::{Table, plain};

pub(crate) fn run(settings: &Settings, out: &Out, args: &Connect) -> Exit {
    match connect(settings, out, args) {
        Ok(()) => Exit::Done,
        Err(text) => {
            out.error(&text);
            Exit::Failed
        }
    }
}

fn connect(settings: &Settings, out: &Out, args: &Connect) -> Result<(), String> {
    let system = if cfg!(target_os = "macos") { System::MacOs } else { System::Linux };
    let person = Person::of(&settings.world, system).ok_or("HOME is not set")?;
    let Some(client) = args.client else {
        list(settings, out, &person);
        return Ok(());
    };
    let target = Target::new(client, chosen(settings, args, &person, client)?)?;
    if args.undo {
        let done = target.undo()?;
        target.revoke(settings)?;
        tell(settings, out, &target, &done);
        return Ok(());
    }
    let wanted = target.wanted(settings, out, args)?;
    if args.print {
        print(settings, out, &target, &wanted);
        return Ok(());
    }
    let edited = target.edited(&wanted)?;
    let done = target.write(&wanted, &edited);
    if done.is_err() && target.is_new_token(&wanted) {
        // Nobody has it.
        target.end_token(settings)?;
    }
    tell(settings, out, &target, &done?);
    Ok(())
}

/// The file that is meant: a person's own, unless the workspace's is asked for.
fn chosen(
    settings: &Settings,
    args: &Connect,
    person: &Person,
    client: Client,
) -> Result<PathBuf, String> {
    if !args.project {
        return Ok(client.own_file(person, settings.root()));
    }
    let file = client.project_file(person, settings.root());
    file.ok_or_else(|| format!("{} reads no file of a workspace; leave --project out", client.name))
}

/// What was done to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Done {
    Written,
    Updated,
    Unchanged,
    /// The file is as it was before.
    Restored,
    /// Only the entry was taken out, since others have changed the file.
    Removed,
    /// There was nothing to take out.
    Nothing,
}

/// A client's file as it is.
struct Target {
    client: Client,
    file: PathBuf,
    text: Option<String>,
    /// The entry that is there.
    entry: Option<Json>,
}

impl Target {
    fn new(client: Client, file: PathBuf) -> Result<Self, String> {
        // What leads elsewhere stays what it is: the file at its end is changed.
        let file = file.canonicalize().unwrap_or(file);
        let text = read(&file)?;
        let text_or_none = text.as_deref().unwrap_or_default();
        let entry = entry(client.syntax, text_or_none, &client.path())
            .map_err(|error| format!("{} cannot be read: {error}", file.display()))?;
        if let Some(entry) = entry.as_ref().filter(|entry| !is_ours(entry) && !entry.is_null()) {
            let kind = if entry.is_object() { "another server" } else { "something else" };
            let [section, name] = client.path();
            let file = file.display();
            return Err(format!("{file} has {kind} at `{section}.{name}`; it is left as it is"));
        }
        let entry = entry.filter(|entry| !entry.is_null());
        Ok(Target { client, file, text, entry })
    }

    /// The entry as it is to be, with what a person added to the one that is there.
    fn wanted(&self, settings: &Settings, out: &Out, args: &Connect) -> Result<Json, String> {
        let is_possible = !args.http || self.client.takes_addresses();
        let way = match args.http && is_possible {
            true => self.http(settings, out, args)?,
            false => start(settings)?,
        };
        let wanted = self.client.entry(&way).filter(|_| is_possible);
        let wanted = wanted.ok_or_else(|| {
            let name = self.client.name;
            format!("{name} only takes servers that it starts itself; leave --http out")
        })?;
        Ok(self.entry.as_ref().map_or(wanted.clone(), |before| merged(&wanted, before)))
    }

    /// The host that runs, or the one that would without further words.
    fn http(&self, settings: &Settings, out: &Out, args: &Connect) -> Result<Way, String> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| format!("cannot start: {error}"))?;
        let running = runtime.block_on(running::find(settings));
        let url = running.and_then(|running| running.url);
        let gateway = settings.effective().gateway;
        let url = match url {
            Some(url) => url,
            None => format!("http://{}", serve::configured(&gateway)?),
        };
        let known = self.entry.as_ref().and_then(dialog_of).map(str::to_owned);
        let dialog = match known {
            Some(known) => known,
            None => {
                let chance = getrandom::u32().map_err(|_| "no randomness to be had")?;
                format!("{}-{chance:08x}", self.client.word)
            }
        };
        let token = self.token(settings, out, args, &gateway)?;
        Ok(Way::Http { url: format!("{url}/mcp"), dialog, token })
    }

    /// What the client has to come in with, where nobody comes in without: a token of its own, which ends with
    /// `--undo`. Into a workspace's file none is written, since others read that too.
    fn token(
        &self,
        settings: &Settings,
        out: &Out,
        args: &Connect,
        gateway: &Gateway,
    ) -> Result<Option<String>, String> {
        let tokens = Tokens::of(&settings.state_folder()?);
        let known = tokens.list().map_err(|error| chain(&error))?;
        let before = self.entry.as_ref().and_then(token_of);
        if before.is_some() {
            // Whatever it is, somebody put it there.
            return Ok(before.map(str::to_owned));
        }
        if let (Some(issuer), true) = (&gateway.oauth.issuer, known.is_empty()) {
            out.note(&format!("the client logs in at {issuer}, or sends a token of it"));
            return Ok(None);
        }
        if known.is_empty() && gateway.tokens.is_empty() {
            return Ok(None);
        }
        if args.project || args.print {
            out.note("the gateway wants a token: make one with `toolcrib token new`, and add");
            out.note("the header `Authorization: Bearer TOKEN` where only you can read it");
            return Ok(None);
        }
        let made = tokens.issue(&self.token_name(), DEFAULT_AGENT, false);
        let (secret, issued) = made.map_err(|error| chain(&error))?;
        out.note(&format!("token {} was made for it; `--undo` ends that, too", issued.id));
        Ok(Some(secret))
    }

    /// The token that was made for the client ends.
    fn revoke(&self, settings: &Settings) -> Result<(), String> {
        match self.entry.as_ref().and_then(token_of) {
            Some(_) => self.end_token(settings),
            None => Ok(()),
        }
    }

    fn end_token(&self, settings: &Settings) -> Result<(), String> {
        let tokens = Tokens::of(&settings.state_folder()?);
        tokens.revoke(&self.token_name()).map(drop).map_err(|error| chain(&error))
    }

    /// Whether a token was made for what is to be written.
    fn is_new_token(&self, wanted: &Json) -> bool {
        token_of(wanted).is_some() && self.entry.as_ref().and_then(token_of).is_none()
    }

    fn token_name(&self) -> String {
        format!("connect:{}", self.client.word)
    }

    /// The file as it is to be.
    fn edited(&self, wanted: &Json) -> Result<String, String> {
        let text = self.text.as_deref().unwrap_or_default();
        let edited = with_entry(self.client.syntax, text, &self.client.path(), wanted);
        edited.map_err(|error| self.unwritten(&error, wanted))
    }

    fn write(&self, wanted: &Json, edited: &str) -> Result<Done, String> {
        if self.entry.as_ref() == Some(wanted) {
            return Ok(Done::Unchanged);
        }
        // With an entry of ours in it a file is not what was there before.
        if let (None, Some(text)) = (&self.entry, &self.text) {
            file::write(&self.backup(), text.as_bytes(), self.mode())?;
        }
        file::write(&self.file, edited.as_bytes(), self.mode())?;
        Ok(if self.entry.is_some() { Done::Updated } else { Done::Written })
    }

    /// Exactly what was there, if nobody has changed the file since: putting the entry into what was there must
    /// give what is there.
    fn undo(&self) -> Result<Done, String> {
        let (Some(text), Some(entry)) = (&self.text, &self.entry) else { return Ok(Done::Nothing) };
        let (syntax, path) = (self.client.syntax, self.client.path());
        let before = read(&self.backup())?;
        let again = with_entry(syntax, before.as_deref().unwrap_or_default(), &path, entry);
        let is_unchanged = again.is_ok_and(|again| again == *text);
        let failed = |path: &Path, error: std::io::Error| {
            format!("cannot remove {}: {error}", path.display())
        };
        match (is_unchanged, before) {
            (true, Some(before)) => {
                file::write(&self.file, before.as_bytes(), self.mode())?;
                fs::remove_file(self.backup()).map_err(|error| failed(&self.backup(), error))?;
                Ok(Done::Restored)
            }
            (true, None) => {
                fs::remove_file(&self.file).map_err(|error| failed(&self.file, error))?;
                Ok(Done::Restored)
            }
            (false, _) => {
                let without = without_entry(syntax, text, &path);
                let without = without.map_err(|error| {
                    format!(
                        "{} is left as it is: {error}; take the entry out by hand",
                        self.file.display()
                    )
                })?;
                file::write(&self.file, without.as_bytes(), self.mode())?;
                Ok(Done::Removed)
            }
        }
    }

    fn unwritten(&self, error: &EditError, wanted: &Json) -> String {
        let (file, snippet) = (self.file.display(), self.snippet(wanted));
        format!("{file} is left as it is: {error}. Put this into it by hand:\n{snippet}")
    }

    /// What a file would be that has nothing else.
    fn snippet(&self, wanted: &Json) -> String {
        with_entry(self.client.syntax, "", &self.client.path(), wanted).unwrap_or_default()
    }

    fn backup(&self) -> PathBuf {
        let name = self.file.file_name().unwrap_or_default().to_string_lossy();
        self.file.with_file_name(format!("{name}.toolcrib-backup"))
    }

    fn mode(&self) -> u32 {
        let found = fs::metadata(&self.file);
        found.map_or(file::PRIVATE, |found| found.permissions().mode() & 0o7777)
    }
}

/// This very program, for this root and these files.
fn start(settings: &Settings) -> Result<Way, String> {
    let text = |path: &Path| {
        let text = path.to_str().map(str::to_owned);
        text.ok_or_else(|| format!("{} is no text, and cannot be written", path.display()))
    };
    let program = std::env::current_exe();
    let program = program.map_err(|error| format!("cannot tell where this program is: {error}"))?;
    let mut args: Vec<String> = ["serve", "--stdio", "--root"].map(str::to_owned).to_vec();
    args.push(text(settings.root())?);
    if let Some(named) = &settings.workspace.named {
        args.extend(["--config".to_owned(), text(&named.path)?]);
        let dialect = named.dialect.map(|dialect| dialect.as_str().to_owned());
        args.extend(dialect.into_iter().flat_map(|word| ["--dialect".to_owned(), word]));
    }
    Ok(Way::Start { program: text(&program)?, args })
}

fn read(path: &Path) -> Result<Option<String>, String> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("cannot read {}: {error}", path.display())),
    }
}

fn print(settings: &Settings, out: &Out, target: &Target, wanted: &Json) {
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

fn tell(settings: &Settings, out: &Out, target: &Target, done: &Done) {
    let (name, file) = (target.client.name, target.file.display());
    let action = match done {
        Done::Written => "written",
        Done::Updated => "updated",
        Done::Unchanged => "unchanged",
        Done::Restored => "restored",
        Done::Removed => "removed",
        Done::Nothing => "nothing",
    };
    let backup = Some(target.backup()).filter(|backup| backup.exists());
    if settings.json {
        let client = target.client.word;
        let file = &target.file;
        return out
            .json(&json!({"client": client, "file": file, "action": action, "backup": backup}));
    }
    let kept = backup.map(|backup| format!("; the file as it was is {}", backup.display()));
    let kept = kept.unwrap_or_default();
    out.result(&match done {
        Done::Written => format!("{name} has Toolcrib now: {file}{kept}\n"),
        Done::Updated => format!("{name} has Toolcrib as it is now: {file}\n"),
        Done::Unchanged => format!("{name} has Toolcrib already: {file}\n"),
        Done::Restored => format!("{file} is as it was before\n"),
        Done::Removed => {
            format!("{file} has changed since, so only Toolcrib was taken out{kept}\n")
        }
        Done::Nothing => format!("{name} has no Toolcrib: {file}\n"),
    });
    if matches!(done, Done::Written | Done::Updated) {
        out.note(&format!("restart {name} to make it look; `--undo` takes it back"));
    }
}

/// Every client and its files.
fn list(settings: &Settings, out: &Out, person: &Person) {
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
