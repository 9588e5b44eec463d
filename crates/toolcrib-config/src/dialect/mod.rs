//! Configuration formats (dialects) and the common result of reading a file.

mod claude;
mod client_servers;
mod codex;
mod conversions;
mod cursor;
mod dispatch;
mod docker;
mod dominds;
mod editor_variables;
mod expand;
mod gateway_checks;
mod gemini;
mod go_duration;
mod holodeck;
mod minion;
mod minion_auth;
mod native;
#[cfg(test)]
mod native_tests;
mod opencode;
mod restricting_keys;
mod security_checks;
mod team;
mod vscode;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::{Map, Value as Json};

use crate::compile_context::CompileContext;
use crate::doc::{At, NodeId, NodeKind, Syntax};
use crate::model::SourceOutcome;
use crate::model::host::{GatewayKeys, HostKeys, InputSpec};
use crate::model::policy::{OnConfigError, PolicyKeys, ServerScope};
use crate::model::security::SecuritySection;
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
    /// Returns the dialect that the path implies. The content is never consulted.
    pub fn from_path(path: &Path) -> Option<Self> {
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

    /// Name of the profile that supplies the defaults for files of this dialect.
    pub fn profile_name(self) -> &'static str {
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
    /// Returns true when one mistake rejects the whole file, as the dialect's profile says.
    pub(crate) fn fails_whole_file(self) -> bool {
        let profiles = Profiles::built_in();
        let policy = profiles.get(self.profile_name()).map(|profile| &profile.policy.availability);
        policy.is_some_and(|policy| policy.on_config_error == OnConfigError::FailLoad)
    }
}

/// Contents of one file in native keys that still know their locations.
#[derive(Debug)]
pub(crate) struct DialectFile {
    pub(crate) outcome: SourceOutcome,
    pub(crate) servers: Vec<ServerDraft>,
    pub(crate) host: Option<At<HostKeys>>,
    pub(crate) gateway: Option<At<GatewayKeys>>,
    pub(crate) inputs: IndexMap<String, InputSpec>,
    pub(crate) profiles: Vec<ProfileDraft>,
    pub(crate) includes: Vec<Include>,
    /// Security sections that are invalid, each with the node of its mistake.
    pub(crate) invalid_sections: Vec<(SecuritySection, NodeId)>,
}

/// One server's entry in native keys.
#[derive(Debug)]
pub(crate) struct ServerDraft {
    pub(crate) id: String,
    /// The file that defines the server, if it is not the file that holds the entry.
    pub(crate) source: Option<Arc<str>>,
    pub(crate) node: NodeId,
    pub(crate) profile: String,
    pub(crate) policy: PolicyKeys,
    pub(crate) transport: TransportKeys,
    pub(crate) extras: Map<String, Json>,
    /// False if a mistake rejects the entry: the mistake is reported and the server is not used.
    pub(crate) is_valid: bool,
}

/// A profile defined in a configuration file.
#[derive(Debug)]
pub(crate) struct ProfileDraft {
    pub(crate) name: String,
    pub(crate) node: NodeId,
    pub(crate) base: Option<String>,
    pub(crate) policy: PolicyKeys,
    pub(crate) transport: TransportKeys,
    /// False if a mistake rejects the profile: servers that use the profile are not started.
    pub(crate) is_valid: bool,
}

/// A reference to another configuration file.
#[derive(Debug)]
pub(crate) struct Include {
    pub(crate) node: NodeId,
    pub(crate) path: String,
    pub(crate) dialect: Option<Dialect>,
    pub(crate) scope: Option<ServerScope>,
    pub(crate) profile: Option<String>,
}

impl DialectFile {
    pub(crate) fn new() -> Self {
        Self {
            outcome: SourceOutcome::Loaded,
            servers: Vec::new(),
            host: None,
            gateway: None,
            inputs: IndexMap::new(),
            profiles: Vec::new(),
            includes: Vec::new(),
            invalid_sections: Vec::new(),
        }
    }

    /// Contents of a file from which nothing is used.
    pub(crate) fn discarded(outcome: SourceOutcome) -> Self {
        Self { outcome, ..Self::new() }
    }

    /// Discards the contents and marks every server as rejected.
    pub(crate) fn into_failed(mut self) -> Self {
        self.servers.iter_mut().for_each(|draft| draft.is_valid = false);
        Self { servers: self.servers, ..Self::discarded(SourceOutcome::Failed) }
    }

    /// Reports servers that share a name. Only lists of servers can contain a name twice; maps cannot.
    pub(crate) fn reject_duplicate_names(&mut self, cx: &mut CompileContext<'_>) {
        let mut first: HashMap<String, NodeId> = HashMap::new();
        for draft in &mut self.servers {
            let before = *first.entry(draft.id.clone()).or_insert(draft.node);
            if before == draft.node {
                continue;
            }
            let line = cx.doc.location(before).line;
            let name = text::clip(&draft.id);
            let text = format!("the name `{name}` is taken by the server in line {line}");
            let fix = "give one of the two another name";
            cx.enter_server(&draft.id);
            cx.error(draft.node, "name.duplicate", text, fix);
            cx.leave_server();
            draft.is_valid = false;
        }
    }
}

impl ServerDraft {
    pub(crate) fn new(id: &str, node: NodeId, dialect: Dialect) -> Self {
        Self {
            id: id.to_string(),
            source: None,
            node,
            profile: dialect.profile_name().to_string(),
            policy: PolicyKeys::default(),
            transport: TransportKeys::default(),
            extras: Map::new(),
            is_valid: true,
        }
    }
}

/// Returns the value, or its default if the value is missing or unreadable.
pub(crate) fn value_or_default<T: Default>(value: Option<At<T>>) -> T {
    value.and_then(|at| at.value).unwrap_or_default()
}

/// Returns the text unless it is empty.
pub(crate) fn non_empty(text: Option<At<String>>) -> Option<At<String>> {
    text.filter(|at| at.value.as_deref() != Some(""))
}

/// Returns the text of the first of `keys` that exists. The caller needs the name before the entry is read,
/// so that the entry's problems can carry it.
fn peek_text(cx: &CompileContext<'_>, node: NodeId, keys: &[&str]) -> Option<String> {
    let found = keys.iter().find_map(|key| cx.doc.get(node, key))?;
    match cx.doc.kind(found) {
        NodeKind::Text(text) if !text.is_empty() => Some(text.clone()),
        _ => None,
    }
}

fn to_values(values: IndexMap<String, At<Verbatim>>) -> IndexMap<String, At<Value>> {
    values.into_iter().map(|(name, at)| (name, at.map(|Verbatim(value)| value))).collect()
}

/// Reads one parsed file.
pub(crate) fn read_file(cx: &mut CompileContext<'_>) -> DialectFile {
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

pub(crate) use native::{EntryKeys, NativeFile};
pub(crate) use restricting_keys::report_restricting_mistakes;
pub(crate) use team::read as read_team;
