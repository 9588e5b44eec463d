//! `toolcrib connect`: Toolcrib is written into the configuration of another client, and taken out again.

mod telling;
mod token;

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use tokio::runtime::Builder;
use toolcrib_config::edit::{EditError, entry, with_entry, without_entry};
use toolcrib_config::{Person, System};

use self::telling::{list, print, tell};
use super::serve;
use crate::Exit;
use crate::args::Connect;
use crate::clients::{Client, Way, dialog_of, is_ours, merged, without_token};
use crate::file;
use crate::out::Out;
use crate::replaced::{Place, Replaced};
use crate::running;
use crate::settings::Settings;

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
        print(settings, out, &target, &wanted.entry);
        return Ok(());
    }
    let edited = target.edited(&wanted.entry)?;
    let done = target.write(&wanted, &edited);
    if let (Err(_), Some(token)) = (&done, target.new_token(&wanted.entry)) {
        // Nobody has it.
        target.end_token(settings, token)?;
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
#[derive(Clone, Debug, PartialEq, Eq)]
enum Done {
    Written,
    Updated,
    /// What led to another workspace leads to this one now.
    Replaced(Place),
    Unchanged,
    /// The file is as it was before.
    Restored,
    /// What was replaced is there again.
    Returned(Option<Place>),
    /// Only the entry was taken out, since others have changed the file.
    Removed,
    /// There was nothing to take out.
    Nothing,
}

/// What is to be written.
struct Wanted {
    entry: Json,
    /// The other workspace that the entry before it leads to.
    instead: Option<Place>,
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
    fn wanted(&self, settings: &Settings, out: &Out, args: &Connect) -> Result<Wanted, String> {
        if args.http && !self.client.takes_addresses() {
            let name = self.client.name;
            return Err(format!(
                "{name} only takes servers that it starts itself; leave --http out"
            ));
        }
        // Where nothing is asked there, it does not matter that nothing can be.
        let usual = || usual_address(settings).unwrap_or_default();
        let url = if args.http { address(settings)? } else { usual() };
        let instead = self.entry.as_ref().and_then(Place::of);
        let instead = instead.filter(|place| !place.is_of(settings.root(), &url));
        let way = match args.http {
            true => self.http(settings, out, args, url, instead.is_some())?,
            false => start(settings)?,
        };
        let entry = self.client.entry(&way).ok_or("this client knows no such way")?;
        let before = self.entry.as_ref().map(|before| match instead {
            Some(_) => merged(&entry, &without_token(before)),
            None => merged(&entry, before),
        });
        Ok(Wanted { entry: before.unwrap_or(entry), instead })
    }

    fn http(
        &self,
        settings: &Settings,
        out: &Out,
        args: &Connect,
        url: String,
        is_other: bool,
    ) -> Result<Way, String> {
        let known = self.entry.as_ref().and_then(dialog_of).map(str::to_owned);
        let dialog = match known {
            Some(known) => known,
            None => {
                let chance = getrandom::u32().map_err(|_| "no randomness to be had")?;
                format!("{}-{chance:08x}", self.client.word)
            }
        };
        let token = self.token(settings, out, args, is_other)?;
        Ok(Way::Http { url, dialog, token })
    }

    /// The file as it is to be.
    fn edited(&self, wanted: &Json) -> Result<String, String> {
        let text = self.text.as_deref().unwrap_or_default();
        let edited = with_entry(self.client.syntax, text, &self.client.path(), wanted);
        edited.map_err(|error| self.unwritten(&error, wanted))
    }

    fn write(&self, wanted: &Wanted, edited: &str) -> Result<Done, String> {
        let done = match (&self.entry, &wanted.instead) {
            (Some(entry), _) if *entry == wanted.entry => return Ok(Done::Unchanged),
            (Some(entry), Some(place)) => {
                self.replaced().add(entry)?;
                Done::Replaced(place.clone())
            }
            (Some(_), None) => Done::Updated,
            (None, _) => Done::Written,
        };
        // With an entry of ours in it a file is not what was there before.
        if let (None, Some(text)) = (&self.entry, &self.text) {
            file::write(&self.backup(), text.as_bytes(), self.mode())?;
        }
        file::write(&self.file, edited.as_bytes(), self.mode())?;
        if done == Done::Written {
            self.replaced().forget()?;
        }
        Ok(done)
    }

    /// The entry that was replaced, where there was one, or else the file without any.
    fn undo(&self) -> Result<Done, String> {
        let (Some(text), Some(entry)) = (&self.text, &self.entry) else { return Ok(Done::Nothing) };
        let Some(before) = self.replaced().newest(entry)? else {
            self.replaced().forget()?;
            return self.take_out(text, entry);
        };
        let edited = with_entry(self.client.syntax, text, &self.client.path(), &before);
        let edited = edited.map_err(|error| self.unwritten(&error, &before))?;
        file::write(&self.file, edited.as_bytes(), self.mode())?;
        self.replaced().given_back(entry)?;
        Ok(Done::Returned(Place::of(&before)))
    }

    /// Exactly what was there, if nobody has changed the file since: putting the entry into what was there must
    /// give what is there.
    fn take_out(&self, text: &str, entry: &Json) -> Result<Done, String> {
        let (syntax, path) = (self.client.syntax, self.client.path());
        let before = read(&self.backup())?;
        let again = with_entry(syntax, before.as_deref().unwrap_or_default(), &path, entry);
        let is_unchanged = again.is_ok_and(|again| again == text);
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

    fn replaced(&self) -> Replaced {
        Replaced::beside(&self.file)
    }

    fn mode(&self) -> u32 {
        let found = fs::metadata(&self.file);
        found.map_or(file::PRIVATE, |found| found.permissions().mode() & 0o7777)
    }
}

/// Where the host of the workspace is that runs, or else the one that would without further words.
fn address(settings: &Settings) -> Result<String, String> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start: {error}"))?;
    let running = runtime.block_on(running::find(settings));
    match running.and_then(|running| running.url) {
        Some(url) => Ok(format!("{url}/mcp")),
        None => usual_address(settings),
    }
}

fn usual_address(settings: &Settings) -> Result<String, String> {
    Ok(format!("http://{}/mcp", serve::configured(&settings.effective().gateway)?))
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
