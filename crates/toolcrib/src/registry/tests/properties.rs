//! Property tests of plans with random servers.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use proptest::prelude::*;
use proptest::sample::select;

use super::native::Echo;
use super::*;

const FOLDERS: [Option<&str>; 3] = [None, Some("/a"), Some("/b")];

/// One server: its entry, folder, presence and tools.
type AnyServer = (String, Option<&'static str>, Presence, Vec<&'static str>);

fn server(id: usize) -> impl Strategy<Value = AnyServer> {
    let template = select(vec!["{tool}", "{server}:{tool}", "x.{tool}", "x_{tool}"]);
    let validity = select(vec!["reject", "normalize", "alias", "off"]);
    let collision = select(vec!["skip_tool", "reject_server", "error"]);
    let away = select(vec!["unregister", "hide", "keep"]);
    let deny = select(vec!["[]", "['a*']", "['*y']"]);
    let toolset = select(vec!["t", "u", "own"]);
    let entry = (template, validity, collision, away, deny, toolset).prop_map(
        move |(template, validity, collision, away, deny, toolset)| {
            let toolset = if toolset == "own" { format!("s{id}") } else { toolset.to_owned() };
            format!(
                "  s{id}: {{ command: x, toolset: {toolset}, naming: {{ template: '{template}', validity: {validity}, on_collision: {collision} }}, expose: {{ tools: {{ deny: {deny} }} }}, availability: {{ on_unavailable: {away} }} }}\n"
            )
        },
    );
    let presence =
        select(vec![Presence::Up, Presence::Up, Presence::Up, Presence::Away, Presence::Disabled]);
    let long: &'static str =
        "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz";
    let tools = vec!["a.b", "a:b", "a_b", "a-b", "b", "x_b", "x.b", "by", long];
    let tools = proptest::sample::subsequence(tools, 0..6);
    (entry, select(FOLDERS.to_vec()), presence, tools)
}

fn any_registry() -> impl Strategy<Value = TestRegistry> {
    (server(0), server(1), server(2), server(3)).prop_map(|(a, b, c, d)| registry(&[a, b, c, d]))
}

fn registry(servers: &[AnyServer]) -> TestRegistry {
    let text: String = servers.iter().map(|(entry, ..)| entry.as_str()).collect();
    let mut registry = TestRegistry::native(&text);
    for (entry, (_, folder, presence, tools)) in registry.servers.iter_mut().zip(servers) {
        entry.presence = *presence;
        entry.scope = folder.map_or(Scope::Global, |folder| Scope::Cwd(folder.into()));
        let tools = tools.iter().map(|name| tool(name)).collect();
        entry.lists = Some(TestLists { tools, ..TestLists::default() });
    }
    registry.reserved_tools = vec!["x_b".to_owned()];
    let own = NativeToolset::new("native").with(Echo("a.b")).and_then(|own| own.with(Echo("own")));
    registry.native = vec![own.unwrap()];
    registry
}

