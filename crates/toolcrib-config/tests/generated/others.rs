//! Dominds, Dispatch, opencode, HoloDeck, Minion and the Docker platform.

use proptest::prelude::*;
use serde_json::json;
use toolcrib_config::Dialect;

use super::{
    Files, Secrets, Tree, by_id, count, flag, free, json_text, list, map, millis, name, object,
    one, text, texts, words,
};

pub(super) fn files(secrets: Secrets) -> Vec<BoxedStrategy<Files>> {
    let minds = (dominds(secrets), team()).prop_map(|(minds, team)| Files {
        dialect: Dialect::Dominds,
        files: vec![(".minds/mcp.yaml", json_text(&minds)), (".minds/team.yaml", json_text(&team))],
    });
    vec![
        minds.boxed(),
        one(Dialect::Dispatch, ".dispatch/mcp.json", dispatch(secrets)),
        one(Dialect::Opencode, "opencode.json", opencode(secrets)),
        one(Dialect::Holodeck, "agent.yaml", holodeck(secrets)),
        one(Dialect::Minion, "minion.yaml", minion(secrets)),
        one(Dialect::Docker, "docker.yaml", docker(secrets)),
    ]
}

pub(super) fn dominds(secrets: Secrets) -> Tree {
    let source = || {
        let host = object(vec![("env", words(&["X", "NOPE"]))], vec![("prefix", secrets.text())]);
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
                    words(&["docs/manual.md"]).prop_map(|file| json!({ "file": file }))
                ]
                .boxed(),
            ),
            ("unknown", secrets.unknown()),
        ]
    };
    let stdio = object(
        vec![("transport", words(&["stdio"])), ("command", command())],
        [common(), vec![("args", texts()), ("cwd", words(&["docs", "."])), ("env", source())]]
            .concat(),
    );
    let http = object(
        vec![("transport", words(&["streamable_http"])), ("url", url())],
        [common(), vec![("headers", source()), ("sessionId", secrets.text())]].concat(),
    );
    versioned(by_id(prop_oneof![stdio, http].boxed()))
}

fn versioned(servers: Tree) -> Tree {
    object(vec![("version", Just(json!(1)).boxed()), ("servers", servers)], vec![])
}

pub(super) fn team() -> Tree {
    object(
        vec![("members", map(name(), object(vec![], vec![("toolsets", texts())]), 0..3))],
        vec![],
    )
}

fn entry(secrets: Secrets) -> Tree {
    let common = || vec![("disabled", flag()), ("token", secrets.unknown())];
    let stdio = object(
        vec![("command", command())],
        [
            common(),
            vec![("transport", words(&["stdio"])), ("args", texts()), ("env", secrets.texts())],
        ]
        .concat(),
    );
    let http = object(
        vec![("url", url())],
        [common(), vec![("transport", words(&["http"])), ("headers", secrets.texts())]].concat(),
    );
    prop_oneof![stdio, http].boxed()
}

pub(super) fn dispatch(secrets: Secrets) -> Tree {
    object(vec![("servers", by_id(entry(secrets)))], vec![("$schema", text())])
}

fn opencode(secrets: Secrets) -> Tree {
    let local = object(
        vec![("type", words(&["local"])), ("command", list(command()))],
        vec![
            ("environment", secrets.texts()),
            ("env", secrets.texts()),
            ("enabled", flag()),
            ("disabled", flag()),
        ],
    );
    let remote = object(
        vec![("type", words(&["remote"])), ("url", url())],
        vec![("headers", secrets.texts()), ("enabled", flag()), ("oauth", secrets.unknown())],
    );
    object(
        vec![("mcp", by_id(prop_oneof![local, remote, entry(secrets)].boxed()))],
        vec![("theme", free())],
    )
}

fn holodeck(secrets: Secrets) -> Tree {
    let config = match secrets {
        Secrets::Odd => map(name(), free(), 0..3),
        Secrets::Canaries => map(name(), words(&["cn4ry", "${X:-cn4ry}"]), 0..3),
    };
    let head = |more: Vec<(&'static str, Tree)>| {
        [
            vec![
                ("name", name().prop_map(Into::into).boxed()),
                ("description", text()),
                ("type", words(&["mcp"])),
                ("server", words(&["@a/b", "c"])),
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
            ("request_timeout", words(&["x"]).prop_map(|_| json!(30)).boxed()),
            ("registry_name", secrets.unknown()),
            ("unknown", secrets.unknown()),
        ]
    };
    let stdio = object(
        head(vec![("command", words(&["npx", "uvx", "docker"]))]),
        [
            common(),
            vec![
                ("args", texts()),
                ("env", secrets.texts()),
                ("envFile", words(&[".env"])),
                ("encoding", words(&["utf-8", "UTF_8"])),
            ],
        ]
        .concat(),
    );
    let remote = object(
        head(vec![
            ("transport", words(&["http", "sse"])),
            ("url", words(&["https://x/${X}", "http://localhost/"])),
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

fn minion(secrets: Secrets) -> Tree {
    let long = || object(vec![("from_env", words(&["X"]))], vec![("prefix", secrets.text())]);
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
    let named = |more: Vec<(&'static str, Tree)>| {
        [vec![("ServerName", name().prop_map(Into::into).boxed())], more].concat()
    };
    let stdio = object(
        named(vec![("Transport", words(&["stdio"])), ("Command", command())]),
        [
            common(),
            vec![
                ("Args", texts()),
                ("Env", secrets.map_of(value())),
                ("WorkingDir", words(&["docs", "."])),
            ],
        ]
        .concat(),
    );
    let http = object(
        named(vec![
            ("transport", words(&["http"])),
            ("URL", url()),
            ("AuthType", words(&["none", "bearer", "apikey", "oauth"])),
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

fn docker(secrets: Secrets) -> Tree {
    let value = || {
        let long = object(vec![("from_env", words(&["X"]))], vec![("prefix", secrets.text())]);
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
                ("framing", words(&["auto", "content_length"])),
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
                            ("backoff", words(&["fixed", "exponential"])),
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

fn duration() -> Tree {
    prop_oneof![words(&["1m30s", "0", "7ns", "1.5h"]), millis()].boxed()
}

fn command() -> Tree {
    prop_oneof![3 => words(&["npx", "x"]), 1 => text()].boxed()
}

fn url() -> Tree {
    words(&["https://x/y", "http://192.168.1.100:1/", "https://${X}/$$"])
}
