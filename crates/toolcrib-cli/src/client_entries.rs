//! Client programs that `connect` can configure: their files and the format of their entries.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json, json};
use toolcrib_config::{ClientApp, Syntax, UserFolders, client_files};

/// The name of the entry in every client.
pub(crate) const ENTRY_NAME: &str = "toolcrib";

/// The HTTP header that names a dialog.
pub(crate) const DIALOG_HEADER: &str = "Toolcrib-Dialog";

/// The HTTP header that carries the token.
const AUTHORIZATION_HEADER: &str = "Authorization";
const BEARER_PREFIX: &str = "Bearer ";

/// A client program whose configuration has MCP servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectClient {
    pub(crate) word: &'static str,
    /// Display name.
    pub(crate) name: &'static str,
    pub(crate) syntax: Syntax,
    /// The key of the map of servers.
    section: &'static str,
    form: EntryFormat,
}

/// Format of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryFormat {
    /// `command` and `args`, or `url` and `headers`.
    Plain,
    /// Like `Plain`, with `type`.
    Typed,
    /// Like `Plain`, without HTTP.
    StdioOnly,
    Codex,
    Gemini,
    Goose,
    Opencode,
    Windsurf,
}

/// How a client reaches Toolcrib.
#[derive(Clone, Debug)]
pub(crate) enum EntryTransport {
    /// The client starts this program with these arguments.
    Stdio { program: String, args: Vec<String> },
    /// The client connects to this URL with its own dialog, and with a token if the gateway requires one.
    Http { url: String, dialog: String, token: Option<String> },
}

pub(crate) const CLIENTS: [ConnectClient; 10] = [
    client("claude-code", "Claude Code", Syntax::Json, "mcpServers", EntryFormat::Typed),
    client("claude-desktop", "Claude Desktop", Syntax::Json, "mcpServers", EntryFormat::StdioOnly),
    client("cursor", "Cursor", Syntax::Json, "mcpServers", EntryFormat::Plain),
    client("vscode", "VS Code", Syntax::Json, "servers", EntryFormat::Typed),
    client("codex", "Codex", Syntax::Toml, "mcp_servers", EntryFormat::Codex),
    client("goose", "goose", Syntax::Yaml, "extensions", EntryFormat::Goose),
    client("windsurf", "Windsurf", Syntax::Json, "mcpServers", EntryFormat::Windsurf),
    client("zed", "Zed", Syntax::Json, "context_servers", EntryFormat::Plain),
    client("gemini-cli", "Gemini CLI", Syntax::Json, "mcpServers", EntryFormat::Gemini),
    client("opencode", "opencode", Syntax::Json, "mcp", EntryFormat::Opencode),
];

const fn client(
    word: &'static str,
    name: &'static str,
    syntax: Syntax,
    section: &'static str,
    form: EntryFormat,
) -> ConnectClient {
    ConnectClient { word, name, syntax, section, form }
}

impl ConnectClient {
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        let word = if word == "gemini" { "gemini-cli" } else { word };
        CLIENTS.into_iter().find(|client| client.word == word)
    }

    /// The keys from the root of the file to the entry.
    pub(crate) fn path(&self) -> [&'static str; 2] {
        [self.section, ENTRY_NAME]
    }

    /// Returns the user's own configuration file.
    pub(crate) fn user_file(&self, folders: &UserFolders, root: &Path) -> PathBuf {
        match self.word {
            "windsurf" => folders.home.join(".codeium/windsurf/mcp_config.json"),
            // Zed uses this folder on every platform.
            "zed" => folders.config.join("zed/settings.json"),
            "goose" => folders.config.join("goose/config.yaml"),
            _ => self.shared_files(folders, root).into_iter().next().unwrap_or_default(),
        }
    }

    /// Returns the workspace's configuration file, if the client reads one.
    pub(crate) fn project_file(&self, folders: &UserFolders, root: &Path) -> Option<PathBuf> {
        match self.word {
            "zed" => Some(root.join(".zed/settings.json")),
            _ => self.shared_files(folders, root).into_iter().nth(1),
        }
    }

    fn shared_files(&self, folders: &UserFolders, root: &Path) -> Vec<PathBuf> {
        let word = if self.word == "gemini-cli" { "gemini" } else { self.word };
        let Some(known) = ClientApp::from_word(word) else { return Vec::new() };
        let files = client_files(folders, root).into_iter().filter(|file| file.client == known);
        files.map(|file| file.path).collect()
    }

    /// Returns whether the client supports servers over HTTP.
    pub(crate) fn supports_http(&self) -> bool {
        self.form != EntryFormat::StdioOnly
    }

    /// Returns the entry in this client's format, or `None` if the client does not support the transport.
    pub(crate) fn entry(&self, transport: &EntryTransport) -> Option<Json> {
        Some(match transport {
            EntryTransport::Stdio { program, args } => self.stdio_entry(program, args),
            EntryTransport::Http { .. } if !self.supports_http() => return None,
            EntryTransport::Http { url, dialog, token } => {
                let mut headers = json!({ DIALOG_HEADER: dialog });
                if let Some(token) = token {
                    headers[AUTHORIZATION_HEADER] = json!(format!("{BEARER_PREFIX}{token}"));
                }
                self.http_entry(url, &headers)
            }
        })
    }

    fn stdio_entry(&self, program: &str, args: &[String]) -> Json {
        match self.form {
            EntryFormat::Typed => json!({"type": "stdio", "command": program, "args": args}),
            EntryFormat::Goose => json!({
                "enabled": true, "type": "stdio", "name": ENTRY_NAME, "description": ENTRY_DESCRIPTION,
                "cmd": program, "args": args, "timeout": 300,
            }),
            EntryFormat::Opencode => {
                let command: Vec<&str> =
                    std::iter::once(program).chain(args.iter().map(String::as_str)).collect();
                json!({"type": "local", "command": command, "enabled": true})
            }
            _ => json!({"command": program, "args": args}),
        }
    }

    fn http_entry(&self, url: &str, headers: &Json) -> Json {
        match self.form {
            EntryFormat::Typed => json!({"type": "http", "url": url, "headers": headers}),
            EntryFormat::Codex => json!({"url": url, "http_headers": headers}),
            EntryFormat::Gemini => json!({"httpUrl": url, "headers": headers}),
            EntryFormat::Windsurf => json!({"serverUrl": url, "headers": headers}),
            EntryFormat::Goose => json!({
                "enabled": true, "type": "streamable_http", "name": ENTRY_NAME, "description": ENTRY_DESCRIPTION,
                "uri": url, "headers": headers, "timeout": 300,
            }),
            EntryFormat::Opencode => {
                json!({"type": "remote", "url": url, "headers": headers, "enabled": true})
            }
            _ => json!({"url": url, "headers": headers}),
        }
    }
}

