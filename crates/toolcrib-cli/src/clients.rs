//! The clients that Toolcrib can be written into: where their files are, and how an entry looks there.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json, json};
use toolcrib_config::{Client as Known, Person, Syntax, client_files};

/// The name of the entry, in every client.
pub(crate) const NAME: &str = "toolcrib";

/// The header that names a dialog.
pub(crate) const DIALOG: &str = "Toolcrib-Dialog";

/// The header that says who asks.
const AUTHORIZATION: &str = "Authorization";
const BEARER: &str = "Bearer ";

/// A program that has MCP servers configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Client {
    pub(crate) word: &'static str,
    /// As people call it.
    pub(crate) name: &'static str,
    pub(crate) syntax: Syntax,
    /// The key that all servers are below of.
    section: &'static str,
    form: Form,
}

/// How an entry looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// `command` and `args`, or `url` and `headers`.
    Plain,
    /// The same with its type.
    Typed,
    /// The same, and no way but to be started.
    Started,
    Codex,
    Gemini,
    Goose,
    Opencode,
    Windsurf,
}

/// How a client comes to Toolcrib.
#[derive(Clone, Debug)]
pub(crate) enum Way {
    /// It starts this program with these arguments.
    Start { program: String, args: Vec<String> },
    /// It is at this address already, and the client has a dialog of this name there; it comes in with a token where
    /// one is needed.
    Http { url: String, dialog: String, token: Option<String> },
}

pub(crate) const CLIENTS: [Client; 10] = [
    client("claude-code", "Claude Code", Syntax::Json, "mcpServers", Form::Typed),
    client("claude-desktop", "Claude Desktop", Syntax::Json, "mcpServers", Form::Started),
    client("cursor", "Cursor", Syntax::Json, "mcpServers", Form::Plain),
    client("vscode", "VS Code", Syntax::Json, "servers", Form::Typed),
    client("codex", "Codex", Syntax::Toml, "mcp_servers", Form::Codex),
    client("goose", "goose", Syntax::Yaml, "extensions", Form::Goose),
    client("windsurf", "Windsurf", Syntax::Json, "mcpServers", Form::Windsurf),
    client("zed", "Zed", Syntax::Json, "context_servers", Form::Plain),
    client("gemini-cli", "Gemini CLI", Syntax::Json, "mcpServers", Form::Gemini),
    client("opencode", "opencode", Syntax::Json, "mcp", Form::Opencode),
];

const fn client(
    word: &'static str,
    name: &'static str,
    syntax: Syntax,
    section: &'static str,
    form: Form,
) -> Client {
    Client { word, name, syntax, section, form }
}

impl Client {
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        let word = if word == "gemini" { "gemini-cli" } else { word };
        CLIENTS.into_iter().find(|client| client.word == word)
    }

    /// The keys to the entry.
    pub(crate) fn path(&self) -> [&'static str; 2] {
        [self.section, NAME]
    }

    /// The person's own file.
    pub(crate) fn own_file(&self, person: &Person, root: &Path) -> PathBuf {
        match self.word {
            "windsurf" => person.home.join(".codeium/windsurf/mcp_config.json"),
            // On every system, whatever the customs there are.
            "zed" => person.config.join("zed/settings.json"),
            "goose" => person.config.join("goose/config.yaml"),
            _ => self.known(person, root).into_iter().next().unwrap_or_default(),
        }
    }

    /// The file in a workspace, where the client reads one.
    pub(crate) fn project_file(&self, person: &Person, root: &Path) -> Option<PathBuf> {
        match self.word {
            "zed" => Some(root.join(".zed/settings.json")),
            _ => self.known(person, root).into_iter().nth(1),
        }
    }

    fn known(&self, person: &Person, root: &Path) -> Vec<PathBuf> {
        let word = if self.word == "gemini-cli" { "gemini" } else { self.word };
        let Some(known) = Known::from_word(word) else { return Vec::new() };
        let files = client_files(person, root).into_iter().filter(|file| file.client == known);
        files.map(|file| file.path).collect()
    }

    /// Whether it takes servers that it does not start itself.
    pub(crate) fn takes_addresses(&self) -> bool {
        self.form != Form::Started
    }

    /// The entry as this client reads it; nothing where the client knows no such way.
    pub(crate) fn entry(&self, way: &Way) -> Option<Json> {
        Some(match way {
            Way::Start { program, args } => self.started(program, args),
            Way::Http { .. } if !self.takes_addresses() => return None,
            Way::Http { url, dialog, token } => {
                let mut headers = json!({ DIALOG: dialog });
                if let Some(token) = token {
                    headers[AUTHORIZATION] = json!(format!("{BEARER}{token}"));
                }
                self.reached(url, &headers)
            }
        })
    }

    fn started(&self, program: &str, args: &[String]) -> Json {
        match self.form {
            Form::Typed => json!({"type": "stdio", "command": program, "args": args}),
            Form::Goose => json!({
                "enabled": true, "type": "stdio", "name": NAME, "description": DESCRIPTION,
                "cmd": program, "args": args, "timeout": 300,
            }),
            Form::Opencode => {
                let command: Vec<&str> =
                    std::iter::once(program).chain(args.iter().map(String::as_str)).collect();
                json!({"type": "local", "command": command, "enabled": true})
            }
            _ => json!({"command": program, "args": args}),
        }
    }

    fn reached(&self, url: &str, headers: &Json) -> Json {
        match self.form {
            Form::Typed => json!({"type": "http", "url": url, "headers": headers}),
            Form::Codex => json!({"url": url, "http_headers": headers}),
            Form::Gemini => json!({"httpUrl": url, "headers": headers}),
            Form::Windsurf => json!({"serverUrl": url, "headers": headers}),
            Form::Goose => json!({
                "enabled": true, "type": "streamable_http", "name": NAME, "description": DESCRIPTION,
                "uri": url, "headers": headers, "timeout": 300,
            }),
            Form::Opencode => {
                json!({"type": "remote", "url": url, "headers": headers, "enabled": true})
            }
            _ => json!({"url": url, "headers": headers}),
        }
    }
}

