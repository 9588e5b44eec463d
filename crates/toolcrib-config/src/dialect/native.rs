//! `toolcrib.yaml`: the format that can say everything, in a short and in a long form.

use std::collections::HashSet;
use std::sync::Arc;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use super::{
    Dialect, Draft, Include, Loaded, ProfileDraft, gateway, given, peek, restricting, security,
};
use crate::cx::Cx;
use crate::doc::{self, At, Doc, Either, Kind, NodeId, Reading, describe};
use crate::model::Outcome;
use crate::model::choice::{Inherit, Manual};
use crate::model::host::{GatewayKeys, HostKeys, Input};
use crate::model::policy::{PolicyKeys, Scope};
use crate::model::security::Section;
use crate::model::transport::{EnvKeys, Plain, TransportKeys, TransportKind};
use crate::text;
use crate::value::Value;

/// The file as a whole.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct Root {
    /// The version of the format: 1.
    pub(crate) version: Option<At<u64>>,
    /// Other files, read with their own dialect.
    include: Option<At<Vec<At<IncludeKeys>>>>,
    /// Settings of the host.
    host: Option<At<HostKeys>>,
    /// The endpoint in front of all servers.
    gateway: Option<At<GatewayKeys>>,
    /// Values that a person is asked for once, by name; used as `${input:NAME}`.
    inputs: Option<At<IndexMap<String, At<Input>>>>,
    /// Named defaults; `base` names the profile that they start from.
    #[schemars(with = "Option<IndexMap<String, crate::schema::ProfileEntry>>")]
    profiles: Option<At<IndexMap<String, At<serde::de::IgnoredAny>>>>,
    /// The servers, by id.
    #[schemars(with = "Option<IndexMap<String, crate::schema::ServerEntry>>")]
    servers: Option<At<IndexMap<String, At<serde::de::IgnoredAny>>>>,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct IncludeKeys {
    /// The file, relative to this one.
    path: Option<String>,
    /// Its format, where its name does not tell.
    dialect: Option<Dialect>,
    /// Whether its servers are seen everywhere or only in their working directory.
    scope: Option<Scope>,
    /// The profile of its servers, instead of the format's own: a way to set what the format has no key for.
    profile: Option<String>,
}

/// The keys that only a server entry has; the others are those of `PolicyKeys` and `TransportKeys`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct EntryKeys {
    /// The profile that supplies what the entry does not say.
    profile: Option<At<String>>,
    /// How the server is reached; its keys may also stand beside it.
    #[schemars(with = "Option<TransportKeys>")]
    transport: Option<At<serde::de::IgnoredAny>>,
    /// Variables of the server's process.
    env: Option<At<IndexMap<String, At<Value>>>>,
    /// A `.env` file.
    env_file: Option<At<String>>,
    /// Which of the host's variables the server sees.
    inherit_env: Option<At<Inherit>>,
    /// A server in a container.
    docker: Option<At<DockerKeys>>,
    /// Keys of another format that have no meaning here.
    #[serde(rename = "x-original")]
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    original: Option<At<serde_json::Map<String, Json>>>,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct DockerKeys {
    image: Option<At<Plain>>,
    container: Option<At<Plain>>,
    /// A list is run as it is; a text is run by `shell`.
    #[schemars(with = "Option<Either<Plain, Vec<Plain>>>")]
    command: Option<At<Either<Plain, Vec<Plain>>>>,
    shell: Option<At<String>>,
    workdir: Option<At<Plain>>,
    endpoint: Option<At<Plain>>,
    keep_container: Option<At<bool>>,
}

/// The shell of a command that is written as one text.
const SHELL: &str = "sh -lc";

