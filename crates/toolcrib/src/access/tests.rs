//! Which agent may use what, in every mode, and what it is told.

use proptest::prelude::*;
use toolcrib_config::{Config, Dialect, Memory, Named, Origin, Workspace, compile};

use super::*;

const TEAM: &str = "members:
  alice:
    toolsets:
      - ws_read
      - browser
  bob:
    toolsets: [ws_read]
";

const BROWSER: &str = "version: 1
servers:
  browser:
    transport: stdio
    command: x
    tools:
      blacklist: ['*_unsafe']
";

fn dominds(mcp: &str, team: &str) -> Config {
    let world = Memory::default()
        .with_file("/ws/.minds/mcp.yaml", mcp)
        .with_file("/ws/.minds/team.yaml", team);
    compile(&Workspace { root: "/ws".into(), home: None, named: None }, &world)
}

fn native(text: &str) -> Config {
    let world = Memory::default().with_file("/ws/toolcrib.yaml", text);
    let named = Named { path: "toolcrib.yaml".into(), dialect: Some(Dialect::Native) };
    let config = compile(&Workspace { root: "/ws".into(), home: None, named: Some(named) }, &world);
    assert_eq!(config.problems, [], "{text}");
    config
}

/// Servers `git` and `git_hub` that go by `profile`, and what `alice` and `bob` may use.
fn with_members(profile: &str, alice: &str, more: &str) -> Config {
    native(&format!(
        "version: 1
host: {{ grants: {{ members: {{ alice: {alice}, bob: {{}} }} }} }}
servers:
  git: {{ command: npx, profile: {profile}{more} }}
  git_hub: {{ command: npx, profile: {profile} }}
"
    ))
}

/// A world in which every server is there, to be asked about.
struct Scene {
    config: Config,
    grants: Grants,
    attached: Attached,
    switches: Switches,
    presence: Presence<'static>,
}

impl Scene {
    fn new(config: Config) -> Self {
        let (attached, switches) = (Attached::default(), Switches::default());
        let presence = Presence::Here("ready");
        Self { grants: Grants::of(&config), config, attached, switches, presence }
    }

    fn asked<'a>(&'a self, agent: &'a str, server: &str, tool: &'a str) -> Asked<'a> {
        self.asked_of(agent, Toolset::Server(self.config.server(server).unwrap()), tool)
    }

    fn asked_of<'a>(&'a self, agent: &'a str, toolset: Toolset<'a>, tool: &'a str) -> Asked<'a> {
        let Self { grants, attached, switches, presence, .. } = self;
        Asked { grants, attached, agent, toolset, tool, switches, presence: *presence }
    }

    fn permits(&self, agent: &str, server: &str, tool: &str) -> bool {
        decide(&self.asked(agent, server, tool)) == Decision::Permitted
    }

    fn denial(&self, agent: &str, server: &str, tool: &str) -> Verdict {
        match decide(&self.asked(agent, server, tool)) {
            Decision::Denied(verdict) => verdict,
            other => panic!("{agent} on {server}/{tool}: {other:?}"),
        }
    }
}

fn place(verdict: &Verdict) -> String {
    verdict.origin.as_ref().map(ToString::to_string).unwrap_or_default()
}

#[test]
fn dom_85_a_member_has_the_toolsets_of_its_list() {
    let scene = Scene::new(dominds(BROWSER, TEAM));
    assert!(scene.permits("alice", "browser", "click"));
    let denial = scene.denial("bob", "browser", "click");
    assert_eq!((denial.gate, denial.passed), (Gate::Grant, false));
    assert_eq!(denial.rule, "member `bob` lacks the toolset `browser`");
    assert_eq!(place(&denial), ".minds/team.yaml:7:5 members.bob.toolsets");
}

#[test]
fn a_stranger_has_no_grants_and_the_rule_of_the_server_says_that_it_needs_some() {
    let scene = Scene::new(dominds(BROWSER, TEAM));
    let denial = scene.denial("mallory", "browser", "click");
    assert_eq!(denial.rule, "`mallory` is no member and has no grants");
    assert_eq!(denial.origin, Some(Origin::Profile("dominds".into())));
}

#[test]
fn the_filter_comes_first_and_its_denial_names_pattern_and_place() {
    let scene = Scene::new(dominds(BROWSER, TEAM));
    let denial = scene.denial("mallory", "browser", "run_unsafe");
    assert_eq!(denial.gate, Gate::Exposure);
    assert_eq!(denial.rule, "`deny` has the pattern `*_unsafe`");
    assert_eq!(place(&denial), ".minds/mcp.yaml:7:7 servers.browser.tools.blacklist");
}

