//! Which files there are, and which of them counts.

use std::path::Path;

use super::{Compiler, Named};
use crate::cx::normal;
use crate::dialect::Dialect;
use crate::doc::{self, Doc};
use crate::lookup::File;
use crate::model::Source;
use crate::problem::Problem;

impl Compiler<'_> {
    pub(super) fn named(&mut self, named: &Named) {
        let path = normal(&self.root.join(&named.path));
        let Some(dialect) = named.dialect.or_else(|| Dialect::of_path(&path)) else {
            let text = "the file's name does not tell its format";
            let fix = format!("name it with `--dialect`: {}", Dialect::WORDS.join(", "));
            let label = self.label(&path);
            self.config.problems.push(Problem::error("dialect.unknown", text).of(&label).fix(fix));
            self.close_unreadable(&label, Dialect::Native);
            return;
        };
        if dialect == Dialect::Minion {
            // Its manager's own limit. Included beside other files it would keep their servers out,
            // so that there only a limit that somebody wrote counts.
            self.config.host.max_servers = 10;
        }
        if !self.file(&path, dialect, None, 0) {
            let label = self.label(&path);
            let text = format!("`{label}` is not there");
            self.config
                .problems
                .push(Problem::error("file.missing", text).of(&label).fix("check the path"));
            self.close_unreadable(&label, dialect);
        }
    }

    pub(super) fn discovered(&mut self, home: Option<&Path>) {
        let root = self.root.to_path_buf();
        if let Some(home) = home {
            self.file(&home.join("toolcrib.yaml"), Dialect::Native, None, 0);
        }
        self.begin_found();
        // Whoever is where their own file is has one file, and not two of which one was found.
        if home != Some(&root) {
            self.file(&root.join("toolcrib.yaml"), Dialect::Native, None, 0);
        }
        self.found(&root.join(".minds/mcp.yaml"), Dialect::Dominds);
        self.dispatch(&root);
        self.found(&root.join("agent.yaml"), Dialect::Holodeck);
    }

    /// Reads a file, unless another one has included it.
    fn found(&mut self, path: &Path, dialect: Dialect) {
        if !self.config.sources.iter().any(|source| source.path == normal(path)) {
            self.file(path, dialect, None, 0);
        }
    }

    /// From here on files are read that nobody named.
    fn begin_found(&mut self) {
        self.own_profiles = Some(self.profiles.clone());
        self.config.own = Some(Box::new(self.config.of_host()));
    }

    /// `.dispatch/mcp.json`, or `opencode.json` where that declares no servers.
    fn dispatch(&mut self, folder: &Path) {
        let first = folder.join(".dispatch/mcp.json");
        let fallback = folder.join("opencode.json");
        self.found(&first, Dialect::Dispatch);
        let declares = self.declared(&first);
        if declares == 0 {
            self.found(&fallback, Dialect::Opencode);
        } else if self.would_declare(&fallback) {
            let label = self.label(&fallback);
            let text = format!(
                "`{label}` declares servers too; `.dispatch/mcp.json` wins and they are not used"
            );
            let problem = Problem::warning("file.shadowed", text).of(&label);
            self.config.problems.push(problem.fix("keep the servers in one of the two files"));
        }
    }

    fn declared(&self, path: &Path) -> usize {
        let source = self.config.sources.iter().position(|source| source.path == path);
        self.pending.iter().filter(|p| Some(p.source) == source).map(|p| p.drafts.len()).sum()
    }

    fn would_declare(&self, path: &Path) -> bool {
        let File::Content(bytes) = self.lookup.file(path) else {
            return false;
        };
        let parsed = doc::parse(Dialect::Opencode.syntax(path), &bytes);
        let servers =
            parsed.doc.as_ref().and_then(|doc| Some(doc.entries(doc.get(Doc::ROOT, "mcp")?)));
        servers.is_some_and(|servers| !servers.is_empty())
    }

    /// A person's own HoloDeck servers lie under those of an agent, as if they stood in its file.
    pub(super) fn holodeck_home(&mut self) {
        let of_holodeck = |source: &&Source| source.dialect == Dialect::Holodeck;
        let agent = self.config.sources.iter().find(of_holodeck);
        let (Some(agent), Some(home)) = (agent, self.lookup.env("HOME")) else {
            return;
        };
        let base = self.base_folder(&agent.path, Dialect::Holodeck);
        let path = Path::new(&home).join(".holodeck/config.yaml");
        let is_read = self.config.sources.iter().any(|s| s.path == path);
        let agents = self.pending.len();
        if is_read || !self.file_from(base, &path, Dialect::Holodeck, None, 0) {
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
