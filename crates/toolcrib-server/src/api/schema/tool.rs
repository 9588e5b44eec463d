//! API schema of tools and of access explanations.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolcrib::internal::{GateVerdict, ToolExplanation};
use toolcrib::{Problem, Tool};
use toolcrib_wire::RawJson;

/// Tools of an agent, in the order of the files.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ToolList {
    pub version: u64,
    pub tools: Vec<ToolListItem>,
    pub problems: Vec<Problem>,
}

/// One tool. The schemas are byte for byte those of the server.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ToolListItem {
    pub name: String,
    /// Name of the tool for models.
    pub model_name: String,
    /// `null` for a tool of the host itself.
    pub server: Option<String>,
    pub toolset: String,
    pub original_name: String,
    pub title: Option<String>,
    pub description: Option<String>,
    #[schemars(with = "Value")]
    pub input_schema: RawJson,
    #[schemars(with = "Option<Value>")]
    pub output_schema: Option<RawJson>,
    #[schemars(with = "Option<Value>")]
    pub annotations: Option<RawJson>,
    /// True if the server of the tool is available.
    pub available: bool,
}

/// Gates that a tool passes or fails for an agent.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AccessReport {
    pub tool: String,
    pub agent: String,
    /// Key of the server.
    pub server: Option<String>,
    pub usable: bool,
    /// True if any server has a tool of that name.
    pub known: bool,
    /// Why the tool is not registered.
    pub left_out: Option<String>,
    pub gates: Vec<GateView>,
}

/// Verdict of one gate.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct GateView {
    pub gate: String,
    pub passed: bool,
    pub rule: String,
    /// Location of the rule.
    pub origin: Option<String>,
}

impl From<&Tool> for ToolListItem {
    fn from(tool: &Tool) -> Self {
        ToolListItem {
            name: tool.name().to_owned(),
            model_name: tool.model_name().to_owned(),
            server: tool.server().map(|server| server.id().to_owned()),
            toolset: tool.toolset().to_owned(),
            original_name: tool.original_name().to_owned(),
            title: tool.title().map(|it| it.into_owned()),
            description: tool.description().map(|it| it.into_owned()),
            input_schema: tool.input_schema().clone(),
            output_schema: tool.output_schema().cloned(),
            annotations: tool.annotations(),
            available: tool.is_available(),
        }
    }
}

impl AccessReport {
    /// Converts an explanation for an agent.
    pub fn new(why: &ToolExplanation, agent: &str) -> Self {
        let gates: Vec<GateView> =
            why.gates.iter().flat_map(|gates| &gates.0).map(GateView::from).collect();
        let known = why.gates.is_some();
        AccessReport {
            tool: why.name.clone(),
            agent: agent.to_owned(),
            server: why.server.as_deref().map(str::to_owned),
            usable: known && why.dropped_reason.is_none() && gates.iter().all(|gate| gate.passed),
            known,
            left_out: why.dropped_reason.clone(),
            gates,
        }
    }
}

impl From<&GateVerdict> for GateView {
    fn from(verdict: &GateVerdict) -> Self {
        GateView {
            gate: verdict.gate.as_str().to_owned(),
            passed: verdict.passed,
            rule: verdict.rule.to_string(),
            origin: verdict.origin.as_ref().map(ToString::to_string),
        }
    }
}
