//! Real servers from npm and PyPI in one host, configured in four formats.

use serde_json::{Value, json};
use toolcrib::{Dialog, DialogCapabilities, DialogRequest, Host};
use toolcrib_testkit::time_limit::with_time_limit;
use toolcrib_testkit::{command, peers};

use crate::workspace::{
    TestWorkspace, call_text, call_tool, open_dialog, raw, server_status, tool_names, wait_until,
};

fn npm(name: &str) -> Value {
    let package = format!("@modelcontextprotocol/server-{name}");
    json!(peers::npm_program(&package, &format!("mcp-server-{name}")).unwrap())
}

fn python(name: &str) -> Value {
    json!(peers::python_program("v2", name, name).unwrap())
}

/// A typical workspace: one server in each of four files.
fn write_workspace(workspace: &TestWorkspace) {
    let root = workspace.root();
    command::run_command("git", &["init", "-q", root.to_str().unwrap()], &root).unwrap();
    let file = |name: &str, value: Value| workspace.write(name, &value.to_string());
    file(
        ".minds/mcp.yaml",
        json!({"version": 1, "servers": {"memory": {
            "transport": "stdio", "command": npm("memory"),
            "env": {"MEMORY_FILE_PATH": workspace.folder.path().join("memory.jsonl")},
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

async fn start_host(workspace: &TestWorkspace) -> Host {
    #[expect(clippy::disallowed_methods, reason = "node is where the machine has it")]
    let env = std::env::vars();
    let capabilities = DialogCapabilities { elicitation: true, ..DialogCapabilities::default() };
    let host = with_time_limit(workspace.builder().env(env).capabilities(capabilities).start())
        .await
        .unwrap();
    with_time_limit(host.wait_until_settled()).await;
    host
}

#[tokio::test]
async fn dom_03_dis_46_servers_of_four_formats_serve_one_dialog() {
    let workspace = TestWorkspace::new();
    write_workspace(&workspace);
    let host = start_host(&workspace).await;
    let one = open_dialog(&host, "default").await;
    let seen = tool_names(&one).await;
    for name in
        ["memory_read_graph", "files__read_text_file", "everything__echo", "mcp_git_git_status"]
    {
        assert!(seen.iter().any(|seen| seen == name), "{name} is not in {seen:?}");
    }
    let errors: Vec<_> = host.problems().into_iter().filter(|problem| problem.is_error()).collect();
    assert!(errors.is_empty(), "{errors:?}");

    assert!(call_text(&one, "everything__echo", &json!({"message": "hi"})).await.contains("hi"));
    let here = json!({"repo_path": workspace.root()});
    assert!(call_text(&one, "mcp_git_git_status", &here).await.contains("toolcrib.yaml"));
    let ada = json!({"name": "Ada", "entityType": "person", "observations": ["counts"]});
    call_tool(&one, "memory_create_entities", &json!({"entities": [ada]})).await.unwrap();
    assert!(call_text(&one, "memory_read_graph", &json!({})).await.contains("Ada"));
    let note = workspace.root().join("note.txt");
    std::fs::write(&note, "every tool in its place").unwrap();
    let read = call_text(&one, "files__read_text_file", &json!({"path": note})).await;
    assert_eq!(read, "every tool in its place");

    // Resources and prompts of the same servers.
    let turn = with_time_limit(one.turn()).await;
    let resource =
        turn.resources().into_iter().find(|it| it.server().id() == "everything").unwrap();
    assert!(
        with_time_limit(turn.read_resource(resource.uri(), None))
            .await
            .unwrap()
            .text()
            .contains("contents")
    );
    let prompt =
        turn.prompts().into_iter().find(|it| it.original_name() == "simple-prompt").unwrap();
    let filled = with_time_limit(turn.get_prompt(prompt.name(), raw(&json!({})))).await.unwrap();
    assert!(filled.text().contains("messages"));
    drop(turn);

    let pids: Vec<u32> = host.servers().iter().filter_map(|server| server.pid).collect();
    with_time_limit(host.close()).await;
    wait_until("no process is left", || pids.iter().all(|pid| !crate::workspace::is_alive(*pid)))
        .await;
}

/// Two dialogs have two processes and share no state.
#[tokio::test]
async fn dom_61_dialogs_do_not_share_a_stateful_server() {
    let workspace = TestWorkspace::new();
    let command = npm("sequential-thinking");
    let entry = json!({"command": command, "session": {"scope": "per_conversation"}});
    workspace.write_servers(&json!({"think": entry}));
    let host = start_host(&workspace).await;
    let (one, two) = (open_dialog(&host, "default").await, open_dialog(&host, "default").await);
    let think = async |dialog: &Dialog, number: u32| -> Value {
        let thought = json!({"thought": "x", "thoughtNumber": number, "totalThoughts": 5, "nextThoughtNeeded": true});
        let called = call_tool(dialog, "think__sequentialthinking", &thought).await.unwrap();
        let result: Value = serde_json::from_str(called.result.raw().text()).unwrap();
        result["structuredContent"]["thoughtHistoryLength"].clone()
    };
    assert_eq!(think(&one, 1).await, 1);
    assert_eq!(think(&one, 2).await, 2);
    assert_eq!(think(&two, 1).await, 1);
    assert_eq!((one.leases().len(), two.leases().len()), (1, 1));
    // DOM-62
    assert_eq!(one.reminders().len(), 1);
    with_time_limit(one.close()).await;
    wait_until("its lease has ended", || server_status(&host, "think").leases == 1).await;
    assert_eq!(think(&two, 2).await, 2);
    with_time_limit(host.close()).await;
}

/// DIS-41: the client answers a server's request during a call.
#[tokio::test]
async fn dis_41_request_of_a_real_server_is_answered_through_the_dialog() {
    let workspace = TestWorkspace::new();
    let entry = json!({"command": npm("everything"), "args": ["stdio"]});
    workspace.write_servers(&json!({"everything": entry}));
    let host = start_host(&workspace).await;
    let capabilities =
        Some(DialogCapabilities { elicitation: true, ..DialogCapabilities::default() });
    let asked = DialogRequest { capabilities, ..DialogRequest::default() };
    let dialog = with_time_limit(host.open_dialog(asked)).await.unwrap();
    let tool = "everything__trigger-elicitation-request";
    assert!(tool_names(&dialog).await.iter().any(|name| name == tool));
    let calling = dialog.start_call(crate::workspace::request(tool, &json!({}))).unwrap();
    wait_until("the server sends its request", || !dialog.pending_requests().is_empty()).await;
    let question = dialog.pending_requests().remove(0);
    assert_eq!((&*question.server, question.method.as_str()), ("everything", "elicitation/create"));
    assert_eq!(question.call, Some(calling));
    let answer = json!({"action": "accept", "content": {"name": "Ada"}});
    assert!(dialog.answer_request(question.id, Ok(raw(&answer))));
    assert!(!dialog.answer_request(question.id, Ok(raw(&answer))));
    let called = with_time_limit(dialog.wait_for_call(calling)).await.unwrap();
    let reported = called.outcome.unwrap().raw().text().to_owned();
    assert!(reported.contains("Ada"), "{reported}");
    with_time_limit(host.close()).await;
}

/// A server with tools that need elicitation lists them only for clients with that capability.
#[tokio::test]
async fn real_server_lists_differ_by_client_capabilities() {
    let workspace = TestWorkspace::new();
    let entry = json!({"command": npm("everything"), "args": ["stdio"]});
    workspace.write_servers(&json!({"everything": entry}));
    let host = start_host(&workspace).await;
    let mut dialogs = Vec::new();
    for capabilities in [
        DialogCapabilities::default(),
        DialogCapabilities { elicitation: true, ..DialogCapabilities::default() },
    ] {
        let asked = DialogRequest { capabilities: Some(capabilities), ..DialogRequest::default() };
        dialogs.push(with_time_limit(host.open_dialog(asked)).await.unwrap());
    }
    let tool = "everything__trigger-elicitation-request";
    let has = async |dialog: &Dialog| tool_names(dialog).await.iter().any(|name| name == tool);
    assert!(has(&dialogs[0]).await && has(&dialogs[1]).await, "no dialog has a session yet");
    for dialog in &dialogs {
        call_text(dialog, "everything__echo", &json!({"message": "hi"})).await;
    }
    with_time_limit(async {
        while has(&dialogs[0]).await {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    })
    .await;
    assert!(has(&dialogs[1]).await && tool_names(&dialogs[0]).await.len() > 5);
    with_time_limit(host.close()).await;
}

/// DIS-40: a server that requests roots works in the dialog's folder.
#[tokio::test]
async fn dis_40_a_real_server_works_in_the_folder_of_the_dialog() {
    let workspace = TestWorkspace::new();
    let elsewhere = workspace.folder.path().join("elsewhere");
    let other = workspace.folder.path().join("other");
    for folder in [&elsewhere, &other] {
        std::fs::create_dir(folder).unwrap();
    }
    let entry = json!({"command": npm("filesystem"), "args": [elsewhere]});
    workspace.write_servers(&json!({"files": entry}));
    let host = start_host(&workspace).await;
    let there = DialogRequest { cwd: Some(other.clone()), ..DialogRequest::default() };
    let (here, there) = (
        open_dialog(&host, "default").await,
        with_time_limit(host.open_dialog(there)).await.unwrap(),
    );
    for (dialog, folder) in [(&here, workspace.root()), (&there, other)] {
        let folder = folder.to_str().unwrap().to_owned();
        // The server requests the roots after the handshake and does not report when it has applied
        // them.
        let asks = async {
            let tool = "files__list_allowed_directories";
            while !call_text(dialog, tool, &json!({})).await.contains(&folder) {}
        };
        with_time_limit(asks).await;
    }
    with_time_limit(host.close()).await;
}
