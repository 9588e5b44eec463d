//! Tests of several servers under one supervisor.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use toolcrib_config::ServerSpec;
use toolcrib_testkit::scripted::{Script, Step};
use toolcrib_upstream::conn::{ConnUpdate, Demand, ServerState};
use toolcrib_upstream::supervise::{
    ConnRole, DedicatedOptions, Server, ServerOptions, Supervisor, SupervisorListener,
};

use crate::test_host::{
    TestHost, call_tool, is_alive, result_text, session_client, wait_until, with_time_limit,
};

/// Time limit for a failing test.
const LIMIT: Duration = Duration::from_secs(20);

#[derive(Default)]
struct StateLog(Mutex<Vec<(u64, ConnRole, String)>>);

impl SupervisorListener for StateLog {
    fn on_update(&self, server: u64, role: &ConnRole, update: ConnUpdate) {
        if let ConnUpdate::StateChanged(view) = update {
            let state = view.lifecycle.state().as_str().to_owned();
            self.0.lock().unwrap().push((server, role.clone(), state));
        }
    }
}

fn refusing_client() -> toolcrib_upstream::conn::SessionClient {
    session_client(json!({}), toolcrib_upstream::conn::peer::RefuseRequests)
}

fn terms(host: &TestHost) -> ServerOptions {
    ServerOptions { cwd: host.path().to_owned(), drain_kill: None, client: refusing_client() }
}

/// Adds servers from their configuration entries.
async fn start_servers(host: &TestHost, servers: Value) -> (Supervisor, Vec<Arc<Server>>) {
    let text = json!({"version": 1, "servers": servers}).to_string();
    let specs: Vec<ServerSpec> = host.servers("toolcrib.yaml", &text);
    let supervisor = Supervisor::new(Arc::clone(&host.context), Arc::new(StateLog::default()));
    let mut all = Vec::new();
    for spec in specs {
        all.push(with_time_limit(supervisor.add_server(Arc::new(spec), terms(host))).await);
    }
    (supervisor, all)
}

fn pid(server: &Server) -> u32 {
    server.main().view().session.unwrap().peer().link_info().pid.unwrap()
}

#[tokio::test]
async fn failed_servers_do_not_affect_a_healthy_one() {
    let host = TestHost::new();
    let (supervisor, servers) = start_servers(
        &host,
        json!({
            "bad": {"command": "no-such-program"},
            "dying": host.scripted(Script::default().start([Step::Exit(1)]), "log-dying"),
            "good": host.scripted(Script::default(), "log-good"),
        }),
    )
    .await;
    let permit = with_time_limit(servers[2].main().acquire_session(Demand::Call)).await.unwrap();
    call_tool(&permit.session, "echo", &json!({})).await.unwrap();
    for bad in &servers[..2] {
        wait_until("the first failure", || bad.main().view().lifecycle.last_error().is_some())
            .await;
    }
    drop(permit);
    with_time_limit(supervisor.close(LIMIT)).await;
    host.close().await;
}

#[tokio::test]
async fn dis_16_min_27_closing_ends_every_server() {
    let host = TestHost::new();
    let entry = |log: &str| host.scripted(Script::default(), log);
    let (supervisor, servers) =
        start_servers(&host, json!({"a": entry("a"), "b": entry("b"), "c": entry("c")})).await;
    for server in &servers {
        with_time_limit(server.main().acquire_session(Demand::Call)).await.unwrap();
    }
    let pids: Vec<u32> = servers.iter().map(|server| pid(server)).collect();
    with_time_limit(supervisor.close(LIMIT)).await;
    assert!(pids.iter().all(|pid| !is_alive(*pid)));
    assert!(supervisor.servers().is_empty());
    assert!(
        servers.iter().all(|server| server.main().view().lifecycle.state() == ServerState::Stopped)
    );
    host.close().await;
}

#[tokio::test]
async fn replaced_server_drains_while_the_new_one_serves() {
    let host = TestHost::new();
    let script = Script::default().on("tools/call slow", [Step::Sleep(400), Step::Respond]);
    let (supervisor, servers) =
        start_servers(&host, json!({"it": host.scripted(script, "log")})).await;
    let old = &servers[0];
    let permit = with_time_limit(old.main().acquire_session(Demand::Call)).await.unwrap();
    let old_pid = pid(old);
    let arguments = json!({});
    let slow = async {
        let answered = call_tool(&permit.session, "slow", &arguments).await;
        drop(permit);
        answered
    };
    let replace = async {
        wait_until("the call", || host.count("log", "tools/call") == 1).await;
        let new =
            with_time_limit(supervisor.add_server(Arc::clone(old.spec()), terms(&host))).await;
        with_time_limit(new.main().acquire_session(Demand::Call)).await.unwrap();
        supervisor.retire(old);
        assert_eq!(supervisor.draining(), 1);
        new
    };
    let (answered, new) = tokio::join!(slow, replace);
    answered.unwrap();
    assert_ne!(new.number(), old.number());
    wait_until("the old server drains", || supervisor.draining() == 0).await;
    assert!(!is_alive(old_pid) && is_alive(pid(&new)));
    with_time_limit(supervisor.close(LIMIT)).await;
    host.close().await;
}

