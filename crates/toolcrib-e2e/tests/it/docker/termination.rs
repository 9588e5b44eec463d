//! Tests the termination of servers in containers and of their strays.

use std::time::Duration;

use toolcrib_config::model::transport::DisplayValue;
use toolcrib_testkit::scripted::Script;

use super::{
    BARE_IMAGE, DockerTestHost, ForeignContainer, SHORT_GRACES, from_image, scripted_exec,
    stubborn, wait_until,
};
use crate::peer_fixture::{TIME_LIMIT, check_echo, with_time_limit};

/// A server with a stray process outside of its process group and session.
fn with_stray(foreign: &ForeignContainer) -> toolcrib_config::model::transport::DockerExec {
    let mut config = scripted_exec(foreign.target(), &stubborn());
    config.shell = Some("sh -c".to_owned());
    config.command = DisplayValue::literal("setsid sleep 777 & exec scripted-server");
    config
}

#[tokio::test]
async fn stubborn_server_and_strays_end_and_foreign_processes_survive() {
    let (mut docker_host, foreign) = (DockerTestHost::new().await, ForeignContainer::new().await);
    docker_host.config.graces = SHORT_GRACES;
    foreign.start_foreign_process(&["sleep", "888"]).await;
    let (peer, _events) = docker_host.peer(with_stray(&foreign)).await;
    let (neighbour, _other_events) =
        docker_host.peer(scripted_exec(foreign.target(), &Script::default())).await;
    check_echo(&peer, "hello").await;
    assert!(foreign.has_process("sleep 777").await);

    with_time_limit(peer.close(TIME_LIMIT)).await;
    assert!(!foreign.has_process("sleep 777").await, "{:?}", foreign.processes().await);
    assert!(foreign.has_process("sleep 888").await);
    check_echo(&neighbour, "still here").await;
    with_time_limit(neighbour.close(TIME_LIMIT)).await;
    let mut left = foreign.processes().await;
    left.sort();
    assert_eq!(left, ["sleep 300", "sleep 888"]);
    docker_host.close().await;
}

#[tokio::test]
async fn dropped_link_ends_server_in_own_and_foreign_container() {
    let (docker_host, foreign) = (DockerTestHost::new().await, ForeignContainer::new().await);
    let shared = docker_host.peer(with_stray(&foreign)).await;
    let own = docker_host.peer(scripted_exec(from_image(), &stubborn())).await;
    check_echo(&shared.0, "hello").await;
    check_echo(&own.0, "hello").await;
    assert_eq!(docker_host.own_containers().await.len(), 1);
    drop((shared, own));
    wait_until("the container is removed", || async {
        docker_host.own_containers().await.is_empty()
    })
    .await;
    wait_until("the processes have ended", || async { foreign.processes().await == ["sleep 300"] })
        .await;
    docker_host.close().await;
}

#[tokio::test]
async fn dropped_close_ends_server_at_once() {
    let (mut docker_host, foreign) = (DockerTestHost::new().await, ForeignContainer::new().await);
    docker_host.config.graces.close = 10 * TIME_LIMIT;
    let link = docker_host.open(scripted_exec(foreign.target(), &stubborn())).await;
    let closing = link.closer.close(TIME_LIMIT);
    assert!(tokio::time::timeout(Duration::from_millis(100), closing).await.is_err());
    wait_until("the server has ended", || async { foreign.processes().await == ["sleep 300"] })
        .await;
    docker_host.close().await;
}

#[tokio::test]
async fn dropped_open_leaves_no_container() {
    let docker_host = DockerTestHost::new().await;
    for millis in [1, 20, 60, 120, 200, 400] {
        let opening = docker_host.try_open(scripted_exec(from_image(), &stubborn()));
        let given_up = tokio::time::timeout(Duration::from_millis(millis), opening).await;
        drop(given_up);
    }
    // The last ledger line of each process records its end.
    wait_until("all servers have ended", || async {
        let ledger = docker_host.ledger();
        ledger.matches("\"ended\"").count() >= 1
            && docker_host.own_containers().await.is_empty()
            && all_ended(&ledger)
    })
    .await;
    docker_host.close().await;
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
async fn host_shutdown_removes_its_containers() {
    let (docker_host, foreign) = (DockerTestHost::new().await, ForeignContainer::new().await);
    let own = docker_host.open(scripted_exec(from_image(), &stubborn())).await;
    let shared = docker_host.open(scripted_exec(foreign.target(), &stubborn())).await;
    with_time_limit(docker_host.instance.close()).await;
    assert_eq!(docker_host.own_containers().await, [] as [String; 0]);
    assert_eq!(foreign.processes().await, ["sleep 300"]);
    drop((own, shared));
    docker_host.close().await;
}

#[tokio::test]
async fn container_without_shell_closes_stdin_and_reports_problem() {
    let mut docker_host = DockerTestHost::new().await;
    docker_host.config.graces = SHORT_GRACES;
    let waiting = Script { ignore_end: true, ..Script::default() }.to_json();
    let foreign = ForeignContainer::running(BARE_IMAGE, &["/scripted-server", &waiting]).await;
    let config = |script: &Script| {
        let mut config = scripted_exec(foreign.target(), script);
        config.command = DisplayValue::literal("/scripted-server");
        config
    };
    let link = docker_host.open(config(&Script::default())).await;
    let problem = link.info.problems.first().unwrap();
    assert_eq!(problem.code, "docker.no_shell");
    with_time_limit(link.closer.close(TIME_LIMIT)).await;
    assert_eq!(foreign.processes().await.len(), 1, "the server ended with its input");
    // The host reports the problem with its source file.
    let root = docker_host.state.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let entry = serde_json::json!({"kind": "docker_exec", "container": foreign.id,
        "command": "/scripted-server", "args": [Script::default().to_json()]});
    let file = serde_json::json!({"version": 1, "servers": {"bare": {"transport": entry}}});
    std::fs::write(root.join("toolcrib.yaml"), file.to_string()).unwrap();
    let host = with_time_limit(
        toolcrib::Host::builder(&root, docker_host.state.path().join("host")).start(),
    )
    .await;
    let host = host.unwrap();
    with_time_limit(host.wait_until_settled()).await;
    let problems = host.problems();
    let report =
        problems.iter().find(|it| it.code == "docker.no_shell").expect("the problem is reported");
    assert_eq!(
        (report.server.as_deref(), report.source.as_deref()),
        (Some("bare"), Some("toolcrib.yaml"))
    );
    with_time_limit(host.close()).await;

    let deaf = Script { ignore_end: true, ..Script::default() };
    let link = docker_host.open(config(&deaf)).await;
    with_time_limit(link.closer.close(TIME_LIMIT)).await;
    assert_eq!(foreign.processes().await.len(), 2, "the host cannot end the server");
    // The ledger keeps the process for the next start.
    assert_eq!(docker_host.ledger().matches("\"ended\"").count(), 1);
    docker_host.close().await;
}
