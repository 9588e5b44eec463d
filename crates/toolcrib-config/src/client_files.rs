//! Where other clients keep their files, for a person who wants to take them over.

use std::path::{Path, PathBuf};

use crate::dialect::Dialect;
use crate::lookup::Lookup;
use crate::model::setting::words;

words! {
    /// A program that has MCP servers configured.
    Client {
        ClaudeCode = "claude-code",
        ClaudeDesktop = "claude-desktop",
        VsCode = "vscode",
        Cursor = "cursor",
        Codex = "codex",
        Gemini = "gemini",
        Opencode = "opencode",
    }
}

/// The systems whose customs are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    Linux,
    MacOs,
}

/// The folders of one person on one machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    pub system: System,
    pub home: PathBuf,
    /// `$XDG_CONFIG_HOME`, else `.config` in the home.
    pub config: PathBuf,
    /// `$CODEX_HOME`, else `.codex` in the home.
    pub codex: PathBuf,
}

/// A file that a client reads, whether or not it is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientFile {
    pub client: Client,
    pub path: PathBuf,
    pub dialect: Dialect,
}

impl Person {
    /// Whoever the environment says; nobody where it names no home.
    pub fn of(lookup: &dyn Lookup, system: System) -> Option<Self> {
        let folder = |name: &str| {
            let value = lookup.env(name).filter(|value| !value.is_empty());
            value.map(PathBuf::from)
        };
        let home = folder("HOME")?;
        Some(Self {
            system,
            config: folder("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config")),
            codex: folder("CODEX_HOME").unwrap_or_else(|| home.join(".codex")),
            home,
        })
    }
}

/// The files of all known clients: of each first the person's own, then those of the root.
pub fn client_files(person: &Person, root: &Path) -> Vec<ClientFile> {
    let Person { system, home, config, codex } = person;
    let apps = match system {
        System::Linux => config.clone(),
        System::MacOs => home.join("Library/Application Support"),
    };
    let file = |client, dialect, path| ClientFile { client, path, dialect };
    let claude = |client, path| file(client, Dialect::Claude, path);
    let vscode = |path| file(Client::VsCode, Dialect::VsCode, path);
    let cursor = |path| file(Client::Cursor, Dialect::Cursor, path);
    let codex_file = |path| file(Client::Codex, Dialect::Codex, path);
    let gemini = |path| file(Client::Gemini, Dialect::Gemini, path);
    let opencode = |path| file(Client::Opencode, Dialect::Opencode, path);
    let desktop = apps.join("Claude/claude_desktop_config.json");
    vec![
        claude(Client::ClaudeCode, home.join(".claude.json")),
        claude(Client::ClaudeCode, root.join(".mcp.json")),
        claude(Client::ClaudeDesktop, desktop),
        vscode(apps.join("Code/User/mcp.json")),
        vscode(root.join(".vscode/mcp.json")),
        cursor(home.join(".cursor/mcp.json")),
        cursor(root.join(".cursor/mcp.json")),
        codex_file(codex.join("config.toml")),
        codex_file(root.join(".codex/config.toml")),
        gemini(home.join(".gemini/settings.json")),
        gemini(root.join(".gemini/settings.json")),
        opencode(config.join("opencode/opencode.json")),
        opencode(root.join("opencode.json")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Memory;

    fn paths(world: &Memory, system: System) -> Vec<(Client, String)> {
        let person = Person::of(world, system).unwrap();
        let files = client_files(&person, Path::new("/ws"));
        let shown = |file: ClientFile| (file.client, file.path.display().to_string());
        files.into_iter().map(shown).collect()
    }

    #[test]
    fn every_client_has_its_places() {
        let world = Memory::default().with_env("HOME", "/h");
        let linux = [
            (Client::ClaudeCode, "/h/.claude.json"),
            (Client::ClaudeCode, "/ws/.mcp.json"),
            (Client::ClaudeDesktop, "/h/.config/Claude/claude_desktop_config.json"),
            (Client::VsCode, "/h/.config/Code/User/mcp.json"),
            (Client::VsCode, "/ws/.vscode/mcp.json"),
            (Client::Cursor, "/h/.cursor/mcp.json"),
            (Client::Cursor, "/ws/.cursor/mcp.json"),
            (Client::Codex, "/h/.codex/config.toml"),
            (Client::Codex, "/ws/.codex/config.toml"),
            (Client::Gemini, "/h/.gemini/settings.json"),
            (Client::Gemini, "/ws/.gemini/settings.json"),
            (Client::Opencode, "/h/.config/opencode/opencode.json"),
            (Client::Opencode, "/ws/opencode.json"),
        ];
        let expected = linux.map(|(client, path)| (client, path.to_string()));
        assert_eq!(paths(&world, System::Linux), expected);
    }

    #[test]
    fn a_mac_keeps_the_files_of_apps_in_its_library() {
        let world = Memory::default().with_env("HOME", "/h");
        let mac = paths(&world, System::MacOs);
        let linux = paths(&world, System::Linux);
        let moved: Vec<&str> = mac
            .iter()
            .filter(|file| !linux.contains(file))
            .map(|(_, path)| path.as_str())
            .collect();
        let library = "/h/Library/Application Support";
        assert_eq!(
            moved,
            [
                format!("{library}/Claude/claude_desktop_config.json"),
                format!("{library}/Code/User/mcp.json")
            ]
        );
    }

    #[test]
    fn variables_move_the_folders() {
        let world = Memory::default()
            .with_env("HOME", "/h")
            .with_env("XDG_CONFIG_HOME", "/c")
            .with_env("CODEX_HOME", "/x");
        let paths: Vec<String> =
            paths(&world, System::Linux).into_iter().map(|(_, path)| path).collect();
        for path in [
            "/c/Claude/claude_desktop_config.json",
            "/c/Code/User/mcp.json",
            "/c/opencode/opencode.json",
            "/x/config.toml",
        ] {
            assert!(paths.iter().any(|p| p == path), "{path}: {paths:?}");
        }
        assert_eq!(Person::of(&Memory::default(), System::Linux), None);
    }

    #[test]
    fn the_place_of_a_file_tells_its_dialect() {
        let world = Memory::default().with_env("HOME", "/h");
        for system in [System::Linux, System::MacOs] {
            let person = Person::of(&world, system).unwrap();
            for file in client_files(&person, Path::new("/ws")) {
                assert_eq!(Dialect::of_path(&file.path), Some(file.dialect), "{file:?}");
            }
        }
    }
}
