//! Real servers of npm and PyPI behind one host, configured in four formats at once.

use serde_json::{Value, json};
use toolcrib::host::{Answers, DialogRequest};
use toolcrib::{Dialog, Host};
use toolcrib_testkit::time_limit::within;
use toolcrib_testkit::{ask, peers};

use super::stage::{Stage, call, dialog, names, raw, server, text, until};

fn npm(name: &str) -> Value {
    let package = format!("@modelcontextprotocol/server-{name}");
    json!(peers::npm(&package, &format!("mcp-server-{name}")).unwrap())
}

fn python(name: &str) -> Value {
    json!(peers::python("v2", name, name).unwrap())
}

/// A workspace as people have it: one server in each of four files.
fn workspace(stage: &Stage) {
    let root = stage.root();
    ask::ask("git", &["init", "-q", root.to_str().unwrap()], &root).unwrap();
    let file = |name: &str, value: Value| stage.write(name, &value.to_string());
    file(
        ".minds/mcp.yaml",
        json!({"version": 1, "servers": {"memory": {
            "transport": "stdio", "command": npm("memory"),
            "env": {"MEMORY_FILE_PATH": stage.folder.path().join("memory.jsonl")},
            "transform": [{"prefix": "memory_"}],
        }}}),
    );
    file(
        ".dispatch/mcp.json",
        json!({"servers": {"files": {"command": npm("filesystem"), "args": [root]}}}),
    );
    file(
        "toolcrib.yaml",
        json!({
            "version": 1,
            "include": [{"path": "minion.json", "dialect": "minion"}],
            "servers": {"everything": {"command": npm("everything"), "args": ["stdio"]}},
        }),
    );
    file(
        "minion.json",
        json!({"servers": [{
            "ServerName": "git", "Transport": "stdio", "Command": python("mcp-server-git"),
            "Args": ["--repository", root],
        }]}),
    );
}

async fn start(stage: &Stage) -> Host {
    #[expect(clippy::disallowed_methods, reason = "node is where the machine has it")]
    let env = std::env::vars();
    let answers = Answers { elicitation: true, ..Answers::default() };
    let host = within(stage.builder().env(env).answers(answers).start()).await.unwrap();
    within(host.settled()).await;
    host
}

#[tokio::test]
async fn dom_03_dis_46_servers_of_four_formats_serve_one_dialog() {
    let stage = Stage::new();
    workspace(&stage);
    let host = start(&stage).await;
    let one = dialog(&host, "default").await;
    let seen = names(&one).await;
    for name in
        ["memory_read_graph", "files__read_text_file", "everything__echo", "mcp_git_git_status"]
    {
        assert!(seen.iter().any(|seen| seen == name), "{name} is not in {seen:?}");
    }
    let errors: Vec<_> = host.problems().into_iter().filter(|problem| problem.is_error()).collect();
    assert!(errors.is_empty(), "{errors:?}");

    assert!(text(&one, "everything__echo", &json!({"message": "hi"})).await.contains("hi"));
    let here = json!({"repo_path": stage.root()});
    assert!(text(&one, "mcp_git_git_status", &here).await.contains("toolcrib.yaml"));
    let ada = json!({"name": "Ada", "entityType": "person", "observations": ["counts"]});
    call(&one, "memory_create_entities", &json!({"entities": [ada]})).await.unwrap();
    assert!(text(&one, "memory_read_graph", &json!({})).await.contains("Ada"));
    let note = stage.root().join("note.txt");
    std::fs::write(&note, "every tool in its place").unwrap();
    let read = text(&one, "files__read_text_file", &json!({"path": note})).await;
    assert_eq!(read, "every tool in its place");

    // Resources and prompts of the same servers.
    let turn = within(one.turn()).await;
    let resource =
        turn.resources().into_iter().find(|it| it.server().id() == "everything").unwrap();
    assert!(within(turn.read(resource.uri(), None)).await.unwrap().text().contains("contents"));
    let prompt =
        turn.prompts().into_iter().find(|it| it.original_name() == "simple-prompt").unwrap();
    let filled = within(turn.prompt(prompt.name(), raw(&json!({})))).await.unwrap();
    assert!(filled.text().contains("messages"));
    drop(turn);

    let pids: Vec<u32> = host.servers().iter().filter_map(|server| server.pid).collect();
    within(host.close()).await;
    until("nothing is left", || pids.iter().all(|pid| !super::stage::is_alive(*pid))).await;
}

