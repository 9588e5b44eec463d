//! Tests of filters and of the reasons for dropped tools.

use super::*;

#[test]
fn dom_26_filtered_tool_is_absent_and_reported_with_a_reason() {
    let registry = TestRegistry::dominds(
        "  a: { transport: stdio, command: x, tools: { blacklist: ['*_unsafe'] }, transform: [{ prefix: x_ }] }\n",
    )
    .tools("a", &["open", "run_unsafe"]);
    let (snapshot, problems) = registry.plan();
    let view = snapshot.view(None);
    assert_eq!(names(view), ["x_open"]);
    for name in ["run_unsafe", "x_run_unsafe"] {
        assert!(view.tool(name).is_none(), "{name}");
        let [dropped] = view.dropped(name).collect::<Vec<_>>()[..] else {
            panic!("{name}");
        };
        assert_eq!(dropped.reason, DropReason::Denied("*_unsafe".into()));
        assert_eq!(dropped.reason.to_string(), "the pattern `*_unsafe` denies it");
        assert_eq!(dropped.rule(), Some("expose.tools.deny"));
    }
    // DOM-91: one problem per tool, with its kind and pattern, at the rule's location
    assert_eq!(problem_lines(&problems), ["warning filter.denied a run_unsafe"]);
    assert!(problems[0].text.contains("`*_unsafe`"), "{}", problems[0].text);
    assert_eq!((problems[0].source.as_deref(), problems[0].line), (Some("file.yaml"), Some(3)));
    assert!(problems[0].fix.as_deref().unwrap().contains("tools.blacklist"), "{problems:?}");
}

#[test]
fn dom_28_to_32_whitelists_and_blacklists() {
    let tools = ["open", "openAll", "browser_unsafe", "other_unsafe", "zoom"];
    for (rules, left) in [
        // DOM-28: patterns match the server's own names
        (
            "tools: { whitelist: ['open*'] }, transform: [{ prefix: x_ }]",
            &["x_open", "x_openAll"][..],
        ),
        ("tools: { whitelist: ['x_*'] }, transform: [{ prefix: x_ }]", &[]),
        // DOM-29
        ("tools: { whitelist: [open, zoom] }", &["open", "zoom"]),
        // DOM-30
        ("tools: {}", &tools),
        ("tools: { whitelist: [], blacklist: [] }", &tools),
        // DOM-31, DOM-32
        (
            "tools: { whitelist: ['browser_*'], blacklist: ['*_unsafe'] }",
            &["open", "openAll", "browser_unsafe", "zoom"],
        ),
    ] {
        let text = format!("  a: {{ transport: stdio, command: x, {rules} }}\n");
        assert_eq!(listed(&TestRegistry::dominds(&text).tools("a", &tools)), left, "{rules}");
    }
}

#[test]
fn dom_91_tools_outside_the_allow_list_are_reported() {
    let text = "  a: { transport: stdio, command: x, tools: { whitelist: [open] } }\n";
    let (_, problems) = TestRegistry::dominds(text).tools("a", &["open", "shut", "zoom"]).plan();
    assert_eq!(
        problem_lines(&problems),
        ["warning filter.not_allowed a shut", "warning filter.not_allowed a zoom"]
    );
    assert_ne!(problems[0].id, problems[1].id);
}

#[test]
fn dkr_42_allow_list_restricts_the_offered_tools() {
    let text = "  crm: { profile: docker, docker: { container: c, command: [x] }, expose: { tools: { allow: [get_user, list_users] } } }\n";
    let registry =
        TestRegistry::native(text).tools("crm", &["get_user", "list_users", "drop_users"]);
    assert_eq!(listed(&registry), ["crm:get_user", "crm:list_users"]);
}
