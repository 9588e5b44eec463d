//! The grants of a Dominds workspace.

use std::path::Path;

use super::Compiler;
use crate::compile_context::CompileContext;
use crate::dialect::{self, Dialect};
use crate::doc;
use crate::lookup::FileLookup;
use crate::model::SourceOutcome;
use crate::model::security::SecuritySection;
use crate::problem::Problem;
use crate::source_location::SourceLocation;

impl Compiler<'_> {
    /// Reads `team.yaml`, which contains the grants of a Dominds workspace.
    pub(super) fn read_dominds_team(&mut self, mcp: &Path) {
        let path = mcp.with_file_name("team.yaml");
        let label = self.label(&path);
        let bytes = match self.lookup.file(&path) {
            FileLookup::Content(bytes) => bytes,
            FileLookup::Missing => return,
            FileLookup::Unreadable(why) => {
                let text = format!("`{label}` cannot be read: {why}");
                let problem = Problem::error("file.unreadable", text).in_source(&label);
                self.config.problems.push(problem.fix("check its permissions"));
                self.config.security.mark_invalid(
                    [SecuritySection::Grants],
                    &label,
                    SourceLocation::START,
                );
                return;
            }
        };
        let parsed = doc::parse(doc::Syntax::Yaml, &bytes);
        let (fatal, _) = self.report_defects(&label, Dialect::Dominds, &parsed);
        let source =
            self.add_source(&path, &label, Dialect::Dominds, SourceOutcome::Loaded, parsed);
        let Some(doc) =
            self.config.sources.get(source).and_then(|s| s.doc.clone()).filter(|_| !fatal)
        else {
            self.config.security.mark_invalid(
                [SecuritySection::Grants],
                &label,
                SourceLocation::START,
            );
            return self.reject_source(source, Dialect::Dominds);
        };
        let mut problems = std::mem::take(&mut self.config.problems);
        let mut cx = CompileContext::new(
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
            self.config.security.mark_invalid(
                [SecuritySection::Grants],
                &label,
                doc.location(node),
            );
            None
        });
        let base = self.root;
        self.apply_host_keys(source, &doc, base, host, None);
    }
}
