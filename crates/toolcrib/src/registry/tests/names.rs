//! Tests of tool names: templates, transforms and names for models.

use toolcrib_config::model::naming::is_legal;

use super::*;

fn dominds(transforms: &str, tools: &[&str]) -> (Snapshot, Vec<Problem>) {
    let text = format!("  a: {{ transport: stdio, command: x, transform: {transforms} }}\n");
    TestRegistry::dominds(&text).tools("a", tools).plan()
}

#[test]
fn dom_33_to_36_transforms_rename_listed_tools() {
    for (transforms, own, name) in [
        ("[{prefix: a_}, {suffix: _z}, {prefix: b_}]", "t", "b_a_t_z"), // DOM-33
        ("[{prefix: x_}]", "x_open", "x_x_open"),                       // DOM-34
        ("[{prefix: {remove: stock_, add: my_}}]", "stock_go", "my_go"), // DOM-35
        ("[{prefix: {remove: stock_, add: my_}}]", "go", "my_go"),      // DOM-35
        ("[{suffix: _x}]", "open", "open_x"),                           // DOM-36
    ] {
        let (snapshot, _) = dominds(transforms, &[own]);
        let tool = snapshot.view(None).tool(name).unwrap();
        // DOM-13: a call uses the original name
        assert_eq!((tool.original_name(), tool.model_name()), (own, name));
    }
}

#[test]
fn dom_37_to_39_illegal_names_are_rejected() {
    let (most, long) = ("x".repeat(64), "x".repeat(65));
    let (snapshot, problems) = dominds("[]", &["a.b", "a b", "ä", &long, &most]);
    let view = snapshot.view(None);
    assert_eq!(names(view), [&most]); // DOM-37
    assert_eq!(problems.len(), 4);
    assert_eq!(problem_lines(&problems)[0], "warning name.invalid a a.b");
    // DOM-39
    assert!(view.tool("a_b").is_none() && view.tool("a-b").is_none());
    assert!(matches!(view.dropped("a.b").next().unwrap().reason, DropReason::InvalidName(_)));

    for (transforms, own) in
        [("[{prefix: ten_chars__}]", "y".repeat(60)), ("[{prefix: 'a:'}]", "go".into())]
    {
        let (snapshot, problems) = dominds(transforms, &[&own]);
        assert_eq!(names(snapshot.view(None)), [""; 0]); // DOM-38
        let would_be = if own == "go" { "a:go".to_owned() } else { format!("ten_chars__{own}") };
        assert_eq!(snapshot.view(None).dropped(&would_be).count(), 1);
        assert_eq!(problem_lines(&problems), [format!("warning name.invalid a {own}")]);
    }
}

#[test]
fn each_dialect_names_and_describes_in_its_own_way() {
    for (dialect, text, id, own, name, model, description) in [
        // DIS-13, DIS-19, DIS-21
        (
            Dialect::Dispatch,
            r#"{"servers":{"freecad":{"command":"x"}}}"#,
            "freecad",
            "create_object",
            "freecad__create_object",
            "freecad__create_object",
            "[freecad] Does it",
        ),
        // DIS-20
        (
            Dialect::Native,
            "version: 1\nservers:\n  chrome-devtools: { profile: dispatch, command: x, naming: { template: '{server}_{tool}' } }\n",
            "chrome-devtools",
            "take_screenshot",
            "chrome-devtools_take_screenshot",
            "chrome-devtools_take_screenshot",
            "[chrome-devtools] Does it",
        ),
        // EXT-18
        (
            Dialect::Holodeck,
            "tools:\n  - { name: t, description: d, type: mcp, server: pkg, command: npx }\n",
            "t",
            "get.file",
            "t_get-file",
            "t_get-file",
            "Does it",
        ),
        // MIN-43, MIN-44
        (
            Dialect::Minion,
            "servers: [{ ServerName: github, Transport: stdio, Command: x }]",
            "github",
            "create_issue",
            "mcp_github_create_issue",
            "mcp_github_create_issue",
            "[MCP:github] Does it",
        ),
        // DKR-16: the name for models has no colon
        (
            Dialect::Docker,
            "mcpServers: [{ namespace: crm, image: i, command: x }]",
            "crm",
            "get_user",
            "crm:get_user",
            "crm_get_user",
            "Does it",
        ),
    ] {
        let (snapshot, problems) = TestRegistry::from_file(dialect, text).tools(id, &[own]).plan();
        assert_eq!(problem_lines(&problems), NONE);
        let view = snapshot.view(None);
        let tool = view.tool(name).unwrap();
        assert_eq!(
            (tool.original_name(), tool.model_name(), tool.description().as_deref()),
            (own, model, Some(description))
        );
        assert!(Arc::ptr_eq(view.tool(model).unwrap(), tool), "a call may use either name");
    }
}

