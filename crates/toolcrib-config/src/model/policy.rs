//! The policies of a server, each an explicit value. The defaults are the native profile.

use super::auth::Auth;
use super::choice::{Manual, Protocol};
use super::naming::Naming;
use super::setting::{SettingMap, group, words};
use super::units::{Period, Size};

group! {
    /// All settings of a server except its transport.
    Policy, PolicyKeys {
        /// True if the server is started. A disabled server stays visible.
        enabled: bool = true,
        /// The purpose of the server, for people.
        description: String = String::new(),
        /// The package of the server.
        package: String = String::new(),
        /// The toolset of the server's tools. Default: the server's id.
        toolset: Option<String> = None,
        /// The conversations that see the server: all, or only those in its working directory.
        scope: ServerScope = ServerScope::Global,
        /// The protocol era or version to use.
        protocol: Protocol = Protocol::Auto,
        /// The replacement of a changed server.
        replace: Replace = Replace::Beside,
        /// The trigger for applying a changed file.
        reload: ReloadTrigger = ReloadTrigger::Watch,
        /// Limits on what the server may send.
        limits: LimitPolicy = LimitPolicy::default(),
        /// Instructions for agents on how to use the server.
        manual: Option<Manual> = None,
        /// Credentials for the server.
        auth: Auth = Auth::None,
        /// Credentials of single agents.
        auth_per_agent: SettingMap<Auth> = SettingMap::default(),
        /// The time at which references are resolved, and the effect of a missing one.
        secrets: Secrets = Secrets::default(),
        /// The initialization of a session.
        init: Init = Init::default(),
        /// Timeouts.
        timeouts: Timeouts = Timeouts::default(),
        /// Sessions and leases.
        session: SessionPolicy = SessionPolicy::default(),
        /// The time of the connection and the handling of failures.
        lifecycle: Lifecycle = Lifecycle::default(),
        /// The lists that the server is asked for.
        discovery: Discovery = Discovery::default(),
        /// The tools, prompts and resources to offer.
        expose: Expose = Expose::default(),
        /// The names of its tools.
        naming: Naming = Naming::default(),
        /// The handling of calls.
        calls: CallPolicy = CallPolicy::default(),
        /// The delivery of results.
        results: Results = Results::default(),
        /// The handling of its tools while the server is unavailable.
        availability: Availability = Availability::default(),
        /// The requests that the server may send to the host.
        client: ClientPolicy = ClientPolicy::default(),
        /// The access to the server.
        access: Access = Access::default(),
    }
}

words! {
    /// The conversations that see a server.
    ServerScope { Global = "global", Cwd = "cwd", }
}

words! {
    /// The replacement of a changed server.
    Replace {
        /// The old server continues until the new one is ready.
        Beside = "beside",
        /// The old server stops first, for servers that hold a port or a lock.
        StopFirst = "stop_first",
    }
}

words! {
    /// The trigger for applying a changed file.
    ReloadTrigger { Watch = "watch", PerTurn = "per_turn", Manual = "manual", }
}

group! {
    /// Limits on what a server may send.
    LimitPolicy, LimitsKeys {
        /// Maximum message size.
        message: Size = Size::mib(64),
        /// Maximum number of tools.
        tools: u32 = 10_000,
        /// Maximum number of pages of one list.
        pages: u32 = 100,
        /// Maximum nesting depth of a message.
        depth: u32 = 128,
        /// Maximum size of the kept standard error.
        stderr: Size = Size::kib(64),
        /// Maximum number of tools whose definitions are pinned (`host.pins`). Further tools are withheld under
        /// `enforce`.
        pins: u32 = 20_000,
    }
}

words! {
    /// The time at which references are resolved.
    Resolve { Start = "start", Load = "load", }
}

words! {
    /// The effect of a missing reference.
    OnMissing { FailServer = "fail_server", FailLoad = "fail_load", }
}

group! {
    /// References to variables and secrets.
    Secrets, SecretsKeys {
        /// `start`: at the start of the server; `load`: when the configuration is loaded.
        resolve: Resolve = Resolve::Start,
        /// `fail_server`: only the server fails; `fail_load`: the configuration is rejected.
        on_missing: OnMissing = OnMissing::FailServer,
    }
}

