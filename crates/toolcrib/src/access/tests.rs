//! Tests of access decisions in every grant mode, and of their explanations.

use proptest::prelude::*;
use toolcrib_config::{Config, ConfigFile, Dialect, MemoryLookup, ValueOrigin, Workspace, compile};

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
    let files = MemoryLookup::default()
        .with_file("/ws/.minds/mcp.yaml", mcp)
        .with_file("/ws/.minds/team.yaml", team);
    compile(&Workspace { root: "/ws".into(), home: None, config_file: None }, &files)
}

fn native(text: &str) -> Config {
    let files = MemoryLookup::default().with_file("/ws/toolcrib.yaml", text);
    let config_file = ConfigFile { path: "toolcrib.yaml".into(), dialect: Some(Dialect::Native) };
    let config = compile(
        &Workspace { root: "/ws".into(), home: None, config_file: Some(config_file) },
        &files,
    );
    assert_eq!(config.problems, [], "{text}");
    config
}

/// A configuration with servers `git` and `git_hub` in `profile`, and the grants of `alice` and `bob`.
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

/// Access rules of one configuration with all servers available.
struct TestAccess {
    config: Config,
    grants: Grants,
    attached: Attachments,
    switches: Switches,
    presence: ServerAvailability<'static>,
}

impl TestAccess {
    fn new(config: Config) -> Self {
        let (attached, switches) = (Attachments::default(), Switches::default());
        let presence = ServerAvailability::Available("ready");
        Self { grants: Grants::from_config(&config), config, attached, switches, presence }
    }

    fn query<'a>(&'a self, agent: &'a str, server: &str, tool: &'a str) -> ToolQuery<'a> {
        self.query_for_toolset(agent, ToolsetRef::Server(self.config.server(server).unwrap()), tool)
    }

    fn query_for_toolset<'a>(
        &'a self,
        agent: &'a str,
        toolset: ToolsetRef<'a>,
        tool: &'a str,
    ) -> ToolQuery<'a> {
        let Self { grants, attached, switches, presence, .. } = self;
        ToolQuery { grants, attached, agent, toolset, tool, switches, presence: *presence }
    }

    fn permits(&self, agent: &str, server: &str, tool: &str) -> bool {
        decide(&self.query(agent, server, tool)) == Decision::Permitted
    }

    fn denial(&self, agent: &str, server: &str, tool: &str) -> GateVerdict {
        match decide(&self.query(agent, server, tool)) {
            Decision::Denied(verdict) => verdict,
            other => panic!("{agent} on {server}/{tool}: {other:?}"),
        }
    }
}

fn origin_text(verdict: &GateVerdict) -> String {
    verdict.origin.as_ref().map(ToString::to_string).unwrap_or_default()
}

#[test]
fn dom_85_member_can_use_its_listed_toolsets() {
    let access = TestAccess::new(dominds(BROWSER, TEAM));
    assert!(access.permits("alice", "browser", "click"));
    let denial = access.denial("bob", "browser", "click");
    assert_eq!((denial.gate, denial.passed), (Gate::Grant, false));
    assert_eq!(denial.rule, "member `bob` lacks the toolset `browser`");
    assert_eq!(origin_text(&denial), ".minds/team.yaml:7:5 members.bob.toolsets");
}

#[test]
fn agent_without_membership_is_denied_by_the_grant_gate() {
    let access = TestAccess::new(dominds(BROWSER, TEAM));
    let denial = access.denial("mallory", "browser", "click");
    assert_eq!(denial.rule, "`mallory` is not a member and has no grants");
    assert_eq!(denial.origin, Some(ValueOrigin::Profile("dominds".into())));
}

#[test]
fn exposure_gate_comes_first_and_names_pattern_and_location() {
    let access = TestAccess::new(dominds(BROWSER, TEAM));
    let denial = access.denial("mallory", "browser", "run_unsafe");
    assert_eq!(denial.gate, Gate::Exposure);
    assert_eq!(denial.rule, "`deny` has the pattern `*_unsafe`");
    assert_eq!(origin_text(&denial), ".minds/mcp.yaml:7:7 servers.browser.tools.blacklist");
}

