//! Tools, access explanations, resources and prompts over the control API, and consistency of lists.

use serde_json::{Value, json};
use toolcrib_testkit::scripted::{Script, Step};

use super::{Credential, TestApi, poll_until, tool_names};
use crate::fixture::with_timeout;

#[tokio::test]
async fn min_68_tool_names_its_server() {
    let api_server = TestApi::new(&[
        ("one", Script::default(), json!({})),
        ("two", Script::default(), json!({})),
    ])
    .await;
    let all = api_server.get("tools").await;
    assert_eq!(
        tool_names(&all),
        ["one__echo", "one__fail", "one__env", "two__echo", "two__fail", "two__env"]
    );
    let echo = &all["tools"][3];
    assert_eq!((&echo["server"], &echo["original_name"]), (&json!("two"), &json!("echo"))); // MIN-68
    assert_eq!(
        (&echo["available"], &echo["input_schema"]["type"]),
        (&json!(true), &json!("object"))
    ); // MIN-68
    assert_eq!(
        tool_names(&api_server.get("tools?server=two").await),
        ["two__echo", "two__fail", "two__env"]
    ); // MIN-68
    let unknown = api_server.send(Credential::Socket, "GET tools?server=three", None).await;
    assert_eq!(unknown.status_and_code(), (404, "server.unknown".to_owned()));
    let why = api_server.get("why?tool=two__echo").await;
    assert_eq!((&why["usable"], &why["server"]), (&json!(true), &json!("toolcrib.yaml#two")));
    assert_eq!(why["gates"].as_array().unwrap().len(), 4);
    assert_eq!(api_server.get("why?tool=nothing").await["known"], false);
    assert_eq!(
        api_server.send(Credential::Socket, "GET why", None).await.status_and_code(),
        (400, "request.invalid".to_owned())
    );
    api_server.close().await;
}

#[tokio::test]
async fn dom_70_tool_list_is_from_one_configuration_during_reloads() {
    let turning = |generation: usize| {
        let tools = ["a", "b", "c"].map(|name| format!("{name}{generation}")).to_vec();
        let policy = json!({"lifecycle": {"connect": "eager"},
            "expose": {"tools": {"allow": ["a*", "b*", "c*"]}}});
        let other = json!({"lifecycle": {"connect": "eager"}});
        [("one", Script { tools, ..Script::default() }, policy), ("two", Script::default(), other)]
    };
    let api_server = TestApi::new(&turning(0)).await;
    let first = api_server.get("tools").await;
    let untouched: Vec<String> =
        tool_names(&first).into_iter().skip(3).map(str::to_owned).collect();
    assert!(untouched.len() == 3 && untouched.iter().all(|name| name.starts_with("two__")));
    let reloads = async {
        for generation in 1..=200 {
            api_server.host_fixture.servers(&turning(generation));
            assert_eq!(api_server.post("reload", json!({})).await["ok"], true);
            let list = api_server.get("tools?wait=false").await;
            assert_eq!(tool_names(&list)[0], format!("one__a{generation}"));
        }
    };
    let mut lists = 0;
    let polls = async {
        loop {
            let list = api_server.get("tools?wait=false").await;
            let names = tool_names(&list);
            let generation = names[0].trim_start_matches("one__a");
            let mut whole: Vec<String> =
                ["a", "b", "c"].map(|name| format!("one__{name}{generation}")).to_vec();
            whole.extend(untouched.clone());
            assert_eq!(names, whole); // DOM-70: the old or the new, whole
            lists += 1;
        }
    };
    with_timeout(async {
        tokio::select! {
            () = reloads => {}
            () = polls => {}
        }
    })
    .await;
    assert!(lists > 200, "{lists}");
    api_server.close().await;
}

