//! Reads Dominds' `.minds/mcp.yaml`.

use indexmap::IndexMap;
use serde::Deserialize;

use super::native::check_version;
use super::restricting_keys::reject_servers_beside_misplaced_keys;
use super::{Dialect, DialectFile, ServerDraft};
use crate::compile_context::CompileContext;
use crate::doc::{At, Doc, Either, NodeId};
use crate::model::SourceOutcome;
use crate::model::choice::Manual;
use crate::model::naming::{NamingKeys, Transforms};
use crate::model::policy::{
    ExposeKeys, PromptFilterKeys, PromptsAs, ResourceFilterKeys, SessionKeys, SessionScope,
    ToolFilterKeys,
};
use crate::model::transport::{DisplayValue, EnvKeys, TransportKeys, TransportKind};
use crate::model::units::Size;
use crate::text;
use crate::value::{SecretString, Value};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct DomindsFile {
    version: Option<At<u64>>,
    servers: Option<At<IndexMap<String, At<serde::de::IgnoredAny>>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct DomindsServer {
    enabled: Option<At<bool>>,
    #[serde(rename = "truely-stateless")]
    truely_stateless: Option<At<bool>>,
    transport: Option<At<String>>,
    command: Option<At<String>>,
    args: Option<At<Vec<String>>>,
    cwd: Option<At<String>>,
    env: Option<At<IndexMap<String, At<ValueSource>>>>,
    url: Option<At<String>>,
    headers: Option<At<IndexMap<String, At<ValueSource>>>>,
    #[serde(rename = "sessionId")]
    session_id: Option<At<String>>,
    tools: Option<At<NameLists>>,
    transform: Option<At<Transforms>>,
    prompts: Option<At<PromptSettings>>,
    resources: Option<At<ResourceSettings>>,
    manual: Option<At<Either<String, Manual>>>,
}

/// Source of a variable or header: a literal text or a variable of the host.
type ValueSource = Either<String, HostVariable>;

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct HostVariable {
    env: String,
    #[serde(default)]
    prefix: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NameLists {
    whitelist: Option<At<Vec<String>>>,
    blacklist: Option<At<Vec<String>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PromptSettings {
    whitelist: Option<At<Vec<String>>>,
    blacklist: Option<At<Vec<String>>>,
    transform: Option<At<Transforms>>,
    skills: Option<At<SkillSettings>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SkillSettings {
    enabled: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ResourceSettings {
    whitelist: Option<At<Vec<String>>>,
    blacklist: Option<At<Vec<String>>>,
    #[serde(rename = "mimeTypes")]
    mime_types: Option<At<Vec<String>>>,
    #[serde(rename = "maxBytes")]
    max_bytes: Option<At<u64>>,
    transform: Option<At<Transforms>>,
}

pub(crate) fn read(cx: &mut CompileContext<'_>) -> DialectFile {
    let root = cx.read_entry::<DomindsFile>(Doc::ROOT);
    if !check_version(cx, root.value.version.as_ref()) || !root.is_valid {
        return DialectFile::discarded(SourceOutcome::Rejected);
    }
    let servers = root.value.servers.and_then(|at| at.value).unwrap_or_default();
    let mut file = DialectFile::new();
    for (id, At { node, .. }) in servers {
        cx.enter_server(&id);
        file.servers.push(read_server(cx, &id, node));
        cx.leave_server();
    }
    reject_servers_beside_misplaced_keys(cx, &mut file.servers);
    file
}

fn read_server(cx: &mut CompileContext<'_>, id: &str, node: NodeId) -> ServerDraft {
    let mut draft = ServerDraft::new(id, node, Dialect::Dominds);
    if !cx.check_is_map(node, "give it a `transport`") {
        draft.is_valid = false;
        return draft;
    }
    let entry = cx.read_server_entry::<DomindsServer>(node);
    let server = entry.value;
    draft.is_valid = entry.is_valid;
    draft.extras = entry.extras;
    draft.policy.enabled = server.enabled;
    draft.policy.session = server.truely_stateless.and_then(|at| session_keys(&at));
    draft.policy.naming = server
        .transform
        .map(|at| At::new(at.node, NamingKeys { transforms: Some(at), ..NamingKeys::default() }));
    draft.policy.expose =
        Some(At::new(node, expose_keys(server.tools, server.prompts, server.resources)));
    draft.policy.manual = server.manual.map(|at| {
        at.map(|manual| match manual {
            Either::Scalar(text) => Manual::Text(text),
            Either::Nested(Manual::File(path)) => {
                Manual::File(cx.absolute_path(&path).display().to_string())
            }
            Either::Nested(manual) => manual,
        })
    });
    let kind = transport_kind(cx, node, server.transport.as_ref());
    draft.is_valid &= kind.is_some();
    draft.transport = TransportKeys {
        kind,
        command: server.command.map(|at| at.map(DisplayValue::literal)),
        args: server
            .args
            .map(|at| at.map(|args| args.into_iter().map(DisplayValue::literal).collect())),
        cwd: server.cwd.map(|at| {
            at.map(|cwd| DisplayValue::literal(cx.absolute_path(&cwd).display().to_string()))
        }),
        env: server.env.map(|at| {
            At::new(at.node, EnvKeys { set: Some(at.map(lower_values)), ..EnvKeys::default() })
        }),
        url: server.url.map(|at| at.map(DisplayValue::literal)),
        headers: server.headers.map(|at| at.map(lower_values)),
        session_id: server
            .session_id
            .filter(|at| at.value.as_deref() != Some(""))
            .map(|at| at.map(Value::literal)),
        ..TransportKeys::default()
    };
    draft
}

/// Returns the transport kind. Only `stdio` and `streamable_http` are accepted; a problem names any other
/// value.
fn transport_kind(
    cx: &mut CompileContext<'_>,
    node: NodeId,
    given: Option<&At<String>>,
) -> Option<At<TransportKind>> {
    let (node, text) = match given {
        Some(At { node, value: Some(word) }) => match word.as_str() {
            "stdio" => return Some(At::new(*node, TransportKind::Stdio)),
            "streamable_http" => return Some(At::new(*node, TransportKind::StreamableHttp)),
            other => (*node, format!("unsupported transport `{}`", text::clip(other))),
        },
        // A value of the wrong type has already been reported.
        Some(At { value: None, .. }) => return None,
        None => (node, "`transport` is missing".to_string()),
    };
    cx.error(node, "transport.unsupported", text, "use `stdio` or `streamable_http`");
    None
}

/// Shares only truly stateless servers. A dialog never has to release a shared server.
fn session_keys(at: &At<bool>) -> Option<At<SessionKeys>> {
    let stateless = at.value?;
    let scope = if stateless { SessionScope::Shared } else { SessionScope::PerConversation };
    let keys = SessionKeys {
        scope: Some(At::new(at.node, scope)),
        reminder: Some(At::new(at.node, !stateless)),
        ..SessionKeys::default()
    };
    Some(At::new(at.node, keys))
}

fn lower_values(given: IndexMap<String, At<ValueSource>>) -> IndexMap<String, At<Value>> {
    let value = |source: ValueSource| match source {
        Either::Scalar(text) => Value::literal(text),
        Either::Nested(HostVariable { env, prefix }) => {
            Value::FromEnv { name: env, prefix: SecretString::new(prefix) }
        }
    };
    given.into_iter().map(|(name, at)| (name, at.map(value))).collect()
}

fn expose_keys(
    tools: Option<At<NameLists>>,
    prompts: Option<At<PromptSettings>>,
    resources: Option<At<ResourceSettings>>,
) -> ExposeKeys {
    ExposeKeys {
        tools: tools.map(|at| {
            at.map(|lists| ToolFilterKeys {
                allow: non_empty_list(lists.whitelist),
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
                allow: non_empty_list(prompts.whitelist),
                deny: prompts.blacklist,
                transforms: prompts.transform,
            })
        }),
        resources: resources.map(|at| {
            at.map(|resources| ResourceFilterKeys {
                allow: non_empty_list(resources.whitelist),
                deny: resources.blacklist,
                mime: resources.mime_types,
                max_bytes: resources.max_bytes.map(|at| at.map(Size)),
                transforms: resources.transform,
                ..ResourceFilterKeys::default()
            })
        }),
    }
}

/// Removes an empty whitelist. Dominds treats it like a missing one (DOM-30).
fn non_empty_list(list: Option<At<Vec<String>>>) -> Option<At<Vec<String>>> {
    list.filter(|at| at.value.as_ref().is_none_or(|names| !names.is_empty()))
}

#[cfg(test)]
#[path = "tests/dominds/mod.rs"]
mod tests;
