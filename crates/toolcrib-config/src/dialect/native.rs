//! Reads `toolcrib.yaml`, the native format with every setting, in its short and its long form.

use std::collections::HashSet;
use std::sync::Arc;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use super::{
    Dialect, DialectFile, Include, ProfileDraft, ServerDraft, gateway_checks, peek_text,
    restricting_keys, security_checks, value_or_default,
};
use crate::compile_context::CompileContext;
use crate::doc::{self, At, Deserialized, Doc, Either, NodeId, NodeKind, describe_node};
use crate::model::SourceOutcome;
use crate::model::choice::{InheritedEnv, Manual};
use crate::model::host::{GatewayKeys, HostKeys, InputSpec};
use crate::model::policy::{PolicyKeys, ServerScope};
use crate::model::security::SecuritySection;
use crate::model::transport::{DisplayValue, EnvKeys, TransportKeys, TransportKind};
use crate::text;
use crate::value::Value;

/// A toolcrib configuration file.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct NativeFile {
    /// Version of the format: 1.
    pub(crate) version: Option<At<u64>>,
    /// Other files to read, each in its own format.
    include: Option<At<Vec<At<IncludeKeys>>>>,
    /// Settings of the host.
    host: Option<At<HostKeys>>,
    /// The gateway: the endpoint in front of all servers.
    gateway: Option<At<GatewayKeys>>,
    /// Values that the user is asked for once, by name; used as `${input:NAME}`.
    inputs: Option<At<IndexMap<String, At<InputSpec>>>>,
    /// Named defaults for servers; `base` names the profile that they extend.
    #[schemars(with = "Option<IndexMap<String, crate::schema::ProfileEntry>>")]
    profiles: Option<At<IndexMap<String, At<serde::de::IgnoredAny>>>>,
    /// Servers by id.
    #[schemars(with = "Option<IndexMap<String, crate::schema::ServerEntry>>")]
    servers: Option<At<IndexMap<String, At<serde::de::IgnoredAny>>>>,
}

/// Another file to read.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct IncludeKeys {
    /// Path of the file, relative to this one.
    path: Option<String>,
    /// Format of the file, if its name does not imply it.
    dialect: Option<Dialect>,
    /// Scope of its servers: everywhere, or only in their working directory.
    scope: Option<ServerScope>,
    /// Profile of its servers instead of the format's own. It can set what the format has no key for.
    profile: Option<String>,
}

/// Keys that only a server entry has; the other keys are those of `PolicyKeys` and `TransportKeys`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct EntryKeys {
    /// Profile that supplies the defaults of the entry.
    profile: Option<At<String>>,
    /// Transport of the server; its keys may also stand directly in the entry.
    #[schemars(with = "Option<TransportKeys>")]
    transport: Option<At<serde::de::IgnoredAny>>,
    /// Environment variables of the server's process.
    env: Option<At<IndexMap<String, At<Value>>>>,
    /// Path of a `.env` file.
    env_file: Option<At<String>>,
    /// Variables of the host that the server inherits.
    inherit_env: Option<At<InheritedEnv>>,
    /// Container that runs the server.
    docker: Option<At<DockerKeys>>,
    /// Keys of another format that have no equivalent here.
    #[serde(rename = "x-original")]
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    original: Option<At<serde_json::Map<String, Json>>>,
}

/// Container that runs a server: an `image` for a new one, or an existing `container`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct DockerKeys {
    /// Image of a container to create for the server.
    image: Option<At<DisplayValue>>,
    /// Existing container.
    container: Option<At<DisplayValue>>,
    /// Command to run: a list runs directly, a text runs in `shell`.
    #[schemars(with = "Option<Either<DisplayValue, Vec<DisplayValue>>>")]
    command: Option<At<Either<DisplayValue, Vec<DisplayValue>>>>,
    /// Shell for a command that is one text. Default: `sh -lc`.
    shell: Option<At<String>>,
    /// Working directory in the container.
    workdir: Option<At<DisplayValue>>,
    /// Address of the Docker engine.
    endpoint: Option<At<DisplayValue>>,
    /// True if a container created for the server outlives it.
    keep_container: Option<At<bool>>,
}

