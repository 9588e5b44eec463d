//! Ends: of a server, of what it started, and of nothing else.

use std::time::Duration;

use toolcrib_config::model::transport::Plain;
use toolcrib_testkit::scripted::Script;

use super::super::{LIMIT, echo, within};
use super::{BARE, Dock, Foreign, HASTY, eventually, from_image, served, stubborn};

/// A server, and beside it a process that has left its group and its session.
fn with_stray(foreign: &Foreign) -> toolcrib_config::model::transport::DockerExec {
    let mut config = served(foreign.target(), &stubborn());
    config.shell = Some("sh -c".to_owned());
    config.command = Plain::literal("setsid sleep 777 & exec scripted-server");
    config
}

#[tokio::test]
async fn a_stubborn_server_and_its_strays_are_ended_and_what_is_not_ours_is_not() {
    let (mut dock, foreign) = (Dock::new().await, Foreign::new().await);
    dock.world.graces = HASTY;
    foreign.bystander(&["sleep", "888"]).await;
    let (peer, _events) = dock.peer(with_stray(&foreign)).await;
    let (neighbour, _other_events) = dock.peer(served(foreign.target(), &Script::default())).await;
    echo(&peer, "hello").await;
    assert!(foreign.runs("sleep 777").await);

    within(peer.close(LIMIT)).await;
    assert!(!foreign.runs("sleep 777").await, "{:?}", foreign.processes().await);
    assert!(foreign.runs("sleep 888").await);
    echo(&neighbour, "still here").await;
    within(neighbour.close(LIMIT)).await;
    let mut left = foreign.processes().await;
    left.sort();
    assert_eq!(left, ["sleep 300", "sleep 888"]);
    dock.end().await;
}

#[tokio::test]
async fn a_dropped_link_ends_its_server_wherever_it_is() {
    let (dock, foreign) = (Dock::new().await, Foreign::new().await);
    let shared = dock.peer(with_stray(&foreign)).await;
    let own = dock.peer(served(from_image(), &stubborn())).await;
    echo(&shared.0, "hello").await;
    echo(&own.0, "hello").await;
    assert_eq!(dock.own().await.len(), 1);
    drop((shared, own));
    eventually("the container has gone", || async { dock.own().await.is_empty() }).await;
    eventually("the processes have gone", || async { foreign.processes().await == ["sleep 300"] })
        .await;
    dock.end().await;
}

#[tokio::test]
async fn a_close_that_is_given_up_ends_the_server_at_once() {
    let (mut dock, foreign) = (Dock::new().await, Foreign::new().await);
    dock.world.graces.close = 10 * LIMIT;
    let link = dock.open(served(foreign.target(), &stubborn())).await;
    let closing = link.closer.close(LIMIT);
    assert!(tokio::time::timeout(Duration::from_millis(100), closing).await.is_err());
    eventually("the server has gone", || async { foreign.processes().await == ["sleep 300"] })
        .await;
    dock.end().await;
}

#[tokio::test]
async fn an_open_that_is_given_up_leaves_nothing() {
    let dock = Dock::new().await;
    for millis in [1, 20, 60, 120, 200, 400] {
        let opening = dock.try_open(served(from_image(), &stubborn()));
        let given_up = tokio::time::timeout(Duration::from_millis(millis), opening).await;
        drop(given_up);
    }
    // The last line about each of them says that it has ended.
    eventually("all have been ended", || async {
        let ledger = dock.ledger();
        ledger.matches("\"ended\"").count() >= 1
            && dock.own().await.is_empty()
            && all_ended(&ledger)
    })
    .await;
    dock.end().await;
}

fn all_ended(ledger: &str) -> bool {
    let owner = |line: &str| -> String {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        line["owner"].as_str().unwrap().to_owned()
    };
    let of = |kind: &str| -> std::collections::BTreeSet<String> {
        let kind = format!("\"kind\":\"{kind}\"");
        ledger.lines().filter(|line| line.contains(&kind)).map(owner).collect()
    };
    of("guest") == of("ended")
}

#[tokio::test]
async fn the_end_of_the_host_is_the_end_of_its_containers() {
    let (dock, foreign) = (Dock::new().await, Foreign::new().await);
    let own = dock.open(served(from_image(), &stubborn())).await;
    let shared = dock.open(served(foreign.target(), &stubborn())).await;
    within(dock.instance.close()).await;
    assert_eq!(dock.own().await, [] as [String; 0]);
    assert_eq!(foreign.processes().await, ["sleep 300"]);
    drop((own, shared));
    dock.end().await;
}

#[tokio::test]
async fn where_there_is_no_shell_the_input_is_closed_and_that_is_said() {
    let mut dock = Dock::new().await;
    dock.world.graces = HASTY;
    let waiting = Script { ignore_end: true, ..Script::default() }.to_json();
    let foreign = Foreign::running(BARE, &["/scripted-server", &waiting]).await;
    let config = |script: &Script| {
        let mut config = served(foreign.target(), script);
        config.command = Plain::literal("/scripted-server");
        config
    };
    let link = dock.open(config(&Script::default())).await;
    let problem = link.facts.problems.first().unwrap();
    assert_eq!(problem.code, "docker.no_shell");
    within(link.closer.close(LIMIT)).await;
    assert_eq!(foreign.processes().await.len(), 1, "it ended with its input");
    // Whoever looks at the host sees it, with its place.
    let root = dock.state.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let entry = serde_json::json!({"kind": "docker_exec", "container": foreign.id,
        "command": "/scripted-server", "args": [Script::default().to_json()]});
    let file = serde_json::json!({"version": 1, "servers": {"bare": {"transport": entry}}});
    std::fs::write(root.join("toolcrib.yaml"), file.to_string()).unwrap();
    let host = within(toolcrib::Host::builder(&root, dock.state.path().join("host")).start()).await;
    let host = host.unwrap();
    within(host.settled()).await;
    let problems = host.problems();
    let told = problems.iter().find(|it| it.code == "docker.no_shell").expect("it is told");
    assert_eq!(
        (told.server.as_deref(), told.source.as_deref()),
        (Some("bare"), Some("toolcrib.yaml"))
    );
    within(host.close()).await;

    let deaf = Script { ignore_end: true, ..Script::default() };
    let link = dock.open(config(&deaf)).await;
    within(link.closer.close(LIMIT)).await;
    assert_eq!(foreign.processes().await.len(), 2, "nobody can end it");
    // So the ledger keeps it for the next start.
    assert_eq!(dock.ledger().matches("\"ended\"").count(), 1);
    dock.end().await;
}
