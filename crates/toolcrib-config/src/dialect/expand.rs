//! Expands the variables in another client's entry and turns its texts into native keys.

use indexmap::IndexMap;

use super::ServerDraft;
use crate::compile_context::CompileContext;
use crate::doc::{At, NodeId};
use crate::model::auth::{Auth, OAuth, OAuthGrant};
use crate::model::transport::{DisplayValue, EnvKeys, TransportKeys, TransportKind};
use crate::value::{Reference, Scalar, SecretString, TemplatePart, Value};

/// A client's expansion rule. The error names the value that is not available.
pub(crate) type ExpandFn<'e> = dyn Fn(&str) -> Result<Value, String> + 'e;

/// Variables by name; `null` unsets a variable.
pub(crate) type Variables = IndexMap<String, At<Option<Scalar>>>;

pub(crate) type Headers = IndexMap<String, At<String>>;

/// Transport keys of an entry before expansion.
#[derive(Default)]
pub(crate) struct TransportTexts {
    pub(crate) kind: Option<At<TransportKind>>,
    pub(crate) command: Option<At<String>>,
    pub(crate) args: Option<At<Vec<String>>>,
    pub(crate) cwd: Option<At<String>>,
    pub(crate) env: Option<At<Variables>>,
    pub(crate) env_file: Option<At<String>>,
    pub(crate) url: Option<At<String>>,
    pub(crate) headers: Option<At<Headers>>,
}

/// Expands the texts of one entry. A text that cannot be expanded is reported and rejects the entry.
pub(crate) struct Expander<'c, 'a> {
    cx: &'c mut CompileContext<'a>,
    draft: &'c mut ServerDraft,
    expand: &'c ExpandFn<'c>,
    /// Expansion rule for variables and headers.
    expand_value: &'c ExpandFn<'c>,
}

impl<'c, 'a> Expander<'c, 'a> {
    pub(crate) fn new(
        cx: &'c mut CompileContext<'a>,
        draft: &'c mut ServerDraft,
        expand: &'c ExpandFn<'c>,
    ) -> Self {
        Self { cx, draft, expand, expand_value: expand }
    }

    /// Sets a separate expansion rule for variables and headers.
    pub(crate) fn with_value_expansion(self, expand: &'c ExpandFn<'c>) -> Self {
        Self { expand_value: expand, ..self }
    }

    pub(crate) fn set_transport(&mut self, texts: TransportTexts) {
        self.draft.transport = TransportKeys {
            kind: texts.kind,
            command: texts.command.map(|at| self.expand_text(at).map(DisplayValue)),
            args: texts.args.map(|at| self.expand_args(at)),
            cwd: texts.cwd.map(|at| self.expand_folder(at)),
            env: self.expand_env(texts.env, texts.env_file),
            url: texts.url.map(|at| self.expand_text(at).map(DisplayValue)),
            headers: texts.headers.map(|at| self.expand_headers(at)),
            ..TransportKeys::default()
        };
    }

    /// Sets the credentials of a client that is registered with the server's issuer.
    pub(crate) fn set_oauth(
        &mut self,
        node: NodeId,
        id: Option<At<String>>,
        secret: Option<At<String>>,
        scopes: Vec<String>,
    ) {
        let oauth = OAuth {
            client_id: id.and_then(|at| self.expand_value_text(at).value),
            client_secret: secret.and_then(|at| self.expand_value_text(at).value),
            private_key: None,
            client_metadata_url: None,
            scopes,
            issuer: None,
            grant: OAuthGrant::Code,
        };
        self.draft.policy.auth = Some(At::new(node, Auth::OAuth(oauth)));
    }

    fn expand_text(&mut self, at: At<String>) -> At<Value> {
        self.expand_with(self.expand, at)
    }

    fn expand_value_text(&mut self, at: At<String>) -> At<Value> {
        self.expand_with(self.expand_value, at)
    }

    fn expand_with(&mut self, expand: &ExpandFn<'_>, At { node, value }: At<String>) -> At<Value> {
        let expanded = value.map(|text| expand(&text)).transpose();
        let value = expanded.unwrap_or_else(|reason| {
            self.reject(node, "value.unsupported", reason, "write the value itself");
            None
        });
        At { node, value }
    }