const ENTRY_DESCRIPTION: &str = "All MCP servers of a workspace";

/// The keys that define how a client reaches Toolcrib. All other keys of an entry belong to the user.
const TOOLCRIB_KEYS: [&str; 12] = [
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

/// Returns whether Toolcrib wrote the entry, in any client's format.
pub(crate) fn is_toolcrib_entry(entry: &Json) -> bool {
    let starts_it = |list: &[Json]| {
        let says = |word: &str| list.iter().any(|item| item == word);
        says("serve") && says("--stdio")
    };
    find_header(entry, DIALOG_HEADER).is_some() || any_list(entry, &starts_it)
}

/// Returns the dialog that an entry names.
pub(crate) fn entry_dialog(entry: &Json) -> Option<&str> {
    find_header(entry, DIALOG_HEADER)?.as_str()
}

/// Returns the token that an entry carries.
pub(crate) fn entry_token(entry: &Json) -> Option<&str> {
    find_header(entry, AUTHORIZATION_HEADER)?.as_str()?.strip_prefix(BEARER_PREFIX)
}

/// Returns the entry without its token, because the token is only valid for another workspace.
pub(crate) fn without_token(entry: &Json) -> Json {
    let mut entry = entry.clone();
    for value in entry.as_object_mut().into_iter().flat_map(|map| map.values_mut()) {
        if let Some(headers) = value.as_object_mut() {
            headers.retain(|name, _| !name.eq_ignore_ascii_case(AUTHORIZATION_HEADER));
        }
    }
    entry
}

fn find_header<'e>(entry: &'e Json, header: &str) -> Option<&'e Json> {
    let map = entry.as_object()?;
    let own = map.iter().find(|(name, _)| name.eq_ignore_ascii_case(header));
    own.map(|(_, value)| value)
        .or_else(|| map.values().find_map(|value| find_header(value, header)))
}

/// Copies the additional keys and headers of the previous entry into the new one.
pub(crate) fn merge_entries(new: &Json, before: &Json) -> Json {
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
            _ if TOOLCRIB_KEYS.contains(&key.as_str()) => {}
            _ => drop(map.insert(key.clone(), value.clone())),
        }
    }
    entry
}

fn any_list(value: &Json, matches: &impl Fn(&[Json]) -> bool) -> bool {
    match value {
        Json::Array(items) => matches(items),
        Json::Object(map) => map.values().any(|value| any_list(value, matches)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transports() -> [EntryTransport; 2] {
        let args = ["serve", "--stdio", "--root", "/w"].map(str::to_owned).to_vec();
        [
            EntryTransport::Stdio { program: "/bin/toolcrib".to_owned(), args },
            EntryTransport::Http {
                url: "http://127.0.0.1:7420/mcp".to_owned(),
                dialog: "d".to_owned(),
                token: None,
            },
        ]
    }

    #[test]
    fn toolcrib_entries_are_recognised_in_every_client_format() {
        for client in CLIENTS {
            for entry in transports().iter().filter_map(|transport| client.entry(transport)) {
                assert!(is_toolcrib_entry(&entry), "{client:?} {entry}");
                assert_eq!(merge_entries(&entry, &entry), entry);
            }
        }
        for other in [json!({"command": "x", "args": ["serve"]}), json!({"url": "u"}), json!(1)] {
            assert!(!is_toolcrib_entry(&other), "{other}");
        }
    }

    #[test]
    fn token_is_found_in_every_client_format() {
        let [_, EntryTransport::Http { url, dialog, .. }] = transports() else {
            panic!("HTTP transport")
        };
        let transport = EntryTransport::Http { url, dialog, token: Some("t".to_owned()) };
        for entry in CLIENTS.iter().filter_map(|client| client.entry(&transport)) {
            assert_eq!(
                (entry_token(&entry), entry_dialog(&entry)),
                (Some("t"), Some("d")),
                "{entry}"
            );
            let bare = without_token(&entry);
            assert_eq!((entry_token(&bare), entry_dialog(&bare)), (None, Some("d")), "{bare}");
        }
    }

    #[test]
    fn merge_keeps_keys_that_the_user_added() {
        let [start, http] = transports().map(|transport| CLIENTS[2].entry(&transport).unwrap());
        let mut before = http.clone();
        before["headers"]["Authorization"] = json!("Bearer x");
        before["disabled"] = json!(true);
        let now = merge_entries(&start, &before);
        assert_eq!(
            (&now["disabled"], now.get("url"), now.get("headers")),
            (&json!(true), None, None)
        );
        let now = merge_entries(&http, &before);
        assert_eq!(now["headers"], json!({"Toolcrib-Dialog": "d", "Authorization": "Bearer x"}));
    }
}