pub(crate) fn read(cx: &mut Cx<'_>) -> Loaded {
    let Reading { value, wrongs, unknown } = doc::read::<Root>(cx.doc, Doc::ROOT);
    let mut invalid = security::invalid_sections(cx.doc, &wrongs, &unknown);
    cx.tell_wrongs(wrongs);
    cx.tell_unknown(Doc::ROOT, &unknown);
    let root = value.unwrap_or_default();
    if !version_is_one(cx, root.version.as_ref()) {
        return Loaded::refused(Outcome::Rejected);
    }
    let missing = security::missing_values(cx.doc);
    security::tell_missing(cx, &missing);
    invalid.extend(security::sections_of(cx.doc, &missing));
    let mistakes = root.gateway.as_ref().map(|keys| gateway::mistakes(cx, keys));
    invalid.extend(mistakes.into_iter().flatten().map(|node| (Section::Gateway, node)));
    let mut loaded = Loaded::new();
    loaded.includes = root.include.map(|list| includes(cx, list, &mut invalid)).unwrap_or_default();
    loaded.invalid = invalid;
    loaded.host = root.host.map(|host| with_absolute_stores(cx, host));
    loaded.gateway = root.gateway;
    loaded.inputs =
        given(root.inputs).into_iter().filter_map(|(id, input)| Some((id, input.value?))).collect();
    loaded.profiles = nodes(root.profiles).map(|(name, node)| profile(cx, &name, node)).collect();
    reject_neighbours_of_misplaced_policies(cx, &mut loaded.profiles);
    loaded.servers = nodes(root.servers).map(|(id, node)| server(cx, &id, node)).collect();
    restricting::reject_neighbours_of_misplaced_keys(cx, &mut loaded.servers);
    loaded
}

/// Makes the neighbours of restricting keys invalid that stand among the profiles.
fn reject_neighbours_of_misplaced_policies(cx: &mut Cx<'_>, profiles: &mut [ProfileDraft]) {
    let has_known_key = |doc: &Doc, node: NodeId| {
        let known = entry_keys(&["base", "transport"]);
        doc.entries(node).iter().any(|(key, _)| known.contains(&key.name.as_str()))
    };
    let found = restricting::neighbours(profiles, |profile| {
        let is_key = restricting::is_restricting(Dialect::Native, &profile.name);
        is_key && !has_known_key(cx.doc, profile.node)
    });
    for [key, profile] in found {
        let key = profiles.get(key).map(|profile| profile.name.clone()).unwrap_or_default();
        let Some(profile) = profiles.get_mut(profile) else { continue };
        restricting::tell_misplaced(cx, profile.node, &key, "profile");
        profile.sound = false;
    }
}

fn nodes<T>(map: Option<At<IndexMap<String, At<T>>>>) -> impl Iterator<Item = (String, NodeId)> {
    given(map).into_iter().map(|(name, at)| (name, at.node))
}

/// `version: 1`, a number. Anything else may mean anything, so nothing of the file is used.
pub(crate) fn version_is_one(cx: &mut Cx<'_>, version: Option<&At<u64>>) -> bool {
    let text = match version {
        Some(At { value: Some(1), .. }) => return true,
        Some(At { node, .. }) => match cx.doc.kind(*node) {
            Kind::Number(number) => format!("`version` must be 1, found {}", text::clip(number)),
            _ => format!("`version` must be the number 1, found {}", describe(cx.doc, *node)),
        },
        None => "`version` is missing".to_string(),
    };
    let node = version.map_or(Doc::ROOT, |at| at.node);
    cx.error(node, "version.unsupported", text, "write `version: 1` at the top of the file");
    false
}

fn includes(
    cx: &mut Cx<'_>,
    list: At<Vec<At<IncludeKeys>>>,
    invalid: &mut Vec<(Section, NodeId)>,
) -> Vec<Include> {
    let mut found = Vec::new();
    for At { node, value } in list.value.unwrap_or_default() {
        match value {
            Some(IncludeKeys { path: Some(path), dialect, scope, profile }) => {
                found.push(Include { node, path, dialect, scope, profile });
            }
            Some(_) => {
                cx.error(node, "include.path", "an include needs a `path`", "add `path: FILE`");
                invalid.extend(Section::UNREADABLE.map(|section| (section, node)));
            }
            None => {}
        }
    }
    found
}

fn profile(cx: &mut Cx<'_>, name: &str, node: NodeId) -> ProfileDraft {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Head {
        base: Option<String>,
    }
    let base = doc::read::<Head>(cx.doc, node).value.and_then(|head| head.base);
    let ((mut policy, policy_is_sound), (mut transport, transport_is_sound), _) =
        policy_and_transport(cx, node, &["base", "transport"]);
    absolute_paths(cx, &mut policy, &mut transport);
    let sound = policy_is_sound && transport_is_sound;
    ProfileDraft { name: name.to_string(), node, base, policy, transport, sound }
}