/// Shell for a command that is written as one text.
const DEFAULT_SHELL: &str = "sh -lc";

pub(crate) fn read(cx: &mut CompileContext<'_>) -> DialectFile {
    let Deserialized { value, errors, unknown } = doc::deserialize::<NativeFile>(cx.doc, Doc::ROOT);
    let mut invalid = security_checks::find_invalid_sections(cx.doc, &errors, &unknown);
    cx.report_value_errors(errors);
    cx.report_unknown_keys(Doc::ROOT, &unknown);
    let root = value.unwrap_or_default();
    if !check_version(cx, root.version.as_ref()) {
        return DialectFile::discarded(SourceOutcome::Rejected);
    }
    let missing = security_checks::find_missing_values(cx.doc);
    security_checks::report_missing_values(cx, &missing);
    invalid.extend(security_checks::sections_of_nodes(cx.doc, &missing));
    let mistakes = root.gateway.as_ref().map(|keys| gateway_checks::check_gateway(cx, keys));
    invalid.extend(mistakes.into_iter().flatten().map(|node| (SecuritySection::Gateway, node)));
    let mut file = DialectFile::new();
    file.includes =
        root.include.map(|list| read_includes(cx, list, &mut invalid)).unwrap_or_default();
    file.invalid_sections = invalid;
    file.host = root.host.map(|host| make_store_paths_absolute(cx, host));
    file.gateway = root.gateway;
    file.inputs = value_or_default(root.inputs)
        .into_iter()
        .filter_map(|(id, input)| Some((id, input.value?)))
        .collect();
    file.profiles =
        entry_nodes(root.profiles).map(|(name, node)| read_profile(cx, &name, node)).collect();
    reject_profiles_beside_misplaced_keys(cx, &mut file.profiles);
    file.servers = entry_nodes(root.servers).map(|(id, node)| read_server(cx, &id, node)).collect();
    restricting_keys::reject_servers_beside_misplaced_keys(cx, &mut file.servers);
    file
}

/// Rejects profiles next to a restricting key that stands among the profiles.
fn reject_profiles_beside_misplaced_keys(
    cx: &mut CompileContext<'_>,
    profiles: &mut [ProfileDraft],
) {
    let has_known_key = |doc: &Doc, node: NodeId| {
        let known = known_entry_keys(&["base", "transport"]);
        doc.entries(node).iter().any(|(key, _)| known.contains(&key.name.as_str()))
    };
    let found = restricting_keys::pair_with_neighbours(profiles, |profile| {
        let is_key = restricting_keys::is_restricting_key(Dialect::Native, &profile.name);
        is_key && !has_known_key(cx.doc, profile.node)
    });
    for [key, profile] in found {
        let key = profiles.get(key).map(|profile| profile.name.clone()).unwrap_or_default();
        let Some(profile) = profiles.get_mut(profile) else { continue };
        restricting_keys::report_misplaced_key(cx, profile.node, &key, "profile");
        profile.is_valid = false;
    }
}

fn entry_nodes<T>(
    map: Option<At<IndexMap<String, At<T>>>>,
) -> impl Iterator<Item = (String, NodeId)> {
    value_or_default(map).into_iter().map(|(name, at)| (name, at.node))
}

/// Checks for `version: 1`, a number. A file of any other version is not used at all, because its meaning is
/// unknown.
pub(crate) fn check_version(cx: &mut CompileContext<'_>, version: Option<&At<u64>>) -> bool {
    let text = match version {
        Some(At { value: Some(1), .. }) => return true,
        Some(At { node, .. }) => match cx.doc.kind(*node) {
            NodeKind::Number(number) => {
                format!("`version` must be 1, found {}", text::clip(number))
            }
            _ => format!("`version` must be the number 1, found {}", describe_node(cx.doc, *node)),
        },
        None => "`version` is missing".to_string(),
    };
    let node = version.map_or(Doc::ROOT, |at| at.node);
    cx.error(node, "version.unsupported", text, "write `version: 1` at the top of the file");
    false
}