#[test]
fn ids_with_the_same_alias_get_distinct_model_names() {
    let text = "  a: { command: x, naming: { template: '{tool}' } }\n  b: { command: x, naming: { template: '{tool}' } }\n";
    let registry = TestRegistry::native(text)
        .tools("a", &["repo:delete", "repo.delete"])
        .tools("b", &["repo/delete"]);
    let (snapshot, problems) = registry.plan();
    let view = snapshot.view(None);
    let models: Vec<_> = view.tools().map(|tool| tool.model_name()).collect();
    assert_eq!(models[0], "repo_delete", "the first tool keeps the alias");
    for model in &models[1..] {
        assert!(model.starts_with("repo_delete_") && is_legal(model), "{model}");
    }
    let originals: Vec<_> =
        models.iter().map(|model| view.tool(model).unwrap().original_name()).collect();
    assert_eq!(originals, ["repo:delete", "repo.delete", "repo/delete"]);
    assert_eq!(
        problem_lines(&problems),
        ["info name.alias.collision a repo.delete", "info name.alias.collision b repo/delete"]
    );
}

#[test]
fn alias_never_takes_the_id_of_a_later_tool() {
    let text = "  a: { command: x, naming: { template: '{tool}' } }\n  b: { command: x, naming: { template: '{tool}' } }\n";
    let registry = TestRegistry::native(text).tools("a", &["x:y"]).tools("b", &["x_y"]);
    let (snapshot, _) = registry.plan();
    let view = snapshot.view(None);
    assert_eq!(names(view), ["x:y", "x_y"]);
    assert_eq!(view.tool("x_y").unwrap().server().unwrap().id(), "b");
    assert!(view.tool("x:y").unwrap().model_name().starts_with("x_y_"));
}

#[test]
fn min_71_pinned_version_gets_the_plain_name() {
    let text =
        "  github: { profile: minion, command: x, naming: { versions: { create_issue: v2 } } }\n";
    let registry = TestRegistry::native(text);
    // A version in a name has no special meaning without a pin.
    let plain = TestRegistry::from_file(
        Dialect::Minion,
        "servers: [{ ServerName: github, Transport: stdio, Command: x }]",
    );
    assert_eq!(
        listed(&plain.tools("github", &["v2_create_issue"])),
        ["mcp_github_v2_create_issue"]
    );

    let registry = registry.tools("github", &["create_issue", "v2_create_issue", "list"]);
    let (snapshot, problems) = registry.plan();
    let view = snapshot.view(None);
    assert_eq!(names(view), ["mcp_github_create_issue", "mcp_github_list"]);
    let tool = view.tool("mcp_github_create_issue").unwrap();
    assert_eq!(tool.original_name(), "v2_create_issue");
    assert_eq!(problem_lines(&problems), ["info tool.version.unused github create_issue"]);

    let registry =
        registry.tools("github", &["create_issue", "v1_create_issue", "v3_create_issue"]);
    let (snapshot, problems) = registry.plan();
    let tool = snapshot.view(None).tool("mcp_github_create_issue").cloned().unwrap();
    assert_eq!(tool.original_name(), "v1_create_issue");
    assert_eq!(problem_lines(&problems)[0], "warning tool.version.missing github create_issue");
    assert!(problems[0].text.contains("`v1_create_issue` is used"), "{}", problems[0].text);
}
