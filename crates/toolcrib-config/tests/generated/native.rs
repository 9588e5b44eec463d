//! Strategies for `toolcrib.yaml` in its short and its long form, with profiles, includes and a host.

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use toolcrib_config::Dialect;

use super::{
    GeneratedFiles, JsonStrategy, SecretTexts, by_id, count, flag, free, json_text, list, map,
    name, object, one_of, single_file, text, texts,
};

pub(super) fn files(secrets: SecretTexts) -> Vec<BoxedStrategy<GeneratedFiles>> {
    let alone = single_file(Dialect::Native, "conf/toolcrib.yaml", root(secrets));
    vec![alone.clone(), alone, with_includes(secrets)]
}

/// A native file that includes two others, whose servers may use the same ids.
fn with_includes(secrets: SecretTexts) -> BoxedStrategy<GeneratedFiles> {
    let minds = super::others::dominds(secrets);
    let dispatch = super::others::dispatch(secrets);
    let scope = one_of(&["cwd", "global"]);
    (root(secrets), minds, super::others::team(), dispatch, scope)
        .prop_map(|(mut root, minds, team, dispatch, scope)| {
            root["include"] = json!([
                { "path": "../.minds/mcp.yaml" },
                { "path": "../other.json", "dialect": "dispatch", "scope": scope },
            ]);
            GeneratedFiles {
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

fn root(secrets: SecretTexts) -> JsonStrategy {
    let profile = prop_oneof![
        object(
            vec![],
            [policies(secrets), vec![("base", one_of(&["dominds", "docker", "native"]))]].concat()
        ),
        object(
            vec![("transport", transport(secrets))],
            vec![("base", one_of(&["holodeck", "minion"]))]
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

fn host(secrets: SecretTexts) -> JsonStrategy {
    let store = |kind: &'static [&'static str]| {
        object(
            vec![("kind", one_of(kind))],
            vec![
                ("path", one_of(&["secrets", "/abs", "../x"])),
                ("command", texts()),
                ("timeout", time()),
                ("cache", time()),
                ("service", text()),
                ("url", one_of(&["https://vault.example.com"])),
                ("token", secrets.value()),
            ],
        )
    };
    let member = object(vec![], vec![("toolsets", texts()), ("capabilities", texts())]);
    object(
        vec![],
        vec![
            ("reserved_tools", texts()),
            ("reserved_toolsets", list(one_of(&["ws_read", "a"]))),
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
                        ("mode", one_of(&["watch", "manual"])),
                        ("poll", time()),
                        ("debounce", time()),
                    ],
                ),
            ),
            ("secrets", map(name(), store(&["file", "command", "keyring", "vault"]), 0..3)),
            ("pins", one_of(&["off", "warn", "enforce"])),
            ("credentials", one_of(&["auto", "keyring", "file"])),
            ("grants", object(vec![], vec![("members", map(name(), member, 0..3))])),
        ],
    )
}

/// SHA-256 of a token.
const HASH: &str = "860a5f6de411e2c46b14b8491994ac8f4eb4ca378cf1107fa8254de5179442dd";

fn gateway() -> JsonStrategy {
    let token =
        object(vec![("sha256", one_of(&[HASH])), ("agent", text())], vec![("owner", flag())]);
    object(
        vec![],
        vec![
            ("listen", one_of(&["127.0.0.1:1", "[::1]:2"])),
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

fn input(secrets: SecretTexts) -> JsonStrategy {
    let password =
        object(vec![("password", Just(json!(true)).boxed())], vec![("default", secrets.text())]);
    let open =
        object(vec![], vec![("description", text()), ("default", text()), ("options", texts())]);
    prop_oneof![password, open].boxed()
}

fn server(secrets: SecretTexts) -> JsonStrategy {
    let common = || {
        let own = vec![
            (
                "profile",
                one_of(&["native", "dominds", "dispatch", "holodeck", "minion", "docker", "p"]),
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
            ("env_file", one_of(&["../.env"])),
            ("inherit_env", inherit()),
        ]
    };
    let stdio = object(vec![("command", command())], [common(), env(), stdio_keys()].concat());
    let remote = object(vec![("url", url())], [common(), remote_keys(secrets)].concat());
    let docker = object(vec![("docker", docker())], [common(), env()].concat());
    let long = object(vec![("transport", transport(secrets))], common());
    prop_oneof![stdio, remote, docker, long].boxed()
}

fn stdio_keys() -> Vec<(&'static str, JsonStrategy)> {
    vec![
        ("args", list(prop_oneof![text(), count(), flag()].boxed())),
        ("cwd", one_of(&["..", "../docs", "/ws", "${X}/y"])),
        ("encoding", one_of(&["utf-8", "latin1"])),
        ("framing", one_of(&["auto", "newline", "content_length"])),
        ("allow_commands", prop_oneof![one_of(&["any"]), texts()].boxed()),
    ]
}

fn remote_keys(secrets: SecretTexts) -> Vec<(&'static str, JsonStrategy)> {
    vec![
        ("headers", secrets.values()),
        ("session_id", secrets.value()),
        ("terminate_on_close", flag()),
        ("url_policy", one_of(&["any", "https_or_loopback"])),
    ]
}

fn docker() -> JsonStrategy {
    let target = |key| {
        object(
            vec![(key, command())],
            vec![
                ("command", prop_oneof![command(), list(command())].boxed()),
                ("shell", one_of(&["", "bash -c", "sh -lc"])),
                ("workdir", text()),
                ("endpoint", text()),
                ("keep_container", flag()),
            ],
        )
    };
    prop_oneof![target("image"), target("container")].boxed()
}

fn transport(secrets: SecretTexts) -> JsonStrategy {
    let env = object(
        vec![],
        vec![
            ("inherit", inherit()),
            ("file", one_of(&["../.env"])),
            ("unset", texts()),
            ("set", secrets.values()),
        ],
    );
    let stdio = object(
        vec![("kind", one_of(&["stdio"])), ("command", command())],
        [stdio_keys(), vec![("env", env.clone())]].concat(),
    );
    let remote = object(
        vec![("kind", one_of(&["streamable_http", "sse"])), ("url", url())],
        remote_keys(secrets),
    );
    let websocket = object(
        vec![("url", one_of(&["ws://x", "wss://x/${X}"]))],
        vec![("headers", secrets.values())],
    );
    let docker = object(
        vec![("kind", one_of(&["docker_exec"])), ("image", command()), ("command", command())],
        vec![("args", texts()), ("shell", text()), ("workdir", text()), ("env", env)],
    );
    prop_oneof![stdio, remote, websocket, docker].boxed()
}

fn policies(secrets: SecretTexts) -> Vec<(&'static str, JsonStrategy)> {
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
        ("scope", one_of(&["global", "cwd"])),
        ("protocol", one_of(&["auto", "legacy", "modern", "2025-11-25"])),
        (
            "limits",
            object(vec![], vec![("message", size()), ("tools", count()), ("stderr", size())]),
        ),
        (
            "manual",
            prop_oneof![
                object(vec![("text", text())], vec![]),
                one_of(&["docs/manual.md", "../gone"]).prop_map(|file| json!({ "file": file }))
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
                    ("resolve", one_of(&["start", "load"])),
                    ("on_missing", one_of(&["fail_server", "fail_load"])),
                ],
            ),
        ),
        (
            "init",
            object(
                vec![],
                vec![
                    ("config", config(secrets)),
                    ("config_delivery", one_of(&["env", "both", "off"])),
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
                    ("scope", one_of(&["shared", "per_call"])),
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
                    ("connect", one_of(&["eager", "background"])),
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
                                    ("as", one_of(&["skill", "off"])),
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
                    ("on_config_error", one_of(&["keep_last_good", "skip_server", "fail_load"])),
                ],
            ),
        ),
    ]
}

fn auth(secrets: SecretTexts) -> JsonStrategy {
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
                ("grant", one_of(&["code", "client_credentials"])),
            ],
        ),
    ]
    .boxed()
}

fn config(secrets: SecretTexts) -> JsonStrategy {
    match secrets {
        SecretTexts::Odd => map(name(), free(), 0..3),
        SecretTexts::Canaries => map(name(), one_of(&["cn4ry", "${X}cn4ry"]), 0..3),
    }
}

fn transforms() -> JsonStrategy {
    let one = prop_oneof![
        text().prop_map(|text| json!({ "prefix": text })),
        text().prop_map(|text| json!({ "suffix": text })),
        (text(), text())
            .prop_map(|(remove, add)| json!({ "prefix": { "remove": remove, "add": add } })),
    ];
    list(one.boxed())
}

fn command() -> JsonStrategy {
    prop_oneof![3 => one_of(&["npx", "/usr/bin/uvx", "x"]), 1 => text()].boxed()
}

fn url() -> JsonStrategy {
    one_of(&[
        "https://x/y",
        "http://localhost:1/",
        "wss://x",
        "https://${X}/",
        "${X}",
        "http://[::1]/?a=b#c",
    ])
}

fn inherit() -> JsonStrategy {
    prop_oneof![one_of(&["all", "minimal", "none"]), texts()].boxed()
}

fn time() -> JsonStrategy {
    one_of(&["0s", "30s", "1500ms", "1m30s", "7ns", "18446744074s", "0.1s"])
}

fn size() -> JsonStrategy {
    prop_oneof![one_of(&["64MiB", "10MB", "17"]), count()].prop_map(|size: Json| size).boxed()
}
