//! Problems: errors, warnings and hints that a person can act on.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::SourceLocation;

/// Severity of a problem.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Error,
    Warning,
    Info,
}

/// A problem. Its `id` stays the same while its cause does, so that a list of problems can be updated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Problem {
    pub id: String,
    /// Stable and dotted: `env.missing`, `transport.unsupported`.
    pub code: String,
    pub severity: Severity,
    /// The file, relative to the root if it is below the root.
    pub source: Option<String>,
    pub line: Option<u32>,
    pub column: Option<u32>,
    pub server: Option<String>,
    pub tool: Option<String>,
    pub agent: Option<String>,
    pub text: String,
    pub fix: Option<String>,
    /// Keys of other servers in the text. A principal that may not see all of them does not see the problem.
    #[serde(skip)]
    pub related: Vec<String>,
}

impl Problem {
    /// Creates a problem without a location.
    pub fn new(severity: Severity, code: &str, text: impl Into<String>) -> Self {
        Self {
            id: code.to_string(),
            code: code.to_string(),
            severity,
            source: None,
            line: None,
            column: None,
            server: None,
            tool: None,
            agent: None,
            text: text.into(),
            fix: None,
            related: Vec::new(),
        }
    }

    /// Creates an error.
    pub fn error(code: &str, text: impl Into<String>) -> Self {
        Self::new(Severity::Error, code, text)
    }

    /// Creates a warning.
    pub fn warning(code: &str, text: impl Into<String>) -> Self {
        Self::new(Severity::Warning, code, text)
    }

    /// Sets the location. `path` distinguishes problems with the same code in one file, independent of their line.
    #[must_use]
    pub fn at(mut self, source: &str, place: SourceLocation, path: &str) -> Self {
        self.id = format!("{}:{source}:{path}", self.code);
        self.source = Some(source.to_string());
        self.line = Some(place.line);
        self.column = Some(place.column);
        self
    }

    /// Sets the file of a problem without a location.
    #[must_use]
    pub fn in_source(mut self, source: &str) -> Self {
        self.id = format!("{}:{source}", self.code);
        self.source = Some(source.to_string());
        self
    }

    /// Sets the server by id.
    #[must_use]
    pub fn server(mut self, server: &str) -> Self {
        self.server = Some(server.to_string());
        self
    }

    /// Sets the tool, which becomes a part of the id.
    #[must_use]
    pub fn tool(mut self, tool: &str) -> Self {
        self.id = format!("{}:{tool}", self.id);
        self.tool = Some(tool.to_string());
        self
    }

    /// Sets the agent.
    #[must_use]
    pub fn agent(mut self, agent: &str) -> Self {
        self.agent = Some(agent.to_string());
        self
    }

    /// Adds the key of another server that the text names.
    #[must_use]
    pub fn related(mut self, server: &str) -> Self {
        self.related.push(server.to_string());
        self
    }

    /// Sets the advice for the user.
    #[must_use]
    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into()).filter(|fix| !fix.is_empty());
        self
    }

    /// Returns whether the problem is an error.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// Formats the problem as one line, such as ``toolcrib.yaml:6:31: server `docs`: text; fix``. Missing parts are
    /// omitted.
    pub fn to_line(&self) -> String {
        let place = self.source.as_ref().map(|source| match (self.line, self.column) {
            (Some(line), Some(column)) => format!("{source}:{line}:{column}: "),
            (Some(line), None) => format!("{source}:{line}: "),
            _ => format!("{source}: "),
        });
        let server = self.server.as_ref().map(|server| format!("server `{server}`: "));
        let fix = self.fix.as_ref().map(|fix| format!("; {fix}"));
        [place, server, Some(self.text.clone()), fix].into_iter().flatten().collect()
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Info => "info",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problem_line_has_location_text_and_fix() {
        let mut problem = Problem::error("env.missing", "`A` is not set");
        assert_eq!(problem.to_line(), "`A` is not set");
        problem.server = Some("docs".to_owned());
        problem.source = Some("toolcrib.yaml".to_owned());
        problem.fix = Some("set it".to_owned());
        assert_eq!(problem.to_line(), "toolcrib.yaml: server `docs`: `A` is not set; set it");
        (problem.line, problem.column) = (Some(6), Some(31));
        assert!(problem.to_line().starts_with("toolcrib.yaml:6:31: server"));
    }
}