#[test]
fn dkr_42_an_allow_list_of_two_leaves_two() {
    let text = "version: 1\nservers: { a: { command: x, profile: docker, expose: { tools: { allow: [one, two] } } } }\n";
    let scene = Scene::new(native(text));
    let offered = ["one", "two", "three", "onetwo"].map(|tool| scene.permits("default", "a", tool));
    assert_eq!(offered, [true, true, false, false]);
    let denial = scene.denial("default", "a", "three");
    assert_eq!(denial.rule, "no pattern of `allow` matches");
    assert_eq!(place(&denial), "toolcrib.yaml:2:65 servers.a.expose.tools.allow");
}

#[test]
fn dom_86_and_87_a_toolset_that_nobody_offers_is_told_with_its_member() {
    // DOM-87 as well.
    let scene = Scene::new(dominds(BROWSER, TEAM));
    let [alices, bobs] = &scene.grants.problems(|name| name == "browser")[..] else { panic!() };
    assert_eq!(alices.text, "Toolset not found: member `alice` lists `ws_read`");
    assert_eq!((alices.severity, alices.is_error()), (toolcrib_config::Severity::Warning, false));
    assert_eq!(alices.agent.as_deref(), Some("alice"));
    assert_eq!((alices.source.as_deref(), alices.line), (Some(".minds/team.yaml"), Some(3)));
    assert_eq!(bobs.agent.as_deref(), Some("bob"));
    assert_ne!(alices.id, bobs.id);
    // DOM-86: the member's other toolsets stay.
    assert!(scene.permits("alice", "browser", "click"));
    assert_eq!(scene.grants.problems(|_| true), []);
}

#[test]
fn the_agent_default_needs_no_grant_in_any_mode_unless_the_configuration_names_it() {
    for profile in ["native", "dominds", "dispatch", "holodeck", "minion", "docker"] {
        let more = ", expose: { tools: { requires: { push: [release] } } }";
        let scene = Scene::new(with_members(profile, "{}", more));
        assert!(scene.permits("default", "git", "push"), "{profile}");
        let open = matches!(profile, "dispatch" | "holodeck");
        for agent in ["alice", "stranger"] {
            assert_eq!(scene.permits(agent, "git", "log"), open, "{profile} {agent}");
            assert!(!scene.permits(agent, "git", "push"), "{profile} {agent}");
        }
    }
    let named = "version: 1
host: { grants: { members: { default: { toolsets: [a] } } } }
servers: { a: { command: x }, b: { command: x } }
";
    let scene = Scene::new(native(named));
    assert!(scene.permits("default", "a", "t"));
    assert_eq!(scene.denial("default", "b", "t").gate, Gate::Grant);
}

#[test]
fn min_49_the_broadest_capability_grants_every_tool() {
    let scene = Scene::new(with_members("minion", "{ capabilities: [mcp_integration] }", ""));
    assert!(scene.permits("alice", "git", "log") && scene.permits("alice", "git_hub", "push"));
}

#[test]
fn min_50_a_servers_capability_grants_that_server_only() {
    let scene = Scene::new(with_members("minion", "{ capabilities: [mcp_git] }", ""));
    assert!(scene.permits("alice", "git", "log") && scene.permits("alice", "git", "push"));
    assert!(!scene.permits("alice", "git_hub", "log"));
}

#[test]
fn min_51_a_tools_capability_grants_that_tool_only() {
    let scene = Scene::new(with_members("minion", "{ capabilities: [mcp_git_hub_log] }", ""));
    assert!(scene.permits("alice", "git_hub", "log"));
    assert!(!scene.permits("alice", "git_hub", "push"));
    // Names are compared whole: it is as well the capability for `hub_log` of `git`, and for nothing else there.
    assert!(scene.permits("alice", "git", "hub_log"));
    assert!(!scene.permits("alice", "git", "log"));
    let gates = Gates::of(&scene.asked("alice", "git_hub", "log"));
    assert_eq!(gates.0[1].rule, "member `alice` has the capability `mcp_git_hub_log`");
}

