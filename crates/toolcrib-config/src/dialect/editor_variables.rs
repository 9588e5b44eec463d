//! Resolves the variables that VS Code and Cursor share.

use crate::compile_context::CompileContext;
use crate::value::{SecretString, TemplatePart};

/// Values of an editor's variables for one file.
pub(crate) struct EditorVariables {
    home: Option<String>,
    workspace: String,
    /// Value of an unset environment variable. `None` makes an unset variable a mistake.
    unset: Option<SecretString>,
}

impl EditorVariables {
    pub(crate) fn new(cx: &CompileContext<'_>, unset: Option<&str>) -> Self {
        Self {
            home: cx.lookup.env("HOME"),
            workspace: cx.base.display().to_string(),
            unset: unset.map(SecretString::new),
        }
    }

    /// Resolves the inside of `${…}`. Returns `None` for variables that the editors do not share.
    pub(crate) fn resolve(&self, inside: &str) -> Option<TemplatePart> {
        let text = |text: &str| Some(TemplatePart::Text(SecretString::new(text)));
        let env = |name: &str, default| TemplatePart::Env { name: name.to_string(), default };
        match inside {
            "workspaceFolder" => text(&self.workspace),
            "workspaceFolderBasename" => text(self.basename()),
            "pathSeparator" | "/" => text("/"),
            "userHome" => match &self.home {
                Some(home) => text(home),
                // The later check of variables then reports `HOME` as missing.
                None => Some(env("HOME", None)),
            },
            _ => {
                let name = inside.strip_prefix("env:")?;
                crate::value::is_variable_name(name).then(|| env(name, self.unset.clone()))
            }
        }
    }

    pub(crate) fn basename(&self) -> &str {
        self.workspace.rsplit('/').next().unwrap_or_default()
    }
}
