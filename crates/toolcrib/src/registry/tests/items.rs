//! Tests of prompts, resources and templates: filters, names and unchanged URIs.

use super::*;

fn prompt(name: &str) -> view::PromptView {
    read(&format!(r#"{{"name":"{name}","x-own":1.0}}"#))
}

fn resource(uri: &str, mime: &str) -> view::ResourceView {
    read(&format!(r#"{{"uri":"{uri}","name":"r","mimeType":"{mime}","x-own":1.0}}"#))
}

fn uris<'a>(resources: impl Iterator<Item = &'a Arc<Resource>>) -> Vec<String> {
    resources.map(|resource| format!("{} {}", resource.server().id(), resource.uri())).collect()
}

#[test]
fn ext_04_prompts_have_filters_and_transforms_of_their_own() {
    let text = "  a: { transport: stdio, command: x, transform: [{ prefix: t_ }], prompts: { blacklist: ['q*'], transform: [{ suffix: _p }] } }\n";
    let mut registry = TestRegistry::dominds(text);
    registry.lists("a").prompts = vec![prompt("my prompt"), prompt("query")];
    let (snapshot, problems) = registry.plan();
    let view = snapshot.view(None);
    let [only] = view.prompts().collect::<Vec<_>>()[..] else { panic!("{view:?}") };
    // The prompt transforms replace the tool transforms, and the name need not be legal for models.
    assert_eq!((only.name(), only.original_name()), ("my prompt_p", "my prompt"));
    assert_eq!(only.definition().text(), r#"{"name":"my prompt_p","x-own":1.0}"#);
    assert!(view.prompt("query_p").is_none());
    assert_eq!(view.dropped("query_p").next().unwrap().kind, ItemKind::Prompt);
    assert_eq!(problem_lines(&problems), ["warning filter.denied a -"]);
}

#[test]
fn first_server_keeps_a_prompt_name() {
    let text = "  a: { command: x, naming: { template: '{tool}' } }\n  b: { command: x, naming: { template: '{tool}', on_collision: error } }\n";
    let mut registry = TestRegistry::native(text).tools("b", &["go"]);
    registry.lists("a").prompts = vec![prompt("p")];
    registry.lists("b").prompts = vec![prompt("p"), prompt("q")];
    let (snapshot, problems) = registry.plan();
    let view = snapshot.view(None);
    let found: Vec<_> =
        view.prompts().map(|p| format!("{} {}", p.server().id(), p.name())).collect();
    assert_eq!(found, ["a p", "b q"]);
    assert_eq!(names(view), ["go"], "a prompt collision does not affect tools");
    assert_eq!(problem_lines(&problems), ["warning prompt.collision b -"]);
}

#[test]
fn shared_uri_belongs_to_the_first_server_and_both_are_reachable() {
    let text =
        "  a: { command: x }\n  b: { command: x, naming: { transforms: [{ prefix: b_ }] } }\n";
    let mut registry = TestRegistry::native(text);
    let template = |uri: &str| read(&format!(r#"{{"uriTemplate":"{uri}","name":"t"}}"#));
    registry.lists("a").resources = vec![resource("doc:1", "text/plain")];
    registry.lists("a").templates = vec![template("doc:{id}")];
    registry.lists("b").resources =
        vec![resource("doc:1", "text/plain"), resource("doc:2", "text/plain")];
    registry.lists("b").templates = vec![template("doc:{id}")];
    let (snapshot, problems) = registry.plan();
    let view = snapshot.view(None);
    assert_eq!(uris(view.resources()), ["a doc:1", "b doc:2"]);
    assert_eq!(uris(view.resources_at("doc:1")), ["a doc:1", "b doc:1"]);
    let other = view.resources_at("doc:1").nth(1).unwrap();
    assert_eq!(other.shadowed_by(), Some("file.yaml#a"));
    assert_eq!((view.templates().count(), view.all_templates().count()), (1, 2));
    assert_eq!(
        problem_lines(&problems),
        ["warning uri.collision b -", "warning uri.collision b -"]
    );
    assert_ne!(problems[0].id, problems[1].id);
    // Transforms change only the name.
    let expected = r#"{"uri":"doc:2","name":"b_r","mimeType":"text/plain","x-own":1.0}"#;
    let second = view.resources_at("doc:2").next().unwrap();
    assert_eq!((second.definition().text(), second.name()), (expected, "b_r"));
    let first = view.resources_at("doc:1").next().unwrap();
    assert_eq!(first.definition(), *first.item().raw());
}

#[test]
fn ext_04_resources_pass_by_uri_and_media_type() {
    let text = "  a: { transport: stdio, command: x, resources: { whitelist: ['file:*'], mimeTypes: ['text/*'] } }\n";
    let mut registry = TestRegistry::dominds(text);
    registry.lists("a").resources = vec![
        resource("file:1", "text/plain"),
        resource("file:2", "image/png"),
        resource("http:3", "text/plain"),
        read(r#"{"uri":"file:4","name":"r"}"#),
    ];
    let (snapshot, problems) = registry.plan();
    let view = snapshot.view(None);
    assert_eq!(uris(view.resources()), ["a file:1", "a file:4"]);
    let reason = |uri| view.dropped(uri).next().unwrap().reason.clone();
    assert_eq!(reason("file:2"), DropReason::MediaType("image/png".into()));
    assert_eq!(reason("http:3"), DropReason::NotAllowed);
    assert_eq!(problems.len(), 2);
}

#[test]
fn prompts_and_resources_that_are_off_are_not_offered() {
    let text =
        "  a: { command: x, expose: { prompts: { as: 'off' }, resources: { as: 'off' } } }\n";
    let mut registry = TestRegistry::native(text).tools("a", &["go"]);
    registry.lists("a").prompts = vec![prompt("p")];
    registry.lists("a").resources = vec![resource("doc:1", "text/plain")];
    let (snapshot, problems) = registry.plan();
    let view = snapshot.view(None);
    assert_eq!(
        (names(view), view.prompts().count(), view.resources().count()),
        (vec!["a__go"], 0, 0)
    );
    assert!(view.all_dropped().all(|dropped| dropped.reason == DropReason::Off));
    assert_eq!(problem_lines(&problems), NONE);
}
