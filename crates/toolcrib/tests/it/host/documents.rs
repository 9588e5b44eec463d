//! Resources and prompts through the host.

use serde_json::{Value, json};
use toolcrib::host::Event;
use toolcrib::shape::ErrorKind;
use toolcrib::{Dialog, Host};
use toolcrib_testkit::scripted::{Script, Step};
use toolcrib_testkit::time_limit::within;

use super::stage::{Stage, dialog, raw, until};

fn library() -> Script {
    let content = |text: &str| json!({"contents": [{"uri": "doc://a", "mimeType": "text/plain", "text": text}]});
    Script { legacy_only: true, ..Script::default() }
        .on(
            "initialize",
            [Step::Result(json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {"resources": {"subscribe": true}, "prompts": {}},
                "serverInfo": {"name": "library", "version": "1"},
            }))],
        )
        .on(
            "resources/list",
            [Step::Result(json!({"resources": [
                {"uri": "doc://a", "name": "a"}, {"uri": "doc://b", "name": "b"},
            ]}))],
        )
        .on(
            "resources/templates/list",
            [Step::Result(json!({"resourceTemplates": [
                {"uriTemplate": "page://{name}", "name": "pages"},
            ]}))],
        )
        .on("resources/read", [Step::Result(content("what is in it"))])
        .on(
            "resources/subscribe",
            [
                Step::Result(json!({})),
                Step::Notify {
                    method: "notifications/resources/updated".to_owned(),
                    params: json!({"uri": "doc://a"}),
                    times: 1,
                },
            ],
        )
        .on("resources/unsubscribe", [Step::Result(json!({}))])
        .on(
            "prompts/list",
            [Step::Result(json!({"prompts": [
                {"name": "greet", "arguments": [{"name": "who", "required": true}]},
            ]}))],
        )
        .on(
            "prompts/get",
            [Step::Result(json!({"messages": [
                {"role": "user", "content": {"type": "text", "text": "hello"}},
            ]}))],
        )
}

async fn host_of(stage: &Stage, policy: &Value) -> (Host, Dialog) {
    let mut entry = stage.scripted(library(), "log");
    entry["protocol"] = json!("legacy");
    for (key, value) in policy.as_object().unwrap() {
        entry[key] = value.clone();
    }
    stage.native(&json!({"version": 1, "servers": {"lib": entry}, "host": {"grants": {"members": {
        "ada": {"toolsets": ["lib"]}, "bob": {"toolsets": []}, "cyd": {"capabilities": ["mcp_lib_echo"]},
    }}}}));
    let host = stage.host().await;
    let dialog = dialog(&host, "ada").await;
    (host, dialog)
}

#[tokio::test]
async fn min_72_dis_36_resources_are_listed_and_read() {
    let stage = Stage::new();
    let (host, ada) = host_of(&stage, &json!({})).await;
    let turn = within(ada.turn()).await;
    let uris: Vec<String> = turn.resources().iter().map(|it| it.uri().to_owned()).collect();
    assert_eq!(uris, ["doc://a", "doc://b"]);
    assert_eq!(turn.templates()[0].uri(), "page://{name}");
    for uri in ["doc://a", "page://one"] {
        let read = within(turn.read(uri, None)).await.unwrap();
        assert!(read.text().contains("what is in it"));
        let sent = stage.log("log");
        let sent = sent.iter().rfind(|message| message["method"] == "resources/read").unwrap();
        assert_eq!(sent["params"]["uri"], uri);
    }
    let unknown = within(turn.read("page://one/two", None)).await.unwrap_err();
    assert_eq!(unknown.to_string(), "resource not found: page://one/two");
    // Whoever has none or only some of the server's tools has none of its resources.
    for agent in ["bob", "cyd"] {
        let turn = within(dialog(&host, agent).await.turn()).await;
        assert!(turn.resources().is_empty() && turn.templates().is_empty());
        assert!(within(turn.read("doc://a", None)).await.is_err());
    }
    within(host.close()).await;
}

#[tokio::test]
async fn min_72_a_change_of_a_resource_is_told() {
    let stage = Stage::new();
    let (host, ada) = host_of(&stage, &json!({})).await;
    let mut listening = host.listen();
    let subscription = within(within(ada.turn()).await.subscribe("doc://a", None)).await.unwrap();
    let told = async {
        loop {
            let event = listening.next().await.unwrap();
            if let Event::Told { method, params, .. } = &*event
                && method == "notifications/resources/updated"
            {
                return params.clone().unwrap().text().to_owned();
            }
        }
    };
    assert_eq!(within(told).await, r#"{"uri":"doc://a"}"#);
    within(subscription.end()).await;
    until("it was told", || stage.count("log", "resources/unsubscribe") == 1).await;
    within(host.close()).await;
}

#[tokio::test]
async fn min_73_prompts_are_listed_and_filled_in() {
    let stage = Stage::new();
    let (host, ada) = host_of(&stage, &json!({})).await;
    let turn = within(ada.turn()).await;
    let prompts = turn.prompts();
    assert_eq!((prompts.len(), prompts[0].original_name()), (1, "greet"));
    let filled = within(turn.prompt(prompts[0].name(), raw(&json!({"who": "you"})))).await.unwrap();
    assert!(filled.text().contains("hello"));
    let sent = stage.log("log");
    let sent = sent.iter().find(|message| message["method"] == "prompts/get").unwrap();
    assert_eq!(sent["params"]["name"], "greet");
    assert_eq!(sent["params"]["arguments"], json!({"who": "you"}));
    assert!(within(turn.prompt("nothing", raw(&json!({})))).await.is_err());
    let bob = within(dialog(&host, "bob").await.turn()).await;
    assert!(bob.prompts().is_empty());
    within(host.close()).await;
}

#[tokio::test]
async fn ext_04_a_resource_that_is_too_large_or_of_another_kind_is_refused_with_the_rule() {
    for (rules, kind, rule) in [
        (json!({"max_bytes": 5}), ErrorKind::Resource, "expose.resources.max_bytes"),
        (json!({"mime": ["image/png"]}), ErrorKind::Denied, "expose.resources.mime"),
    ] {
        let stage = Stage::new();
        let (host, ada) = host_of(&stage, &json!({"expose": {"resources": rules}})).await;
        let error = within(within(ada.turn()).await.read("page://one", None)).await.unwrap_err();
        assert_eq!(error.kind(), kind);
        assert!(error.to_string().contains(rule), "{error}");
        within(host.close()).await;
    }
}
