//! Prompts, resources and templates: filtered and named, and URIs never touched.

use super::*;

fn prompt(name: &str) -> view::Prompt {
    read(&format!(r#"{{"name":"{name}","x-own":1.0}}"#))
}

fn resource(uri: &str, mime: &str) -> view::Resource {
    read(&format!(r#"{{"uri":"{uri}","name":"r","mimeType":"{mime}","x-own":1.0}}"#))
}

fn uris<'a>(resources: impl Iterator<Item = &'a Arc<Resource>>) -> Vec<String> {
    resources.map(|resource| format!("{} {}", resource.server().id(), resource.uri())).collect()
}

#[test]
fn ext_04_prompts_have_filters_and_transforms_of_their_own() {
    let text = "  a: { transport: stdio, command: x, transform: [{ prefix: t_ }], prompts: { blacklist: ['q*'], transform: [{ suffix: _p }] } }\n";
    let mut crib = Crib::dominds(text);
    crib.lists("a").prompts = vec![prompt("my prompt"), prompt("query")];
    let (snapshot, problems) = crib.plan();
    let view = snapshot.view(None);
    let [only] = view.prompts().collect::<Vec<_>>()[..] else { panic!("{view:?}") };
    // It stands instead of the other, not after it; and no model is given the name.
    assert_eq!((only.name(), only.original_name()), ("my prompt_p", "my prompt"));
    assert_eq!(only.definition().text(), r#"{"name":"my prompt_p","x-own":1.0}"#);
    assert!(view.prompt("query_p").is_none());
    assert_eq!(view.dropped("query_p").next().unwrap().list, List::Prompt);
    assert_eq!(told(&problems), ["warning filter.denied a -"]);
}

#[test]
fn the_first_keeps_a_prompts_name() {
    let text = "  a: { command: x, naming: { template: '{tool}' } }\n  b: { command: x, naming: { template: '{tool}', on_collision: error } }\n";
    let mut crib = Crib::native(text).tools("b", &["go"]);
    crib.lists("a").prompts = vec![prompt("p")];
    crib.lists("b").prompts = vec![prompt("p"), prompt("q")];
    let (snapshot, problems) = crib.plan();
    let view = snapshot.view(None);
    let found: Vec<_> =
        view.prompts().map(|p| format!("{} {}", p.server().id(), p.name())).collect();
    assert_eq!(found, ["a p", "b q"]);
    assert_eq!(names(view), ["go"], "a prompt takes no tool with it");
    assert_eq!(told(&problems), ["warning prompt.collision b -"]);
}

#[test]
fn a_uri_of_two_servers_is_the_first_ones_and_both_can_be_reached() {
    let text =
        "  a: { command: x }\n  b: { command: x, naming: { transforms: [{ prefix: b_ }] } }\n";
    let mut crib = Crib::native(text);
    let template = |uri: &str| read(&format!(r#"{{"uriTemplate":"{uri}","name":"t"}}"#));
    crib.lists("a").resources = vec![resource("doc:1", "text/plain")];
    crib.lists("a").templates = vec![template("doc:{id}")];
    crib.lists("b").resources =
        vec![resource("doc:1", "text/plain"), resource("doc:2", "text/plain")];
    crib.lists("b").templates = vec![template("doc:{id}")];
    let (snapshot, problems) = crib.plan();
    let view = snapshot.view(None);
    assert_eq!(uris(view.resources()), ["a doc:1", "b doc:2"]);
    assert_eq!(uris(view.resources_at("doc:1")), ["a doc:1", "b doc:1"]);
    let other = view.resources_at("doc:1").nth(1).unwrap();
    assert_eq!(other.shadowed_by(), Some("file.yaml#a"));
    assert_eq!((view.templates().count(), view.all_templates().count()), (1, 2));
    assert_eq!(told(&problems), ["warning uri.collision b -", "warning uri.collision b -"]);
    assert_ne!(problems[0].id, problems[1].id);
    // Only the name follows a transform.
    let expected = r#"{"uri":"doc:2","name":"b_r","mimeType":"text/plain","x-own":1.0}"#;
    let second = view.resources_at("doc:2").next().unwrap();
    assert_eq!((second.definition().text(), second.name()), (expected, "b_r"));
    let first = view.resources_at("doc:1").next().unwrap();
    assert_eq!(first.definition(), *first.item().raw());
}

#[test]
fn ext_04_resources_pass_by_uri_and_media_type() {
    let text = "  a: { transport: stdio, command: x, resources: { whitelist: ['file:*'], mimeTypes: ['text/*'] } }\n";
    let mut crib = Crib::dominds(text);
    crib.lists("a").resources = vec![
        resource("file:1", "text/plain"),
        resource("file:2", "image/png"),
        resource("http:3", "text/plain"),
        read(r#"{"uri":"file:4","name":"r"}"#),
    ];
    let (snapshot, problems) = crib.plan();
    let view = snapshot.view(None);
    assert_eq!(uris(view.resources()), ["a file:1", "a file:4"]);
    let reason = |uri| view.dropped(uri).next().unwrap().reason.clone();
    assert_eq!(reason("file:2"), Reason::MediaType("image/png".into()));
    assert_eq!(reason("http:3"), Reason::NotAllowed);
    assert_eq!(problems.len(), 2);
}

#[test]
fn what_is_off_is_not_offered() {
    let text =
        "  a: { command: x, expose: { prompts: { as: 'off' }, resources: { as: 'off' } } }\n";
    let mut crib = Crib::native(text).tools("a", &["go"]);
    crib.lists("a").prompts = vec![prompt("p")];
    crib.lists("a").resources = vec![resource("doc:1", "text/plain")];
    let (snapshot, problems) = crib.plan();
    let view = snapshot.view(None);
    assert_eq!(
        (names(view), view.prompts().count(), view.resources().count()),
        (vec!["a__go"], 0, 0)
    );
    assert!(view.all_dropped().all(|dropped| dropped.reason == Reason::Off));
    assert_eq!(told(&problems), NONE);
}