/// Two dialogs, two processes: what one keeps in mind the other does not know.
#[tokio::test]
async fn dom_61_dialogs_do_not_share_a_stateful_server() {
    let stage = Stage::new();
    let command = npm("sequential-thinking");
    let entry = json!({"command": command, "session": {"scope": "per_conversation"}});
    stage.servers(&json!({"think": entry}));
    let host = start(&stage).await;
    let (one, two) = (dialog(&host, "default").await, dialog(&host, "default").await);
    let think = async |dialog: &Dialog, number: u32| -> Value {
        let thought = json!({"thought": "x", "thoughtNumber": number, "totalThoughts": 5, "nextThoughtNeeded": true});
        let called = call(dialog, "think__sequentialthinking", &thought).await.unwrap();
        let result: Value = serde_json::from_str(called.result.raw().text()).unwrap();
        result["structuredContent"]["thoughtHistoryLength"].clone()
    };
    assert_eq!(think(&one, 1).await, 1);
    assert_eq!(think(&one, 2).await, 2);
    assert_eq!(think(&two, 1).await, 1);
    assert_eq!((one.leases().len(), two.leases().len()), (1, 1));
    // DOM-62
    assert_eq!(one.reminders().len(), 1);
    within(one.end()).await;
    until("its lease has ended", || server(&host, "think").leases == 1).await;
    assert_eq!(think(&two, 2).await, 2);
    within(host.close()).await;
}

/// DIS-41: a person answers what a server asks within a call.
#[tokio::test]
async fn dis_41_a_question_of_a_real_server_reaches_the_dialog_and_is_answered() {
    let stage = Stage::new();
    let entry = json!({"command": npm("everything"), "args": ["stdio"]});
    stage.servers(&json!({"everything": entry}));
    let host = start(&stage).await;
    let answers = Some(Answers { elicitation: true, ..Answers::default() });
    let asked = DialogRequest { answers, ..DialogRequest::default() };
    let dialog = within(host.dialog(asked)).await.unwrap();
    let tool = "everything__trigger-elicitation-request";
    assert!(names(&dialog).await.iter().any(|name| name == tool));
    let calling = dialog.start(super::stage::request(tool, &json!({}))).unwrap();
    until("it asks", || !dialog.questions().is_empty()).await;
    let question = dialog.questions().remove(0);
    assert_eq!((&*question.server, question.method.as_str()), ("everything", "elicitation/create"));
    assert_eq!(question.call, Some(calling));
    let answer = json!({"action": "accept", "content": {"name": "Ada"}});
    assert!(dialog.answer(question.id, Ok(raw(&answer))));
    assert!(!dialog.answer(question.id, Ok(raw(&answer))));
    let called = within(dialog.wait(calling)).await.unwrap();
    let told = called.outcome.unwrap().raw().text().to_owned();
    assert!(told.contains("Ada"), "{told}");
    within(host.close()).await;
}

/// A server that has tools only for whoever can be asked lists them for whom it can, and for nobody else.
#[tokio::test]
async fn what_a_real_server_lists_for_a_client_is_what_that_client_sees() {
    let stage = Stage::new();
    let entry = json!({"command": npm("everything"), "args": ["stdio"]});
    stage.servers(&json!({"everything": entry}));
    let host = start(&stage).await;
    let mut dialogs = Vec::new();
    for answers in [Answers::default(), Answers { elicitation: true, ..Answers::default() }] {
        let asked = DialogRequest { answers: Some(answers), ..DialogRequest::default() };
        dialogs.push(within(host.dialog(asked)).await.unwrap());
    }
    let tool = "everything__trigger-elicitation-request";
    let has = async |dialog: &Dialog| names(dialog).await.iter().any(|name| name == tool);
    assert!(has(&dialogs[0]).await && has(&dialogs[1]).await, "nobody has a session yet");
    for dialog in &dialogs {
        text(dialog, "everything__echo", &json!({"message": "hi"})).await;
    }
    within(async {
        while has(&dialogs[0]).await {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    })
    .await;
    assert!(has(&dialogs[1]).await && names(&dialogs[0]).await.len() > 5);
    within(host.close()).await;
}

/// DIS-40: a server that asks for its roots works in the folder of the dialog.
#[tokio::test]
async fn dis_40_a_real_server_works_in_the_folder_of_the_dialog() {
    let stage = Stage::new();
    let elsewhere = stage.folder.path().join("elsewhere");
    let other = stage.folder.path().join("other");
    for folder in [&elsewhere, &other] {
        std::fs::create_dir(folder).unwrap();
    }
    let entry = json!({"command": npm("filesystem"), "args": [elsewhere]});
    stage.servers(&json!({"files": entry}));
    let host = start(&stage).await;
    let there = DialogRequest { cwd: Some(other.clone()), ..DialogRequest::default() };
    let (here, there) = (dialog(&host, "default").await, within(host.dialog(there)).await.unwrap());
    for (dialog, folder) in [(&here, stage.root()), (&there, other)] {
        let folder = folder.to_str().unwrap().to_owned();
        // It asks after the handshake and does not say when it has taken the answer.
        let asks = async {
            let tool = "files__list_allowed_directories";
            while !text(dialog, tool, &json!({})).await.contains(&folder) {}
        };
        within(asks).await;
    }
    within(host.close()).await;
}
