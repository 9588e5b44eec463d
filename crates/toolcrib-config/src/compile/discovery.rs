//! Discovery of configuration files.

use std::path::Path;

use super::{Compiler, ConfigFile};
use crate::compile_context::normalize_path;
use crate::dialect::Dialect;
use crate::doc::{self, Doc};
use crate::lookup::FileLookup;
use crate::model::ConfigSource;
use crate::problem::Problem;

impl Compiler<'_> {
    pub(super) fn read_config_file(&mut self, file: &ConfigFile) {
        let path = normalize_path(&self.root.join(&file.path));
        let Some(dialect) = file.dialect.or_else(|| Dialect::from_path(&path)) else {
            let text = "the format is not known from the file's name";
            let fix = format!("set it with `--dialect`: {}", Dialect::WORDS.join(", "));
            let label = self.label(&path);
            self.config
                .problems
                .push(Problem::error("dialect.unknown", text).in_source(&label).fix(fix));
            self.close_unreadable(&label, Dialect::Native);
            return;
        };
        if dialect == Dialect::Minion {
            // Minion's own limit applies only if its file is the only one. As an include it would block servers of
            // other files, so there only an explicit limit counts.
            self.config.host.max_servers = 10;
        }
        if !self.read_file(&path, dialect, None, 0) {
            let label = self.label(&path);
            let text = format!("`{label}` does not exist");
            self.config
                .problems
                .push(Problem::error("file.missing", text).in_source(&label).fix("check the path"));
            self.close_unreadable(&label, dialect);
        }
    }

    pub(super) fn read_discovered_files(&mut self, home: Option<&Path>) {
        let root = self.root.to_path_buf();
        if let Some(home) = home {
            self.read_file(&home.join("toolcrib.yaml"), Dialect::Native, None, 0);
        }
        self.start_discovered_files();
        // In the folder of the user's own file, that file is read once, as the user's own.
        if home != Some(&root) {
            self.read_file(&root.join("toolcrib.yaml"), Dialect::Native, None, 0);
        }
        self.read_unless_included(&root.join(".minds/mcp.yaml"), Dialect::Dominds);
        self.read_dispatch(&root);
        self.read_unless_included(&root.join("agent.yaml"), Dialect::Holodeck);
    }

    /// Reads a file unless another file has included it.
    fn read_unless_included(&mut self, path: &Path, dialect: Dialect) {
        if !self.config.sources.iter().any(|source| source.path == normalize_path(path)) {
            self.read_file(path, dialect, None, 0);
        }
    }

    /// Marks the start of discovered files, which the user did not name.
    fn start_discovered_files(&mut self) {
        self.user_profiles = Some(self.profiles.clone());
        self.config.user_settings = Some(Box::new(self.config.global_settings()));
    }

    /// Reads `.dispatch/mcp.json`, or `opencode.json` if the first declares no servers.
    fn read_dispatch(&mut self, folder: &Path) {
        let first = folder.join(".dispatch/mcp.json");
        let fallback = folder.join("opencode.json");
        self.read_unless_included(&first, Dialect::Dispatch);
        let declares = self.count_declared(&first);
        if declares == 0 {
            self.read_unless_included(&fallback, Dialect::Opencode);
        } else if self.declares_servers(&fallback) {
            let label = self.label(&fallback);
            let text = format!(
                "`{label}` declares servers too; `.dispatch/mcp.json` wins and they are not used"
            );
            let problem = Problem::warning("file.shadowed", text).in_source(&label);
            self.config.problems.push(problem.fix("keep the servers in one of the two files"));
        }
    }

    fn count_declared(&self, path: &Path) -> usize {
        let source = self.config.sources.iter().position(|source| source.path == path);
        self.pending.iter().filter(|p| Some(p.source) == source).map(|p| p.drafts.len()).sum()
    }

    fn declares_servers(&self, path: &Path) -> bool {
        let FileLookup::Content(bytes) = self.lookup.file(path) else {
            return false;
        };
        let parsed = doc::parse(Dialect::Opencode.syntax(path), &bytes);
        let servers =
            parsed.doc.as_ref().and_then(|doc| Some(doc.entries(doc.get(Doc::ROOT, "mcp")?)));
        servers.is_some_and(|servers| !servers.is_empty())
    }

    /// Reads the user's own HoloDeck servers. They count as part of the agent's file, whose servers take precedence.
    pub(super) fn read_holodeck_home(&mut self) {
        let of_holodeck = |source: &&ConfigSource| source.dialect == Dialect::Holodeck;
        let agent = self.config.sources.iter().find(of_holodeck);
        let (Some(agent), Some(home)) = (agent, self.lookup.env("HOME")) else {
            return;
        };
        let base = self.base_folder(&agent.path, Dialect::Holodeck);
        let path = Path::new(&home).join(".holodeck/config.yaml");
        let is_read = self.config.sources.iter().any(|s| s.path == path);
        let agents = self.pending.len();
        if is_read || !self.read_file_from(base, &path, Dialect::Holodeck, None, 0) {
            return;
        }
        let sources = &self.config.sources;
        let (above, under) = self.pending.split_at_mut(agents);
        let named = |id: &str| {
            above.iter().any(|p| {
                sources.get(p.source).as_ref().is_some_and(of_holodeck)
                    && p.drafts.iter().any(|draft| draft.id == id)
            })
        };
        for pending in under {
            pending.drafts.retain(|draft| !named(&draft.id));
        }
    }
}