#[test]
fn dkr_42_allow_list_limits_the_offered_tools() {
    let text = "version: 1\nservers: { a: { command: x, profile: docker, expose: { tools: { allow: [one, two] } } } }\n";
    let access = TestAccess::new(native(text));
    let offered =
        ["one", "two", "three", "onetwo"].map(|tool| access.permits("default", "a", tool));
    assert_eq!(offered, [true, true, false, false]);
    let denial = access.denial("default", "a", "three");
    assert_eq!(denial.rule, "no pattern of `allow` matches");
    assert_eq!(origin_text(&denial), "toolcrib.yaml:2:65 servers.a.expose.tools.allow");
}

#[test]
fn dom_86_and_87_missing_toolset_is_a_warning_that_names_the_member() {
    // DOM-87 as well.
    let access = TestAccess::new(dominds(BROWSER, TEAM));
    let [alices, bobs] = &access.grants.problems(|name| name == "browser")[..] else { panic!() };
    assert_eq!(alices.text, "Toolset not found: member `alice` lists `ws_read`");
    assert_eq!((alices.severity, alices.is_error()), (toolcrib_config::Severity::Warning, false));
    assert_eq!(alices.agent.as_deref(), Some("alice"));
    assert_eq!((alices.source.as_deref(), alices.line), (Some(".minds/team.yaml"), Some(3)));
    assert_eq!(bobs.agent.as_deref(), Some("bob"));
    assert_ne!(alices.id, bobs.id);
    // DOM-86: the member's other toolsets stay.
    assert!(access.permits("alice", "browser", "click"));
    assert_eq!(access.grants.problems(|_| true), []);
}

#[test]
fn default_agent_needs_no_grant_unless_configured() {
    for profile in ["native", "dominds", "dispatch", "holodeck", "minion", "docker"] {
        let more = ", expose: { tools: { requires: { push: [release] } } }";
        let access = TestAccess::new(with_members(profile, "{}", more));
        assert!(access.permits("default", "git", "push"), "{profile}");
        let open = matches!(profile, "dispatch" | "holodeck");
        for agent in ["alice", "stranger"] {
            assert_eq!(access.permits(agent, "git", "log"), open, "{profile} {agent}");
            assert!(!access.permits(agent, "git", "push"), "{profile} {agent}");
        }
    }
    let named = "version: 1
host: { grants: { members: { default: { toolsets: [a] } } } }
servers: { a: { command: x }, b: { command: x } }
";
    let access = TestAccess::new(native(named));
    assert!(access.permits("default", "a", "t"));
    assert_eq!(access.denial("default", "b", "t").gate, Gate::Grant);
}

#[test]
fn min_49_global_capability_grants_every_tool() {
    let access = TestAccess::new(with_members("minion", "{ capabilities: [mcp_integration] }", ""));
    assert!(access.permits("alice", "git", "log") && access.permits("alice", "git_hub", "push"));
}

#[test]
fn min_50_server_capability_grants_only_that_server() {
    let access = TestAccess::new(with_members("minion", "{ capabilities: [mcp_git] }", ""));
    assert!(access.permits("alice", "git", "log") && access.permits("alice", "git", "push"));
    assert!(!access.permits("alice", "git_hub", "log"));
}

#[test]
fn min_51_tool_capability_grants_only_that_tool() {
    let access = TestAccess::new(with_members("minion", "{ capabilities: [mcp_git_hub_log] }", ""));
    assert!(access.permits("alice", "git_hub", "log"));
    assert!(!access.permits("alice", "git_hub", "push"));
    // Names are compared as a whole: the capability is also the one for `hub_log` of `git`, and for no other tool of
    // `git`.
    assert!(access.permits("alice", "git", "hub_log"));
    assert!(!access.permits("alice", "git", "log"));
    let gates = GateReport::new(&access.query("alice", "git_hub", "log"));
    assert_eq!(gates.0[1].rule, "member `alice` has the capability `mcp_git_hub_log`");
}

