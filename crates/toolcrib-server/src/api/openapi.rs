//! Generates the OpenAPI document from the endpoint table.

use axum::Json;
use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::endpoint::{AccessLevel, Endpoint, ResponseKind};
use super::endpoint_table;
use super::schema::ErrorResponse;

pub(super) async fn serve() -> Json<Value> {
    Json(document())
}

/// The OpenAPI 3.1 document.
pub fn document() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|it| {
        it.definitions_path = "/components/schemas".into();
        it.meta_schema = None;
    });
    let mut schemas = settings.into_generator();
    let mut paths = Map::new();
    for endpoint in endpoint_table::endpoints() {
        let path = paths.entry(format!("/api/v1{}", endpoint.path)).or_insert_with(|| json!({}));
        path[endpoint.method.as_str().to_lowercase()] = operation(&endpoint, &mut schemas);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Toolcrib control API",
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{}, {"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": schemas.take_definitions(true),
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    })
}

fn operation(endpoint: &Endpoint, schemas: &mut SchemaGenerator) -> Value {
    let mut operation = json!({
        "operationId": operation_id(endpoint),
        "summary": endpoint.summary,
        "parameters": parameters(endpoint, schemas),
        "responses": {
            endpoint.status.to_string(): success_response(endpoint, schemas),
            "default": {
                "description": "Error",
                "content": {"application/json": {"schema": schemas.subschema_for::<ErrorResponse>()}},
            },
        },
    });
    if endpoint.access == AccessLevel::Owner {
        operation["description"] = json!("Only the owner may do this.");
    }
    if let Some(body) = endpoint.body {
        operation["requestBody"] =
            json!({"content": {"application/json": {"schema": body(schemas)}}});
    }
    operation
}

fn success_response(endpoint: &Endpoint, schemas: &mut SchemaGenerator) -> Value {
    let events = json!({"schema": {"type": "string"}});
    let content = match endpoint.response {
        ResponseKind::NoContent => return json!({"description": "Done"}),
        ResponseKind::Json(schema) => json!({"application/json": {"schema": schema(schemas)}}),
        ResponseKind::JsonOrEvents(schema) => {
            json!({"application/json": {"schema": schema(schemas)}, "text/event-stream": events})
        }
        ResponseKind::Events => json!({"text/event-stream": events}),
    };
    json!({"description": "Done", "content": content})
}

/// Path parameters, then query parameters.
fn parameters(endpoint: &Endpoint, schemas: &mut SchemaGenerator) -> Vec<Value> {
    let in_path =
        endpoint.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let mut all: Vec<Value> = in_path
        .map(|name| {
            let kind = if matches!(name, "call" | "request") { "integer" } else { "string" };
            json!({"name": name, "in": "path", "required": true, "schema": {"type": kind}})
        })
        .collect();
    let query = endpoint.query.map(|query| query(schemas)).unwrap_or_default();
    all.extend(query_parameters(&query));
    all
}

fn query_parameters(query: &Schema) -> Vec<Value> {
    let required = query.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let keys = query.get("properties").and_then(Value::as_object);
    let keys = keys.into_iter().flatten();
    keys.map(|(name, schema)| {
        let is_required = required.contains(&json!(name));
        json!({"name": name, "in": "query", "required": is_required, "schema": schema})
    })
    .collect()
}

/// The `operationId`, such as `get_dialogs_calls`.
fn operation_id(endpoint: &Endpoint) -> String {
    let mut name = endpoint.method.as_str().to_lowercase();
    for part in endpoint.path.split('/').filter(|part| !part.is_empty()) {
        match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
            Some(of) => name.push_str(&format!("_by_{of}")),
            None => name.push_str(&format!("_{part}")),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openapi_references_resolve_and_operation_ids_are_unique() {
        let text = document().to_string();
        let schemas = document()["components"]["schemas"].clone();
        for part in text.split("\"#/components/schemas/").skip(1) {
            let name = part.split('"').next().unwrap();
            assert!(schemas.get(name).is_some(), "{name}");
        }
        let all = endpoint_table::endpoints();
        let names: std::collections::BTreeSet<String> = all.iter().map(operation_id).collect();
        assert_eq!(names.len(), all.len());
    }
}
