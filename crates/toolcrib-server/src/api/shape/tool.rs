//! Tools as an agent sees them, and why it does.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolcrib::access::Verdict;
use toolcrib::{Problem, Tool, host};
use toolcrib_wire::Raw;

/// What an agent sees, in the order of the files.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Tools {
    pub version: u64,
    pub tools: Vec<ToolShape>,
    pub problems: Vec<Problem>,
}

/// One tool. Schemas are byte for byte what its server wrote.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ToolShape {
    pub name: String,
    /// The name that models are given.
    pub model_name: String,
    /// None for a tool of the host itself.
    pub server: Option<String>,
    pub toolset: String,
    pub original_name: String,
    pub title: Option<String>,
    pub description: Option<String>,
    #[schemars(with = "Value")]
    pub input_schema: Raw,
    #[schemars(with = "Option<Value>")]
    pub output_schema: Option<Raw>,
    #[schemars(with = "Option<Value>")]
    pub annotations: Option<Raw>,
    /// Whether its server is there.
    pub available: bool,
}

/// Each gate that a tool passes or fails for an agent.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Gates {
    pub tool: String,
    pub agent: String,
    /// The key of its server.
    pub server: Option<String>,
    pub usable: bool,
    /// Whether anybody has a tool of that name.
    pub known: bool,
    /// Why it is not even registered.
    pub left_out: Option<String>,
    pub gates: Vec<GateShape>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct GateShape {
    pub gate: String,
    pub passed: bool,
    pub rule: String,
    /// Where the rule is written.
    pub origin: Option<String>,
}

impl From<&Tool> for ToolShape {
    fn from(tool: &Tool) -> Self {
        ToolShape {
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

impl Gates {
    pub fn of(why: &host::Why, agent: &str) -> Self {
        let gates: Vec<GateShape> =
            why.gates.iter().flat_map(|gates| &gates.0).map(GateShape::from).collect();
        let known = why.gates.is_some();
        Gates {
            tool: why.name.clone(),
            agent: agent.to_owned(),
            server: why.server.as_deref().map(str::to_owned),
            usable: known && why.left_out.is_none() && gates.iter().all(|gate| gate.passed),
            known,
            left_out: why.left_out.clone(),
            gates,
        }
    }
}

impl From<&Verdict> for GateShape {
    fn from(verdict: &Verdict) -> Self {
        GateShape {
            gate: verdict.gate.as_str().to_owned(),
            passed: verdict.passed,
            rule: verdict.rule.to_string(),
            origin: verdict.origin.as_ref().map(ToString::to_string),
        }
    }
}