#[tokio::test]
async fn dom_84_successful_reload_increments_the_version() {
    let api_server = TestApi::new(&[("one", Script::default(), json!({}))]).await;
    let version = async || api_server.get("status").await["registry_version"].as_u64().unwrap();
    let first = version().await;
    let reload = api_server.post("reload", json!({})).await;
    assert_eq!((&reload["ok"], &reload["steps"][0]["action"]), (&json!(true), &json!("keep")));
    let second = version().await;
    assert_eq!(second, first + 1); // DOM-84
    std::fs::write(api_server.host_fixture.path("root/toolcrib.yaml"), "servers: [").unwrap();
    let reload = api_server.post("reload", json!({})).await;
    assert_eq!(
        (&reload["ok"], &reload["problems"][0]["severity"]),
        (&json!(false), &json!("error"))
    );
    assert_eq!(version().await, second); // DOM-84: unchanged after one that failed
    assert_eq!(api_server.get("reload").await["ok"], false);
    assert_eq!(tool_names(&api_server.get("tools").await).len(), 3);
    api_server.close().await;
}

#[tokio::test]
async fn dom_92_problem_is_listed_until_fixed() {
    let api_server =
        TestApi::new(&[("gone", Script::default(), json!({"command": "/no/such/program"}))]).await;
    let problems = async || api_server.get("problems").await;
    let shown = poll_until(async || {
        let now = problems().await;
        now["problems"].as_array().is_some_and(|all| !all.is_empty()).then_some(now)
    })
    .await;
    let problem = &shown["problems"][0];
    let told = (&problem["server"], &problem["code"]);
    assert_eq!(told, (&json!("gone"), &json!("stdio.spawn.not_found")), "{shown}"); // DOM-92
    assert!(problem["text"].is_string() && problem["fix"].is_string());
    api_server.host_fixture.servers(&[("gone", Script::default(), json!({}))]);
    api_server.post("reload", json!({})).await;
    poll_until(async || (problems().await["problems"] == json!([])).then_some(())).await; // DOM-92
    api_server.close().await;
}

fn documents(folder: &std::path::Path) -> Script {
    let capabilities = json!({"tools": {}, "resources": {}, "prompts": {}});
    let opening = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities,
        "serverInfo": {"name": "papers", "version": "1"}});
    let first = json!({"resources": [{"uri": "paper://1", "name": "One", "mimeType": "text/plain"}],
        "nextCursor": "2"});
    let second = json!({"resources": [{"uri": "paper://2", "name": "Two"}]});
    let pages = vec![vec![Step::Result(first)], vec![Step::Result(second)]];
    Script { legacy_only: true, ..Script::default() }
        .on("initialize", [Step::Result(opening)])
        .on("resources/list", [Step::Sequence { count: folder.join("pages"), turns: pages }])
        .on("resources/templates/list", [Step::Result(json!({"resourceTemplates":
            [{"uriTemplate": "paper://{n}", "name": "Any"}]}))])
        .on("resources/read", [Step::Result(json!({"contents":
            [{"uri": "paper://1", "mimeType": "text/plain", "text": "hello", "extra": 1.50}]}))])
        .on("prompts/list", [Step::Result(json!({"prompts":
            [{"name": "greet", "description": "Greets", "arguments": [{"name": "who", "required": true}]}]}))])
        .on("prompts/get", [Step::Result(json!({"messages":
            [{"role": "user", "content": {"type": "text", "text": "hi"}}]}))])
}

