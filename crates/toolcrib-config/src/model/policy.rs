//! Every policy of a server as an explicit value; the defaults here are the native profile.

use super::auth::Auth;
use super::choice::{Manual, Protocol};
use super::naming::Naming;
use super::setting::{Named, group, words};
use super::units::{Period, Size};

group! {
    /// What is to be done with a server, but for how it is reached.
    Policy, PolicyKeys {
        /// Whether the server is started at all; a disabled one stays visible.
        enabled: bool = true,
        /// What the server is for, for people.
        description: String = String::new(),
        /// The package that the server comes from.
        package: String = String::new(),
        /// The toolset that the server's tools form; the server's id where nothing is said.
        toolset: Option<String> = None,
        /// Whether every conversation sees the server, or only those in its working directory.
        scope: Scope = Scope::Global,
        /// Which era or version of the protocol is spoken.
        protocol: Protocol = Protocol::Auto,
        /// How a changed server is replaced.
        replace: Replace = Replace::Beside,
        /// When a change of the file is taken up.
        reload: Reload = Reload::Watch,
        /// What is refused as too much.
        limits: Limits = Limits::default(),
        /// A text that tells agents how to use the server.
        manual: Option<Manual> = None,
        /// How the host shows itself to the server.
        auth: Auth = Auth::None,
        /// Agents that have credentials of their own.
        auth_per_agent: Named<Auth> = Named::default(),
        /// When references are resolved, and what a missing one ends.
        secrets: Secrets = Secrets::default(),
        /// What is told and asked when a session begins.
        init: Init = Init::default(),
        /// How long is waited for what.
        timeouts: Timeouts = Timeouts::default(),
        /// Who shares a session.
        session: Session = Session::default(),
        /// When the server is connected and what happens when it fails.
        lifecycle: Lifecycle = Lifecycle::default(),
        /// What the server is asked to list.
        discovery: Discovery = Discovery::default(),
        /// Which of its tools, prompts and resources are offered.
        expose: Expose = Expose::default(),
        /// What its tools are called.
        naming: Naming = Naming::default(),
        /// How a call is made.
        calls: Calls = Calls::default(),
        /// How a result is handed on.
        results: Results = Results::default(),
        /// What becomes of the tools while the server is away.
        availability: Availability = Availability::default(),
        /// What the server may ask of the host.
        client: Client = Client::default(),
        /// Who may use the server.
        access: Access = Access::default(),
    }
}

words! {
    /// Who sees a server.
    Scope { Global = "global", Cwd = "cwd", }
}

words! {
    /// How a changed server is replaced.
    Replace {
        /// The old one serves until the new one is good.
        Beside = "beside",
        /// The old one is stopped first, for servers that hold a port or a lock.
        StopFirst = "stop_first",
    }
}

words! {
    /// When a changed file is taken up.
    Reload { Watch = "watch", PerTurn = "per_turn", Manual = "manual", }
}

group! {
    /// Limits on what a server may send.
    Limits, LimitsKeys {
        /// The largest message.
        message: Size = Size::mib(64),
        /// The most tools.
        tools: u32 = 10_000,
        /// The most pages of one list.
        pages: u32 = 100,
        /// The deepest nesting of a message.
        depth: u32 = 128,
        /// How much of its error output is kept.
        stderr: Size = Size::kib(64),
        /// The most tools whose definitions are remembered (`host.pins`). Further tools are withheld under `enforce`.
        pins: u32 = 20_000,
    }
}

words! {
    /// When references are resolved.
    Resolve { Start = "start", Load = "load", }
}

words! {
    /// What a missing reference ends.
    OnMissing { FailServer = "fail_server", FailLoad = "fail_load", }
}

group! {
    /// References to variables and secrets.
    Secrets, SecretsKeys {
        resolve: Resolve = Resolve::Start,
        on_missing: OnMissing = OnMissing::FailServer,
    }
}

