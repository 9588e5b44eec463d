//! Finds tools whose schema is not valid JSON Schema.

use std::sync::Arc;

use toolcrib_config::ServerSpec;
use toolcrib_config::model::filter::FilterVerdict;
use toolcrib_wire::view::ToolView;

use super::catalog::Catalog;
use crate::schema::{InvalidSchema, SchemaLinter};

/// Checks the schemas on a blocking thread, because the list may be long.
pub async fn find_invalid_schemas(catalog: Catalog, spec: &Arc<ServerSpec>) -> Catalog {
    let (tools, spec) = (catalog.tools.clone(), Arc::clone(spec));
    let invalid = tokio::task::spawn_blocking(move || invalid_schemas(&tools, &spec)).await;
    // An error means that the check failed, which says nothing about the schemas.
    Catalog { invalid_schemas: invalid.unwrap_or_default(), ..catalog }
}

/// Skips tools that are not offered.
fn invalid_schemas(tools: &[ToolView], spec: &ServerSpec) -> Vec<InvalidSchema> {
    let linter = SchemaLinter::default();
    let is_offered =
        |tool: &&ToolView| spec.policy.expose.tools.verdict(tool.name()) == FilterVerdict::Offered;
    let invalid = tools.iter().filter(is_offered).filter_map(|tool| {
        let input =
            linter.find_defect(tool.input_schema()).map(|flaw| format!("inputSchema: {flaw}"));
        let output =
            || Some(format!("outputSchema: {}", linter.find_defect(tool.output_schema()?)?));
        let reason = input.or_else(output)?;
        Some(InvalidSchema { tool: tool.name().to_owned(), reason })
    });
    invalid.collect()
}
