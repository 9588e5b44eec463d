//! The formats that are read, and what reading one gives.

mod claude;
mod clients;
mod codex;
mod cursor;
mod dispatch;
mod docker;
mod dominds;
mod editor;
mod expand;
mod gateway;
mod gemini;
mod go;
mod holodeck;
mod lower;
mod minion;
mod minion_auth;
mod native;
#[cfg(test)]
mod native_tests;
mod opencode;
mod restricting;
mod security;
mod team;
mod vscode;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::{Map, Value as Json};

use crate::cx::Cx;
use crate::doc::{At, Kind, NodeId, Syntax};
use crate::model::Outcome;
use crate::model::host::{GatewayKeys, HostKeys, Input};
use crate::model::policy::{OnConfigError, PolicyKeys, Scope};
use crate::model::security::Section;
use crate::model::setting::words;
use crate::model::transport::TransportKeys;
use crate::profile::Profiles;
use crate::text;
use crate::value::{Value, Verbatim};

words! {
    /// A configuration format.
    Dialect {
        Native = "native",
        Dominds = "dominds",
        Dispatch = "dispatch",
        Opencode = "opencode",
        Holodeck = "holodeck",
        Minion = "minion",
        Docker = "docker",
        Claude = "claude",
        VsCode = "vscode",
        Cursor = "cursor",
        Codex = "codex",
        Gemini = "gemini",
    }
}

impl Dialect {
    /// The dialect that a file has because of where it is; never because of what it holds.
    pub fn of_path(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        let folder =
            path.parent().and_then(Path::file_name).and_then(|f| f.to_str()).unwrap_or_default();
        match (folder, name) {
            (".minds", "mcp.yaml") => Some(Self::Dominds),
            (".dispatch", "mcp.json") => Some(Self::Dispatch),
            (".vscode" | "User", "mcp.json") => Some(Self::VsCode),
            (".cursor", "mcp.json") => Some(Self::Cursor),
            (".codex", "config.toml") => Some(Self::Codex),
            (".gemini", "settings.json") => Some(Self::Gemini),
            (_, "toolcrib.yaml") => Some(Self::Native),
            (_, "opencode.json" | "opencode.jsonc") => Some(Self::Opencode),
            (_, "agent.yaml") => Some(Self::Holodeck),
            (_, ".mcp.json" | "claude_desktop_config.json" | ".claude.json") => Some(Self::Claude),
            _ => None,
        }
    }

    pub(crate) fn syntax(self, path: &Path) -> Syntax {
        let json = path.extension().is_some_and(|ext| ext == "json" || ext == "jsonc");
        match self {
            Self::Codex => Syntax::Toml,
            Self::Native | Self::Dominds | Self::Holodeck | Self::Minion | Self::Docker
                if !json =>
            {
                Syntax::Yaml
            }
            _ => Syntax::Json,
        }
    }

    /// The profile that supplies what a file of this dialect does not say.
    pub fn profile(self) -> &'static str {
        match self {
            Self::Dominds => "dominds",
            Self::Dispatch | Self::Opencode => "dispatch",
            Self::Holodeck => "holodeck",
            Self::Minion => "minion",
            Self::Docker => "docker",
            Self::Native
            | Self::Claude
            | Self::VsCode
            | Self::Cursor
            | Self::Codex
            | Self::Gemini => "native",
        }
    }
}

impl Dialect {
    /// Whether one mistake ends the whole file, as the format's profile says.
    pub(crate) fn fails_load(self) -> bool {
        let profiles = Profiles::built_in();
        let policy = profiles.get(self.profile()).map(|profile| &profile.policy.availability);
        policy.is_some_and(|policy| policy.on_config_error == OnConfigError::FailLoad)
    }
}

/// What one file says, in native keys that still know their places.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) outcome: Outcome,
    pub(crate) servers: Vec<Draft>,
    pub(crate) host: Option<At<HostKeys>>,
    pub(crate) gateway: Option<At<GatewayKeys>>,
    pub(crate) inputs: IndexMap<String, Input>,
    pub(crate) profiles: Vec<ProfileDraft>,
    pub(crate) includes: Vec<Include>,
    /// Security sections that cannot be relied on, each with the node of its mistake.
    pub(crate) invalid: Vec<(Section, NodeId)>,
}

/// A server in native keys.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) id: String,
    /// The file that the server is of, where it is another than the one it stands in.
    pub(crate) source: Option<Arc<str>>,
    pub(crate) node: NodeId,
    pub(crate) profile: String,
    pub(crate) policy: PolicyKeys,
    pub(crate) transport: TransportKeys,
    pub(crate) extras: Map<String, Json>,
    /// Whether everything in it could be read; an unsound one is reported and not used.
    pub(crate) sound: bool,
}