words! {
    /// The delivery of `init.config` to the server.
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
    /// The initialization of a session.
    Init, InitKeys {
        /// Free-form settings that are passed to the server.
        config: super::freeform::FreeformSettings = super::freeform::FreeformSettings::default(),
        /// The delivery of `config`: `env` as JSON in the variable `MCP_CONFIG`, `initialize` as the experimental
        /// capability `config`.
        config_delivery: ConfigDelivery = ConfigDelivery::Env,
        /// Experimental capabilities to declare to the server.
        client_capabilities: Vec<String> = Vec::new(),
        /// Capabilities that the server must have.
        require_server: Vec<String> = Vec::new(),
    }
}

group! {
    /// Timeouts; zero means unlimited.
    Timeouts, TimeoutsKeys {
        /// For opening the connection.
        connect: Period = Period::secs(30),
        /// From the start to the complete list of tools.
        startup: Period = Period::secs(30),
        /// For one request; progress restarts it.
        request: Period = Period::secs(60),
        /// For one request in total, regardless of progress.
        request_max: Period = Period::secs(600),
        /// For silence on an event stream.
        sse_read: Period = Period::secs(300),
    }
}

words! {
    /// The callers that share a session.
    SessionScope { Shared = "shared", PerConversation = "per_conversation", PerCall = "per_call", }
}

words! {
    /// The handling of the session that listed the tools.
    DiscoverySession {
        /// The session stays open while the server is in use.
        Keep = "keep",
        /// The session becomes the first lease or is closed.
        Ephemeral = "ephemeral",
    }
}

group! {
    /// Sessions and leases.
    SessionPolicy, SessionKeys {
        /// The callers that share a session.
        scope: SessionScope = SessionScope::PerConversation,
        /// The session that listed the tools: `keep` leaves it open, `ephemeral` makes it the first lease or closes it.
        discovery: DiscoverySession = DiscoverySession::Ephemeral,
        /// Maximum number of concurrent calls on one session; 0 means unlimited.
        max_in_flight: u32 = 0,
        /// Maximum number of sessions; 0 means unlimited.
        max_instances: u32 = 256,
        /// Maximum number of sessions of one principal (a token, a user, or all callers without one); 0 means
        /// unlimited.
        max_per_principal: u32 = 64,
        /// Maximum number of calls that wait for a session.
        queue: u32 = 64,
        /// Idle timeout of a lease; zero disables it.
        idle: Period = Period::secs(600),
        /// True if a dialog is reminded to release its lease.
        reminder: bool = true,
    }
}

words! {
    /// The time at which a server is connected.
    Connect {
        /// At the start; the first list waits for the server.
        Eager = "eager",
        /// At the start, without waiting.
        Background = "background",
        OnFirstList = "on_first_list",
        OnFirstCall = "on_first_call",
    }
}

group! {
    /// Retries and their delays.
    RetryPolicy, RetryKeys {
        /// Maximum number of retries; 0 disables retries.
        max: u32 = 5,
        /// The first delay.
        initial: Period = Period::secs(1),
        /// The longest delay.
        max_delay: Period = Period::secs(30),
        /// The growth of the delay from one attempt to the next.
        factor: f64 = 2.0,
        /// The random share of a delay.
        jitter: f64 = 0.25,
    }
}

group! {
    /// The handling of a lost connection.
    ReconnectPolicy, ReconnectKeys {
        /// True if a lost connection is opened again by itself.
        auto: bool = true,
        /// True if a call or a list restarts a server that does not reconnect by itself.
        on_demand: bool = true,
        /// Maximum number of attempts.
        max: u32 = 5,
        /// The first delay.
        initial: Period = Period::secs(1),
        /// The longest delay.
        max_delay: Period = Period::secs(30),
        /// The growth of the delay from one attempt to the next.
        factor: f64 = 2.0,
        /// The random share of a delay.
        jitter: f64 = 0.25,
    }
}

group! {
    /// Liveness checks of a connection.
    Liveness, LivenessKeys {
        /// Interval of pings; zero disables them.
        ping_every: Period = Period::ZERO,
        /// A session without any message for this time is restarted; zero disables it.
        stale_after: Period = Period::ZERO,
    }
}

group! {
    /// The life cycle of a connection.
    Lifecycle, LifecycleKeys {
        /// The time at which the server is connected. With `eager` the first list waits for it, with `background` it
        /// does not.
        connect: Connect = Connect::Background,
        /// Retries of a failed start.
        retry: RetryPolicy = RetryPolicy::default(),
        /// The handling of a lost connection.
        reconnect: ReconnectPolicy = ReconnectPolicy::default(),
        /// Liveness checks of a connection.
        liveness: Liveness = Liveness::default(),
        /// Time without further attempts after a failed connect.
        hold_off: Period = Period::ZERO,
        /// A server that does not drain is killed after this time. Default: `host.reload.drain_kill`.
        drain_kill: Option<Period> = None,
    }
}