/// Writes a complete plan as text.
fn plan_text((snapshot, problems): &(Snapshot, Vec<Problem>)) -> String {
    let mut out = String::new();
    for folder in FOLDERS {
        let view = snapshot.view(folder.map(Path::new));
        for toolset in view.toolsets() {
            let _ = writeln!(out, "{folder:?} {}", toolset.name);
            for tool in &toolset.tools {
                let _ = writeln!(
                    out,
                    "{} {} {:?} {}",
                    tool.name(),
                    tool.model_name(),
                    tool.availability(),
                    tool.definition().text()
                );
            }
        }
        for dropped in view.all_dropped() {
            let _ = writeln!(out, "{dropped:?}");
        }
    }
    let _ = writeln!(out, "{problems:?}");
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_plan_is_the_same_for_the_same_input(registry in any_registry()) {
        prop_assert_eq!(plan_text(&registry.plan()), plan_text(&registry.plan()));
    }

    #[test]
    fn every_name_belongs_to_one_tool_and_both_names_find_it(registry in any_registry()) {
        let (snapshot, _) = registry.plan();
        for folder in FOLDERS {
            let view = snapshot.view(folder.map(Path::new));
            let mut holders: HashMap<&str, &Arc<Tool>> = HashMap::new();
            for tool in view.toolsets().flat_map(|toolset| &toolset.tools) {
                for name in [tool.name(), tool.model_name()] {
                    let other = holders.insert(name, tool);
                    prop_assert!(other.is_none_or(|other| Arc::ptr_eq(other, tool)), "{}", name);
                    prop_assert!(view.tool(name).is_some_and(|found| Arc::ptr_eq(found, tool)));
                    prop_assert_ne!(name, "x_b");
                }
            }
        }
    }

    #[test]
    fn dom_72_native_tools_are_always_offered(registry in any_registry()) {
        let (snapshot, _) = registry.plan();
        for folder in FOLDERS {
            let view = snapshot.view(folder.map(Path::new));
            let native: Vec<_> = view.tools().take(2).map(|tool| (tool.name(), tool.model_name())).collect();
            prop_assert_eq!(native, [("a.b", "a_b"), ("own", "own")]);
            prop_assert!(view.tool("a_b").is_some_and(|tool| tool.native().is_some()));
        }
    }

    #[test]
    fn problem_ids_are_unique(registry in any_registry()) {
        let (_, problems) = registry.plan();
        let ids: HashSet<_> = problems.iter().map(|problem| &problem.id).collect();
        prop_assert_eq!(ids.len(), problems.len());
    }

    #[test]
    fn every_listed_tool_is_registered_or_dropped_with_a_reason(registry in any_registry()) {
        let (snapshot, _) = registry.plan();
        for entry in &registry.servers {
            let folder = match &entry.scope {
                Scope::Global => None,
                Scope::Cwd(path) => Some(path.as_path()),
            };
            let view = snapshot.view(folder);
            let key = entry.spec.key();
            for tool in entry.lists.iter().flat_map(|lists| &lists.tools) {
                let there =
                    view.tools_of(&key).filter(|found| found.original_name() == tool.name()).count();
                let dropped =
                    view.dropped(tool.name()).filter(|d| *d.server == *key && d.original_name == tool.name()).count();
                prop_assert_eq!(there + dropped, 1, "{} of {}", tool.name(), key);
            }
        }
    }

    #[test]
    fn order_of_list_responses_does_not_matter(registry in any_registry(), order in Just(vec![0, 1, 2, 3]).prop_shuffle()) {
        let expected = plan_text(&registry.plan());
        let mut registry = registry;
        let lists: Vec<_> = registry.servers.iter_mut().map(|entry| entry.lists.take()).collect();
        for place in order {
            registry.servers[place].lists.clone_from(&lists[place]);
            registry.plan();
        }
        prop_assert_eq!(plan_text(&registry.plan()), expected);
    }

    #[test]
    fn unchanged_definitions_keep_every_byte(
        before in any_registry(),
        changed in 0..4_usize,
        by in select(vec![Presence::Up, Presence::Away, Presence::Disabled]),
    ) {
        let (old, _) = before.plan();
        let mut after = before;
        after.servers[changed].presence = by;
        after.servers[changed].lists = Some(TestLists { tools: vec![tool("new"), tool("b")], ..TestLists::default() });
        let (new, _) = after.plan();
        for folder in FOLDERS {
            let (old, new) = (old.view(folder.map(Path::new)), new.view(folder.map(Path::new)));
            for tool in old.tools() {
                let same = new.tool(tool.name()).filter(|now| {
                    now.original_name() == tool.original_name()
                        && now.server().map(|s| &s.key) == tool.server().map(|s| &s.key)
                        && now.model_name() == tool.model_name()
                });
                if let Some(now) = same {
                    prop_assert_eq!(now.definition().text(), tool.definition().text());
                }
            }
        }
    }
}
