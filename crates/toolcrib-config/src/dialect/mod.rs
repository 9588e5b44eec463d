//! The formats that are read, and what reading one gives.

mod dominds;
mod native;
#[cfg(test)]
mod native_tests;
mod team;

use std::path::Path;

use indexmap::IndexMap;
use serde_json::{Map, Value as Json};

use crate::cx::Cx;
use crate::doc::{At, NodeId, Syntax};
use crate::model::Outcome;
use crate::model::host::{GatewayKeys, HostKeys, Input};
use crate::model::policy::{PolicyKeys, Scope};
use crate::model::setting::words;
use crate::model::transport::TransportKeys;

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
            (".vscode", "mcp.json") => Some(Self::VsCode),
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
}

/// A server in native keys.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) id: String,
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
}

/// Another file to read.
#[derive(Debug)]
pub(crate) struct Include {
    pub(crate) node: NodeId,
    pub(crate) path: String,
    pub(crate) dialect: Option<Dialect>,
    pub(crate) scope: Option<Scope>,
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
        }
    }

    /// Nothing of the file counts.
    pub(crate) fn refused(outcome: Outcome) -> Self {
        Self { outcome, ..Self::new() }
    }
}

impl Draft {
    pub(crate) fn new(id: &str, node: NodeId, dialect: Dialect) -> Self {
        Self {
            id: id.to_string(),
            node,
            profile: dialect.profile().to_string(),
            policy: PolicyKeys::default(),
            transport: TransportKeys::default(),
            extras: Map::new(),
            sound: true,
        }
    }
}

/// Reads one file that parsed.
pub(crate) fn read(cx: &mut Cx<'_>) -> Loaded {
    match cx.dialect {
        Dialect::Native => native::read(cx),
        Dialect::Dominds => dominds::read(cx),
        _ => Loaded::new(),
    }
}

pub(crate) use native::{EntryKeys, Root};
pub(crate) use team::read as read_team;