#[tokio::test]
async fn dialogs_have_own_processes_and_the_first_takes_the_main_one() {
    let host = TestHost::new();
    let mut entry = host.scripted(Script::default(), "log");
    entry["session"] = json!({"scope": "per_conversation"});
    let (supervisor, servers) = start_servers(&host, json!({"it": entry})).await;
    let server = &servers[0];
    with_time_limit(server.main().acquire_session(Demand::List)).await.unwrap();
    let listed = pid(server);
    let first = server.lend_main().unwrap();
    assert!(server.lend_main().is_none());
    let second = server.open_dedicated(DedicatedOptions::default());
    let mut pids = Vec::new();
    for spare in [&first, &second] {
        let permit = with_time_limit(spare.conn().acquire_session(Demand::Call)).await.unwrap();
        let env = call_tool(&permit.session, "env", &json!({})).await.unwrap();
        assert!(result_text(&env).contains("TOOLCRIB_OWNER"));
        pids.push(permit.session.peer().link_info().pid.unwrap());
    }
    assert_eq!(pids[0], listed);
    assert_ne!(pids[1], listed);
    assert_eq!(server.sessions(), 2);
    with_time_limit(first.close()).await;
    with_time_limit(second.close()).await;
    drop((first, second));
    wait_until("both processes end", || pids.iter().all(|pid| !is_alive(*pid))).await;
    assert_eq!(server.sessions(), 0);
    // The lists stay known, and the next dialog may borrow the main connection.
    assert!(server.main().view().catalog.is_some());
    let third = server.lend_main().unwrap();
    let permit = with_time_limit(third.conn().acquire_session(Demand::Call)).await.unwrap();
    assert_eq!(permit.session.peer().link_info().pid, Some(pid(server)));
    drop((permit, third));
    with_time_limit(supervisor.close(LIMIT)).await;
    host.close().await;
}

#[tokio::test]
async fn dropped_dedicated_connection_ends_at_once() {
    let host = TestHost::new();
    let script = Script { ignore_sigterm: true, ignore_end: true, ..Script::default() };
    let mut entry = host.scripted(script, "log");
    entry["session"] = json!({"scope": "per_call", "discovery": "keep"});
    let (supervisor, servers) = start_servers(&host, json!({"it": entry})).await;
    let spare = servers[0].open_dedicated(DedicatedOptions::default());
    let permit = with_time_limit(spare.conn().acquire_session(Demand::Call)).await.unwrap();
    let spare_pid = permit.session.peer().link_info().pid.unwrap();
    drop(permit);
    drop(spare);
    wait_until("the process ends", || !is_alive(spare_pid)).await;
    with_time_limit(servers[0].main().acquire_session(Demand::Call)).await.unwrap();
    assert_eq!(servers[0].sessions(), 1);
    with_time_limit(supervisor.close(LIMIT)).await;
    host.close().await;
}

#[tokio::test]
async fn dkr_19_and_20_each_call_has_its_own_session_beside_the_discovery_session() {
    let host = TestHost::new();
    let mut entry = host.scripted(Script { legacy_only: true, ..Script::default() }, "log");
    entry["protocol"] = json!("legacy");
    entry["session"] = json!({"scope": "per_call", "discovery": "keep"});
    let (supervisor, servers) = start_servers(&host, json!({"it": entry})).await;
    let server = &servers[0];
    with_time_limit(server.main().acquire_session(Demand::List)).await.unwrap();
    let stays = pid(server);
    let mut pids = Vec::new();
    for _ in 0..3 {
        let spare = server.open_dedicated(DedicatedOptions::default());
        let permit = with_time_limit(spare.conn().acquire_session(Demand::Call)).await.unwrap();
        call_tool(&permit.session, "echo", &json!({})).await.unwrap();
        pids.push(permit.session.peer().link_info().pid.unwrap());
        assert_eq!(server.sessions(), 2);
        drop(permit);
        with_time_limit(spare.close()).await;
    }
    assert_eq!((server.sessions(), pid(server)), (1, stays));
    assert!(pids.iter().all(|pid| !is_alive(*pid) && *pid != stays));
    assert_eq!(host.count("log", "initialize"), 4);
    with_time_limit(supervisor.close(LIMIT)).await;
    host.close().await;
}

#[tokio::test]
async fn dropped_lent_connection_is_not_lent_again() {
    let host = TestHost::new();
    let mut entry = host.scripted(Script::default(), "log");
    entry["session"] = json!({"scope": "per_conversation"});
    let (supervisor, servers) = start_servers(&host, json!({"it": entry})).await;
    let server = &servers[0];
    with_time_limit(server.main().acquire_session(Demand::List)).await.unwrap();
    let spare_pid = pid(server);
    drop(server.lend_main().unwrap());
    wait_until("the session process ends", || !is_alive(spare_pid)).await;
    assert!(server.lend_main().is_none());
    let next = server.open_dedicated(DedicatedOptions::default());
    with_time_limit(next.conn().acquire_session(Demand::Call)).await.unwrap();
    assert!(server.main().view().session.is_none());
    drop(next);
    with_time_limit(supervisor.close(LIMIT)).await;
    host.close().await;
}
