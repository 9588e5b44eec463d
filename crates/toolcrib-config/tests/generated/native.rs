//! `toolcrib.yaml` in its short and its long form, with profiles, includes and a host.

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use toolcrib_config::Dialect;

use super::{
    Files, Secrets, Tree, by_id, count, flag, free, json_text, list, map, name, object, one, text,
    texts, words,
};

pub(super) fn files(secrets: Secrets) -> Vec<BoxedStrategy<Files>> {
    let alone = one(Dialect::Native, "conf/toolcrib.yaml", root(secrets));
    vec![alone.clone(), alone, beside(secrets)]
}

/// A native file that includes two others, whose servers may have its ids.
fn beside(secrets: Secrets) -> BoxedStrategy<Files> {
    let minds = super::others::dominds(secrets);
    let dispatch = super::others::dispatch(secrets);
    let scope = words(&["cwd", "global"]);
    (root(secrets), minds, super::others::team(), dispatch, scope)
        .prop_map(|(mut root, minds, team, dispatch, scope)| {
            root["include"] = json!([
                { "path": "../.minds/mcp.yaml" },
                { "path": "../other.json", "dialect": "dispatch", "scope": scope },
            ]);
            Files {
                dialect: Dialect::Native,
                files: vec![
                    ("conf/toolcrib.yaml", json_text(&root)),
                    (".minds/mcp.yaml", json_text(&minds)),
                    (".minds/team.yaml", json_text(&team)),
                    ("other.json", json_text(&dispatch)),
                ],
            }
        })
        .boxed()
}

fn root(secrets: Secrets) -> Tree {
    let profile = prop_oneof![
        object(
            vec![],
            [policies(secrets), vec![("base", words(&["dominds", "docker", "native"]))]].concat()
        ),
        object(
            vec![("transport", transport(secrets))],
            vec![("base", words(&["holodeck", "minion"]))]
        ),
    ];
    object(
        vec![("version", Just(json!(1)).boxed()), ("servers", by_id(server(secrets)))],
        vec![
            ("host", host(secrets)),
            ("gateway", gateway()),
            ("inputs", map(name(), input(secrets), 0..3)),
            ("profiles", map("[pq]".boxed(), profile.boxed(), 1..3)),
        ],
    )
}

fn host(secrets: Secrets) -> Tree {
    let store = |kind: &'static [&'static str]| {
        object(
            vec![("kind", words(kind))],
            vec![
                ("path", words(&["secrets", "/abs", "../x"])),
                ("command", texts()),
                ("timeout", time()),
                ("cache", time()),
                ("service", text()),
                ("url", words(&["https://vault.example.com"])),
                ("token", secrets.value()),
            ],
        )
    };
    let member = object(vec![], vec![("toolsets", texts()), ("capabilities", texts())]);
    object(
        vec![],
        vec![
            ("reserved_tools", texts()),
            ("reserved_toolsets", list(words(&["ws_read", "a"]))),
            ("max_servers", count()),
            (
                "permissions",
                object(vec![], vec![("spawn", flag()), ("network", flag()), ("docker", flag())]),
            ),
            (
                "reload",
                object(
                    vec![],
                    vec![
                        ("mode", words(&["watch", "manual"])),
                        ("poll", time()),
                        ("debounce", time()),
                    ],
                ),
            ),
            ("secrets", map(name(), store(&["file", "command", "keyring", "vault"]), 0..3)),
            ("pins", words(&["off", "warn", "enforce"])),
            ("credentials", words(&["auto", "keyring", "file"])),
            ("grants", object(vec![], vec![("members", map(name(), member, 0..3))])),
        ],
    )
}

/// The SHA-256 of a token.
const HASH: &str = "860a5f6de411e2c46b14b8491994ac8f4eb4ca378cf1107fa8254de5179442dd";

fn gateway() -> Tree {
    let token =
        object(vec![("sha256", words(&[HASH])), ("agent", text())], vec![("owner", flag())]);
    object(
        vec![],
        vec![
            ("listen", words(&["127.0.0.1:1", "[::1]:2"])),
            ("tokens", list(token)),
            (
                "oauth",
                object(
                    vec![],
                    vec![("issuer", text()), ("audience", text()), ("agent_claim", text())],
                ),
            ),
            (
                "limits",
                object(vec![], vec![("body", size()), ("sessions", count()), ("idle", time())]),
            ),
        ],
    )
}

