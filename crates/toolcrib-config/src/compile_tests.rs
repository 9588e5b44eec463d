//! Tests of load order, includes and the effect of errors.

use proptest::prelude::*;

use super::*;
use crate::testing::{compile_discovered, compile_text, compile_text_in, problem_codes};
use crate::{MemoryLookup, Severity};

fn ids(config: &Config) -> Vec<&str> {
    config.servers.iter().map(|s| s.id.as_str()).collect()
}

fn depends(config: &Config) -> Vec<&str> {
    config.depends.iter().map(|p| p.to_str().unwrap()).collect()
}

fn native(servers: &str) -> String {
    format!("version: 1\nservers: {{ {servers} }}\n")
}

fn named(world: &MemoryLookup, path: &str, dialect: Option<Dialect>) -> Config {
    let named = ConfigFile { path: path.into(), dialect };
    let workspace = Workspace { root: "/ws".into(), home: None, config_file: Some(named) };
    compile(&workspace, world)
}

const HOME: &str = "/user/toolcrib/toolcrib.yaml";

#[test]
fn workspace_server_shadows_user_server_of_the_same_id() {
    let world = MemoryLookup::default()
        .with_file(HOME, native("a: { command: old }, mine: { command: x }"))
        .with_file("/ws/toolcrib.yaml", native("a: { command: new }"))
        .with_file(
            "/ws/.minds/mcp.yaml",
            "version: 1\nservers: { a: { transport: stdio, command: x } }\n",
        );
    let config = compile_discovered(&world, "/ws");
    let keys: Vec<_> = config.servers.iter().map(|s| s.key()).collect();
    let mine = format!("{HOME}#mine");
    assert_eq!(keys, [mine.as_str(), "toolcrib.yaml#a", ".minds/mcp.yaml#a"]);
    let [problem] = config.problems.as_slice() else { panic!("{:?}", config.problems) };
    assert_eq!(problem.code, "server.shadowed");
    assert_eq!(problem.severity, Severity::Info);
    assert_eq!(problem.source.as_deref(), Some("toolcrib.yaml"));
    assert!(problem.text.contains(HOME), "{}", problem.text);
    assert_eq!(config.server("a").map(|s| s.key()), None, "the id is ambiguous");
    assert!(config.server(".minds/mcp.yaml#a").is_some());
}

#[test]
fn depends_lists_every_requested_file() {
    let world = MemoryLookup::default()
        .with_file(
            "/ws/toolcrib.yaml",
            "version: 1\ninclude: [{ path: more/toolcrib.yaml }, { path: gone/toolcrib.yaml }]\nservers:\n  a: { command: x, env_file: .env, manual: { file: a.md } }\n",
        )
        .with_file("/ws/more/toolcrib.yaml", native("b: { command: x, env_file: b.env }"))
        .with_file("/ws/.env", "A=1\n");
    let config = compile_discovered(&world, "/ws");
    assert_eq!(ids(&config), ["a"], "b has no environment file");
    let all = [
        HOME,
        "/ws/.dispatch/mcp.json",
        "/ws/.env",
        "/ws/.minds/mcp.yaml",
        "/ws/a.md",
        "/ws/agent.yaml",
        "/ws/gone/toolcrib.yaml",
        "/ws/more/b.env",
        "/ws/more/toolcrib.yaml",
        "/ws/opencode.json",
        "/ws/toolcrib.yaml",
    ];
    assert_eq!(depends(&config), all);
    let reported = ["include.missing", "security.closed", "manual.missing", "env_file.unreadable"];
    assert_eq!(problem_codes(&config), reported);
}