#[test]
fn min_52_missing_and_additional_capabilities_deny_the_tool() {
    let more = ", expose: { tools: { requires: { push: [release, sign] } } }";
    let with = |capabilities: &str| {
        TestAccess::new(with_members(
            "minion",
            &format!("{{ capabilities: [{capabilities}] }}"),
            more,
        ))
    };
    let none = with("release, sign").denial("alice", "git", "push");
    assert_eq!(
        none.rule,
        "member `alice` lacks one of the capabilities `mcp_integration`, `mcp_git`, `mcp_git_push`"
    );
    assert_eq!(origin_text(&none), "toolcrib.yaml:2:39 host.grants.members.alice.capabilities");

    let half = with("mcp_git, release");
    assert!(half.permits("alice", "git", "log"));
    let denial = half.denial("alice", "git", "push");
    assert_eq!(denial.rule, "`push` also requires the capability `sign`, which `alice` lacks");
    assert!(
        origin_text(&denial).ends_with("servers.git.expose.tools.requires"),
        "{}",
        origin_text(&denial)
    );
    assert!(with("mcp_git, release, sign").permits("alice", "git", "push"));
}

#[test]
fn native_mode_accepts_a_toolset_or_a_capability() {
    for alice in ["{ toolsets: [git] }", "{ capabilities: [mcp_git_log] }"] {
        let access = TestAccess::new(with_members("native", alice, ""));
        assert!(access.permits("alice", "git", "log"), "{alice}");
        assert!(!access.permits("alice", "git_hub", "log"), "{alice}");
        assert!(!access.permits("bob", "git", "log"), "{alice}");
    }
}

#[test]
fn grant_modes_do_not_mix_toolsets_and_capabilities() {
    let both = "{ toolsets: [git_hub], capabilities: [mcp_git] }";
    let by_toolset = TestAccess::new(with_members("dominds", both, ""));
    let by_capability = TestAccess::new(with_members("minion", both, ""));
    let may =
        |access: &TestAccess| ["git", "git_hub"].map(|server| access.permits("alice", server, "t"));
    assert_eq!(may(&by_toolset), [false, true]);
    assert_eq!(may(&by_capability), [true, false]);
}

#[test]
fn dkr_17_attaching_grants_and_detaching_revokes_the_tools() {
    let mut access = TestAccess::new(with_members("docker", "{}", ""));
    let key = access.config.server("git").unwrap().key();
    assert!(!access.permits("alice", "git", "log"));
    assert!(access.attached.attach("alice", &key));
    assert!(!access.attached.attach("alice", &key), "attaching twice changes nothing");
    assert!(access.permits("alice", "git", "log"));
    assert!(!access.permits("alice", "git_hub", "log") && !access.permits("bob", "git", "log"));
    assert!(access.attached.detach("alice", &key));
    assert!(!access.attached.detach("alice", &key));
    assert!(!access.permits("alice", "git", "log"));
    // A server can also be attached to an agent that no file names.
    assert!(access.attached.attach("stranger", &key));
    assert!(access.permits("stranger", "git", "log"));
}

#[test]
fn attachment_does_not_count_in_other_grant_modes() {
    let mut access = TestAccess::new(with_members("minion", "{}", ""));
    let key = access.config.server("git").unwrap().key();
    access.attached.attach("alice", &key);
    assert!(!access.permits("alice", "git", "log"));
}

