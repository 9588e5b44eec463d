//! The grants of a Dominds workspace.

use std::path::Path;

use super::Compiler;
use crate::cx::Cx;
use crate::dialect::{self, Dialect};
use crate::doc;
use crate::lookup::File;
use crate::model::Outcome;
use crate::model::security::Section;
use crate::place::Place;
use crate::problem::Problem;

impl Compiler<'_> {
    /// Dominds' grants stand in a file beside its servers.
    pub(super) fn team(&mut self, mcp: &Path) {
        let path = mcp.with_file_name("team.yaml");
        let label = self.label(&path);
        let bytes = match self.lookup.file(&path) {
            File::Content(bytes) => bytes,
            File::Missing => return,
            File::Unreadable(why) => {
                let text = format!("`{label}` cannot be read: {why}");
                let problem = Problem::error("file.unreadable", text).of(&label);
                self.config.problems.push(problem.fix("check its permissions"));
                self.config.security.mark([Section::Grants], &label, Place::START);
                return;
            }
        };
        let parsed = doc::parse(doc::Syntax::Yaml, &bytes);
        let (fatal, _) = self.tell_flaws(&label, Dialect::Dominds, &parsed);
        let source = self.add_source(&path, &label, Dialect::Dominds, Outcome::Loaded, parsed);
        let Some(doc) =
            self.config.sources.get(source).and_then(|s| s.doc.clone()).filter(|_| !fatal)
        else {
            self.config.security.mark([Section::Grants], &label, Place::START);
            return self.refuse(source, Dialect::Dominds);
        };
        let mut problems = std::mem::take(&mut self.config.problems);
        let mut cx = Cx::new(
            label.clone(),
            Dialect::Dominds,
            &doc,
            self.root.to_path_buf(),
            self.lookup,
            &mut problems,
        );
        let team = dialect::read_team(&mut cx);
        self.config.problems = problems;
        let host = team.unwrap_or_else(|node| {
            self.config.security.mark([Section::Grants], &label, doc.place(node));
            None
        });
        let base = self.root;
        self.host(source, &doc, base, host, None);
    }
}
