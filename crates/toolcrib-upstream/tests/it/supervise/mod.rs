//! Many servers at once: each for itself, and all of them gone at the end.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use toolcrib_config::ServerSpec;
use toolcrib_testkit::scripted::{Script, Step};
use toolcrib_upstream::conn::{News, State, Want};
use toolcrib_upstream::supervise::{Other, Server, Supervisor, Terms, Watcher, Whose};

use crate::scene::{Scene, can, is_alive, text, tool, until, within};

/// Only bounds a failure.
const LIMIT: Duration = Duration::from_secs(20);

#[derive(Default)]
struct Log(Mutex<Vec<(u64, Whose, String)>>);

impl Watcher for Log {
    fn hear(&self, of: u64, whose: &Whose, news: News) {
        if let News::State(view) = news {
            let state = view.life.state().as_str().to_owned();
            self.0.lock().unwrap().push((of, whose.clone(), state));
        }
    }
}

fn nobody() -> toolcrib_upstream::conn::Caller {
    can(json!({}), toolcrib_upstream::conn::peer::NoRequests)
}

fn terms(scene: &Scene) -> Terms {
    Terms { cwd: scene.path().to_owned(), drain_kill: None, caller: nobody() }
}

/// Servers by their entries, all taken in.
async fn taken(scene: &Scene, servers: Value) -> (Supervisor, Vec<Arc<Server>>) {
    let text = json!({"version": 1, "servers": servers}).to_string();
    let specs: Vec<ServerSpec> = scene.servers("toolcrib.yaml", &text);
    let supervisor = Supervisor::new(Arc::clone(&scene.world), Arc::new(Log::default()));
    let mut all = Vec::new();
    for spec in specs {
        all.push(within(supervisor.take(Arc::new(spec), terms(scene))).await);
    }
    (supervisor, all)
}

fn pid(server: &Server) -> u32 {
    server.main().view().session.unwrap().peer().facts().pid.unwrap()
}

#[tokio::test]
async fn one_bad_server_hurts_no_other() {
    let scene = Scene::new();
    let (supervisor, servers) = taken(
        &scene,
        json!({
            "bad": {"command": "no-such-program"},
            "dying": scene.scripted(Script::default().start([Step::Exit(1)]), "log-dying"),
            "good": scene.scripted(Script::default(), "log-good"),
        }),
    )
    .await;
    let ticket = within(servers[2].main().ready(Want::Call)).await.unwrap();
    tool(&ticket.session, "echo", &json!({})).await.unwrap();
    for bad in &servers[..2] {
        until("it failed once", || bad.main().view().life.last_error().is_some()).await;
    }
    drop(ticket);
    within(supervisor.close(LIMIT)).await;
    scene.close().await;
}

#[tokio::test]
async fn dis_16_min_27_closing_ends_every_server() {
    // MIN-27 as well.
    let scene = Scene::new();
    let entry = |log: &str| scene.scripted(Script::default(), log);
    let (supervisor, servers) =
        taken(&scene, json!({"a": entry("a"), "b": entry("b"), "c": entry("c")})).await;
    for server in &servers {
        within(server.main().ready(Want::Call)).await.unwrap();
    }
    let pids: Vec<u32> = servers.iter().map(|server| pid(server)).collect();
    within(supervisor.close(LIMIT)).await;
    assert!(pids.iter().all(|pid| !is_alive(*pid)));
    assert!(supervisor.servers().is_empty());
    assert!(servers.iter().all(|server| server.main().view().life.state() == State::Stopped));
    scene.close().await;
}

#[tokio::test]
async fn a_replaced_server_drains_while_the_new_one_serves() {
    let scene = Scene::new();
    let script = Script::default().on("tools/call slow", [Step::Sleep(400), Step::Answer]);
    let (supervisor, servers) = taken(&scene, json!({"it": scene.scripted(script, "log")})).await;
    let old = &servers[0];
    let ticket = within(old.main().ready(Want::Call)).await.unwrap();
    let old_pid = pid(old);
    let arguments = json!({});
    let slow = async {
        let answered = tool(&ticket.session, "slow", &arguments).await;
        drop(ticket);
        answered
    };
    let replace = async {
        until("the call", || scene.count("log", "tools/call") == 1).await;
        let new = within(supervisor.take(Arc::clone(old.spec()), terms(&scene))).await;
        within(new.main().ready(Want::Call)).await.unwrap();
        supervisor.retire(old);
        assert_eq!(supervisor.draining(), 1);
        new
    };
    let (answered, new) = tokio::join!(slow, replace);
    answered.unwrap();
    assert_ne!(new.number(), old.number());
    until("the old one is gone", || supervisor.draining() == 0).await;
    assert!(!is_alive(old_pid) && is_alive(pid(&new)));
    within(supervisor.close(LIMIT)).await;
    scene.close().await;
}