words! {
    /// How `init.config` reaches the server.
    ConfigDelivery {
        /// As JSON in the variable `MCP_CONFIG`.
        Env = "env",
        /// As the experimental capability `config` of `initialize`.
        Initialize = "initialize",
        Both = "both",
        Off = "off",
    }
}

group! {
    /// The opening of a session.
    Init, InitKeys {
        /// Free settings that are passed to the server.
        config: super::free::Free = super::free::Free::default(),
        config_delivery: ConfigDelivery = ConfigDelivery::Env,
        /// Experimental capabilities that are declared to the server.
        client_capabilities: Vec<String> = Vec::new(),
        /// Capabilities that the server is expected to have.
        require_server: Vec<String> = Vec::new(),
    }
}

group! {
    /// Waiting times; zero means without limit.
    Timeouts, TimeoutsKeys {
        /// Opening the connection.
        connect: Period = Period::secs(30),
        /// From the start to the complete list of tools.
        startup: Period = Period::secs(30),
        /// One request; progress begins it anew.
        request: Period = Period::secs(60),
        /// One request in all, progress or not.
        request_max: Period = Period::secs(600),
        /// Silence on a stream of events.
        sse_read: Period = Period::secs(300),
    }
}

words! {
    /// Who shares a session.
    SessionScope { Shared = "shared", PerConversation = "per_conversation", PerCall = "per_call", }
}

words! {
    /// What becomes of the session in which the tools were listed.
    DiscoverySession {
        /// It stays open for as long as the server is wanted.
        Keep = "keep",
        /// It becomes the first lease or is closed.
        Ephemeral = "ephemeral",
    }
}

group! {
    /// Sessions and leases.
    Session, SessionKeys {
        scope: SessionScope = SessionScope::PerConversation,
        discovery: DiscoverySession = DiscoverySession::Ephemeral,
        /// The most calls at a time on one session; 0 means any number.
        max_in_flight: u32 = 0,
        /// The most sessions at a time; 0 means any number.
        max_instances: u32 = 256,
        /// The most sessions of one principal (a token, a user, everybody without one) at a time; 0 means any number.
        max_per_principal: u32 = 64,
        /// How many calls may wait for a session.
        queue: u32 = 64,
        /// An unused lease ends after this time; zero means never.
        idle: Period = Period::secs(600),
        /// Whether a dialog is reminded to release its lease.
        reminder: bool = true,
    }
}

words! {
    /// When a server is connected.
    Connect {
        /// At the start; the first list waits for it.
        Eager = "eager",
        /// At the start; nothing waits for it.
        Background = "background",
        OnFirstList = "on_first_list",
        OnFirstCall = "on_first_call",
    }
}

group! {
    /// How often something is tried again, and after which waits.
    Retry, RetryKeys {
        /// Tries after the first; 0 means none.
        max: u32 = 5,
        initial: Period = Period::secs(1),
        max_delay: Period = Period::secs(30),
        factor: f64 = 2.0,
        /// The share of a wait that is left to chance.
        jitter: f64 = 0.25,
    }
}

group! {
    /// What happens when a connection is lost.
    Reconnect, ReconnectKeys {
        auto: bool = true,
        /// Whether a call or a list starts a lost server again that does not come back by itself.
        on_demand: bool = true,
        max: u32 = 5,
        initial: Period = Period::secs(1),
        max_delay: Period = Period::secs(30),
        factor: f64 = 2.0,
        jitter: f64 = 0.25,
    }
}

group! {
    /// How a connection is kept under watch.
    Liveness, LivenessKeys {
        /// How often a sign of life is asked for; zero means never.
        ping_every: Period = Period::ZERO,
        /// After this time without any message the session is restarted; zero means never.
        stale_after: Period = Period::ZERO,
    }
}