const DESCRIPTION: &str = "All MCP servers of a workspace";

/// What says how a client comes to Toolcrib; everything else in an entry is the person's.
const OURS: [&str; 12] = [
    "type",
    "command",
    "args",
    "cmd",
    "url",
    "uri",
    "serverUrl",
    "httpUrl",
    "headers",
    "http_headers",
    "name",
    "description",
];

/// Whether an entry was written by us, in whatever form it is.
pub(crate) fn is_ours(entry: &Json) -> bool {
    let starts_it = |list: &[Json]| {
        let says = |word: &str| list.iter().any(|item| item == word);
        says("serve") && says("--stdio")
    };
    header_of(entry, DIALOG).is_some() || any_list(entry, &starts_it)
}

/// The dialog that an entry names.
pub(crate) fn dialog_of(entry: &Json) -> Option<&str> {
    header_of(entry, DIALOG)?.as_str()
}

/// The token that an entry carries.
pub(crate) fn token_of(entry: &Json) -> Option<&str> {
    header_of(entry, AUTHORIZATION)?.as_str()?.strip_prefix(BEARER)
}

/// The same entry without a token: one that is good elsewhere.
pub(crate) fn without_token(entry: &Json) -> Json {
    let mut entry = entry.clone();
    for value in entry.as_object_mut().into_iter().flat_map(|map| map.values_mut()) {
        if let Some(headers) = value.as_object_mut() {
            headers.retain(|name, _| !name.eq_ignore_ascii_case(AUTHORIZATION));
        }
    }
    entry
}

fn header_of<'e>(entry: &'e Json, header: &str) -> Option<&'e Json> {
    let map = entry.as_object()?;
    let own = map.iter().find(|(name, _)| name.eq_ignore_ascii_case(header));
    own.map(|(_, value)| value).or_else(|| map.values().find_map(|value| header_of(value, header)))
}

/// A new entry with what a person had added to the one before: further keys, and further headers.
pub(crate) fn merged(new: &Json, before: &Json) -> Json {
    let none = Map::new();
    let (mut entry, before) = (new.clone(), before.as_object().unwrap_or(&none));
    let Some(map) = entry.as_object_mut() else { return entry };
    for (key, value) in before {
        let headers = map.get_mut(key).and_then(Json::as_object_mut);
        match (headers, value.as_object()) {
            (Some(headers), Some(known)) => {
                for (name, value) in known {
                    headers.entry(name.clone()).or_insert_with(|| value.clone());
                }
            }
            _ if OURS.contains(&key.as_str()) => {}
            _ => drop(map.insert(key.clone(), value.clone())),
        }
    }
    entry
}

fn any_list(value: &Json, is_so: &impl Fn(&[Json]) -> bool) -> bool {
    match value {
        Json::Array(items) => is_so(items),
        Json::Object(map) => map.values().any(|value| any_list(value, is_so)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ways() -> [Way; 2] {
        let args = ["serve", "--stdio", "--root", "/w"].map(str::to_owned).to_vec();
        [
            Way::Start { program: "/bin/toolcrib".to_owned(), args },
            Way::Http {
                url: "http://127.0.0.1:7420/mcp".to_owned(),
                dialog: "d".to_owned(),
                token: None,
            },
        ]
    }

    #[test]
    fn an_entry_of_ours_is_known_in_every_form_and_others_are_not() {
        for client in CLIENTS {
            for entry in ways().iter().filter_map(|way| client.entry(way)) {
                assert!(is_ours(&entry), "{client:?} {entry}");
                assert_eq!(merged(&entry, &entry), entry);
            }
        }
        for other in [json!({"command": "x", "args": ["serve"]}), json!({"url": "u"}), json!(1)] {
            assert!(!is_ours(&other), "{other}");
        }
    }

    #[test]
    fn a_token_is_found_again_in_every_form() {
        let [_, Way::Http { url, dialog, .. }] = ways() else { panic!("a way over HTTP") };
        let way = Way::Http { url, dialog, token: Some("t".to_owned()) };
        for entry in CLIENTS.iter().filter_map(|client| client.entry(&way)) {
            assert_eq!((token_of(&entry), dialog_of(&entry)), (Some("t"), Some("d")), "{entry}");
            let bare = without_token(&entry);
            assert_eq!((token_of(&bare), dialog_of(&bare)), (None, Some("d")), "{bare}");
        }
    }

    #[test]
    fn what_a_person_added_stays() {
        let [start, http] = ways().map(|way| CLIENTS[2].entry(&way).unwrap());
        let mut before = http.clone();
        before["headers"]["Authorization"] = json!("Bearer x");
        before["disabled"] = json!(true);
        let now = merged(&start, &before);
        assert_eq!(
            (&now["disabled"], now.get("url"), now.get("headers")),
            (&json!(true), None, None)
        );
        let now = merged(&http, &before);
        assert_eq!(now["headers"], json!({"Toolcrib-Dialog": "d", "Authorization": "Bearer x"}));
    }
}