#[test]
fn nested_includes_load_each_file_once() {
    let world = MemoryLookup::default()
        .with_file(
            "/ws/toolcrib.yaml",
            "version: 1\ninclude:\n  - { path: sub/toolcrib.yaml }\n  - { path: ./sub/../sub/toolcrib.yaml }\nservers: { a: { command: x } }\n",
        )
        .with_file(
            "/ws/sub/toolcrib.yaml",
            "version: 1\ninclude: [{ path: deep/toolcrib.yaml }]\nservers: { b: { command: x } }\n",
        )
        .with_file(
            "/ws/sub/deep/toolcrib.yaml",
            "version: 1\ninclude: [{ path: ../../toolcrib.yaml }]\nservers: { c: { command: x } }\n",
        );
    let config = compile_discovered(&world, "/ws");
    assert_eq!(ids(&config), ["a", "b", "c"]);
    let reported: Vec<_> = config
        .problems
        .iter()
        .map(|p| (p.code.as_str(), p.source.as_deref().unwrap(), p.line))
        .collect();
    assert_eq!(
        reported,
        [
            ("include.again", "sub/deep/toolcrib.yaml", Some(2)),
            ("include.again", "toolcrib.yaml", Some(4)),
        ]
    );
}

#[test]
fn include_depth_is_limited() {
    let mut world = MemoryLookup::default();
    for level in 0..20 {
        let next = level + 1;
        let text = format!(
            "version: 1\ninclude: [{{ path: f{next}.yaml, dialect: native }}]\nservers: {{ s{level}: {{ command: x }} }}\n"
        );
        world = world.with_file(format!("/ws/f{level}.yaml"), text);
    }
    let config = named(&world, "f0.yaml", Some(Dialect::Native));
    assert_eq!(config.servers.len(), MAX_INCLUDES + 1);
    assert_eq!(problem_codes(&config), ["include.again", "security.closed"]);
}

#[test]
fn include_dialect_comes_from_path_or_key() {
    let world = MemoryLookup::default()
        .with_file(
            "/ws/toolcrib.yaml",
            "version: 1\ninclude:\n  - { path: team/.minds/mcp.yaml }\n  - { path: odd.txt, dialect: dominds, scope: cwd }\n  - { path: unknown.txt }\n  - { dialect: dominds }\n  - { path: x, dialect: nonsense }\n",
        )
        .with_file(
            "/ws/team/.minds/mcp.yaml",
            "version: 1\nservers: { a: { transport: stdio, command: x } }\n",
        )
        .with_file("/ws/odd.txt", "version: 1\nservers: { b: { transport: stdio, command: x } }\n");
    let config = compile_discovered(&world, "/ws");
    assert_eq!(ids(&config), ["a", "b"]);
    assert_eq!(config.servers[0].dialect, Dialect::Dominds);
    assert_eq!(config.servers[0].policy.scope, ServerScope::Global);
    assert_eq!(config.servers[1].policy.scope, ServerScope::Cwd);
    let reported: Vec<_> = config.problems.iter().map(|p| (p.code.as_str(), p.line)).collect();
    assert_eq!(
        reported,
        [
            ("value.invalid", Some(7)),
            ("include.path", Some(6)),
            ("dialect.unknown", Some(5)),
            ("security.closed", Some(7)),
        ]
    );
}

#[test]
fn config_file_replaces_discovery() {
    let world = MemoryLookup::default()
        .with_file("/ws/toolcrib.yaml", native("root: { command: x }"))
        .with_file("/ws/other.yaml", native("other: { command: x }"))
        .with_file("/ws/sub/toolcrib.yaml", native("sub: { command: x }"));
    assert_eq!(ids(&named(&world, "sub/toolcrib.yaml", None)), ["sub"]);
    assert_eq!(ids(&named(&world, "/ws/sub/toolcrib.yaml", None)), ["sub"]);
    assert_eq!(ids(&named(&world, "other.yaml", Some(Dialect::Native))), ["other"]);
    let unknown_dialect = named(&world, "other.yaml", None);
    let reported = vec!["dialect.unknown", "security.closed"];
    assert_eq!((problem_codes(&unknown_dialect), unknown_dialect.servers.len()), (reported, 0));
    let gone = named(&world, "gone.yaml", Some(Dialect::Native));
    assert_eq!(problem_codes(&gone), ["file.missing", "security.closed"]);
    assert_eq!(depends(&gone), ["/ws/gone.yaml"]);
}

