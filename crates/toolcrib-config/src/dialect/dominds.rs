//! Dominds' `.minds/mcp.yaml`.

use indexmap::IndexMap;
use serde::Deserialize;

use super::native::version_is_one;
use super::restricting::reject_neighbours_of_misplaced_keys;
use super::{Dialect, Draft, Loaded};
use crate::cx::Cx;
use crate::doc::{At, Doc, Either, NodeId};
use crate::model::Outcome;
use crate::model::choice::Manual;
use crate::model::naming::{NamingKeys, Transforms};
use crate::model::policy::{
    ExposeKeys, PromptFilterKeys, PromptsAs, ResourceFilterKeys, SessionKeys, SessionScope,
    ToolFilterKeys,
};
use crate::model::transport::{EnvKeys, Plain, TransportKeys, TransportKind};
use crate::model::units::Size;
use crate::text;
use crate::value::{Hidden, Value};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Root {
    version: Option<At<u64>>,
    servers: Option<At<IndexMap<String, At<serde::de::IgnoredAny>>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Server {
    enabled: Option<At<bool>>,
    #[serde(rename = "truely-stateless")]
    truely_stateless: Option<At<bool>>,
    transport: Option<At<String>>,
    command: Option<At<String>>,
    args: Option<At<Vec<String>>>,
    cwd: Option<At<String>>,
    env: Option<At<IndexMap<String, At<Source>>>>,
    url: Option<At<String>>,
    headers: Option<At<IndexMap<String, At<Source>>>>,
    #[serde(rename = "sessionId")]
    session_id: Option<At<String>>,
    tools: Option<At<Lists>>,
    transform: Option<At<Transforms>>,
    prompts: Option<At<Prompts>>,
    resources: Option<At<Resources>>,
    manual: Option<At<Either<String, Manual>>>,
}

/// Where a variable or header comes from: its literal text, or a variable of the host.
type Source = Either<String, FromHost>;

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct FromHost {
    env: String,
    #[serde(default)]
    prefix: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Lists {
    whitelist: Option<At<Vec<String>>>,
    blacklist: Option<At<Vec<String>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Prompts {
    whitelist: Option<At<Vec<String>>>,
    blacklist: Option<At<Vec<String>>>,
    transform: Option<At<Transforms>>,
    skills: Option<At<Skills>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Skills {
    enabled: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Resources {
    whitelist: Option<At<Vec<String>>>,
    blacklist: Option<At<Vec<String>>>,
    #[serde(rename = "mimeTypes")]
    mime_types: Option<At<Vec<String>>>,
    #[serde(rename = "maxBytes")]
    max_bytes: Option<At<u64>>,
    transform: Option<At<Transforms>>,
}

pub(crate) fn read(cx: &mut Cx<'_>) -> Loaded {
    let root = cx.entry::<Root>(Doc::ROOT);
    if !version_is_one(cx, root.value.version.as_ref()) || !root.sound {
        return Loaded::refused(Outcome::Rejected);
    }
    let servers = root.value.servers.and_then(|at| at.value).unwrap_or_default();
    let mut loaded = Loaded::new();
    for (id, At { node, .. }) in servers {
        cx.enter(&id);
        loaded.servers.push(server(cx, &id, node));
        cx.leave();
    }
    reject_neighbours_of_misplaced_keys(cx, &mut loaded.servers);
    loaded
}

fn server(cx: &mut Cx<'_>, id: &str, node: NodeId) -> Draft {
    let mut draft = Draft::new(id, node, Dialect::Dominds);
    if !cx.is_map(node, "give it a `transport`") {
        draft.sound = false;
        return draft;
    }
    let entry = cx.server_entry::<Server>(node);
    let server = entry.value;
    draft.sound = entry.sound;
    draft.extras = entry.extras;
    draft.policy.enabled = server.enabled;
    draft.policy.session = server.truely_stateless.and_then(|at| session(&at));
    draft.policy.naming = server
        .transform
        .map(|at| At::new(at.node, NamingKeys { transforms: Some(at), ..NamingKeys::default() }));
    draft.policy.expose =
        Some(At::new(node, expose(server.tools, server.prompts, server.resources)));
    draft.policy.manual = server.manual.map(|at| {
        at.map(|manual| match manual {
            Either::Scalar(text) => Manual::Text(text),
            Either::Nested(Manual::File(path)) => {
                Manual::File(cx.absolute(&path).display().to_string())
            }
            Either::Nested(manual) => manual,
        })
    });
    let kind = kind(cx, node, server.transport.as_ref());
    draft.sound &= kind.is_some();
    draft.transport = TransportKeys {
        kind,
        command: server.command.map(|at| at.map(Plain::literal)),
        args: server.args.map(|at| at.map(|args| args.into_iter().map(Plain::literal).collect())),
        cwd: server
            .cwd
            .map(|at| at.map(|cwd| Plain::literal(cx.absolute(&cwd).display().to_string()))),
        env: server.env.map(|at| {
            At::new(at.node, EnvKeys { set: Some(at.map(values)), ..EnvKeys::default() })
        }),
        url: server.url.map(|at| at.map(Plain::literal)),
        headers: server.headers.map(|at| at.map(values)),
        session_id: server
            .session_id
            .filter(|at| at.value.as_deref() != Some(""))
            .map(|at| at.map(Value::literal)),
        ..TransportKeys::default()
    };
    draft
}

/// `stdio` or `streamable_http`, spelled out; everything else is refused by name.
fn kind(cx: &mut Cx<'_>, node: NodeId, given: Option<&At<String>>) -> Option<At<TransportKind>> {
    let (node, text) = match given {
        Some(At { node, value: Some(word) }) => match word.as_str() {
            "stdio" => return Some(At::new(*node, TransportKind::Stdio)),
            "streamable_http" => return Some(At::new(*node, TransportKind::StreamableHttp)),
            other => (*node, format!("unsupported transport `{}`", text::clip(other))),
        },
        // A value of the wrong type has been told already.
        Some(At { value: None, .. }) => return None,
        None => (node, "`transport` is missing".to_string()),
    };
    cx.error(node, "transport.unsupported", text, "use `stdio` or `streamable_http`");
    None
}

/// Only a server that is truly stateless is shared; no dialog has to release it.
fn session(at: &At<bool>) -> Option<At<SessionKeys>> {
    let stateless = at.value?;
    let scope = if stateless { SessionScope::Shared } else { SessionScope::PerConversation };
    let keys = SessionKeys {
        scope: Some(At::new(at.node, scope)),
        reminder: Some(At::new(at.node, !stateless)),
        ..SessionKeys::default()
    };
    Some(At::new(at.node, keys))
}

fn values(given: IndexMap<String, At<Source>>) -> IndexMap<String, At<Value>> {
    let value = |source: Source| match source {
        Either::Scalar(text) => Value::literal(text),
        Either::Nested(FromHost { env, prefix }) => {
            Value::FromEnv { name: env, prefix: Hidden::new(prefix) }
        }
    };
    given.into_iter().map(|(name, at)| (name, at.map(value))).collect()
}

fn expose(
    tools: Option<At<Lists>>,
    prompts: Option<At<Prompts>>,
    resources: Option<At<Resources>>,
) -> ExposeKeys {
    ExposeKeys {
        tools: tools.map(|at| {
            at.map(|lists| ToolFilterKeys {
                allow: nonempty_list(lists.whitelist),
                deny: lists.blacklist,
                ..ToolFilterKeys::default()
            })
        }),
        prompts: prompts.map(|at| {
            at.map(|prompts| PromptFilterKeys {
                r#as: prompts.skills.and_then(|at| {
                    let enabled = at.value?.enabled?;
                    Some(At::new(
                        at.node,
                        if enabled { PromptsAs::Skill } else { PromptsAs::Snippet },
                    ))
                }),
                allow: nonempty_list(prompts.whitelist),
                deny: prompts.blacklist,
                transforms: prompts.transform,
            })
        }),
        resources: resources.map(|at| {
            at.map(|resources| ResourceFilterKeys {
                allow: nonempty_list(resources.whitelist),
                deny: resources.blacklist,
                mime: resources.mime_types,
                max_bytes: resources.max_bytes.map(|at| at.map(Size)),
                transforms: resources.transform,
                ..ResourceFilterKeys::default()
            })
        }),
    }
}

/// To Dominds an empty whitelist is the same as none (DOM-30).
fn nonempty_list(list: Option<At<Vec<String>>>) -> Option<At<Vec<String>>> {
    list.filter(|at| at.value.as_ref().is_none_or(|names| !names.is_empty()))
}

#[cfg(test)]
#[path = "tests/dominds/mod.rs"]
mod tests;
