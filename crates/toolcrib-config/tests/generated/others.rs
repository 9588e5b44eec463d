//! Strategies for Dominds, Dispatch, opencode, HoloDeck, Minion and the Docker platform.

use proptest::prelude::*;
use serde_json::json;
use toolcrib_config::Dialect;

use super::{
    GeneratedFiles, JsonStrategy, SecretTexts, by_id, count, flag, free, json_text, list, map,
    millis, name, object, one_of, single_file, text, texts,
};

pub(super) fn files(secrets: SecretTexts) -> Vec<BoxedStrategy<GeneratedFiles>> {
    let minds = (dominds(secrets), team()).prop_map(|(minds, team)| GeneratedFiles {
        dialect: Dialect::Dominds,
        files: vec![(".minds/mcp.yaml", json_text(&minds)), (".minds/team.yaml", json_text(&team))],
    });
    vec![
        minds.boxed(),
        single_file(Dialect::Dispatch, ".dispatch/mcp.json", dispatch(secrets)),
        single_file(Dialect::Opencode, "opencode.json", opencode(secrets)),
        single_file(Dialect::Holodeck, "agent.yaml", holodeck(secrets)),
        single_file(Dialect::Minion, "minion.yaml", minion(secrets)),
        single_file(Dialect::Docker, "docker.yaml", docker(secrets)),
    ]
}

pub(super) fn dominds(secrets: SecretTexts) -> JsonStrategy {
    let source = || {
        let host = object(vec![("env", one_of(&["X", "NOPE"]))], vec![("prefix", secrets.text())]);
        secrets.map_of(prop_oneof![3 => secrets.text(), 1 => host].boxed())
    };
    let lists = || vec![("whitelist", texts()), ("blacklist", texts())];
    let transform = || {
        list(
            prop_oneof![
                text().prop_map(|text| json!({ "prefix": text })),
                (text(), text()).prop_map(|(a, b)| json!({ "prefix": { "remove": a, "add": b } })),
            ]
            .boxed(),
        )
    };
    let common = || {
        vec![
            ("enabled", flag()),
            ("truely-stateless", flag()),
            ("tools", object(vec![], lists())),
            ("transform", transform()),
            (
                "prompts",
                object(
                    vec![],
                    [
                        lists(),
                        vec![
                            ("transform", transform()),
                            ("skills", object(vec![], vec![("enabled", flag())])),
                        ],
                    ]
                    .concat(),
                ),
            ),
            (
                "resources",
                object(
                    vec![],
                    [lists(), vec![("mimeTypes", texts()), ("maxBytes", count())]].concat(),
                ),
            ),
            (
                "manual",
                prop_oneof![
                    text(),
                    text().prop_map(|text| json!({ "text": text })),
                    one_of(&["docs/manual.md"]).prop_map(|file| json!({ "file": file }))
                ]
                .boxed(),
            ),
            ("unknown", secrets.unknown()),
        ]
    };
    let stdio = object(
        vec![("transport", one_of(&["stdio"])), ("command", command())],
        [common(), vec![("args", texts()), ("cwd", one_of(&["docs", "."])), ("env", source())]]
            .concat(),
    );
    let http = object(
        vec![("transport", one_of(&["streamable_http"])), ("url", url())],
        [common(), vec![("headers", source()), ("sessionId", secrets.text())]].concat(),
    );
    versioned(by_id(prop_oneof![stdio, http].boxed()))
}

fn versioned(servers: JsonStrategy) -> JsonStrategy {
    object(vec![("version", Just(json!(1)).boxed()), ("servers", servers)], vec![])
}

pub(super) fn team() -> JsonStrategy {
    object(
        vec![("members", map(name(), object(vec![], vec![("toolsets", texts())]), 0..3))],
        vec![],
    )
}

fn entry(secrets: SecretTexts) -> JsonStrategy {
    let common = || vec![("disabled", flag()), ("token", secrets.unknown())];
    let stdio = object(
        vec![("command", command())],
        [
            common(),
            vec![("transport", one_of(&["stdio"])), ("args", texts()), ("env", secrets.texts())],
        ]
        .concat(),
    );
    let http = object(
        vec![("url", url())],
        [common(), vec![("transport", one_of(&["http"])), ("headers", secrets.texts())]].concat(),
    );
    prop_oneof![stdio, http].boxed()
}

pub(super) fn dispatch(secrets: SecretTexts) -> JsonStrategy {
    object(vec![("servers", by_id(entry(secrets)))], vec![("$schema", text())])
}

fn opencode(secrets: SecretTexts) -> JsonStrategy {
    let local = object(
        vec![("type", one_of(&["local"])), ("command", list(command()))],
        vec![
            ("environment", secrets.texts()),
            ("env", secrets.texts()),
            ("enabled", flag()),
            ("disabled", flag()),
        ],
    );
    let remote = object(
        vec![("type", one_of(&["remote"])), ("url", url())],
        vec![("headers", secrets.texts()), ("enabled", flag()), ("oauth", secrets.unknown())],
    );
    object(
        vec![("mcp", by_id(prop_oneof![local, remote, entry(secrets)].boxed()))],
        vec![("theme", free())],
    )
}