    fn reject(&mut self, node: NodeId, code: &str, text: String, fix: &str) {
        self.cx.error(node, code, text, fix);
        self.draft.is_valid = false;
    }

    fn expand_args(&mut self, At { node, value }: At<Vec<String>>) -> At<Vec<DisplayValue>> {
        At {
            node,
            value: value.map(|args| {
                args.into_iter()
                    .filter_map(|arg| self.expand_text(At::new(node, arg)).value.map(DisplayValue))
                    .collect()
            }),
        }
    }

    /// Makes a literal folder absolute. A folder with variables stays relative until it is resolved.
    fn expand_folder(&mut self, at: At<String>) -> At<DisplayValue> {
        let value = self.expand_text(at);
        value.map(|value| match value.as_literal() {
            Some(path) => DisplayValue::literal(self.cx.absolute_path(path).display().to_string()),
            None => DisplayValue(value),
        })
    }

    fn expand_env(
        &mut self,
        variables: Option<At<Variables>>,
        file: Option<At<String>>,
    ) -> Option<At<EnvKeys>> {
        let node = variables.as_ref().map(|at| at.node).or(file.as_ref().map(|at| at.node))?;
        let mut keys = EnvKeys {
            file: file.and_then(|at| self.expand_env_file_path(at)),
            ..EnvKeys::default()
        };
        if let Some(At { node, value: Some(variables) }) = variables {
            let (set, unset): (Vec<_>, Vec<_>) =
                variables.into_iter().partition(|(_, at)| !matches!(at.value, Some(None)));
            let names: Vec<String> = unset.into_iter().map(|(name, _)| name).collect();
            keys.unset = Some(At::new(node, names)).filter(|at| at.value != Some(Vec::new()));
            let set = set.into_iter().map(|(name, at)| {
                let text = at.map(|scalar| scalar.map_or_else(String::new, |Scalar(text)| text));
                (name, self.expand_value_text(text))
            });
            keys.set = Some(At::new(node, set.collect()));
        }
        Some(At::new(node, keys))
    }

    /// Expands the path of the environment file. The file is read now, so all of its variables must be known
    /// now.
    fn expand_env_file_path(&mut self, at: At<String>) -> Option<At<String>> {
        let node = at.node;
        let lookup = self.cx.lookup;
        let known = self.expand_value_text(at).value?.resolve(&|reference| match reference {
            Reference::Env(name) => lookup.env(name),
            _ => None,
        });
        match known {
            Ok(path) => {
                let path = self.cx.absolute_path(path.reveal()).display().to_string();
                Some(At::new(node, path))
            }
            Err(_) => {
                let text = "cannot read the environment file: its path contains a value that is not known yet";
                self.reject(node, "env_file.unreadable", text.to_string(), "write the path itself");
                None
            }
        }
    }

    fn expand_headers(
        &mut self,
        At { node, value }: At<Headers>,
    ) -> At<IndexMap<String, At<Value>>> {
        At {
            node,
            value: value.map(|headers| {
                headers.into_iter().map(|(name, at)| (name, self.expand_value_text(at))).collect()
            }),
        }
    }
}

/// Expands each `${…}` with `resolve`, which gets the inside. `None` leaves the reference as it is.
pub(crate) fn expand_template(
    text: &str,
    resolve: &dyn Fn(&str) -> Result<Option<TemplatePart>, String>,
) -> Result<Value, String> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        parts.push(TemplatePart::Text(SecretString::new(before)));
        let found = match after.split_once('}') {
            Some((inside, tail)) => resolve(inside)?.map(|part| (part, tail)),
            None => None,
        };
        let (part, tail) = found.unwrap_or((TemplatePart::Text(SecretString::new("${")), after));
        parts.push(part);
        rest = tail;
    }
    parts.push(TemplatePart::Text(SecretString::new(rest)));
    Ok(Value::from_parts(parts))
}

/// Parses `NAME` or `NAME:-default`. Returns `None` if `NAME` is not a variable name.
pub(crate) fn parse_variable(inside: &str) -> Option<TemplatePart> {
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(SecretString::new(default))),
        None => (inside, None),
    };
    crate::value::is_variable_name(name)
        .then(|| TemplatePart::Env { name: name.to_string(), default })
}
