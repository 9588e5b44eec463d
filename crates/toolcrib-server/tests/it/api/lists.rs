//! What agents see: tools and why, resources, prompts; and that a list is always one state of things.

use serde_json::{Value, json};
use toolcrib_testkit::scripted::{Script, Step};

use super::{By, Crib, names, until};
use crate::scene::within;

#[tokio::test]
async fn min_68_a_tool_tells_what_it_is_of() {
    let crib =
        Crib::new(&[("one", Script::default(), json!({})), ("two", Script::default(), json!({}))])
            .await;
    let all = crib.get("tools").await;
    assert_eq!(
        names(&all),
        ["one__echo", "one__fail", "one__env", "two__echo", "two__fail", "two__env"]
    );
    let echo = &all["tools"][3];
    assert_eq!((&echo["server"], &echo["original_name"]), (&json!("two"), &json!("echo"))); // MIN-68
    assert_eq!(
        (&echo["available"], &echo["input_schema"]["type"]),
        (&json!(true), &json!("object"))
    ); // MIN-68
    assert_eq!(names(&crib.get("tools?server=two").await), ["two__echo", "two__fail", "two__env"]); // MIN-68
    let unknown = crib.ask(By::Socket, "GET tools?server=three", None).await;
    assert_eq!(unknown.failure(), (404, "server.unknown".to_owned()));
    let why = crib.get("why?tool=two__echo").await;
    assert_eq!((&why["usable"], &why["server"]), (&json!(true), &json!("toolcrib.yaml#two")));
    assert_eq!(why["gates"].as_array().unwrap().len(), 4);
    assert_eq!(crib.get("why?tool=nothing").await["known"], false);
    assert_eq!(
        crib.ask(By::Socket, "GET why", None).await.failure(),
        (400, "request.invalid".to_owned())
    );
    crib.end().await;
}

#[tokio::test]
async fn dom_70_every_list_is_of_the_old_or_of_the_new_configuration() {
    let turning = |generation: usize| {
        let tools = ["a", "b", "c"].map(|name| format!("{name}{generation}")).to_vec();
        let policy = json!({"lifecycle": {"connect": "eager"},
            "expose": {"tools": {"allow": ["a*", "b*", "c*"]}}});
        let other = json!({"lifecycle": {"connect": "eager"}});
        [("one", Script { tools, ..Script::default() }, policy), ("two", Script::default(), other)]
    };
    let crib = Crib::new(&turning(0)).await;
    let first = crib.get("tools").await;
    let untouched: Vec<String> = names(&first).into_iter().skip(3).map(str::to_owned).collect();
    assert!(untouched.len() == 3 && untouched.iter().all(|name| name.starts_with("two__")));
    let reloads = async {
        for generation in 1..=200 {
            crib.scene.servers(&turning(generation));
            assert_eq!(crib.post("reload", json!({})).await["ok"], true);
            let list = crib.get("tools?wait=false").await;
            assert_eq!(names(&list)[0], format!("one__a{generation}"));
        }
    };
    let mut lists = 0;
    let polls = async {
        loop {
            let list = crib.get("tools?wait=false").await;
            let names = names(&list);
            let generation = names[0].trim_start_matches("one__a");
            let mut whole: Vec<String> =
                ["a", "b", "c"].map(|name| format!("one__{name}{generation}")).to_vec();
            whole.extend(untouched.clone());
            assert_eq!(names, whole); // DOM-70: the old or the new, whole
            lists += 1;
        }
    };
    within(async {
        tokio::select! {
            () = reloads => {}
            () = polls => {}
        }
    })
    .await;
    assert!(lists > 200, "{lists}");
    crib.end().await;
}

#[tokio::test]
async fn dom_84_the_version_grows_with_each_reload_that_is_good() {
    let crib = Crib::new(&[("one", Script::default(), json!({}))]).await;
    let version = async || crib.get("status").await["registry_version"].as_u64().unwrap();
    let first = version().await;
    let reload = crib.post("reload", json!({})).await;
    assert_eq!((&reload["ok"], &reload["steps"][0]["action"]), (&json!(true), &json!("keep")));
    let second = version().await;
    assert_eq!(second, first + 1); // DOM-84
    std::fs::write(crib.scene.path("root/toolcrib.yaml"), "servers: [").unwrap();
    let reload = crib.post("reload", json!({})).await;
    assert_eq!(
        (&reload["ok"], &reload["problems"][0]["severity"]),
        (&json!(false), &json!("error"))
    );
    assert_eq!(version().await, second); // DOM-84: unchanged after one that failed
    assert_eq!(crib.get("reload").await["ok"], false);
    assert_eq!(names(&crib.get("tools").await).len(), 3);
    crib.end().await;
}