group! {
    /// The life of a connection.
    Lifecycle, LifecycleKeys {
        connect: Connect = Connect::Background,
        retry: Retry = Retry::default(),
        reconnect: Reconnect = Reconnect::default(),
        liveness: Liveness = Liveness::default(),
        /// After a failed connect nothing is tried for this time.
        hold_off: Period = Period::ZERO,
        /// A server that does not drain is killed after this time; `host.reload.drain_kill` where nothing is said.
        drain_kill: Option<Period> = None,
    }
}

words! {
    /// What a changed list does.
    OnListChanged { Refresh = "refresh", MarkStale = "mark_stale", Ignore = "ignore", }
}

words! {
    /// What becomes of a tool whose schema is no JSON Schema. It is a problem in any case.
    InvalidSchemas {
        Offer = "offer",
        /// The tool is left out.
        Withhold = "withhold",
        /// The server does not start, or keeps the list that it had.
        FailServer = "fail_server",
    }
}

group! {
    /// What the server is asked to list.
    Discovery, DiscoveryKeys {
        tools: bool = true,
        prompts: bool = true,
        resources: bool = true,
        /// After this time a list is asked for anew; zero means never.
        ttl: Period = Period::ZERO,
        on_list_changed: OnListChanged = OnListChanged::Refresh,
        /// Whether a server without tools is an error.
        require_tools: bool = false,
        /// What becomes of a tool whose schema is no JSON Schema.
        invalid_schemas: InvalidSchemas = InvalidSchemas::Offer,
    }
}

words! {
    /// How two lists of patterns decide.
    FilterMode {
        /// `allow` alone offers nothing else; beside `deny` it only excepts from it.
        Dominds = "dominds",
        /// What `deny` names is never offered.
        DenyWins = "deny_wins",
    }
}

group! {
    /// Which tools are offered; patterns are of the server's own names, `*` stands for any text.
    ToolFilter, ToolFilterKeys {
        /// Nothing else is offered; an empty list offers nothing. Left out, there is no such limit.
        allow: Option<Vec<String>> = None,
        deny: Vec<String> = Vec::new(),
        mode: FilterMode = FilterMode::Dominds,
        /// Capabilities that a tool needs besides: tool name to list.
        requires: std::collections::BTreeMap<String, Vec<String>> = Default::default(),
    }
}

words! {
    /// What prompts become.
    PromptsAs { Snippet = "snippet", Skill = "skill", Off = "off", }
}

words! {
    /// What resources become.
    ResourcesAs { Tools = "tools", Context = "context", Off = "off", }
}

group! {
    /// Prompts.
    PromptFilter, PromptFilterKeys {
        /// What an agent runtime makes of them. Clients of the gateway and the API have them as prompts, unless `off`.
        r#as: PromptsAs = PromptsAs::Snippet,
        /// Nothing else is offered; an empty list offers nothing. Left out, there is no such limit.
        allow: Option<Vec<String>> = None,
        deny: Vec<String> = Vec::new(),
        /// Where given, instead of `naming.transforms`.
        transforms: Option<super::naming::Transforms> = None,
    }
}

group! {
    /// Resources.
    ResourceFilter, ResourceFilterKeys {
        /// `tools`: agents have them by the tools `list_resources` and `read_resource`, too. `context`: an agent runtime
        /// puts them into the context. Clients of the gateway and the API have them as resources, unless `off`.
        r#as: ResourcesAs = ResourcesAs::Context,
        /// Nothing else is offered; an empty list offers nothing. Left out, there is no such limit.
        allow: Option<Vec<String>> = None,
        deny: Vec<String> = Vec::new(),
        /// Media types that may be read; none means all.
        mime: Vec<String> = Vec::new(),
        max_bytes: Size = Size(64_000),
        /// Where given, instead of `naming.transforms`.
        transforms: Option<super::naming::Transforms> = None,
    }
}

group! {
    /// What is offered.
    Expose, ExposeKeys {
        tools: ToolFilter = ToolFilter::default(),
        prompts: PromptFilter = PromptFilter::default(),
        resources: ResourceFilter = ResourceFilter::default(),
    }
}

