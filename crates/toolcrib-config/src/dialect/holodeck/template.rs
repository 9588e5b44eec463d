//! `${NAME}` in HoloDeck's texts: a variable, or the agent's folder; everything else is literal.

use crate::cx::Cx;
use crate::value::{Hidden, Part, Value, is_variable};

/// What `${workspaceFolder}` and relative paths stand for.
pub(super) struct Folder {
    path: String,
    /// A real variable of that name goes before the folder.
    is_variable: bool,
}

const WORKSPACE_FOLDER: &str = "workspaceFolder";

impl Folder {
    pub(super) fn of(cx: &Cx<'_>) -> Self {
        Self {
            path: cx.base.display().to_string(),
            is_variable: cx.lookup.env(WORKSPACE_FOLDER).is_some(),
        }
    }

    pub(super) fn value(&self, text: &str) -> Value {
        Value::of_parts(self.parts(text))
    }

    /// An argument; one that begins with `./` or `../` is a path below or beside the agent's folder.
    pub(super) fn argument(&self, cx: &Cx<'_>, text: &str) -> Value {
        let parts = self.parts(text);
        if !(text.starts_with("./") || text.starts_with("../")) {
            return Value::of_parts(parts);
        }
        match Value::of_parts(parts.clone()) {
            Value::Literal(path) => {
                Value::literal(cx.absolute(path.reveal()).display().to_string())
            }
            _ => {
                let folder = Part::Text(Hidden::new(format!("{}/", self.path)));
                Value::of_parts([vec![folder], parts].concat())
            }
        }
    }

    fn parts(&self, text: &str) -> Vec<Part> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            let name = after.split_once('}').filter(|(name, _)| is_variable(name));
            let (part, tail) = match name {
                Some((name, tail)) => (self.part(name), tail),
                None => (Part::Text(Hidden::new("${")), after),
            };
            parts.extend([Part::Text(Hidden::new(before)), part]);
            rest = tail;
        }
        parts.push(Part::Text(Hidden::new(rest)));
        parts
    }

    fn part(&self, name: &str) -> Part {
        if name == WORKSPACE_FOLDER && !self.is_variable {
            return Part::Text(Hidden::new(&*self.path));
        }
        Part::Env { name: name.to_string(), default: None }
    }
}
