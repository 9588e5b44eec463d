//! The variables of VS Code, which Cursor has too.

use crate::cx::Cx;
use crate::value::{Hidden, Part};

/// What the variables of an editor stand for in one file.
pub(crate) struct Editor {
    home: Option<String>,
    workspace: String,
    /// What a variable of the environment is that is not set; without it that is a mistake.
    unset: Option<Hidden>,
}

impl Editor {
    pub(crate) fn new(cx: &Cx<'_>, unset: Option<&str>) -> Self {
        Self {
            home: cx.lookup.env("HOME"),
            workspace: cx.base.display().to_string(),
            unset: unset.map(Hidden::new),
        }
    }

    /// What the inside of `${…}` stands for, where both editors say the same.
    pub(crate) fn part(&self, inside: &str) -> Option<Part> {
        let text = |text: &str| Some(Part::Text(Hidden::new(text)));
        let env = |name: &str, default| Part::Env { name: name.to_string(), default };
        match inside {
            "workspaceFolder" => text(&self.workspace),
            "workspaceFolderBasename" => text(self.basename()),
            "pathSeparator" | "/" => text("/"),
            "userHome" => match &self.home {
                Some(home) => text(home),
                // So that it is told that the variable is missing.
                None => Some(env("HOME", None)),
            },
            _ => {
                let name = inside.strip_prefix("env:")?;
                crate::value::is_variable(name).then(|| env(name, self.unset.clone()))
            }
        }
    }

    pub(crate) fn basename(&self) -> &str {
        self.workspace.rsplit('/').next().unwrap_or_default()
    }
}