fn read_includes(
    cx: &mut CompileContext<'_>,
    list: At<Vec<At<IncludeKeys>>>,
    invalid: &mut Vec<(SecuritySection, NodeId)>,
) -> Vec<Include> {
    let mut found = Vec::new();
    for At { node, value } in list.value.unwrap_or_default() {
        match value {
            Some(IncludeKeys { path: Some(path), dialect, scope, profile }) => {
                found.push(Include { node, path, dialect, scope, profile });
            }
            Some(_) => {
                cx.error(node, "include.path", "an include needs a `path`", "add `path: FILE`");
                invalid.extend(SecuritySection::UNREADABLE.map(|section| (section, node)));
            }
            None => {}
        }
    }
    found
}

fn read_profile(cx: &mut CompileContext<'_>, name: &str, node: NodeId) -> ProfileDraft {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct ProfileHead {
        base: Option<String>,
    }
    let base = doc::deserialize::<ProfileHead>(cx.doc, node).value.and_then(|head| head.base);
    let ((mut policy, policy_is_valid), (mut transport, transport_is_valid), _) =
        read_policy_and_transport(cx, node, &["base", "transport"]);
    make_paths_absolute(cx, &mut policy, &mut transport);
    let is_valid = policy_is_valid && transport_is_valid;
    ProfileDraft { name: name.to_string(), node, base, policy, transport, is_valid }
}

fn read_server(cx: &mut CompileContext<'_>, id: &str, node: NodeId) -> ServerDraft {
    let (source, id) = split_source(cx, id, node);
    cx.enter_server(id);
    let mut draft = ServerDraft { source, ..ServerDraft::new(id, node, Dialect::Native) };
    if !cx.check_is_map(node, "give it a `command`, a `url` or `docker`") {
        draft.is_valid = false;
        cx.leave_server();
        return draft;
    }
    let Deserialized { value, errors, unknown } = doc::deserialize::<EntryKeys>(cx.doc, node);
    draft.is_valid = errors.is_empty();
    cx.report_value_errors(errors);
    // Unknown keys of the entry itself may be policy or transport keys, which are read below.
    let inside: Vec<_> = unknown.into_iter().filter(|unknown| unknown.map != node).collect();
    let (inside, restrictions_valid) =
        security_checks::report_native_restricting_mistakes(cx, node, inside, &[]);
    cx.report_unknown_keys(node, &inside);
    let keys = value.unwrap_or_default();
    let (policy, flat, extras) = read_policy_and_transport(cx, node, ENTRY_KEYS);
    let restrictions_valid =
        restrictions_valid && security_checks::report_restricting_variables(cx, node);
    draft.is_valid &= policy.1 && flat.1 && restrictions_valid;
    draft.policy = policy.0;
    draft.profile = keys.profile.and_then(|at| at.value).unwrap_or(draft.profile);
    draft.extras = extras;
    draft.extras.extend(value_or_default(keys.original));
    let env = short_form_env(keys.env, keys.env_file, keys.inherit_env);
    let docker = keys.docker.and_then(|at| at.value).map(docker_transport).unwrap_or_default();
    draft.transport = flat.0.or(docker).or(TransportKeys { env, ..TransportKeys::default() });
    make_paths_absolute(cx, &mut draft.policy, &mut draft.transport);
    cx.leave_server();
    draft
}

const ENTRY_KEYS: &[&str] =
    &["profile", "transport", "env", "env_file", "inherit_env", "docker", X_ORIGINAL, X_SOURCE];
const X_ORIGINAL: &str = "x-original";
const X_SOURCE: &str = "x-source";

