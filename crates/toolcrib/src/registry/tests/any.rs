//! What holds of every plan, whatever servers there are.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use proptest::prelude::*;
use proptest::sample::select;

use super::native::Echo;
use super::*;

const FOLDERS: [Option<&str>; 3] = [None, Some("/a"), Some("/b")];

/// One server: its entry, where it is, how it is, and its tools.
type Any = (String, Option<&'static str>, Presence, Vec<&'static str>);

fn server(id: usize) -> impl Strategy<Value = Any> {
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

fn cribs() -> impl Strategy<Value = Crib> {
    (server(0), server(1), server(2), server(3)).prop_map(|(a, b, c, d)| crib(&[a, b, c, d]))
}

fn crib(servers: &[Any]) -> Crib {
    let text: String = servers.iter().map(|(entry, ..)| entry.as_str()).collect();
    let mut crib = Crib::native(&text);
    for (entry, (_, folder, presence, tools)) in crib.servers.iter_mut().zip(servers) {
        entry.presence = *presence;
        entry.scope = folder.map_or(Scope::Global, |folder| Scope::Cwd(folder.into()));
        let tools = tools.iter().map(|name| tool(name)).collect();
        entry.lists = Some(Lists { tools, ..Lists::default() });
    }
    crib.reserved_tools = vec!["x_b".to_owned()];
    let own = NativeToolset::new("native").with(Echo("a.b")).and_then(|own| own.with(Echo("own")));
    crib.native = vec![own.unwrap()];
    crib
}

/// Everything that a plan says, as text.
fn whole((snapshot, problems): &(Snapshot, Vec<Problem>)) -> String {
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
                    tool.standing(),
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
    fn a_plan_is_the_same_for_the_same_input(crib in cribs()) {
        prop_assert_eq!(whole(&crib.plan()), whole(&crib.plan()));
    }

    #[test]
    fn every_name_is_one_tools_and_both_names_find_it(crib in cribs()) {
        let (snapshot, _) = crib.plan();
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
    fn dom_72_native_tools_are_there_whatever_servers_do(crib in cribs()) {
        let (snapshot, _) = crib.plan();
        for folder in FOLDERS {
            let view = snapshot.view(folder.map(Path::new));
            let native: Vec<_> = view.tools().take(2).map(|tool| (tool.name(), tool.model_name())).collect();
            prop_assert_eq!(native, [("a.b", "a_b"), ("own", "own")]);
            prop_assert!(view.tool("a_b").is_some_and(|tool| tool.native().is_some()));
        }
    }

    #[test]
    fn no_two_problems_are_taken_for_one(crib in cribs()) {
        let (_, problems) = crib.plan();
        let ids: HashSet<_> = problems.iter().map(|problem| &problem.id).collect();
        prop_assert_eq!(ids.len(), problems.len());
    }

    #[test]
    fn what_a_server_offers_is_registered_or_dropped_with_a_reason(crib in cribs()) {
        let (snapshot, _) = crib.plan();
        for entry in &crib.servers {
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
    fn it_does_not_matter_who_answers_first(crib in cribs(), order in Just(vec![0, 1, 2, 3]).prop_shuffle()) {
        let expected = whole(&crib.plan());
        let mut crib = crib;
        let lists: Vec<_> = crib.servers.iter_mut().map(|entry| entry.lists.take()).collect();
        for place in order {
            crib.servers[place].lists.clone_from(&lists[place]);
            crib.plan();
        }
        prop_assert_eq!(whole(&crib.plan()), expected);
    }

    #[test]
    fn a_definition_that_is_there_before_and_after_keeps_every_byte(
        before in cribs(),
        changed in 0..4_usize,
        by in select(vec![Presence::Up, Presence::Away, Presence::Disabled]),
    ) {
        let (old, _) = before.plan();
        let mut after = before;
        after.servers[changed].presence = by;
        after.servers[changed].lists = Some(Lists { tools: vec![tool("new"), tool("b")], ..Lists::default() });
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