words! {
    /// The effect of a list-changed notification.
    OnListChanged { Refresh = "refresh", MarkStale = "mark_stale", Ignore = "ignore", }
}

words! {
    /// The handling of tools whose schema is not a valid JSON Schema. It is a problem in any case.
    InvalidSchemas {
        Offer = "offer",
        /// The tool is not offered.
        Withhold = "withhold",
        /// The server does not start, or keeps its previous list.
        FailServer = "fail_server",
    }
}

group! {
    /// The lists that the server is asked for.
    Discovery, DiscoveryKeys {
        /// True if the server is asked for its tools.
        tools: bool = true,
        /// True if the server is asked for its prompts.
        prompts: bool = true,
        /// True if the server is asked for its resources.
        resources: bool = true,
        /// A list is requested again after this time; zero disables it.
        ttl: Period = Period::ZERO,
        /// The effect of a list-changed notification.
        on_list_changed: OnListChanged = OnListChanged::Refresh,
        /// True if a server without tools is an error.
        require_tools: bool = false,
        /// The handling of tools whose schema is not a valid JSON Schema.
        invalid_schemas: InvalidSchemas = InvalidSchemas::Offer,
    }
}

words! {
    /// The combination of the two lists of patterns.
    FilterMode {
        /// `allow` alone excludes everything else; with `deny` it only makes exceptions.
        Dominds = "dominds",
        /// Tools in `deny` are never offered.
        DenyWins = "deny_wins",
    }
}

group! {
    /// The tools to offer. Patterns apply to the server's own names; `*` matches any text.
    ToolFilter, ToolFilterKeys {
        /// Only these are offered; an empty list offers nothing. If unset, everything is offered.
        allow: Option<Vec<String>> = None,
        /// These are not offered.
        deny: Vec<String> = Vec::new(),
        /// The combination of both lists: with `dominds`, `allow` makes exceptions from `deny`; with `deny_wins` it
        /// does not.
        mode: FilterMode = FilterMode::Dominds,
        /// Additional capabilities that a tool requires, by tool name.
        requires: std::collections::BTreeMap<String, Vec<String>> = Default::default(),
    }
}

words! {
    /// The form of prompts for agent runtimes.
    PromptsAs { Snippet = "snippet", Skill = "skill", Off = "off", }
}

words! {
    /// The form of resources for agent runtimes.
    ResourcesAs { Tools = "tools", Context = "context", Off = "off", }
}

group! {
    /// The prompts to offer.
    PromptFilter, PromptFilterKeys {
        /// The form for agent runtimes. Clients of the gateway and the API get prompts as prompts, unless `off`.
        r#as: PromptsAs = PromptsAs::Snippet,
        /// Only these are offered; an empty list offers nothing. If unset, everything is offered.
        allow: Option<Vec<String>> = None,
        /// These are not offered.
        deny: Vec<String> = Vec::new(),
        /// Replaces `naming.transforms`.
        transforms: Option<super::naming::Transforms> = None,
    }
}

group! {
    /// The resources to offer.
    ResourceFilter, ResourceFilterKeys {
        /// `tools`: agents also get the tools `list_resources` and `read_resource`. `context`: an agent runtime adds
        /// them to the context. Clients of the gateway and the API get resources as resources, unless `off`.
        r#as: ResourcesAs = ResourcesAs::Context,
        /// Only these are offered; an empty list offers nothing. If unset, everything is offered.
        allow: Option<Vec<String>> = None,
        /// These are not offered.
        deny: Vec<String> = Vec::new(),
        /// Media types that may be read; an empty list means all.
        mime: Vec<String> = Vec::new(),
        /// Maximum size of a resource that is read; 0 means unlimited.
        max_bytes: Size = Size(64_000),
        /// Replaces `naming.transforms`.
        transforms: Option<super::naming::Transforms> = None,
    }
}

group! {
    /// The tools, prompts and resources to offer.
    Expose, ExposeKeys {
        /// The tools to offer.
        tools: ToolFilter = ToolFilter::default(),
        /// The prompts to offer.
        prompts: PromptFilter = PromptFilter::default(),
        /// The resources to offer.
        resources: ResourceFilter = ResourceFilter::default(),
    }
}