#[test]
fn dialect_is_known_from_well_known_paths() {
    for (path, dialect) in [
        ("/ws/toolcrib.yaml", Some(Dialect::Native)),
        ("/ws/.minds/mcp.yaml", Some(Dialect::Dominds)),
        ("/ws/.dispatch/mcp.json", Some(Dialect::Dispatch)),
        ("/ws/opencode.json", Some(Dialect::Opencode)),
        ("/ws/agent.yaml", Some(Dialect::Holodeck)),
        ("/ws/.mcp.json", Some(Dialect::Claude)),
        ("/ws/.vscode/mcp.json", Some(Dialect::VsCode)),
        ("/ws/.cursor/mcp.json", Some(Dialect::Cursor)),
        ("/h/.codex/config.toml", Some(Dialect::Codex)),
        ("/h/.gemini/settings.json", Some(Dialect::Gemini)),
        ("/ws/mcp.json", None),
        ("/ws/mcp.yaml", None),
    ] {
        assert_eq!(Dialect::from_path(Path::new(path)), dialect, "{path}");
    }
}

#[test]
fn custom_profiles_extend_others_in_any_order() {
    let config = compile_text(
        Dialect::Native,
        r#"version: 1
profiles:
  c: { base: b, timeouts: { connect: 3s } }
  b: { base: a, timeouts: { request: 2s } }
  a: { base: dominds, timeouts: { request: 1s, sse_read: 1s } }
  plain: { enabled: false }
servers:
  s: { profile: c, command: x, timeouts: { startup: 9s } }
  t: { profile: plain, command: x }
"#,
    );
    assert_eq!(config.problems, []);
    let times = &config.servers[0].policy.timeouts;
    let secs = [times.connect, times.request, times.sse_read, times.startup].map(|p| p.0.as_secs());
    assert_eq!(secs, [3, 2, 1, 9]);
    assert_eq!(config.servers[0].policy.limits.pages, 50, "default of the dominds profile");
    let origin = |path: &str| config.servers[0].origins.origin(path).to_string();
    assert_eq!(origin("timeouts.connect"), "file.yaml:3:38 profiles.c.timeouts.connect");
    assert_eq!(origin("timeouts.startup"), "file.yaml:8:53 servers.s.timeouts.startup");
    assert_eq!(origin("limits.pages"), "profile dominds");
    assert_eq!(origin("session.queue"), "profile native");
    assert!(!config.servers[1].policy.enabled);
}

#[test]
fn profile_base_must_exist_and_not_be_cyclic() {
    let config = compile_text(
        Dialect::Native,
        r#"version: 1
profiles:
  a: { base: b }
  b: { base: a }
  c: { base: c }
  d: { base: nobody }
  dominds: { enabled: false }
servers:
  s: { profile: a, command: x }
  t: { profile: nobody, command: x }
  u: { profile: dominds, command: x }
"#,
    );
    assert_eq!(ids(&config), ["u"]);
    assert!(config.servers[0].policy.enabled);
    let reported: Vec<_> =
        config.problems.iter().map(|p| (p.code.as_str(), p.line.unwrap())).collect();
    let unknown = "profile.unknown";
    assert_eq!(
        reported,
        [
            ("profile.reserved", 7),
            (unknown, 3),
            (unknown, 4),
            (unknown, 5),
            (unknown, 6),
            (unknown, 9),
            (unknown, 10),
        ]
    );
}

#[test]
fn profile_count_is_limited() {
    let own: String = (0..20_000).map(|i| format!("  p{i}: {{ base: p{} }}\n", i + 1)).collect();
    let text = format!("version: 1\nprofiles:\n{own}servers: {{ a: {{ command: x }} }}\n");
    let config = compile_text(Dialect::Native, &text);
    assert_eq!(ids(&config), ["a"]);
    assert_eq!(problem_codes(&config)[0], "profile.too_many");
    assert_eq!(config.problems[0].line, Some(203));
}

