//! Lists of servers that need not run to be listed, kept from one host to the next.

use std::sync::Arc;
use std::time::SystemTime;

use toolcrib_config::ServerSpec;
use toolcrib_upstream::conn::{Catalog, judge_schemas};
use toolcrib_wire::view::{Item, Page};
use toolcrib_wire::{Limits, ObjectWriter, Raw};

use crate::store::{Remembered, Store};

/// What an earlier host kept of a server of just this definition, if it is not too old.
pub(super) async fn recall(store: &Store, spec: &Arc<ServerSpec>) -> Option<Arc<Catalog>> {
    let known = store.catalog(&spec.key(), &spec.hash.to_string()).await;
    let known = known
        .inspect_err(|error| tracing::debug!(server = %spec.id, %error, "no lists are remembered"))
        .ok()??;
    let lists = known.lists_within(spec.policy.discovery.ttl.0, SystemTime::now())?;
    let catalog = read(lists, spec.policy.limits.tools as usize)?;
    Some(Arc::new(judge_schemas(catalog, spec).await))
}

pub(super) async fn keep(store: &Store, spec: &ServerSpec, catalog: &Catalog) {
    let lists = Some(write(catalog).text().to_owned());
    let what = Remembered { era: None, framing: None, lists, at: SystemTime::now() };
    if let Err(error) = store.set_catalog(&spec.key(), &spec.hash.to_string(), what).await {
        tracing::debug!(server = %spec.id, %error, "its lists are not remembered");
    }
}

fn write(catalog: &Catalog) -> Raw {
    let each = |raw: &Raw| raw.clone();
    ObjectWriter::new()
        .array("tools", catalog.tools.iter().map(|tool| each(tool.raw())))
        .array("prompts", catalog.prompts.iter().map(|prompt| each(prompt.raw())))
        .array("resources", catalog.resources.iter().map(|resource| each(resource.raw())))
        .array("resourceTemplates", catalog.templates.iter().map(|template| each(template.raw())))
        .finish()
}

/// Nothing where it cannot be read: it is only a memory.
fn read(lists: &str, limit: usize) -> Option<Catalog> {
    let raw = Raw::parse(lists.as_bytes(), &Limits::default()).ok()?;
    Some(Catalog {
        tools: items(&raw, limit)?,
        prompts: items(&raw, limit)?,
        resources: items(&raw, limit)?,
        templates: items(&raw, limit)?,
        ..Catalog::default()
    })
}

fn items<T: Item>(raw: &Raw, limit: usize) -> Option<Vec<T>> {
    Page::<T>::read(raw, limit).ok().map(|page| page.items)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_again_byte_for_byte() {
        let text = r#"{"tools":[{"name":"t","inputSchema":{"type":"object", "x":1.0}}],"prompts":[{"name":"p"}],"resources":[{"uri":"a://b","name":"r"}],"resourceTemplates":[{"uriTemplate":"a://{x}","name":"s"}]}"#;
        let catalog = read(text, 10).unwrap();
        assert_eq!((catalog.tools.len(), catalog.templates.len()), (1, 1));
        assert_eq!(write(&catalog).text(), text);
        assert!(read("[", 10).is_none());
    }
}
