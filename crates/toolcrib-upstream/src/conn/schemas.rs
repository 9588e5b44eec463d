//! Which tools of a list have a schema that is no JSON Schema.

use std::sync::Arc;

use toolcrib_config::ServerSpec;
use toolcrib_config::model::filter::Verdict;
use toolcrib_wire::view::Tool;

use super::catalog::Catalog;
use crate::schema::{InvalidSchema, SchemaJudge};

/// Looks at the schemas of a list, on a thread of its own: a list may be long.
pub async fn judge(catalog: Catalog, spec: &Arc<ServerSpec>) -> Catalog {
    let (tools, spec) = (catalog.tools.clone(), Arc::clone(spec));
    let found = tokio::task::spawn_blocking(move || find(&tools, &spec)).await;
    // An error means that looking failed, which says nothing of the schemas.
    Catalog { invalid_schemas: found.unwrap_or_default(), ..catalog }
}

/// Tools that are not offered anyway need no schema.
fn find(tools: &[Tool], spec: &ServerSpec) -> Vec<InvalidSchema> {
    let judge = SchemaJudge::default();
    let is_offered =
        |tool: &&Tool| spec.policy.expose.tools.verdict(tool.name()) == Verdict::Offered;
    let invalid = tools.iter().filter(is_offered).filter_map(|tool| {
        let input = judge.flaw(tool.input_schema()).map(|flaw| format!("inputSchema: {flaw}"));
        let output = || Some(format!("outputSchema: {}", judge.flaw(tool.output_schema()?)?));
        let reason = input.or_else(output)?;
        Some(InvalidSchema { tool: tool.name().to_owned(), reason })
    });
    invalid.collect()
}
