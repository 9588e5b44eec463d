//! Expands `${NAME}` in HoloDeck's texts to a variable or the agent's folder. Everything else is literal.

use crate::compile_context::CompileContext;
use crate::value::{SecretString, TemplatePart, Value, is_variable_name};

/// The folder that `${workspaceFolder}` and relative paths refer to.
pub(super) struct AgentFolder {
    path: String,
    /// True if an environment variable of the same name exists; the variable wins over the folder.
    is_variable_name: bool,
}

const WORKSPACE_FOLDER: &str = "workspaceFolder";

impl AgentFolder {
    pub(super) fn new(cx: &CompileContext<'_>) -> Self {
        Self {
            path: cx.base.display().to_string(),
            is_variable_name: cx.lookup.env(WORKSPACE_FOLDER).is_some(),
        }
    }

    pub(super) fn value(&self, text: &str) -> Value {
        Value::from_parts(self.parse_parts(text))
    }

    /// Expands an argument. A leading `./` or `../` makes it a path relative to the agent's folder.
    pub(super) fn argument(&self, cx: &CompileContext<'_>, text: &str) -> Value {
        let parts = self.parse_parts(text);
        if !(text.starts_with("./") || text.starts_with("../")) {
            return Value::from_parts(parts);
        }
        match Value::from_parts(parts.clone()) {
            Value::Literal(path) => {
                Value::literal(cx.absolute_path(path.reveal()).display().to_string())
            }
            _ => {
                let folder = TemplatePart::Text(SecretString::new(format!("{}/", self.path)));
                Value::from_parts([vec![folder], parts].concat())
            }
        }
    }

    fn parse_parts(&self, text: &str) -> Vec<TemplatePart> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            let name = after.split_once('}').filter(|(name, _)| is_variable_name(name));
            let (part, tail) = match name {
                Some((name, tail)) => (self.resolve(name), tail),
                None => (TemplatePart::Text(SecretString::new("${")), after),
            };
            parts.extend([TemplatePart::Text(SecretString::new(before)), part]);
            rest = tail;
        }
        parts.push(TemplatePart::Text(SecretString::new(rest)));
        parts
    }

    fn resolve(&self, name: &str) -> TemplatePart {
        if name == WORKSPACE_FOLDER && !self.is_variable_name {
            return TemplatePart::Text(SecretString::new(&*self.path));
        }
        TemplatePart::Env { name: name.to_string(), default: None }
    }
}
