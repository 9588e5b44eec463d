//! Resources and prompts through the host.

use serde_json::{Value, json};
use toolcrib::{Dialog, ErrorKind, Host, HostEvent};
use toolcrib_testkit::scripted::{Script, Step};
use toolcrib_testkit::time_limit::with_time_limit;

use super::workspace::{TestWorkspace, open_dialog, raw, wait_until};

fn library_script() -> Script {
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

async fn start_host_with(workspace: &TestWorkspace, policy: &Value) -> (Host, Dialog) {
    let mut entry = workspace.scripted_entry(library_script(), "log");
    entry["protocol"] = json!("legacy");
    for (key, value) in policy.as_object().unwrap() {
        entry[key] = value.clone();
    }
    workspace.write_native(&json!({"version": 1, "servers": {"lib": entry}, "host": {"grants": {"members": {
        "ada": {"toolsets": ["lib"]}, "bob": {"toolsets": []}, "cyd": {"capabilities": ["mcp_lib_echo"]},
    }}}}));
    let host = workspace.start_host().await;
    let dialog = open_dialog(&host, "ada").await;
    (host, dialog)
}

#[tokio::test]
async fn min_72_dis_36_resources_are_listed_and_read() {
    let workspace = TestWorkspace::new();
    let (host, ada) = start_host_with(&workspace, &json!({})).await;
    let turn = with_time_limit(ada.turn()).await;
    let uris: Vec<String> = turn.resources().iter().map(|it| it.uri().to_owned()).collect();
    assert_eq!(uris, ["doc://a", "doc://b"]);
    assert_eq!(turn.templates()[0].uri(), "page://{name}");
    for uri in ["doc://a", "page://one"] {
        let read = with_time_limit(turn.read_resource(uri, None)).await.unwrap();
        assert!(read.text().contains("what is in it"));
        let sent = workspace.log("log");
        let sent = sent.iter().rfind(|message| message["method"] == "resources/read").unwrap();
        assert_eq!(sent["params"]["uri"], uri);
    }
    let unknown = with_time_limit(turn.read_resource("page://one/two", None)).await.unwrap_err();
    assert_eq!(unknown.to_string(), "resource not found: page://one/two");
    // An agent without the whole server sees none of its resources.
    for agent in ["bob", "cyd"] {
        let turn = with_time_limit(open_dialog(&host, agent).await.turn()).await;
        assert!(turn.resources().is_empty() && turn.templates().is_empty());
        assert!(with_time_limit(turn.read_resource("doc://a", None)).await.is_err());
    }
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn min_72_resource_update_reaches_subscribers() {
    let workspace = TestWorkspace::new();
    let (host, ada) = start_host_with(&workspace, &json!({})).await;
    let mut events = host.subscribe();
    let subscription =
        with_time_limit(with_time_limit(ada.turn()).await.subscribe("doc://a", None))
            .await
            .unwrap();
    let reported = async {
        loop {
            let event = events.next().await.unwrap();
            if let HostEvent::ServerNotification { method, params, .. } = &*event
                && method == "notifications/resources/updated"
            {
                return params.clone().unwrap().text().to_owned();
            }
        }
    };
    assert_eq!(with_time_limit(reported).await, r#"{"uri":"doc://a"}"#);
    with_time_limit(subscription.unsubscribe()).await;
    wait_until("the server received the notification", || {
        workspace.count_messages("log", "resources/unsubscribe") == 1
    })
    .await;
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn min_73_prompts_are_listed_and_filled_in() {
    let workspace = TestWorkspace::new();
    let (host, ada) = start_host_with(&workspace, &json!({})).await;
    let turn = with_time_limit(ada.turn()).await;
    let prompts = turn.prompts();
    assert_eq!((prompts.len(), prompts[0].original_name()), (1, "greet"));
    let filled = with_time_limit(turn.get_prompt(prompts[0].name(), raw(&json!({"who": "you"}))))
        .await
        .unwrap();
    assert!(filled.text().contains("hello"));
    let sent = workspace.log("log");
    let sent = sent.iter().find(|message| message["method"] == "prompts/get").unwrap();
    assert_eq!(sent["params"]["name"], "greet");
    assert_eq!(sent["params"]["arguments"], json!({"who": "you"}));
    assert!(with_time_limit(turn.get_prompt("nothing", raw(&json!({})))).await.is_err());
    let bob = with_time_limit(open_dialog(&host, "bob").await.turn()).await;
    assert!(bob.prompts().is_empty());
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn ext_04_oversized_or_disallowed_resource_is_refused_with_the_rule() {
    for (rules, kind, rule) in [
        (json!({"max_bytes": 5}), ErrorKind::Resource, "expose.resources.max_bytes"),
        (json!({"mime": ["image/png"]}), ErrorKind::Denied, "expose.resources.mime"),
    ] {
        let workspace = TestWorkspace::new();
        let (host, ada) =
            start_host_with(&workspace, &json!({"expose": {"resources": rules}})).await;
        let error =
            with_time_limit(with_time_limit(ada.turn()).await.read_resource("page://one", None))
                .await
                .unwrap_err();
        assert_eq!(error.kind(), kind);
        assert!(error.to_string().contains(rule), "{error}");
        with_time_limit(host.close()).await;
    }
}