fn server(cx: &mut Cx<'_>, id: &str, node: NodeId) -> Draft {
    let (source, id) = own_id(cx, id, node);
    cx.enter(id);
    let mut draft = Draft { source, ..Draft::new(id, node, Dialect::Native) };
    if !cx.is_map(node, "give it a `command`, a `url` or `docker`") {
        draft.sound = false;
        cx.leave();
        return draft;
    }
    let Reading { value, wrongs, unknown } = doc::read::<EntryKeys>(cx.doc, node);
    draft.sound = wrongs.is_empty();
    cx.tell_wrongs(wrongs);
    // Those beside the keys of this type may be policies, or keys of the transport.
    let inside: Vec<_> = unknown.into_iter().filter(|unknown| unknown.map != node).collect();
    let (inside, is_restricted) = security::reject_restricting(cx, node, inside, &[]);
    cx.tell_unknown(node, &inside);
    let keys = value.unwrap_or_default();
    let (policy, flat, extras) = policy_and_transport(cx, node, ENTRY);
    let is_restricted = is_restricted && security::reject_among_variables(cx, node);
    draft.sound &= policy.1 && flat.1 && is_restricted;
    draft.policy = policy.0;
    draft.profile = keys.profile.and_then(|at| at.value).unwrap_or(draft.profile);
    draft.extras = extras;
    draft.extras.extend(given(keys.original));
    let env = short_env(keys.env, keys.env_file, keys.inherit_env);
    let docker = keys.docker.and_then(|at| at.value).map(docker).unwrap_or_default();
    draft.transport = flat.0.or(docker).or(TransportKeys { env, ..TransportKeys::default() });
    absolute_paths(cx, &mut draft.policy, &mut draft.transport);
    cx.leave();
    draft
}

const ENTRY: &[&str] =
    &["profile", "transport", "env", "env_file", "inherit_env", "docker", X_ORIGINAL, X_SOURCE];
const X_ORIGINAL: &str = "x-original";
const X_SOURCE: &str = "x-source";

/// Where two files have a server of one id, `explain` writes the whole key and, beside it, which
/// part of it is the file: an id may hold a `#` of its own.
fn own_id<'i>(cx: &Cx<'_>, name: &'i str, node: NodeId) -> (Option<Arc<str>>, &'i str) {
    let source = peek(cx, node, &[X_SOURCE]);
    let id = source.as_deref().and_then(|source| name.strip_prefix(source)?.strip_prefix('#'));
    match id {
        Some(id) => (source.map(Into::into), id),
        None => (None, name),
    }
}

type Read<T> = (T, bool);