#[test]
fn dom_73_changed_environment_file_changes_the_hash() {
    let hash = |env: &str| {
        let world = MemoryLookup::default().with_file("/ws/.env", env);
        let text = native("a: { command: x, env_file: .env }");
        compile_text_in(&world, Dialect::Native, &text).servers[0].hash
    };
    assert_eq!(hash("A=1\nB=2\n"), hash("# note\nexport A='1'\n\nB=2"));
    assert_ne!(hash("A=1\nB=2\n"), hash("A=1\nB=3\n"));
    assert_ne!(hash("A=1\nB=2\n"), hash("A=1\n"));
    assert_ne!(hash("AB=1\n"), hash("A=B1\n"));
}

#[test]
fn dom_73_hash_depends_on_behaviour_not_spelling() {
    let hash = |entry: &str| {
        let config = compile_text(Dialect::Native, &native(&format!("a: {entry}")));
        assert_eq!(config.problems, [], "{entry}");
        config.servers[0].hash
    };
    let short =
        hash("{ command: x, env: { K: v }, init: { config: { a: 1, b: { c: 2, d: 3 } } } }");
    let long = hash(
        "{ x-note: 1, init: { config: { b: { d: 3, c: 2 }, a: 1 } }, transport: { kind: stdio, command: x, env: { set: { K: v } } } }",
    );
    assert_eq!(short, long);
    assert_ne!(hash("{ command: x }"), hash("{ command: '${x:-x}' }"));
    assert_ne!(hash("{ url: 'http://h/' }"), hash("{ url: 'http://h/', transport: sse }"));
}

#[test]
fn duplicate_key_rejects_its_innermost_entry() {
    let cases = [
        (
            "version: 1\nversion: 1\nservers: { a: { command: x } }\n",
            &[][..],
            SourceOutcome::Rejected,
        ),
        (
            "version: 1\nservers: { a: { command: x }, a: { command: y } }\n",
            &[],
            SourceOutcome::Rejected,
        ),
        (
            "version: 1\nservers: { a: { command: x, command: y }, b: { command: x } }\n",
            &["b"],
            SourceOutcome::Loaded,
        ),
        (
            "version: 1\nservers: { a: { command: x, env: { K: 1, K: 2 } }, b: { command: x } }\n",
            &["b"],
            SourceOutcome::Loaded,
        ),
        (
            "version: 1\nservers: { a: { command: x, env: { 7: y } }, b: { command: x, env: { [q]: 1 } } }\n",
            &["a"],
            SourceOutcome::Loaded,
        ),
    ];
    for (text, left, outcome) in cases {
        let config = compile_text(Dialect::Native, text);
        assert_eq!((ids(&config).as_slice(), config.sources[0].outcome), (left, outcome), "{text}");
        let first = &config.problems[0];
        assert_eq!((first.line, first.source.as_deref()), (Some(2), Some("file.yaml")), "{text}");
    }
}

#[test]
fn problem_count_per_file_is_limited() {
    let keys: String = (0..100_000).map(|i| format!("    timeuot{i}: 1\n")).collect();
    let config = compile_text(
        Dialect::Native,
        &format!("version: 1\nservers:\n  a:\n    command: x\n{keys}"),
    );
    assert_eq!(ids(&config), ["a"]);
    assert_eq!(config.problems.len(), 1001);
    assert_eq!(config.problems[999].line, Some(1004));
    assert_eq!(config.problems[1000].code, "file.too_many_problems");
    let missing =
        format!("version: 1\nservers: {{ a: {{ command: '{}' }} }}\n", "${A}".repeat(100_000));
    assert_eq!(compile_text(Dialect::Native, &missing).problems.len(), 1001);
}

#[test]
fn malformed_text_is_a_located_problem_in_every_dialect() {
    let all = Dialect::WORDS.iter().filter_map(|word| Dialect::from_word(word));
    for dialect in all {
        for text in ["\u{0}", "[[[[[[", "{\"a\":", "a: b: c", "\u{feff}\u{feff}{"] {
            let config = compile_text(dialect, text);
            assert!(config.servers.is_empty(), "{dialect}: {text:?}");
            let [problem, ..] = config.problems.as_slice() else {
                panic!("{dialect}: {text:?} is no problem")
            };
            assert_eq!(problem.line, Some(1), "{dialect}: {problem:?}");
            assert!(problem.fix.is_some() && problem.source.is_some());
            assert_ne!(config.sources[0].outcome, SourceOutcome::Loaded, "{dialect}: {text:?}");
        }
    }
}