words! {
    /// When a lost call is made again.
    CallRetry {
        Never = "never",
        /// Where the tool says that twice is as good as once.
        IfIdempotent = "if_idempotent",
        OnConnectionLoss = "on_connection_loss",
    }
}

group! {
    /// A memory of results: same tool, same arguments.
    ResultCache, ResultCacheKeys {
        /// Zero means none.
        ttl: Period = Period::ZERO,
    }
}

group! {
    /// How a call is made.
    Calls, CallsKeys {
        retry: CallRetry = CallRetry::IfIdempotent,
        /// Whether arguments are checked against the tool's schema before they are sent.
        validate_input: bool = false,
        /// Whether a result that breaks the tool's output schema is an error.
        validate_output: bool = false,
        cache: ResultCache = ResultCache::default(),
    }
}

words! {
    /// The form of a result.
    ResultFormat {
        /// Raw to MCP clients, text elsewhere.
        Auto = "auto",
        Text = "text",
        Flatten = "flatten",
        Blocks = "blocks",
        FirstJson = "first_json",
        Yaml = "yaml",
        Json = "json",
        Raw = "raw",
    }
}

words! {
    /// How a failure reaches the caller.
    ErrorStyle { Result = "result", Output = "output", Throw = "throw", }
}

words! {
    /// Where the text of a failure comes from.
    ErrorMessage { FirstText = "first_text", Structured = "structured", }
}

group! {
    /// How a result is handed on.
    Results, ResultsKeys {
        format: ResultFormat = ResultFormat::Auto,
        error_style: ErrorStyle = ErrorStyle::Result,
        error_message: ErrorMessage = ErrorMessage::FirstText,
        /// A longer text is cut; 0 means never.
        max_bytes: Size = Size(0),
        /// Whether secrets that the server was given are masked in results, too. Errors are always masked.
        mask_secrets: bool = false,
    }
}

words! {
    /// What becomes of the tools of a server that is away.
    OnUnavailable { Unregister = "unregister", Hide = "hide", Keep = "keep", }
}

words! {
    /// What an error in the configuration ends.
    OnConfigError { KeepLastGood = "keep_last_good", FailLoad = "fail_load", SkipServer = "skip_server", }
}

group! {
    /// What becomes of the tools while the server is away.
    Availability, AvailabilityKeys {
        on_unavailable: OnUnavailable = OnUnavailable::Hide,
        /// The tools stay for this time.
        grace: Period = Period::secs(30),
        on_config_error: OnConfigError = OnConfigError::KeepLastGood,
    }
}

words! {
    /// Which folders a server is told of.
    Roots { Off = "off", Cwd = "cwd", }
}

words! {
    /// Whether a server may ask the host for something.
    Offer {
        Off = "off",
        /// Where whoever makes the call can answer.
        Caller = "caller",
        /// A person is asked first.
        Ask = "ask",
        On = "on",
    }
}

words! {
    /// The least grave log message that a server is asked for.
    LogLevel {
        Debug = "debug",
        Info = "info",
        Notice = "notice",
        Warning = "warning",
        Error = "error",
        Critical = "critical",
        Alert = "alert",
        Emergency = "emergency",
        Off = "off",
    }
}

group! {
    /// What the server may ask of the host.
    Client, ClientKeys {
        roots: Roots = Roots::Cwd,
        sampling: Offer = Offer::Caller,
        elicitation: Offer = Offer::Caller,
        logging: LogLevel = LogLevel::Info,
    }
}

words! {
    /// What an agent needs to use a server.
    Grant {
        /// A toolset or a capability of the member; the agent `default` needs none.
        Members = "members",
        /// The toolset in the member's list.
        Toolsets = "toolsets",
        /// `mcp_integration`, `mcp_<server>` or `mcp_<server>_<tool>`.
        Capabilities = "capabilities",
        /// The server attached to the agent.
        Attach = "attach",
        Open = "open",
    }
}

group! {
    /// Who may use the server.
    Access, AccessKeys {
        grant: Grant = Grant::Members,
    }
}
