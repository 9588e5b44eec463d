//! The JSON Schema of `toolcrib.yaml`, for editors.

use std::borrow::Cow;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value as Json};

use crate::dialect::{EntryKeys, NativeFile};
use crate::doc::Either;
use crate::model::policy::PolicyKeys;
use crate::model::transport::TransportKeys;

/// Returns the schema as it is stored under `schema/`.
pub fn schema() -> Json {
    let settings = SchemaSettings::draft2020_12();
    let mut schema = settings.into_generator().into_root_schema_for::<NativeFile>();
    schema.insert("title".to_string(), "toolcrib.yaml".into());
    schema.insert("required".to_string(), serde_json::json!(["version"]));
    schema.insert("additionalProperties".to_string(), false.into());
    schema.insert("patternProperties".to_string(), serde_json::json!({ "^x-": true }));
    schema.to_value()
}

/// A server's entry: the keys of three types in one map.
pub(crate) struct ServerEntry;
/// A profile: policies, transport and base profile.
pub(crate) struct ProfileEntry;

impl JsonSchema for ServerEntry {
    fn schema_name() -> Cow<'static, str> {
        "Server".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut properties = properties_of::<TransportKeys>(generator);
        properties.extend(properties_of::<PolicyKeys>(generator));
        properties.extend(properties_of::<EntryKeys>(generator));
        closed(
            "A server: a `command`, a `url` or `docker`, and all differences from the defaults.",
            properties,
        )
    }
}

impl JsonSchema for ProfileEntry {
    fn schema_name() -> Cow<'static, str> {
        "Profile".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut properties = properties_of::<PolicyKeys>(generator);
        properties
            .insert("transport".to_string(), generator.subschema_for::<TransportKeys>().to_value());
        let base = "The base profile. Default: `native`.";
        properties.insert(
            "base".to_string(),
            serde_json::json!({ "type": "string", "description": base }),
        );
        closed("Named defaults for servers.", properties)
    }
}

fn properties_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Map<String, Json> {
    match T::json_schema(generator).get("properties") {
        Some(Json::Object(properties)) => properties.clone(),
        _ => Map::new(),
    }
}

fn closed(description: &str, properties: Map<String, Json>) -> Schema {
    schemars::json_schema!({
        "description": description,
        "type": "object",
        "properties": properties,
        "patternProperties": { "^x-": true },
        "additionalProperties": false
    })
}

impl<S: JsonSchema, M: JsonSchema> JsonSchema for Either<S, M> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Either_{}_{}", S::schema_name(), M::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let forms = [generator.subschema_for::<S>(), generator.subschema_for::<M>()];
        schemars::json_schema!({ "anyOf": forms })
    }
}
