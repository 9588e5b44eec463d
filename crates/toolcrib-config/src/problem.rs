//! Something wrong that a person can fix: what, where, whose, and how.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Place;

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

/// One problem. Its `id` stays the same while the cause does, so that a list can be kept up to date.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Problem {
    pub id: String,
    /// Stable and dotted: `env.missing`, `transport.unsupported`.
    pub code: String,
    pub severity: Severity,
    /// The file, relative to the root where it is below it.
    pub source: Option<String>,
    pub line: Option<u32>,
    pub column: Option<u32>,
    pub server: Option<String>,
    pub tool: Option<String>,
    pub agent: Option<String>,
    pub text: String,
    pub fix: Option<String>,
    /// Keys of other servers that the text names. Nobody is shown a problem who may not know of all of them.
    #[serde(skip)]
    pub related: Vec<String>,
}

impl Problem {
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

    pub fn error(code: &str, text: impl Into<String>) -> Self {
        Self::new(Severity::Error, code, text)
    }

    pub fn warning(code: &str, text: impl Into<String>) -> Self {
        Self::new(Severity::Warning, code, text)
    }

    /// `path` tells two problems of one kind in one file apart, whichever line they move to.
    #[must_use]
    pub fn at(mut self, source: &str, place: Place, path: &str) -> Self {
        self.id = format!("{}:{source}:{path}", self.code);
        self.source = Some(source.to_string());
        self.line = Some(place.line);
        self.column = Some(place.column);
        self
    }

    /// A problem of a whole file.
    #[must_use]
    pub fn of(mut self, source: &str) -> Self {
        self.id = format!("{}:{source}", self.code);
        self.source = Some(source.to_string());
        self
    }

    #[must_use]
    pub fn server(mut self, server: &str) -> Self {
        self.server = Some(server.to_string());
        self
    }

    #[must_use]
    pub fn tool(mut self, tool: &str) -> Self {
        self.id = format!("{}:{tool}", self.id);
        self.tool = Some(tool.to_string());
        self
    }

    #[must_use]
    pub fn agent(mut self, agent: &str) -> Self {
        self.agent = Some(agent.to_string());
        self
    }

    /// The text names this other server, by its key.
    #[must_use]
    pub fn related(mut self, server: &str) -> Self {
        self.related.push(server.to_string());
        self
    }

    #[must_use]
    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into()).filter(|fix| !fix.is_empty());
        self
    }

    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// The problem in one line: `toolcrib.yaml:6:31: server `docs`: what is wrong; what to do`. Unknown parts are left
    /// out.
    pub fn line(&self) -> String {
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
    fn a_line_says_where_what_and_what_to_do() {
        let mut problem = Problem::error("env.missing", "`A` is not set");
        assert_eq!(problem.line(), "`A` is not set");
        problem.server = Some("docs".to_owned());
        problem.source = Some("toolcrib.yaml".to_owned());
        problem.fix = Some("set it".to_owned());
        assert_eq!(problem.line(), "toolcrib.yaml: server `docs`: `A` is not set; set it");
        (problem.line, problem.column) = (Some(6), Some(31));
        assert!(problem.line().starts_with("toolcrib.yaml:6:31: server"));
    }
}
