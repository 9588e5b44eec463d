//! Locations of other clients' configuration files.

use std::path::{Path, PathBuf};

use crate::dialect::Dialect;
use crate::lookup::Lookup;
use crate::model::setting::words;

words! {
    /// A client program with MCP servers.
    ClientApp {
        ClaudeCode = "claude-code",
        ClaudeDesktop = "claude-desktop",
        VsCode = "vscode",
        Cursor = "cursor",
        Codex = "codex",
        Gemini = "gemini",
        Opencode = "opencode",
    }
}

/// Platforms with known file locations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Platform {
    Linux,
    MacOs,
}

/// The configuration folders of one user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserFolders {
    /// The platform, which decides about file locations.
    pub platform: Platform,
    /// The home folder.
    pub home: PathBuf,
    /// `$XDG_CONFIG_HOME`, or else `.config` in the home folder.
    pub config: PathBuf,
    /// `$CODEX_HOME`, or else `.codex` in the home folder.
    pub codex: PathBuf,
}

/// A file that a client reads. The file need not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientConfigFile {
    /// The client that reads the file.
    pub client: ClientApp,
    /// The path of the file.
    pub path: PathBuf,
    /// The dialect of the file.
    pub dialect: Dialect,
}

impl UserFolders {
    /// Reads the folders from the environment. Returns `None` without `HOME`.
    pub fn from_env(lookup: &dyn Lookup, platform: Platform) -> Option<Self> {
        let folder = |name: &str| {
            let value = lookup.env(name).filter(|value| !value.is_empty());
            value.map(PathBuf::from)
        };
        let home = folder("HOME")?;
        Some(Self {
            platform,
            config: folder("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config")),
            codex: folder("CODEX_HOME").unwrap_or_else(|| home.join(".codex")),
            home,
        })
    }
}

/// Returns the files of all known clients: for each client the user's own first, then those of the workspace.
pub fn client_files(folders: &UserFolders, root: &Path) -> Vec<ClientConfigFile> {
    let UserFolders { platform, home, config, codex } = folders;
    let apps = match platform {
        Platform::Linux => config.clone(),
        Platform::MacOs => home.join("Library/Application Support"),
    };
    let file = |client, dialect, path| ClientConfigFile { client, path, dialect };
    let claude = |client, path| file(client, Dialect::Claude, path);
    let vscode = |path| file(ClientApp::VsCode, Dialect::VsCode, path);
    let cursor = |path| file(ClientApp::Cursor, Dialect::Cursor, path);
    let codex_file = |path| file(ClientApp::Codex, Dialect::Codex, path);
    let gemini = |path| file(ClientApp::Gemini, Dialect::Gemini, path);
    let opencode = |path| file(ClientApp::Opencode, Dialect::Opencode, path);
    let desktop = apps.join("Claude/claude_desktop_config.json");
    vec![
        claude(ClientApp::ClaudeCode, home.join(".claude.json")),
        claude(ClientApp::ClaudeCode, root.join(".mcp.json")),
        claude(ClientApp::ClaudeDesktop, desktop),
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
    use crate::MemoryLookup;

    fn paths(world: &MemoryLookup, platform: Platform) -> Vec<(ClientApp, String)> {
        let folders = UserFolders::from_env(world, platform).unwrap();
        let files = client_files(&folders, Path::new("/ws"));
        let shown = |file: ClientConfigFile| (file.client, file.path.display().to_string());
        files.into_iter().map(shown).collect()
    }

    #[test]
    fn client_files_cover_every_client() {
        let world = MemoryLookup::default().with_env("HOME", "/h");
        let linux = [
            (ClientApp::ClaudeCode, "/h/.claude.json"),
            (ClientApp::ClaudeCode, "/ws/.mcp.json"),
            (ClientApp::ClaudeDesktop, "/h/.config/Claude/claude_desktop_config.json"),
            (ClientApp::VsCode, "/h/.config/Code/User/mcp.json"),
            (ClientApp::VsCode, "/ws/.vscode/mcp.json"),
            (ClientApp::Cursor, "/h/.cursor/mcp.json"),
            (ClientApp::Cursor, "/ws/.cursor/mcp.json"),
            (ClientApp::Codex, "/h/.codex/config.toml"),
            (ClientApp::Codex, "/ws/.codex/config.toml"),
            (ClientApp::Gemini, "/h/.gemini/settings.json"),
            (ClientApp::Gemini, "/ws/.gemini/settings.json"),
            (ClientApp::Opencode, "/h/.config/opencode/opencode.json"),
            (ClientApp::Opencode, "/ws/opencode.json"),
        ];
        let expected = linux.map(|(client, path)| (client, path.to_string()));
        assert_eq!(paths(&world, Platform::Linux), expected);
    }

    #[test]
    fn mac_app_files_are_in_application_support() {
        let world = MemoryLookup::default().with_env("HOME", "/h");
        let mac = paths(&world, Platform::MacOs);
        let linux = paths(&world, Platform::Linux);
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
    fn environment_variables_move_the_folders() {
        let world = MemoryLookup::default()
            .with_env("HOME", "/h")
            .with_env("XDG_CONFIG_HOME", "/c")
            .with_env("CODEX_HOME", "/x");
        let paths: Vec<String> =
            paths(&world, Platform::Linux).into_iter().map(|(_, path)| path).collect();
        for path in [
            "/c/Claude/claude_desktop_config.json",
            "/c/Code/User/mcp.json",
            "/c/opencode/opencode.json",
            "/x/config.toml",
        ] {
            assert!(paths.iter().any(|p| p == path), "{path}: {paths:?}");
        }
        assert_eq!(UserFolders::from_env(&MemoryLookup::default(), Platform::Linux), None);
    }

    #[test]
    fn dialect_is_known_from_each_client_file_path() {
        let world = MemoryLookup::default().with_env("HOME", "/h");
        for platform in [Platform::Linux, Platform::MacOs] {
            let folders = UserFolders::from_env(&world, platform).unwrap();
            for file in client_files(&folders, Path::new("/ws")) {
                assert_eq!(Dialect::from_path(&file.path), Some(file.dialect), "{file:?}");
            }
        }
    }
}