fn holodeck(secrets: SecretTexts) -> JsonStrategy {
    let config = match secrets {
        SecretTexts::Odd => map(name(), free(), 0..3),
        SecretTexts::Canaries => map(name(), one_of(&["cn4ry", "${X:-cn4ry}"]), 0..3),
    };
    let head = |more: Vec<(&'static str, JsonStrategy)>| {
        [
            vec![
                ("name", name().prop_map(Into::into).boxed()),
                ("description", text()),
                ("type", one_of(&["mcp"])),
                ("server", one_of(&["@a/b", "c"])),
            ],
            more,
        ]
        .concat()
    };
    let common = || {
        vec![
            ("config", config.clone()),
            ("load_tools", flag()),
            ("load_prompts", flag()),
            ("request_timeout", one_of(&["x"]).prop_map(|_| json!(30)).boxed()),
            ("registry_name", secrets.unknown()),
            ("unknown", secrets.unknown()),
        ]
    };
    let stdio = object(
        head(vec![("command", one_of(&["npx", "uvx", "docker"]))]),
        [
            common(),
            vec![
                ("args", texts()),
                ("env", secrets.texts()),
                ("envFile", one_of(&[".env"])),
                ("encoding", one_of(&["utf-8", "UTF_8"])),
            ],
        ]
        .concat(),
    );
    let remote = object(
        head(vec![
            ("transport", one_of(&["http", "sse"])),
            ("url", one_of(&["https://x/${X}", "http://localhost/"])),
        ]),
        [
            common(),
            vec![
                ("headers", secrets.texts()),
                ("timeout", prop_oneof![Just(json!(1.5)), Just(json!(1e18))].boxed()),
                ("terminate_on_close", flag()),
            ],
        ]
        .concat(),
    );
    let legacy = object(head(vec![]), [common(), vec![("args", texts())]].concat());
    let tools = list(prop_oneof![stdio, remote, legacy].boxed());
    object(vec![("tools", tools)], vec![("model", free())])
}

fn minion(secrets: SecretTexts) -> JsonStrategy {
    let long = || object(vec![("from_env", one_of(&["X"]))], vec![("prefix", secrets.text())]);
    let value = || prop_oneof![3 => secrets.text(), 1 => long()].boxed();
    let auth = object(
        vec![("Token", value()), ("Key", value())],
        vec![
            ("Header", text()),
            ("ClientID", text()),
            ("client_secret", value()),
            ("Scopes", texts()),
            ("Issuer", text()),
        ],
    );
    let retry = || {
        object(
            vec![],
            vec![
                ("MaxRetries", count()),
                ("InitialBackoff", duration()),
                ("max_backoff", duration()),
                ("BackoffMultiplier", Just(json!(1.5)).boxed()),
            ],
        )
    };
    let common = || {
        vec![
            ("Description", text()),
            ("Capabilities", texts()),
            ("RequiredCapabilities", map(name(), texts(), 0..2)),
            ("ConnectTimeout", duration()),
            ("request_timeout", duration()),
            ("RetryPolicy", retry()),
            ("Unknown", secrets.unknown()),
        ]
    };
    let named = |more: Vec<(&'static str, JsonStrategy)>| {
        [vec![("ServerName", name().prop_map(Into::into).boxed())], more].concat()
    };
    let stdio = object(
        named(vec![("Transport", one_of(&["stdio"])), ("Command", command())]),
        [
            common(),
            vec![
                ("Args", texts()),
                ("Env", secrets.map_of(value())),
                ("WorkingDir", one_of(&["docs", "."])),
            ],
        ]
        .concat(),
    );
    let http = object(
        named(vec![
            ("transport", one_of(&["http"])),
            ("URL", url()),
            ("AuthType", one_of(&["none", "bearer", "apikey", "oauth"])),
        ]),
        [common(), vec![("AuthConfig", auth)]].concat(),
    );
    let agent = object(
        vec![("Name", name().prop_map(Into::into).boxed())],
        vec![("Capabilities", texts())],
    );
    let manager = object(
        vec![],
        vec![
            ("MaxServers", count()),
            ("DefaultTimeout", duration()),
            ("EnableAutoReconnect", flag()),
            ("ReconnectBackoff", duration()),
            ("RetryPolicy", retry()),
        ],
    );
    object(
        vec![("servers", list(prop_oneof![stdio, http].boxed()))],
        vec![("Manager", manager), ("agents", list(agent))],
    )
}

fn docker(secrets: SecretTexts) -> JsonStrategy {
    let value = || {
        let long = object(vec![("from_env", one_of(&["X"]))], vec![("prefix", secrets.text())]);
        prop_oneof![3 => secrets.text(), 1 => long].boxed()
    };
    let server = |target| {
        object(
            vec![("namespace", name().prop_map(Into::into).boxed()), (target, command())],
            vec![
                ("command", prop_oneof![text(), list(command())].boxed()),
                ("workdir", text()),
                ("env", secrets.map_of(value())),
                ("unset", texts()),
                ("framing", one_of(&["auto", "content_length"])),
                ("requestTimeoutMs", millis()),
                ("startupTimeoutMs", millis()),
                ("heartbeatIntervalMs", millis()),
                (
                    "restart",
                    object(
                        vec![],
                        vec![
                            ("maxAttempts", count()),
                            ("backoffMs", millis()),
                            ("backoff", one_of(&["fixed", "exponential"])),
                        ],
                    ),
                ),
                ("enabledTools", texts()),
                ("unknown", secrets.unknown()),
            ],
        )
    };
    let servers = list(prop_oneof![server("image"), server("container")].boxed());
    object(vec![("mcpServers", servers)], vec![])
}

fn duration() -> JsonStrategy {
    prop_oneof![one_of(&["1m30s", "0", "7ns", "1.5h"]), millis()].boxed()
}

fn command() -> JsonStrategy {
    prop_oneof![3 => one_of(&["npx", "x"]), 1 => text()].boxed()
}

fn url() -> JsonStrategy {
    one_of(&["https://x/y", "http://192.168.1.100:1/", "https://${X}/$$"])
}