#[test]
fn min_52_without_a_capability_nothing_and_additional_ones_must_all_be_held() {
    let more = ", expose: { tools: { requires: { push: [release, sign] } } }";
    let with = |capabilities: &str| {
        Scene::new(with_members("minion", &format!("{{ capabilities: [{capabilities}] }}"), more))
    };
    let none = with("release, sign").denial("alice", "git", "push");
    assert_eq!(
        none.rule,
        "member `alice` lacks one of the capabilities `mcp_integration`, `mcp_git`, `mcp_git_push`"
    );
    assert_eq!(place(&none), "toolcrib.yaml:2:39 host.grants.members.alice.capabilities");

    let half = with("mcp_git, release");
    assert!(half.permits("alice", "git", "log"));
    let denial = half.denial("alice", "git", "push");
    assert_eq!(denial.rule, "`push` needs the capability `sign` besides, which `alice` lacks");
    assert!(place(&denial).ends_with("servers.git.expose.tools.requires"), "{}", place(&denial));
    assert!(with("mcp_git, release, sign").permits("alice", "git", "push"));
}

#[test]
fn natively_a_toolset_or_a_capability_will_do() {
    for alice in ["{ toolsets: [git] }", "{ capabilities: [mcp_git_log] }"] {
        let scene = Scene::new(with_members("native", alice, ""));
        assert!(scene.permits("alice", "git", "log"), "{alice}");
        assert!(!scene.permits("alice", "git_hub", "log"), "{alice}");
        assert!(!scene.permits("bob", "git", "log"), "{alice}");
    }
}

#[test]
fn a_capability_is_no_toolset_and_a_toolset_no_capability_where_only_one_counts() {
    let both = "{ toolsets: [git_hub], capabilities: [mcp_git] }";
    let by_toolset = Scene::new(with_members("dominds", both, ""));
    let by_capability = Scene::new(with_members("minion", both, ""));
    let may = |scene: &Scene| ["git", "git_hub"].map(|server| scene.permits("alice", server, "t"));
    assert_eq!(may(&by_toolset), [false, true]);
    assert_eq!(may(&by_capability), [true, false]);
}

#[test]
fn dkr_17_attaching_gives_the_tools_once_and_detaching_takes_them() {
    let mut scene = Scene::new(with_members("docker", "{}", ""));
    let key = scene.config.server("git").unwrap().key();
    assert!(!scene.permits("alice", "git", "log"));
    assert!(scene.attached.attach("alice", &key));
    assert!(!scene.attached.attach("alice", &key), "the second time adds nothing");
    assert!(scene.permits("alice", "git", "log"));
    assert!(!scene.permits("alice", "git_hub", "log") && !scene.permits("bob", "git", "log"));
    assert!(scene.attached.detach("alice", &key));
    assert!(!scene.attached.detach("alice", &key));
    assert!(!scene.permits("alice", "git", "log"));
    // An agent that no file names can have a server attached too.
    assert!(scene.attached.attach("stranger", &key));
    assert!(scene.permits("stranger", "git", "log"));
}

#[test]
fn attaching_does_not_count_where_other_grants_are_asked_for() {
    let mut scene = Scene::new(with_members("minion", "{}", ""));
    let key = scene.config.server("git").unwrap().key();
    scene.attached.attach("alice", &key);
    assert!(!scene.permits("alice", "git", "log"));
}

#[test]
fn dis_33_a_switch_removes_a_server_from_its_own_dialog_only() {
    let mut a = Scene::new(with_members("dispatch", "{}", ""));
    let b = Scene::new(with_members("dispatch", "{}", ""));
    let key = a.config.server("git").unwrap().key();
    a.switches.set(&key, false);
    let denial = a.denial("default", "git", "log");
    assert_eq!((denial.gate, denial.origin), (Gate::Switch, None));
    assert_eq!(denial.rule, "`git` is switched off in this dialog");
    assert!(a.permits("default", "git_hub", "log") && b.permits("default", "git", "log"));
    a.switches.set(&key, true);
    assert!(a.permits("default", "git", "log"));
}

#[test]
fn dis_32_a_server_that_is_away_is_left_out_and_min_48_stays_listed_where_that_is_the_policy() {
    for (profile, kept) in
        [("dispatch", false), ("docker", false), ("dominds", false), ("minion", true)]
    {
        let mut scene = Scene::new(with_members(profile, "{}", ""));
        scene.presence = Presence::Away("failed");
        let decision = decide(&scene.asked("default", "git", "log"));
        let verdict = match decision {
            Decision::Away(verdict) if kept => verdict,
            Decision::Denied(verdict) if !kept => verdict,
            other => panic!("{profile}: {other:?}"),
        };
        assert_eq!(verdict.gate, Gate::Availability);
        assert!(verdict.rule.starts_with("`git` is failed"), "{}", verdict.rule);
        assert_eq!(verdict.origin, Some(Origin::Profile(profile.into())));
        // What an agent may not use does not become known by being away.
        if kept {
            assert_eq!(scene.denial("alice", "git", "log").gate, Gate::Grant);
        }
    }
}