/// Splits a server's key into source file and id. When two files define the same id, `explain` writes the
/// combined key and, in `x-source`, the file part of it: an id may contain a `#`.
fn split_source<'i>(
    cx: &CompileContext<'_>,
    name: &'i str,
    node: NodeId,
) -> (Option<Arc<str>>, &'i str) {
    let source = peek_text(cx, node, &[X_SOURCE]);
    let id = source.as_deref().and_then(|source| name.strip_prefix(source)?.strip_prefix('#'));
    match id {
        Some(id) => (source.map(Into::into), id),
        None => (None, name),
    }
}

type Checked<T> = (T, bool);

/// Reads an entry or a profile twice: for its policies and for its transport, whose keys may stand in a map
/// of their own or directly in the entry. A key is unknown if both readings do not know it.
fn read_policy_and_transport(
    cx: &mut CompileContext<'_>,
    node: NodeId,
    others: &[&'static str],
) -> (Checked<PolicyKeys>, Checked<TransportKeys>, Map<String, Json>) {
    let policy = doc::deserialize::<PolicyKeys>(cx.doc, node);
    let flat = doc::deserialize::<TransportKeys>(cx.doc, node);
    let long = read_long_transport(cx, node);
    let env = cx.doc.get(node, "env");
    // `env` in the entry itself is a plain map of variables, not the group of the long form.
    let in_env = |other: NodeId| env.is_some_and(|env| cx.doc.is_within(other, env));
    let (inside, mut unknown): (Vec<_>, Vec<_>) =
        policy.unknown.into_iter().partition(|u| u.map != node);
    let own: HashSet<&str> =
        flat.unknown.iter().filter(|u| u.map == node).map(|u| u.key.as_str()).collect();
    unknown.retain(|u| own.contains(u.key.as_str()) && !others.contains(&u.key.as_str()));
    let flat_errors: Vec<_> =
        flat.errors.into_iter().filter(|w| !w.node.is_some_and(in_env)).collect();
    let missing = security_checks::find_missing_entry_values(cx.doc, node);
    security_checks::report_missing_values(cx, &missing);
    let known = known_entry_keys(others);
    let (inside, is_inside_valid) =
        security_checks::report_native_restricting_mistakes(cx, node, inside, &known);
    let (unknown, is_entry_valid) =
        security_checks::report_native_restricting_mistakes(cx, node, unknown, &known);
    let restrictions_valid = missing.is_empty() && is_inside_valid && is_entry_valid;
    let is_valid =
        (policy.errors.is_empty() && restrictions_valid, flat_errors.is_empty() && long.1);
    cx.report_value_errors(policy.errors);
    cx.report_value_errors(flat_errors);
    let mut extras = cx.report_unknown_keys(node, &inside);
    extras.extend(report_unknown_entry_keys(cx, node, &unknown, others));
    let flat = TransportKeys { env: None, ..flat.value.unwrap_or_default() };
    ((policy.value.unwrap_or_default(), is_valid.0), (long.0.or(flat), is_valid.1), extras)
}

fn report_unknown_entry_keys(
    cx: &mut CompileContext<'_>,
    node: NodeId,
    unknown: &[doc::UnknownKey],
    others: &[&'static str],
) -> Map<String, Json> {
    let mut extras = Map::new();
    let known = known_entry_keys(others);
    for doc::UnknownKey { entry, key, .. } in unknown {
        let value = cx.doc.entries(node).get(*entry);
        extras.extend(value.map(|(_, value)| (key.clone(), cx.doc.json(*value))));
        if !key.starts_with("x-") {
            cx.report_unknown_key(node, *entry, &known);
        }
    }
    extras
}

/// Returns all keys that an entry may have.
fn known_entry_keys(others: &[&'static str]) -> Vec<&'static str> {
    PolicyKeys::NAMES.iter().chain(TransportKeys::NAMES).chain(others).copied().collect()
}

/// Reads `transport:` as a map or as the name of a kind.
fn read_long_transport(cx: &mut CompileContext<'_>, node: NodeId) -> Checked<TransportKeys> {
    let Some(at) = cx.doc.get(node, "transport") else {
        return (TransportKeys::default(), true);
    };
    let NodeKind::Text(word) = cx.doc.kind(at) else {
        let Deserialized { value, errors, unknown } = doc::deserialize::<TransportKeys>(cx.doc, at);
        let (unknown, restrictions_valid) =
            security_checks::report_native_restricting_mistakes(cx, node, unknown, &[]);
        let is_valid = errors.is_empty() && restrictions_valid;
        cx.report_value_errors(errors);
        cx.report_unknown_keys(at, &unknown);
        return (value.unwrap_or_default(), is_valid);
    };
    let kind = match word.as_str() {
        "http" => Some(TransportKind::StreamableHttp),
        "docker" => Some(TransportKind::DockerExec),
        word => TransportKind::from_word(word),
    };
    if kind.is_none() {
        let text = crate::model::setting::no_such_word(word, TransportKind::WORDS);
        cx.error(at, "transport.unsupported", text, "use one of these words");
    }
    let keys =
        TransportKeys { kind: kind.map(|kind| At::new(at, kind)), ..TransportKeys::default() };
    (keys, kind.is_some())
}

fn short_form_env(
    set: Option<At<IndexMap<String, At<Value>>>>,
    file: Option<At<String>>,
    inherit: Option<At<InheritedEnv>>,
) -> Option<At<EnvKeys>> {
    let node = set
        .as_ref()
        .map(|at| at.node)
        .or(file.as_ref().map(|at| at.node))
        .or(inherit.as_ref().map(|at| at.node))?;
    Some(At::new(node, EnvKeys { set, file, inherit, unset: None }))
}

fn docker_transport(keys: DockerKeys) -> TransportKeys {
    let mut transport = TransportKeys {
        image: keys.image,
        container: keys.container,
        shell: keys.shell,
        workdir: keys.workdir,
        endpoint: keys.endpoint,
        keep_container: keys.keep_container,
        ..TransportKeys::default()
    };
    if let Some(command) = keys.command {
        set_container_command(&mut transport, command);
    }
    transport
}

/// Sets the command of a server in a container: a text for a shell, or a list that runs directly.
pub(crate) fn set_container_command(
    transport: &mut TransportKeys,
    command: At<Either<DisplayValue, Vec<DisplayValue>>>,
) {
    let At { node, value } = command;
    match value {
        Some(Either::Scalar(command)) => {
            transport.command = Some(At::new(node, command));
            transport.shell.get_or_insert_with(|| At::new(node, DEFAULT_SHELL.to_string()));
        }
        Some(Either::Nested(argv)) => {
            let mut argv = argv.into_iter();
            transport.command = argv.next().map(|command| At::new(node, command));
            transport.args = Some(At::new(node, argv.collect()));
        }
        None => {}
    }
}

/// Makes paths absolute, relative to the file's folder and not to the host's working directory.
fn make_paths_absolute(
    cx: &CompileContext<'_>,
    policy: &mut PolicyKeys,
    transport: &mut TransportKeys,
) {
    let absolute = |path: &str| cx.absolute_path(path).display().to_string();
    if let Some(DisplayValue(Value::Literal(path))) =
        transport.cwd.as_mut().and_then(|at| at.value.as_mut())
    {
        *path = crate::value::SecretString::new(absolute(path.reveal()));
    }
    let env = transport.env.as_mut().and_then(|at| at.value.as_mut());
    if let Some(path) = env.and_then(|env| env.file.as_mut()).and_then(|at| at.value.as_mut()) {
        *path = absolute(path);
    }
    if let Some(Manual::File(path)) = policy.manual.as_mut().and_then(|at| at.value.as_mut()) {
        *path = absolute(path);
    }
}

/// Makes the paths of secret stores absolute.
fn make_store_paths_absolute(cx: &CompileContext<'_>, mut host: At<HostKeys>) -> At<HostKeys> {
    let stores = host.value.as_mut().and_then(|host| host.secrets.as_mut()?.value.as_mut());
    for store in stores.into_iter().flat_map(IndexMap::values_mut) {
        if let Some(path) = store.value.as_mut().and_then(|store| store.path.as_mut()) {
            *path = cx.absolute_path(path).display().to_string();
        }
    }
    host
}