#[test]
fn dis_33_switch_affects_only_its_own_dialog() {
    let mut a = TestAccess::new(with_members("dispatch", "{}", ""));
    let b = TestAccess::new(with_members("dispatch", "{}", ""));
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
fn dis_32_unavailable_server_is_hidden_and_min_48_stays_listed_with_keep() {
    for (profile, kept) in
        [("dispatch", false), ("docker", false), ("dominds", false), ("minion", true)]
    {
        let mut access = TestAccess::new(with_members(profile, "{}", ""));
        access.presence = ServerAvailability::Unavailable("failed");
        let decision = decide(&access.query("default", "git", "log"));
        let verdict = match decision {
            Decision::Unavailable(verdict) if kept => verdict,
            Decision::Denied(verdict) if !kept => verdict,
            other => panic!("{profile}: {other:?}"),
        };
        assert_eq!(verdict.gate, Gate::Availability);
        assert!(verdict.rule.starts_with("`git` is failed"), "{}", verdict.rule);
        assert_eq!(verdict.origin, Some(ValueOrigin::Profile(profile.into())));
        // An unavailable server must not reveal a tool that the agent may not use.
        if kept {
            assert_eq!(access.denial("alice", "git", "log").gate, Gate::Grant);
        }
    }
}

#[test]
fn disabled_server_names_its_config_line_or_the_person() {
    let mut access =
        TestAccess::new(native("version: 1\nservers:\n  a: { command: x, enabled: false }\n"));
    access.presence = ServerAvailability::Disabled { by: None };
    let denial = access.denial("default", "a", "t");
    assert_eq!(denial.rule, "`a` is disabled");
    assert_eq!(origin_text(&denial), "toolcrib.yaml:3:29 servers.a.enabled");
    access.presence = ServerAvailability::Disabled { by: Some("alice") };
    let denial = access.denial("default", "a", "t");
    assert_eq!((denial.rule.as_str(), denial.origin), ("`a` was disabled by alice", None));
}

#[test]
fn native_toolset_reach_decides_which_agents_have_it() {
    let access = TestAccess::new(with_members("native", "{ toolsets: [mcp_admin] }", ""));
    let by = ["default", "alice", "bob", "stranger"];
    let may = |reach| {
        by.map(|agent| {
            let toolset = ToolsetRef::Native { name: "mcp_admin", reach };
            decide(&access.query_for_toolset(agent, toolset, "mcp_restart")) == Decision::Permitted
        })
    };
    assert_eq!(may(NativeReach::Members), [true, true, false, false]);
    assert_eq!(may(NativeReach::ByName), [false, true, false, false]);
    assert_eq!(may(NativeReach::Everyone), [true; 4]);
}

#[test]
fn gate_report_lists_all_gates_in_order() {
    let mut access = TestAccess::new(dominds(BROWSER, TEAM));
    access.presence = ServerAvailability::Available("ready");
    let GateReport(gates) = GateReport::new(&access.query("bob", "browser", "click"));
    let lines: Vec<_> =
        gates.iter().map(|g| (g.gate.as_str(), g.passed, g.rule.as_str())).collect();
    assert_eq!(
        lines,
        [
            ("exposure", true, "no pattern of `deny` matches"),
            ("grant", false, "member `bob` lacks the toolset `browser`"),
            ("switch", true, "`browser` is switched on in this dialog"),
            ("availability", true, "`browser` is ready"),
        ]
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Lists and calls use the same rules: no offered tool is refused, and no permitted tool is hidden.
    #[test]
    fn permissions_agree_with_the_gates(
        profile in prop::sample::select(vec!["native", "dominds", "dispatch", "minion", "docker"]),
        toolsets in prop::sample::subsequence(vec!["git", "git_hub", "ws_read"], 0..3),
        capabilities in prop::sample::subsequence(
            vec!["mcp_integration", "mcp_git", "mcp_git_hub", "mcp_git_log", "mcp_git_hub_log", "sign"], 0..4),
        attach in any::<bool>(),
        switched in any::<bool>(),
        presence in prop::sample::select(vec![
            ServerAvailability::Available("ready"), ServerAvailability::Unavailable("backoff"), ServerAvailability::Disabled { by: None }]),
    ) {
        let alice = format!("{{ toolsets: [{}], capabilities: [{}] }}", toolsets.join(","), capabilities.join(","));
        let more = ", expose: { tools: { requires: { push: [sign] } } }";
        let mut access = TestAccess::new(with_members(profile, &alice, more));
        let git = access.config.server("git").unwrap().clone();
        if attach {
            access.attached.attach("alice", &git.key());
        }
        access.switches.set(&git.key(), switched);
        access.presence = presence;
        for (agent, server) in [("alice", "git"), ("alice", "git_hub"), ("bob", "git"), ("default", "git")] {
            let spec = access.config.server(server).unwrap();
            let pass = ToolsetPermissions::new(&access.grants, agent, &access.attached, ToolsetRef::Server(spec));
            let standing = ToolVisibility::new(spec, &access.switches, presence);
            for tool in ["log", "push", "hub", "hub_log"] {
                let listed = if pass.permits(tool) { standing } else { ToolVisibility::Hidden };
                let decided = match decide(&access.query(agent, server, tool)) {
                    Decision::Permitted => ToolVisibility::Offered,
                    Decision::Unavailable(_) => ToolVisibility::Listed,
                    Decision::Denied(_) => ToolVisibility::Hidden,
                };
                prop_assert_eq!(listed, decided, "{} {} {}", agent, server, tool);
            }
        }
    }
}
