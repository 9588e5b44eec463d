//! The texts of another client's entry: its variables are expanded, and they become native keys.

use indexmap::IndexMap;

use super::Draft;
use crate::cx::Cx;
use crate::doc::{At, NodeId};
use crate::model::auth::{Auth, OAuth, OAuthGrant};
use crate::model::transport::{EnvKeys, Plain, TransportKeys, TransportKind};
use crate::value::{Hidden, Part, Reference, Scalar, Value};

/// What a client makes of a text; the error says what it would need that is not there.
pub(crate) type Expand<'e> = dyn Fn(&str) -> Result<Value, String> + 'e;

/// Variables by name; `null` takes one away.
pub(crate) type Variables = IndexMap<String, At<Option<Scalar>>>;

pub(crate) type Headers = IndexMap<String, At<String>>;

/// How an entry says that its server is reached, in text that is not yet expanded.
#[derive(Default)]
pub(crate) struct Reached {
    pub(crate) kind: Option<At<TransportKind>>,
    pub(crate) command: Option<At<String>>,
    pub(crate) args: Option<At<Vec<String>>>,
    pub(crate) cwd: Option<At<String>>,
    pub(crate) env: Option<At<Variables>>,
    pub(crate) env_file: Option<At<String>>,
    pub(crate) url: Option<At<String>>,
    pub(crate) headers: Option<At<Headers>>,
}

/// Expands the texts of one entry; a text that cannot be expanded is told and spoils the entry.
pub(crate) struct Expander<'c, 'a> {
    cx: &'c mut Cx<'a>,
    draft: &'c mut Draft,
    expand: &'c Expand<'c>,
    /// For variables and headers.
    expand_value: &'c Expand<'c>,
}

impl<'c, 'a> Expander<'c, 'a> {
    pub(crate) fn new(cx: &'c mut Cx<'a>, draft: &'c mut Draft, expand: &'c Expand<'c>) -> Self {
        Self { cx, draft, expand, expand_value: expand }
    }

    /// Expands variables and headers by a rule of their own.
    pub(crate) fn values_by(self, expand: &'c Expand<'c>) -> Self {
        Self { expand_value: expand, ..self }
    }

    pub(crate) fn transport(&mut self, reached: Reached) {
        self.draft.transport = TransportKeys {
            kind: reached.kind,
            command: reached.command.map(|at| self.text(at).map(Plain)),
            args: reached.args.map(|at| self.args(at)),
            cwd: reached.cwd.map(|at| self.folder(at)),
            env: self.env(reached.env, reached.env_file),
            url: reached.url.map(|at| self.text(at).map(Plain)),
            headers: reached.headers.map(|at| self.headers(at)),
            ..TransportKeys::default()
        };
    }

    /// A client that is registered with the server's issuer.
    pub(crate) fn oauth(
        &mut self,
        node: NodeId,
        id: Option<At<String>>,
        secret: Option<At<String>>,
        scopes: Vec<String>,
    ) {
        let oauth = OAuth {
            client_id: id.and_then(|at| self.value(at).value),
            client_secret: secret.and_then(|at| self.value(at).value),
            private_key: None,
            client_metadata_url: None,
            scopes,
            issuer: None,
            grant: OAuthGrant::Code,
        };
        self.draft.policy.auth = Some(At::new(node, Auth::OAuth(oauth)));
    }

    fn text(&mut self, at: At<String>) -> At<Value> {
        self.expanded(self.expand, at)
    }

    fn value(&mut self, at: At<String>) -> At<Value> {
        self.expanded(self.expand_value, at)
    }

    fn expanded(&mut self, expand: &Expand<'_>, At { node, value }: At<String>) -> At<Value> {
        let expanded = value.map(|text| expand(&text)).transpose();
        let value = expanded.unwrap_or_else(|why| {
            self.spoil(node, "value.unsupported", why, "write the value itself");
            None
        });
        At { node, value }
    }