words! {
    /// The condition for repeating a call after a lost connection.
    CallRetry {
        Never = "never",
        /// If the tool is annotated as idempotent.
        IfIdempotent = "if_idempotent",
        OnConnectionLoss = "on_connection_loss",
    }
}

group! {
    /// Cache of results, by tool and arguments.
    ResultCache, ResultCacheKeys {
        /// Lifetime of a cached result; zero disables the cache.
        ttl: Period = Period::ZERO,
    }
}

group! {
    /// The handling of calls.
    CallPolicy, CallsKeys {
        /// The condition for repeating a call after a lost connection.
        retry: CallRetry = CallRetry::IfIdempotent,
        /// True if arguments are validated against the tool's schema before the call.
        validate_input: bool = false,
        /// True if a result that violates the tool's output schema is an error.
        validate_output: bool = false,
        /// Cache of results, by tool and arguments.
        cache: ResultCache = ResultCache::default(),
    }
}

words! {
    /// The format of a result.
    ResultFormat {
        /// Raw for MCP clients, text elsewhere.
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
    /// The delivery of a failure to the caller.
    ErrorStyle { Result = "result", Output = "output", Throw = "throw", }
}

words! {
    /// The source of a failure's text.
    ErrorMessage { FirstText = "first_text", Structured = "structured", }
}

group! {
    /// The delivery of results.
    Results, ResultsKeys {
        /// The format of a result; `auto` is `raw` for MCP clients and `text` elsewhere.
        format: ResultFormat = ResultFormat::Auto,
        /// The delivery of a failure to the caller.
        error_style: ErrorStyle = ErrorStyle::Result,
        /// The source of a failure's text.
        error_message: ErrorMessage = ErrorMessage::FirstText,
        /// Longer texts are cut; 0 means unlimited.
        max_bytes: Size = Size(0),
        /// True if the server's secrets are masked in results as well. Errors are always masked.
        mask_secrets: bool = false,
    }
}

words! {
    /// The handling of tools of an unavailable server.
    OnUnavailable { Unregister = "unregister", Hide = "hide", Keep = "keep", }
}

words! {
    /// The effect of a configuration error.
    OnConfigError { KeepLastGood = "keep_last_good", FailLoad = "fail_load", SkipServer = "skip_server", }
}

group! {
    /// The handling of tools while the server is unavailable.
    Availability, AvailabilityKeys {
        /// The handling of the tools.
        on_unavailable: OnUnavailable = OnUnavailable::Hide,
        /// The tools stay for this time.
        grace: Period = Period::secs(30),
        /// The effect of a configuration error.
        on_config_error: OnConfigError = OnConfigError::KeepLastGood,
    }
}

words! {
    /// The folders that a server sees as roots.
    Roots { Off = "off", Cwd = "cwd", }
}

words! {
    /// The permission of a server to send a kind of request to the host.
    FeatureAccess {
        Off = "off",
        /// If the caller can answer.
        Caller = "caller",
        /// After asking the user.
        Ask = "ask",
        On = "on",
    }
}

words! {
    /// The lowest level of log messages that a server is asked to send.
    ServerLogLevel {
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
    /// The requests that the server may send to the host.
    ClientPolicy, ClientKeys {
        /// The folders that the server sees as roots.
        roots: Roots = Roots::Cwd,
        /// The permission to request completions: `caller` if the caller can answer, `ask` after asking the user.
        sampling: FeatureAccess = FeatureAccess::Caller,
        /// The permission to ask the user for input: `caller` if the caller can answer, `ask` after asking the user.
        elicitation: FeatureAccess = FeatureAccess::Caller,
        /// The lowest level of log messages that the server is asked to send.
        logging: ServerLogLevel = ServerLogLevel::Info,
    }
}

words! {
    /// The grant that an agent needs to use a server.
    Grant {
        /// A toolset or a capability of the member; the agent `default` needs none.
        Members = "members",
        /// The toolset in the member's list.
        Toolsets = "toolsets",
        /// `mcp_integration`, `mcp_<server>` or `mcp_<server>_<tool>`.
        Capabilities = "capabilities",
        /// An attachment of the server to the agent.
        Attach = "attach",
        Open = "open",
    }
}

group! {
    /// The access to the server.
    Access, AccessKeys {
        /// The grant that an agent needs to use the server.
        grant: Grant = Grant::Members,
    }
}