/// A server's entry, or a profile, is read twice: for its policies and for its transport, whose
/// keys may stand in a map of their own or beside the others. A key is unknown when both say so.
fn policy_and_transport(
    cx: &mut Cx<'_>,
    node: NodeId,
    others: &[&'static str],
) -> (Read<PolicyKeys>, Read<TransportKeys>, Map<String, Json>) {
    let policy = doc::read::<PolicyKeys>(cx.doc, node);
    let flat = doc::read::<TransportKeys>(cx.doc, node);
    let long = long_transport(cx, node);
    let env = cx.doc.get(node, "env");
    // `env` beside the other keys is a plain map of variables, not the long form's group.
    let in_env = |other: NodeId| env.is_some_and(|env| cx.doc.is_within(other, env));
    let (inside, mut unknown): (Vec<_>, Vec<_>) =
        policy.unknown.into_iter().partition(|u| u.map != node);
    let own: HashSet<&str> =
        flat.unknown.iter().filter(|u| u.map == node).map(|u| u.key.as_str()).collect();
    unknown.retain(|u| own.contains(u.key.as_str()) && !others.contains(&u.key.as_str()));
    let flat_wrongs: Vec<_> =
        flat.wrongs.into_iter().filter(|w| !w.node.is_some_and(in_env)).collect();
    let missing = security::missing_in_entry(cx.doc, node);
    security::tell_missing(cx, &missing);
    let known = entry_keys(others);
    let (inside, is_inside_sound) = security::reject_restricting(cx, node, inside, &known);
    let (unknown, is_entry_sound) = security::reject_restricting(cx, node, unknown, &known);
    let is_restricted = missing.is_empty() && is_inside_sound && is_entry_sound;
    let sound = (policy.wrongs.is_empty() && is_restricted, flat_wrongs.is_empty() && long.1);
    cx.tell_wrongs(policy.wrongs);
    cx.tell_wrongs(flat_wrongs);
    let mut extras = cx.tell_unknown(node, &inside);
    extras.extend(tell_unknown_in_entry(cx, node, &unknown, others));
    let flat = TransportKeys { env: None, ..flat.value.unwrap_or_default() };
    ((policy.value.unwrap_or_default(), sound.0), (long.0.or(flat), sound.1), extras)
}

fn tell_unknown_in_entry(
    cx: &mut Cx<'_>,
    node: NodeId,
    unknown: &[doc::Unknown],
    others: &[&'static str],
) -> Map<String, Json> {
    let mut extras = Map::new();
    let known = entry_keys(others);
    for doc::Unknown { entry, key, .. } in unknown {
        let value = cx.doc.entries(node).get(*entry);
        extras.extend(value.map(|(_, value)| (key.clone(), cx.doc.json(*value))));
        if !key.starts_with("x-") {
            cx.unknown_entry(node, *entry, &known);
        }
    }
    extras
}

/// All keys that an entry may have.
fn entry_keys(others: &[&'static str]) -> Vec<&'static str> {
    PolicyKeys::NAMES.iter().chain(TransportKeys::NAMES).chain(others).copied().collect()
}

/// `transport:` as a map, or as one word for its kind.
fn long_transport(cx: &mut Cx<'_>, node: NodeId) -> Read<TransportKeys> {
    let Some(at) = cx.doc.get(node, "transport") else {
        return (TransportKeys::default(), true);
    };
    let Kind::Text(word) = cx.doc.kind(at) else {
        let Reading { value, wrongs, unknown } = doc::read::<TransportKeys>(cx.doc, at);
        let (unknown, is_restricted) = security::reject_restricting(cx, node, unknown, &[]);
        let sound = wrongs.is_empty() && is_restricted;
        cx.tell_wrongs(wrongs);
        cx.tell_unknown(at, &unknown);
        return (value.unwrap_or_default(), sound);
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

fn short_env(
    set: Option<At<IndexMap<String, At<Value>>>>,
    file: Option<At<String>>,
    inherit: Option<At<Inherit>>,
) -> Option<At<EnvKeys>> {
    let node = set
        .as_ref()
        .map(|at| at.node)
        .or(file.as_ref().map(|at| at.node))
        .or(inherit.as_ref().map(|at| at.node))?;
    Some(At::new(node, EnvKeys { set, file, inherit, unset: None }))
}

fn docker(keys: DockerKeys) -> TransportKeys {
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
        container_command(&mut transport, command);
    }
    transport
}

/// The command of a server in a container: a text for a shell, or a list that is run as it is.
pub(crate) fn container_command(
    transport: &mut TransportKeys,
    command: At<Either<Plain, Vec<Plain>>>,
) {
    let At { node, value } = command;
    match value {
        Some(Either::Scalar(command)) => {
            transport.command = Some(At::new(node, command));
            transport.shell.get_or_insert_with(|| At::new(node, SHELL.to_string()));
        }
        Some(Either::Nested(argv)) => {
            let mut argv = argv.into_iter();
            transport.command = argv.next().map(|command| At::new(node, command));
            transport.args = Some(At::new(node, argv.collect()));
        }
        None => {}
    }
}

/// Relative paths start from the file's folder wherever the host was started.
fn absolute_paths(cx: &Cx<'_>, policy: &mut PolicyKeys, transport: &mut TransportKeys) {
    let absolute = |path: &str| cx.absolute(path).display().to_string();
    if let Some(Plain(Value::Literal(path))) =
        transport.cwd.as_mut().and_then(|at| at.value.as_mut())
    {
        *path = crate::value::Hidden::new(absolute(path.reveal()));
    }
    let env = transport.env.as_mut().and_then(|at| at.value.as_mut());
    if let Some(path) = env.and_then(|env| env.file.as_mut()).and_then(|at| at.value.as_mut()) {
        *path = absolute(path);
    }
    if let Some(Manual::File(path)) = policy.manual.as_mut().and_then(|at| at.value.as_mut()) {
        *path = absolute(path);
    }
}

/// The same for the files that secrets come from.
fn with_absolute_stores(cx: &Cx<'_>, mut host: At<HostKeys>) -> At<HostKeys> {
    let stores = host.value.as_mut().and_then(|host| host.secrets.as_mut()?.value.as_mut());
    for store in stores.into_iter().flat_map(IndexMap::values_mut) {
        if let Some(path) = store.value.as_mut().and_then(|store| store.path.as_mut()) {
            *path = cx.absolute(path).display().to_string();
        }
    }
    host
}