/// A person's own profile.
#[derive(Debug)]
pub(crate) struct ProfileDraft {
    pub(crate) name: String,
    pub(crate) node: NodeId,
    pub(crate) base: Option<String>,
    pub(crate) policy: PolicyKeys,
    pub(crate) transport: TransportKeys,
    /// Whether everything in it could be read; servers that use an unsound one are not started.
    pub(crate) sound: bool,
}

/// Another file to read.
#[derive(Debug)]
pub(crate) struct Include {
    pub(crate) node: NodeId,
    pub(crate) path: String,
    pub(crate) dialect: Option<Dialect>,
    pub(crate) scope: Option<Scope>,
    pub(crate) profile: Option<String>,
}

impl Loaded {
    pub(crate) fn new() -> Self {
        Self {
            outcome: Outcome::Loaded,
            servers: Vec::new(),
            host: None,
            gateway: None,
            inputs: IndexMap::new(),
            profiles: Vec::new(),
            includes: Vec::new(),
            invalid: Vec::new(),
        }
    }

    /// Nothing of the file counts.
    pub(crate) fn refused(outcome: Outcome) -> Self {
        Self { outcome, ..Self::new() }
    }

    /// Nothing of the file counts, and its servers are named among those that are rejected.
    pub(crate) fn failed(mut self) -> Self {
        self.servers.iter_mut().for_each(|draft| draft.sound = false);
        Self { servers: self.servers, ..Self::refused(Outcome::Failed) }
    }

    /// In a list of servers a name may be given twice, which a map does not allow.
    pub(crate) fn tell_duplicates(&mut self, cx: &mut Cx<'_>) {
        let mut first: HashMap<String, NodeId> = HashMap::new();
        for draft in &mut self.servers {
            let before = *first.entry(draft.id.clone()).or_insert(draft.node);
            if before == draft.node {
                continue;
            }
            let line = cx.doc.place(before).line;
            let name = text::clip(&draft.id);
            let text = format!("the name `{name}` is taken by the server in line {line}");
            let fix = "give one of the two another name";
            cx.enter(&draft.id);
            cx.error(draft.node, "name.duplicate", text, fix);
            cx.leave();
            draft.sound = false;
        }
    }
}

impl Draft {
    pub(crate) fn new(id: &str, node: NodeId, dialect: Dialect) -> Self {
        Self {
            id: id.to_string(),
            source: None,
            node,
            profile: dialect.profile().to_string(),
            policy: PolicyKeys::default(),
            transport: TransportKeys::default(),
            extras: Map::new(),
            sound: true,
        }
    }
}

/// A value, or its default where nothing is said or what is said cannot be read.
pub(crate) fn given<T: Default>(value: Option<At<T>>) -> T {
    value.and_then(|at| at.value).unwrap_or_default()
}

/// A text, where it says anything.
pub(crate) fn nonempty(text: Option<At<String>>) -> Option<At<String>> {
    text.filter(|at| at.value.as_deref() != Some(""))
}

/// A text that is needed before its entry is read, so that the entry's problems can tell it.
fn peek(cx: &Cx<'_>, node: NodeId, keys: &[&str]) -> Option<String> {
    let found = keys.iter().find_map(|key| cx.doc.get(node, key))?;
    match cx.doc.kind(found) {
        Kind::Text(text) if !text.is_empty() => Some(text.clone()),
        _ => None,
    }
}

fn verbatim(values: IndexMap<String, At<Verbatim>>) -> IndexMap<String, At<Value>> {
    values.into_iter().map(|(name, at)| (name, at.map(|Verbatim(value)| value))).collect()
}

/// Reads one file that parsed.
pub(crate) fn read(cx: &mut Cx<'_>) -> Loaded {
    match cx.dialect {
        Dialect::Native => native::read(cx),
        Dialect::Dominds => dominds::read(cx),
        Dialect::Dispatch => dispatch::read(cx),
        Dialect::Opencode => opencode::read(cx),
        Dialect::Holodeck => holodeck::read(cx),
        Dialect::Minion => minion::read(cx),
        Dialect::Docker => docker::read(cx),
        Dialect::Claude => claude::read(cx),
        Dialect::VsCode => vscode::read(cx),
        Dialect::Cursor => cursor::read(cx),
        Dialect::Codex => codex::read(cx),
        Dialect::Gemini => gemini::read(cx),
    }
}

pub(crate) use native::{EntryKeys, Root};
pub(crate) use restricting::reject_restricting;
pub(crate) use team::read as read_team;