#[tokio::test]
async fn dis_36_min_72_and_73_resources_and_prompts_are_listed_and_read() {
    let folder = tempfile::tempdir().unwrap();
    let api_server = TestApi::new(&[("papers", documents(folder.path()), json!({}))]).await;
    let list = api_server.get("resources").await;
    let uris: Vec<&Value> =
        list["resources"].as_array().unwrap().iter().map(|it| &it["uri"]).collect();
    assert_eq!(uris, ["paper://1", "paper://2"]); // DIS-36: both pages; MIN-72
    assert_eq!(list["resources"][0]["mime_type"], "text/plain");
    assert_eq!(list["templates"][0]["uri_template"], "paper://{n}"); // MIN-72
    let read =
        api_server.send(Credential::Socket, "GET resources/content?uri=paper://1", None).await;
    assert_eq!(read.json()["contents"][0]["text"], "hello"); // DIS-36, MIN-72
    assert!(read.text.contains("\"extra\":1.5"), "{}", read.text);
    let nothing =
        api_server.send(Credential::Socket, "GET resources/content?uri=other://1", None).await;
    assert_eq!(nothing.status_and_code(), (404, "unknown_resource".to_owned()));
    let prompts = api_server.get("prompts").await;
    assert_eq!(prompts["prompts"][0]["arguments"][0]["name"], "who"); // MIN-73
    let name = prompts["prompts"][0]["name"].as_str().unwrap();
    let got = api_server.post(&format!("prompts/{name}"), json!({"arguments": {"who": "7"}})).await;
    assert_eq!(got["messages"][0]["content"]["text"], "hi"); // MIN-73
    let sent = api_server
        .host_fixture
        .log("papers")
        .into_iter()
        .find(|it| it["method"] == "prompts/get")
        .unwrap();
    assert_eq!(sent["params"]["arguments"], json!({"who": "7"})); // MIN-73: text, whatever it looks like
    assert_eq!(api_server.send(Credential::Socket, "POST prompts/none", None).await.status, 404);
    api_server.close().await;
}

#[tokio::test]
async fn dkr_44_list_change_is_reread_and_notified() {
    let folder = tempfile::tempdir().unwrap();
    let schema = json!({"type": "object"});
    let tool = |name: &str| json!({"name": name, "inputSchema": schema});
    let lists = vec![
        vec![Step::Result(json!({"tools": [tool("poke")]}))],
        vec![Step::Result(json!({"tools": [tool("poke"), tool("late")]}))],
    ];
    let changed = Step::Notify {
        method: "notifications/tools/list_changed".to_owned(),
        params: json!({}),
        times: 1,
    };
    let script = Script { legacy_only: true, ..Script::default() }
        .on("tools/list", [Step::Sequence { count: folder.path().join("lists"), turns: lists }])
        .on("tools/call poke", [changed, Step::Respond]);
    let api_server =
        TestApi::new(&[("one", script, json!({"session": {"scope": "shared"}}))]).await;
    assert_eq!(tool_names(&api_server.get("tools").await), ["one__poke"]);
    let mut events = api_server.event_stream(Credential::Socket, "GET events", None).await;
    let dialog = api_server.dialog(json!({})).await;
    api_server.call(&dialog, "one__poke", json!({})).await;
    let told = events.wait_for("tools", |data| data["server"] == "toolcrib.yaml#one").await; // DKR-44
    assert_eq!(told["changes"][0]["name"], "late");
    assert_eq!(told["changes"][0]["kind"], "added");
    poll_until(async || {
        (tool_names(&api_server.get("tools").await) == ["one__poke", "one__late"]).then_some(())
    })
    .await; // DKR-44
    with_timeout(api_server.close()).await;
}

#[tokio::test]
async fn session_list_change_emits_an_event_for_its_dialog() {
    let grow = [Step::AddTool("late".to_owned()), Step::Respond];
    let script = Script { legacy_only: true, ..Script::default() }.on("tools/call grow", grow);
    let api_server = TestApi::new(&[("one", script, json!({}))]).await;
    let before = api_server.get("tools").await;
    let mut events = api_server.event_stream(Credential::Socket, "GET events", None).await;
    let dialog = api_server.dialog(json!({})).await;
    api_server.call(&dialog, "one__grow", json!({})).await;
    events.wait_for("offered", |data| data["dialog"] == dialog.as_str()).await;
    let own = api_server.get(&format!("dialogs/{dialog}/tools")).await;
    assert!(tool_names(&own).contains(&"one__late"), "{own}");
    assert_eq!(tool_names(&api_server.get("tools").await), tool_names(&before));
    with_timeout(api_server.close()).await;
}