fn input(secrets: Secrets) -> Tree {
    let password =
        object(vec![("password", Just(json!(true)).boxed())], vec![("default", secrets.text())]);
    let open =
        object(vec![], vec![("description", text()), ("default", text()), ("options", texts())]);
    prop_oneof![password, open].boxed()
}

fn server(secrets: Secrets) -> Tree {
    let common = || {
        let own = vec![
            (
                "profile",
                words(&["native", "dominds", "dispatch", "holodeck", "minion", "docker", "p"]),
            ),
            ("x-original", map(name(), secrets.unknown(), 0..3)),
            ("unknown.key", secrets.unknown()),
            ("x-mine", secrets.unknown()),
        ];
        [policies(secrets), own].concat()
    };
    let env = || {
        vec![
            ("env", secrets.values()),
            ("env_file", words(&["../.env"])),
            ("inherit_env", inherit()),
        ]
    };
    let stdio = object(vec![("command", command())], [common(), env(), stdio_keys()].concat());
    let remote = object(vec![("url", url())], [common(), remote_keys(secrets)].concat());
    let docker = object(vec![("docker", docker())], [common(), env()].concat());
    let long = object(vec![("transport", transport(secrets))], common());
    prop_oneof![stdio, remote, docker, long].boxed()
}

fn stdio_keys() -> Vec<(&'static str, Tree)> {
    vec![
        ("args", list(prop_oneof![text(), count(), flag()].boxed())),
        ("cwd", words(&["..", "../docs", "/ws", "${X}/y"])),
        ("encoding", words(&["utf-8", "latin1"])),
        ("framing", words(&["auto", "newline", "content_length"])),
        ("allow_commands", prop_oneof![words(&["any"]), texts()].boxed()),
    ]
}

fn remote_keys(secrets: Secrets) -> Vec<(&'static str, Tree)> {
    vec![
        ("headers", secrets.values()),
        ("session_id", secrets.value()),
        ("terminate_on_close", flag()),
        ("url_policy", words(&["any", "https_or_loopback"])),
    ]
}

fn docker() -> Tree {
    let target = |key| {
        object(
            vec![(key, command())],
            vec![
                ("command", prop_oneof![command(), list(command())].boxed()),
                ("shell", words(&["", "bash -c", "sh -lc"])),
                ("workdir", text()),
                ("endpoint", text()),
                ("keep_container", flag()),
            ],
        )
    };
    prop_oneof![target("image"), target("container")].boxed()
}

fn transport(secrets: Secrets) -> Tree {
    let env = object(
        vec![],
        vec![
            ("inherit", inherit()),
            ("file", words(&["../.env"])),
            ("unset", texts()),
            ("set", secrets.values()),
        ],
    );
    let stdio = object(
        vec![("kind", words(&["stdio"])), ("command", command())],
        [stdio_keys(), vec![("env", env.clone())]].concat(),
    );
    let remote = object(
        vec![("kind", words(&["streamable_http", "sse"])), ("url", url())],
        remote_keys(secrets),
    );
    let websocket = object(
        vec![("url", words(&["ws://x", "wss://x/${X}"]))],
        vec![("headers", secrets.values())],
    );
    let docker = object(
        vec![("kind", words(&["docker_exec"])), ("image", command()), ("command", command())],
        vec![("args", texts()), ("shell", text()), ("workdir", text()), ("env", env)],
    );
    prop_oneof![stdio, remote, websocket, docker].boxed()
}