    fn spoil(&mut self, node: NodeId, code: &str, text: String, fix: &str) {
        self.cx.error(node, code, text, fix);
        self.draft.sound = false;
    }

    fn args(&mut self, At { node, value }: At<Vec<String>>) -> At<Vec<Plain>> {
        At {
            node,
            value: value.map(|args| {
                args.into_iter()
                    .filter_map(|arg| self.text(At::new(node, arg)).value.map(Plain))
                    .collect()
            }),
        }
    }

    /// A folder that is known already is made absolute; another is left to whoever resolves it.
    fn folder(&mut self, at: At<String>) -> At<Plain> {
        let value = self.text(at);
        value.map(|value| match value.as_literal() {
            Some(path) => Plain::literal(self.cx.absolute(path).display().to_string()),
            None => Plain(value),
        })
    }

    fn env(
        &mut self,
        variables: Option<At<Variables>>,
        file: Option<At<String>>,
    ) -> Option<At<EnvKeys>> {
        let node = variables.as_ref().map(|at| at.node).or(file.as_ref().map(|at| at.node))?;
        let mut keys = EnvKeys { file: file.and_then(|at| self.file(at)), ..EnvKeys::default() };
        if let Some(At { node, value: Some(variables) }) = variables {
            let (set, unset): (Vec<_>, Vec<_>) =
                variables.into_iter().partition(|(_, at)| !matches!(at.value, Some(None)));
            let names: Vec<String> = unset.into_iter().map(|(name, _)| name).collect();
            keys.unset = Some(At::new(node, names)).filter(|at| at.value != Some(Vec::new()));
            let set = set.into_iter().map(|(name, at)| {
                let text = at.map(|scalar| scalar.map_or_else(String::new, |Scalar(text)| text));
                (name, self.value(text))
            });
            keys.set = Some(At::new(node, set.collect()));
        }
        Some(At::new(node, keys))
    }

    /// The path of a file that is read now, so that all its variables must be known now.
    fn file(&mut self, at: At<String>) -> Option<At<String>> {
        let node = at.node;
        let lookup = self.cx.lookup;
        let known = self.value(at).value?.resolve(&|reference| match reference {
            Reference::Env(name) => lookup.env(name),
            _ => None,
        });
        match known {
            Ok(path) => {
                let path = self.cx.absolute(path.reveal()).display().to_string();
                Some(At::new(node, path))
            }
            Err(_) => {
                let text = "the path of the environment file depends on a value that is not known";
                self.spoil(node, "env_file.unreadable", text.to_string(), "write the path itself");
                None
            }
        }
    }

    fn headers(&mut self, At { node, value }: At<Headers>) -> At<IndexMap<String, At<Value>>> {
        At {
            node,
            value: value.map(|headers| {
                headers.into_iter().map(|(name, at)| (name, self.value(at))).collect()
            }),
        }
    }
}

/// Text with `${…}` in it. `meaning` says what the inside stands for; nothing leaves it as it is.
pub(crate) fn template(
    text: &str,
    meaning: &dyn Fn(&str) -> Result<Option<Part>, String>,
) -> Result<Value, String> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        parts.push(Part::Text(Hidden::new(before)));
        let found = match after.split_once('}') {
            Some((inside, tail)) => meaning(inside)?.map(|part| (part, tail)),
            None => None,
        };
        let (part, tail) = found.unwrap_or((Part::Text(Hidden::new("${")), after));
        parts.push(part);
        rest = tail;
    }
    parts.push(Part::Text(Hidden::new(rest)));
    Ok(Value::of_parts(parts))
}

/// `NAME` or `NAME:-default`; nothing where that is no variable's name.
pub(crate) fn variable(inside: &str) -> Option<Part> {
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(Hidden::new(default))),
        None => (inside, None),
    };
    crate::value::is_variable(name).then(|| Part::Env { name: name.to_string(), default })
}
