//! Tests of filters and names of tools, prompts and resources.

use super::one;
use crate::model::filter::FilterVerdict;
use crate::model::naming::InvalidName;
use crate::model::policy::PromptsAs;
use crate::model::units::Size;

#[test]
fn dom_28_filter_patterns_match_original_names() {
    let policy = |pattern: &str| {
        let config = one(&format!(
            "{{ transport: stdio, command: x, tools: {{ whitelist: ['{pattern}'] }}, transform: [{{ prefix: x_ }}] }}"
        ));
        assert_eq!(config.problems, []);
        config.servers[0].policy.clone()
    };
    let open = policy("open*");
    assert_eq!(open.expose.tools.verdict("open"), FilterVerdict::Offered);
    assert_eq!(open.naming.names("s", "open").unwrap().id, "x_open");
    assert_eq!(policy("x_*").expose.tools.verdict("open"), FilterVerdict::NotAllowed);
}

#[test]
fn dom_29_to_32_whitelist_and_blacklist() {
    let filter = |tools: &str| {
        let config = one(&format!("{{ transport: stdio, command: x, tools: {tools} }}"));
        assert_eq!(config.problems, [], "{tools}");
        config.servers[0].policy.expose.tools.clone()
    };
    let white = filter("{ whitelist: ['open*', 'a.c'], blacklist: [] }");
    assert_eq!(white.verdict("openAll"), FilterVerdict::Offered); // DOM-29
    assert_eq!(white.verdict("abc"), FilterVerdict::NotAllowed); // DOM-27, DOM-29
    let both = filter("{ whitelist: ['browser_*'], blacklist: ['*_unsafe'] }");
    assert_eq!(both.verdict("browser_unsafe"), FilterVerdict::Offered); // DOM-31
    assert_eq!(both.verdict("other_unsafe"), FilterVerdict::Denied("*_unsafe")); // DOM-31
    assert_eq!(both.verdict("zoom"), FilterVerdict::Offered); // DOM-32
    let none = filter("{ whitelist: [], blacklist: [] }");
    assert_eq!(none.verdict("zoom"), FilterVerdict::Offered); // DOM-30
}

#[test]
fn dom_33_to_39_transforms_build_tool_names() {
    let names = |transform: &str, tool: &str| {
        let config = one(&format!("{{ transport: stdio, command: x, transform: {transform} }}"));
        assert_eq!(config.problems, [], "{transform}");
        let naming = &config.servers[0].policy.naming;
        naming.names("s", tool).map(|n| (n.id, n.model))
    };
    let same = |name: &str| Ok((name.to_string(), name.to_string()));
    assert_eq!(names("[{prefix: a_}, {suffix: _z}, {prefix: b_}]", "t"), same("b_a_t_z")); // DOM-33
    assert_eq!(names("[{prefix: x_}]", "x_open"), same("x_x_open")); // DOM-34
    assert_eq!(names("[{prefix: {remove: q_, add: m_}}]", "q_go"), same("m_go")); // DOM-35
    assert_eq!(names("[{prefix: {remove: q_, add: m_}}]", "go"), same("m_go")); // DOM-35
    assert_eq!(names("[{suffix: _x}]", "open_x"), same("open_x_x")); // DOM-36
    let bad = names("[{prefix: {remove: 'a.', add: ''}}]", "a.b");
    assert_eq!(bad, Err(InvalidName::Original("a.b".into()))); // DOM-37, DOM-39
    assert_eq!(names("[{suffix: ':x'}]", "a"), Err(InvalidName::Transformed("a:x".into()))); // DOM-38
}

#[test]
fn ext_04_prompts_and_resources_have_separate_filters() {
    let config = one(
        "{ transport: stdio, command: x, transform: [{ prefix: t_ }], prompts: { whitelist: [p*], blacklist: [q], skills: { enabled: true }, transform: [{ suffix: _p }] }, resources: { whitelist: ['file:*'], mimeTypes: [text/plain], maxBytes: 100 } }",
    );
    assert_eq!(config.problems, []);
    let expose = &config.servers[0].policy.expose;
    assert_eq!(expose.prompts.r#as, PromptsAs::Skill);
    assert_eq!(
        (expose.prompts.allow.as_deref(), &expose.prompts.deny[..]),
        (Some(&["p*".to_string()][..]), &["q".to_string()][..])
    );
    let own = expose.prompts.transforms.as_ref().unwrap();
    assert_eq!(own.apply("x".to_string()), "x_p", "prompt transforms replace the tool transforms");
    assert_eq!(expose.resources.mime, ["text/plain"]);
    assert_eq!(expose.resources.max_bytes, Size(100));
    assert_eq!(expose.resources.transforms, None);
    let plain = one("{ transport: stdio, command: x }");
    assert_eq!(plain.servers[0].policy.expose.resources.max_bytes, Size(64_000));
}
