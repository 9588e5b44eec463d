//! Stores the lists of servers that are listed without running, for later hosts.

use std::sync::Arc;
use std::time::SystemTime;

use toolcrib_config::ServerSpec;
use toolcrib_upstream::conn::{Catalog, find_invalid_schemas};
use toolcrib_wire::view::{ListItem, Page};
use toolcrib_wire::{MessageLimits, ObjectWriter, RawJson};

use crate::store::{Store, StoredCatalog};

/// Loads the stored catalog of a server with exactly this definition, unless the catalog is older
/// than `discovery.ttl`.
pub(super) async fn load_catalog(store: &Store, spec: &Arc<ServerSpec>) -> Option<Arc<Catalog>> {
    let known = store.catalog(&spec.key(), &spec.hash.to_string()).await;
    let known = known
        .inspect_err(
            |error| tracing::debug!(server = %spec.id, %error, "cannot load the stored lists"),
        )
        .ok()??;
    let lists = known.lists_within(spec.policy.discovery.ttl.0, SystemTime::now())?;
    let catalog = parse_catalog(lists, spec.policy.limits.tools as usize)?;
    Some(Arc::new(find_invalid_schemas(catalog, spec).await))
}

pub(super) async fn save_catalog(store: &Store, spec: &ServerSpec, catalog: &Catalog) {
    let lists = Some(serialize_catalog(catalog).text().to_owned());
    let what = StoredCatalog { era: None, framing: None, lists, at: SystemTime::now() };
    if let Err(error) = store.set_catalog(&spec.key(), &spec.hash.to_string(), what).await {
        tracing::debug!(server = %spec.id, %error, "cannot store the lists");
    }
}

fn serialize_catalog(catalog: &Catalog) -> RawJson {
    let each = |raw: &RawJson| raw.clone();
    ObjectWriter::new()
        .array("tools", catalog.tools.iter().map(|tool| each(tool.raw())))
        .array("prompts", catalog.prompts.iter().map(|prompt| each(prompt.raw())))
        .array("resources", catalog.resources.iter().map(|resource| each(resource.raw())))
        .array("resourceTemplates", catalog.templates.iter().map(|template| each(template.raw())))
        .finish()
}

/// Parses stored lists. Returns `None` for unreadable lists, which only costs a new discovery.
fn parse_catalog(lists: &str, limit: usize) -> Option<Catalog> {
    let raw = RawJson::parse(lists.as_bytes(), &MessageLimits::default()).ok()?;
    Some(Catalog {
        tools: parse_items(&raw, limit)?,
        prompts: parse_items(&raw, limit)?,
        resources: parse_items(&raw, limit)?,
        templates: parse_items(&raw, limit)?,
        ..Catalog::default()
    })
}

fn parse_items<T: ListItem>(raw: &RawJson, limit: usize) -> Option<Vec<T>> {
    Page::<T>::read(raw, limit).ok().map(|page| page.items)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_catalog_is_read_back_byte_for_byte() {
        let text = r#"{"tools":[{"name":"t","inputSchema":{"type":"object", "x":1.0}}],"prompts":[{"name":"p"}],"resources":[{"uri":"a://b","name":"r"}],"resourceTemplates":[{"uriTemplate":"a://{x}","name":"s"}]}"#;
        let catalog = parse_catalog(text, 10).unwrap();
        assert_eq!((catalog.tools.len(), catalog.templates.len()), (1, 1));
        assert_eq!(serialize_catalog(&catalog).text(), text);
        assert!(parse_catalog("[", 10).is_none());
    }
}