fn policies(secrets: Secrets) -> Vec<(&'static str, Tree)> {
    let retry = || {
        object(
            vec![],
            vec![
                ("max", count()),
                ("initial", time()),
                ("max_delay", time()),
                (
                    "factor",
                    prop_oneof![Just(json!(1)), Just(json!(1.10)), Just(json!(1e300))].boxed(),
                ),
                ("jitter", Just(json!(0.1)).boxed()),
            ],
        )
    };
    let filter = || vec![("allow", texts()), ("deny", texts())];
    vec![
        ("enabled", flag()),
        ("description", text()),
        ("package", text()),
        ("toolset", text()),
        ("scope", words(&["global", "cwd"])),
        ("protocol", words(&["auto", "legacy", "modern", "2025-11-25"])),
        (
            "limits",
            object(vec![], vec![("message", size()), ("tools", count()), ("stderr", size())]),
        ),
        (
            "manual",
            prop_oneof![
                object(vec![("text", text())], vec![]),
                words(&["docs/manual.md", "../gone"]).prop_map(|file| json!({ "file": file }))
            ]
            .boxed(),
        ),
        ("auth", auth(secrets)),
        ("auth_per_agent", map(name(), auth(secrets), 0..3)),
        (
            "secrets",
            object(
                vec![],
                vec![
                    ("resolve", words(&["start", "load"])),
                    ("on_missing", words(&["fail_server", "fail_load"])),
                ],
            ),
        ),
        (
            "init",
            object(
                vec![],
                vec![
                    ("config", config(secrets)),
                    ("config_delivery", words(&["env", "both", "off"])),
                    ("require_server", texts()),
                ],
            ),
        ),
        (
            "timeouts",
            object(
                vec![],
                vec![
                    ("connect", time()),
                    ("startup", time()),
                    ("request", time()),
                    ("request_max", time()),
                ],
            ),
        ),
        (
            "session",
            object(
                vec![],
                vec![
                    ("scope", words(&["shared", "per_call"])),
                    ("queue", count()),
                    ("idle", time()),
                ],
            ),
        ),
        (
            "lifecycle",
            object(
                vec![],
                vec![
                    ("connect", words(&["eager", "background"])),
                    ("retry", retry()),
                    ("reconnect", retry()),
                    ("drain_kill", time()),
                ],
            ),
        ),
        ("discovery", object(vec![], vec![("tools", flag()), ("ttl", time())])),
        (
            "expose",
            object(
                vec![],
                vec![
                    (
                        "tools",
                        object(
                            vec![],
                            [filter(), vec![("requires", map(name(), texts(), 0..2))]].concat(),
                        ),
                    ),
                    (
                        "prompts",
                        object(
                            vec![],
                            [
                                filter(),
                                vec![
                                    ("as", words(&["skill", "off"])),
                                    ("transforms", transforms()),
                                ],
                            ]
                            .concat(),
                        ),
                    ),
                    (
                        "resources",
                        object(
                            vec![],
                            [filter(), vec![("mime", texts()), ("max_bytes", size())]].concat(),
                        ),
                    ),
                ],
            ),
        ),
        (
            "naming",
            object(
                vec![],
                vec![
                    ("template", text()),
                    ("transforms", transforms()),
                    ("versions", map(name(), text(), 0..3)),
                    ("description", text()),
                    ("description_fallback", text()),
                ],
            ),
        ),
        (
            "availability",
            object(
                vec![],
                vec![
                    ("grace", time()),
                    ("on_config_error", words(&["keep_last_good", "skip_server", "fail_load"])),
                ],
            ),
        ),
    ]
}

fn auth(secrets: Secrets) -> Tree {
    let kind =
        |kind: &'static str, rest| [vec![("kind", Just(json!(kind)).boxed())], rest].concat();
    prop_oneof![
        object(kind("none", vec![]), vec![]),
        object(kind("bearer", vec![("token", secrets.value())]), vec![]),
        object(kind("api_key", vec![("key", secrets.value())]), vec![("header", text())]),
        object(
            kind("oauth", vec![]),
            vec![
                ("client_id", text()),
                ("client_secret", secrets.value()),
                ("scopes", texts()),
                ("issuer", text()),
                ("grant", words(&["code", "client_credentials"])),
            ],
        ),
    ]
    .boxed()
}

fn config(secrets: Secrets) -> Tree {
    match secrets {
        Secrets::Odd => map(name(), free(), 0..3),
        Secrets::Canaries => map(name(), words(&["cn4ry", "${X}cn4ry"]), 0..3),
    }
}

fn transforms() -> Tree {
    let one = prop_oneof![
        text().prop_map(|text| json!({ "prefix": text })),
        text().prop_map(|text| json!({ "suffix": text })),
        (text(), text())
            .prop_map(|(remove, add)| json!({ "prefix": { "remove": remove, "add": add } })),
    ];
    list(one.boxed())
}

fn command() -> Tree {
    prop_oneof![3 => words(&["npx", "/usr/bin/uvx", "x"]), 1 => text()].boxed()
}

fn url() -> Tree {
    words(&[
        "https://x/y",
        "http://localhost:1/",
        "wss://x",
        "https://${X}/",
        "${X}",
        "http://[::1]/?a=b#c",
    ])
}

fn inherit() -> Tree {
    prop_oneof![words(&["all", "minimal", "none"]), texts()].boxed()
}

fn time() -> Tree {
    words(&["0s", "30s", "1500ms", "1m30s", "7ns", "18446744074s", "0.1s"])
}

fn size() -> Tree {
    prop_oneof![words(&["64MiB", "10MB", "17"]), count()].prop_map(|size: Json| size).boxed()
}
