//! The API described for machines, from the same table that routes and rights are of.

use axum::Json;
use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::endpoint::{Answer, Endpoint, Right};
use super::shape::Faulted;
use super::table;

pub(super) async fn serve() -> Json<Value> {
    Json(document())
}

/// OpenAPI 3.1.
pub fn document() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|it| {
        it.definitions_path = "/components/schemas".into();
        it.meta_schema = None;
    });
    let mut shapes = settings.into_generator();
    let mut paths = Map::new();
    for endpoint in table::endpoints() {
        let path = paths.entry(format!("/api/v1{}", endpoint.path)).or_insert_with(|| json!({}));
        path[endpoint.method.as_str().to_lowercase()] = operation(&endpoint, &mut shapes);
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
            "schemas": shapes.take_definitions(true),
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    })
}

fn operation(endpoint: &Endpoint, shapes: &mut SchemaGenerator) -> Value {
    let mut operation = json!({
        "operationId": name(endpoint),
        "summary": endpoint.about,
        "parameters": parameters(endpoint, shapes),
        "responses": {
            endpoint.status.to_string(): answer(endpoint, shapes),
            "default": {
                "description": "What went wrong",
                "content": {"application/json": {"schema": shapes.subschema_for::<Faulted>()}},
            },
        },
    });
    if endpoint.right == Right::Owner {
        operation["description"] = json!("Only the owner may do this.");
    }
    if let Some(body) = endpoint.body {
        operation["requestBody"] =
            json!({"content": {"application/json": {"schema": body(shapes)}}});
    }
    operation
}

fn answer(endpoint: &Endpoint, shapes: &mut SchemaGenerator) -> Value {
    let events = json!({"schema": {"type": "string"}});
    let content = match endpoint.answer {
        Answer::Nothing => return json!({"description": "Done"}),
        Answer::Json(shape) => json!({"application/json": {"schema": shape(shapes)}}),
        Answer::JsonOrEvents(shape) => {
            json!({"application/json": {"schema": shape(shapes)}, "text/event-stream": events})
        }
        Answer::Events => json!({"text/event-stream": events}),
    };
    json!({"description": "Done", "content": content})
}

/// Those of the path, then those of the query.
fn parameters(endpoint: &Endpoint, shapes: &mut SchemaGenerator) -> Vec<Value> {
    let in_path =
        endpoint.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let mut all: Vec<Value> = in_path
        .map(|name| {
            let kind = if matches!(name, "call" | "request") { "integer" } else { "string" };
            json!({"name": name, "in": "path", "required": true, "schema": {"type": kind}})
        })
        .collect();
    let query = endpoint.query.map(|query| query(shapes)).unwrap_or_default();
    all.extend(of_query(&query));
    all
}

fn of_query(query: &Schema) -> Vec<Value> {
    let required = query.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let keys = query.get("properties").and_then(Value::as_object);
    let keys = keys.into_iter().flatten();
    keys.map(|(name, shape)| {
        let is_required = required.contains(&json!(name));
        json!({"name": name, "in": "query", "required": is_required, "schema": shape})
    })
    .collect()
}

/// `get_dialogs_calls`: what a program's function for it may be called.
fn name(endpoint: &Endpoint) -> String {
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

    /// Whatever is referred to is there, and every endpoint is told apart.
    #[test]
    fn the_description_hangs_together() {
        let text = document().to_string();
        let shapes = document()["components"]["schemas"].clone();
        for part in text.split("\"#/components/schemas/").skip(1) {
            let name = part.split('"').next().unwrap();
            assert!(shapes.get(name).is_some(), "{name}");
        }
        let all = table::endpoints();
        let names: std::collections::BTreeSet<String> = all.iter().map(name).collect();
        assert_eq!(names.len(), all.len());
    }
}