#[test]
fn a_disabled_server_names_its_line_or_whoever_disabled_it() {
    let mut scene =
        Scene::new(native("version: 1\nservers:\n  a: { command: x, enabled: false }\n"));
    scene.presence = Presence::Disabled { by: None };
    let denial = scene.denial("default", "a", "t");
    assert_eq!(denial.rule, "`a` is disabled");
    assert_eq!(place(&denial), "toolcrib.yaml:3:29 servers.a.enabled");
    scene.presence = Presence::Disabled { by: Some("alice") };
    let denial = scene.denial("default", "a", "t");
    assert_eq!((denial.rule.as_str(), denial.origin), ("`a` was disabled by alice", None));
}

#[test]
fn native_toolsets_go_by_name_and_the_narrowest_not_even_to_default() {
    let scene = Scene::new(with_members("native", "{ toolsets: [mcp_admin] }", ""));
    let who = ["default", "alice", "bob", "stranger"];
    let may = |to| {
        who.map(|agent| {
            let toolset = Toolset::Native { name: "mcp_admin", to };
            decide(&scene.asked_of(agent, toolset, "mcp_restart")) == Decision::Permitted
        })
    };
    assert_eq!(may(Reach::Members), [true, true, false, false]);
    assert_eq!(may(Reach::ByName), [false, true, false, false]);
    assert_eq!(may(Reach::Everybody), [true; 4]);
}

#[test]
fn all_gates_are_told_in_order_also_behind_one_that_failed() {
    let mut scene = Scene::new(dominds(BROWSER, TEAM));
    scene.presence = Presence::Here("ready");
    let Gates(gates) = Gates::of(&scene.asked("bob", "browser", "click"));
    let told: Vec<_> = gates.iter().map(|g| (g.gate.as_str(), g.passed, g.rule.as_str())).collect();
    assert_eq!(
        told,
        [
            ("exposure", true, "no pattern of `deny` matches"),
            ("grant", false, "member `bob` lacks the toolset `browser`"),
            ("switch", true, "`browser` is switched on in this dialog"),
            ("availability", true, "`browser` is ready"),
        ]
    );
}

#[test]
fn owners_see_every_dialog_and_others_their_own() {
    let anybody = Principal::anybody();
    assert!(anybody.sees_dialogs_of("default") && !anybody.sees_dialogs_of("alice"));
    let owner = Principal { owner: true, ..anybody };
    assert!(owner.sees_dialogs_of("alice"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The list and the call go by the same rules: nobody is offered what is refused, nor refused what is offered.
    #[test]
    fn a_pass_says_of_an_offered_tool_what_the_gates_say(
        profile in prop::sample::select(vec!["native", "dominds", "dispatch", "minion", "docker"]),
        toolsets in prop::sample::subsequence(vec!["git", "git_hub", "ws_read"], 0..3),
        capabilities in prop::sample::subsequence(
            vec!["mcp_integration", "mcp_git", "mcp_git_hub", "mcp_git_log", "mcp_git_hub_log", "sign"], 0..4),
        attach in any::<bool>(),
        switched in any::<bool>(),
        presence in prop::sample::select(vec![
            Presence::Here("ready"), Presence::Away("backoff"), Presence::Disabled { by: None }]),
    ) {
        let alice = format!("{{ toolsets: [{}], capabilities: [{}] }}", toolsets.join(","), capabilities.join(","));
        let more = ", expose: { tools: { requires: { push: [sign] } } }";
        let mut scene = Scene::new(with_members(profile, &alice, more));
        let git = scene.config.server("git").unwrap().clone();
        if attach {
            scene.attached.attach("alice", &git.key());
        }
        scene.switches.set(&git.key(), switched);
        scene.presence = presence;
        for (agent, server) in [("alice", "git"), ("alice", "git_hub"), ("bob", "git"), ("default", "git")] {
            let spec = scene.config.server(server).unwrap();
            let pass = Pass::of(&scene.grants, agent, &scene.attached, Toolset::Server(spec));
            let standing = Standing::of(spec, &scene.switches, presence);
            for tool in ["log", "push", "hub", "hub_log"] {
                let listed = if pass.permits(tool) { standing } else { Standing::Hidden };
                let decided = match decide(&scene.asked(agent, server, tool)) {
                    Decision::Permitted => Standing::Offered,
                    Decision::Away(_) => Standing::Listed,
                    Decision::Denied(_) => Standing::Hidden,
                };
                prop_assert_eq!(listed, decided, "{} {} {}", agent, server, tool);
            }
        }
    }
}