#[tokio::test]
async fn dialogs_have_processes_of_their_own_and_the_first_takes_the_one_that_listed() {
    let scene = Scene::new();
    let mut entry = scene.scripted(Script::default(), "log");
    entry["session"] = json!({"scope": "per_conversation"});
    let (supervisor, servers) = taken(&scene, json!({"it": entry})).await;
    let server = &servers[0];
    within(server.main().ready(Want::List)).await.unwrap();
    let listed = pid(server);
    let first = server.lend().unwrap();
    assert!(server.lend().is_none());
    let second = server.spare(Other::default());
    let mut pids = Vec::new();
    for spare in [&first, &second] {
        let ticket = within(spare.conn().ready(Want::Call)).await.unwrap();
        let env = tool(&ticket.session, "env", &json!({})).await.unwrap();
        assert!(text(&env).contains("TOOLCRIB_OWNER"));
        pids.push(ticket.session.peer().facts().pid.unwrap());
    }
    assert_eq!(pids[0], listed);
    assert_ne!(pids[1], listed);
    assert_eq!(server.sessions(), 2);
    within(first.end()).await;
    within(second.end()).await;
    drop((first, second));
    until("both are gone", || pids.iter().all(|pid| !is_alive(*pid))).await;
    assert_eq!(server.sessions(), 0);
    // What was known of its tools is known still, and the next dialog may have the main connection.
    assert!(server.main().view().catalog.is_some());
    let third = server.lend().unwrap();
    let ticket = within(third.conn().ready(Want::Call)).await.unwrap();
    assert_eq!(ticket.session.peer().facts().pid, Some(pid(server)));
    drop((ticket, third));
    within(supervisor.close(LIMIT)).await;
    scene.close().await;
}

#[tokio::test]
async fn a_spare_that_is_dropped_ends_at_once() {
    let scene = Scene::new();
    let script = Script { ignore_sigterm: true, ignore_end: true, ..Script::default() };
    let mut entry = scene.scripted(script, "log");
    entry["session"] = json!({"scope": "per_call", "discovery": "keep"});
    let (supervisor, servers) = taken(&scene, json!({"it": entry})).await;
    let spare = servers[0].spare(Other::default());
    let ticket = within(spare.conn().ready(Want::Call)).await.unwrap();
    let its = ticket.session.peer().facts().pid.unwrap();
    drop(ticket);
    drop(spare);
    until("it is gone", || !is_alive(its)).await;
    within(servers[0].main().ready(Want::Call)).await.unwrap();
    assert_eq!(servers[0].sessions(), 1);
    within(supervisor.close(LIMIT)).await;
    scene.close().await;
}

#[tokio::test]
async fn dkr_19_and_20_each_call_has_a_session_of_its_own_beside_one_that_stays() {
    // DKR-19, DKR-20
    let scene = Scene::new();
    let mut entry = scene.scripted(Script { legacy_only: true, ..Script::default() }, "log");
    entry["protocol"] = json!("legacy");
    entry["session"] = json!({"scope": "per_call", "discovery": "keep"});
    let (supervisor, servers) = taken(&scene, json!({"it": entry})).await;
    let server = &servers[0];
    within(server.main().ready(Want::List)).await.unwrap();
    let stays = pid(server);
    let mut pids = Vec::new();
    for _ in 0..3 {
        let spare = server.spare(Other::default());
        let ticket = within(spare.conn().ready(Want::Call)).await.unwrap();
        tool(&ticket.session, "echo", &json!({})).await.unwrap();
        pids.push(ticket.session.peer().facts().pid.unwrap());
        assert_eq!(server.sessions(), 2);
        drop(ticket);
        within(spare.end()).await;
    }
    assert_eq!((server.sessions(), pid(server)), (1, stays));
    assert!(pids.iter().all(|pid| !is_alive(*pid) && *pid != stays));
    assert_eq!(scene.count("log", "initialize"), 4);
    within(supervisor.close(LIMIT)).await;
    scene.close().await;
}

#[tokio::test]
async fn a_lent_connection_that_is_dropped_is_lent_to_nobody_else() {
    let scene = Scene::new();
    let mut entry = scene.scripted(Script::default(), "log");
    entry["session"] = json!({"scope": "per_conversation"});
    let (supervisor, servers) = taken(&scene, json!({"it": entry})).await;
    let server = &servers[0];
    within(server.main().ready(Want::List)).await.unwrap();
    let its = pid(server);
    drop(server.lend().unwrap());
    until("its session ended", || !is_alive(its)).await;
    assert!(server.lend().is_none());
    let next = server.spare(Other::default());
    within(next.conn().ready(Want::Call)).await.unwrap();
    assert!(server.main().view().session.is_none());
    drop(next);
    within(supervisor.close(LIMIT)).await;
    scene.close().await;
}