#[test]
fn unreadable_file_is_a_problem_and_rejects_the_source() {
    struct Locked;
    impl Lookup for Locked {
        fn env(&self, _: &str) -> Option<String> {
            None
        }
        fn file(&self, path: &Path) -> FileLookup {
            match path.ends_with("toolcrib.yaml") {
                true => FileLookup::Unreadable("permission denied".to_string()),
                false => FileLookup::Missing,
            }
        }
        fn is_dir(&self, _: &Path) -> bool {
            false
        }
    }
    let workspace = Workspace { root: "/ws".into(), home: None, config_file: None };
    let config = compile(&workspace, &Locked);
    assert_eq!(problem_codes(&config), ["file.unreadable", "security.closed"]);
    assert_eq!(config.sources[0].outcome, SourceOutcome::Rejected);
}

proptest! {
    #[test]
    fn dom_88_compile_terminates_on_arbitrary_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200), word in proptest::sample::select(Dialect::WORDS)) {
        let world = MemoryLookup::default().with_file("/ws/f", bytes);
        let config = named(&world, "f", Dialect::from_word(word));
        prop_assert!(config.problems.iter().all(|p| p.source.is_some()));
    }
}

#[test]
fn undeclared_secret_store_is_a_problem_and_store_paths_are_absolute() {
    let stores = "host: { secrets: { s: { kind: file, path: ../safe }, c: { kind: command } } }";
    let values = "A: { secret: 's:x' }, B: { secret: 'file:x' }, C: { secret: 'keyring:x' }, D: { secret: 'other:x' }";
    let text = |more: &str| {
        format!(
            "version: 1\n{stores}\nservers: {{ a: {{ command: x, env: {{ {values} }}{more} }} }}\n"
        )
    };
    let at = |more: &str| MemoryLookup::default().with_file("/ws/toolcrib.yaml", text(more));
    let config = compile_discovered(&at(""), "/ws");
    let [problem] = config.problems.as_slice() else { panic!("{:?}", config.problems) };
    assert_eq!((problem.code.as_str(), problem.line), ("secret.undeclared", Some(3)));
    assert!(problem.text.contains("`other`"), "{}", problem.text);
    assert_eq!(ids(&config), ["a"]);
    assert_eq!(config.host.secrets["s"].path.as_deref(), Some("/safe"));
    assert_eq!(&*config.servers[0].base, Path::new("/ws"));
    let config = compile_discovered(&at(", secrets: { resolve: load }"), "/ws");
    assert!(config.servers.is_empty() && problem_codes(&config) == ["secret.undeclared"]);
}

/// C19 of the dialects.
#[test]
fn failed_load_only_without_other_usable_files() {
    let bad_agent =
        "tools: [{ name: t, description: d, type: mcp, server: s, transport: stdio }]\n";
    let failed = |files: &[(&str, &str)]| {
        let world = files.iter().fold(MemoryLookup::default(), |world, (path, text)| {
            world.with_file(*path, (*text).to_owned())
        });
        compile_discovered(&world, "/ws").failed_load().map(|source| source.label.to_string())
    };
    let agent = ("/ws/agent.yaml", bad_agent);
    assert_eq!(failed(&[agent]).as_deref(), Some("agent.yaml"));
    assert_eq!(failed(&[("/ws/agent.yaml", "tools: [\n")]).as_deref(), Some("agent.yaml"));
    assert_eq!(failed(&[agent, ("/ws/toolcrib.yaml", "version: 1\n")]), None);
    assert_eq!(failed(&[agent, ("/ws/.dispatch/mcp.json", "{ no json")]), None);
    assert_eq!(failed(&[("/ws/.dispatch/mcp.json", "{ no json")]), None);
    assert_eq!(failed(&[("/ws/toolcrib.yaml", "version: 2\n")]), None);
    assert_eq!(failed(&[]), None);
}