#[tokio::test]
async fn dom_92_a_problem_is_shown_until_its_cause_is_gone() {
    let crib =
        Crib::new(&[("gone", Script::default(), json!({"command": "/no/such/program"}))]).await;
    let problems = async || crib.get("problems").await;
    let shown = until(async || {
        let now = problems().await;
        now["problems"].as_array().is_some_and(|all| !all.is_empty()).then_some(now)
    })
    .await;
    let problem = &shown["problems"][0];
    let told = (&problem["server"], &problem["code"]);
    assert_eq!(told, (&json!("gone"), &json!("stdio.spawn.not_found")), "{shown}"); // DOM-92
    assert!(problem["text"].is_string() && problem["fix"].is_string());
    crib.scene.servers(&[("gone", Script::default(), json!({}))]);
    crib.post("reload", json!({})).await;
    until(async || (problems().await["problems"] == json!([])).then_some(())).await; // DOM-92
    crib.end().await;
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
        .on("resources/list", [Step::Turns { count: folder.join("pages"), turns: pages }])
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
    let crib = Crib::new(&[("papers", documents(folder.path()), json!({}))]).await;
    let list = crib.get("resources").await;
    let uris: Vec<&Value> =
        list["resources"].as_array().unwrap().iter().map(|it| &it["uri"]).collect();
    assert_eq!(uris, ["paper://1", "paper://2"]); // DIS-36: both pages; MIN-72
    assert_eq!(list["resources"][0]["mime_type"], "text/plain");
    assert_eq!(list["templates"][0]["uri_template"], "paper://{n}"); // MIN-72
    let read = crib.ask(By::Socket, "GET resources/content?uri=paper://1", None).await;
    assert_eq!(read.json()["contents"][0]["text"], "hello"); // DIS-36, MIN-72
    assert!(read.text.contains("\"extra\":1.5"), "{}", read.text);
    let nothing = crib.ask(By::Socket, "GET resources/content?uri=other://1", None).await;
    assert_eq!(nothing.failure(), (404, "unknown_resource".to_owned()));
    let prompts = crib.get("prompts").await;
    assert_eq!(prompts["prompts"][0]["arguments"][0]["name"], "who"); // MIN-73
    let name = prompts["prompts"][0]["name"].as_str().unwrap();
    let got = crib.post(&format!("prompts/{name}"), json!({"arguments": {"who": "7"}})).await;
    assert_eq!(got["messages"][0]["content"]["text"], "hi"); // MIN-73
    let sent =
        crib.scene.log("papers").into_iter().find(|it| it["method"] == "prompts/get").unwrap();
    assert_eq!(sent["params"]["arguments"], json!({"who": "7"})); // MIN-73: text, whatever it looks like
    assert_eq!(crib.ask(By::Socket, "POST prompts/none", None).await.status, 404);
    crib.end().await;
}

#[tokio::test]
async fn dkr_44_a_list_that_changes_is_followed_and_told() {
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
        .on("tools/list", [Step::Turns { count: folder.path().join("lists"), turns: lists }])
        .on("tools/call poke", [changed, Step::Answer]);
    let crib = Crib::new(&[("one", script, json!({"session": {"scope": "shared"}}))]).await;
    assert_eq!(names(&crib.get("tools").await), ["one__poke"]);
    let mut events = crib.stream(By::Socket, "GET events", None).await;
    let dialog = crib.dialog(json!({})).await;
    crib.call(&dialog, "one__poke", json!({})).await;
    let told = events.until("tools", |data| data["server"] == "toolcrib.yaml#one").await; // DKR-44
    assert_eq!(told["changes"][0]["name"], "late");
    assert_eq!(told["changes"][0]["kind"], "added");
    until(async || (names(&crib.get("tools").await) == ["one__poke", "one__late"]).then_some(()))
        .await; // DKR-44
    within(crib.end()).await;
}

#[tokio::test]
async fn a_list_that_changes_in_a_dialogs_own_session_is_told_to_whoever_has_the_dialog() {
    let grow = [Step::Offer("late".to_owned()), Step::Answer];
    let script = Script { legacy_only: true, ..Script::default() }.on("tools/call grow", grow);
    let crib = Crib::new(&[("one", script, json!({}))]).await;
    let before = crib.get("tools").await;
    let mut events = crib.stream(By::Socket, "GET events", None).await;
    let dialog = crib.dialog(json!({})).await;
    crib.call(&dialog, "one__grow", json!({})).await;
    events.until("offered", |data| data["dialog"] == dialog.as_str()).await;
    let own = crib.get(&format!("dialogs/{dialog}/tools")).await;
    assert!(names(&own).contains(&"one__late"), "{own}");
    assert_eq!(names(&crib.get("tools").await), names(&before));
    within(crib.end()).await;
}
