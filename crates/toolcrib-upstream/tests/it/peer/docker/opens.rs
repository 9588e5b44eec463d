//! Opening: which container it is, and what it says when there is none.

use std::collections::HashMap;

use bollard::query_parameters::{RemoveImageOptions, TagImageOptions};
use toolcrib_config::model::transport::{Container, Plain};
use toolcrib_testkit::scripted::Script;
use toolcrib_upstream::transport::OpenError;

use super::super::{LIMIT, echo, within};
use super::{Dock, Foreign, IMAGE, from_image, owned_by, served, stubborn};

#[tokio::test]
async fn dkr_12_dkr_21_a_container_from_an_image_is_labelled_and_goes_with_all_it_brought() {
    // DKR-21 as well.
    let dock = Dock::new().await;
    let (peer, _events) = dock.peer(served(from_image(), &Script::default())).await;
    echo(&peer, "hello").await;
    let own = dock.own().await;
    assert_eq!(own.len(), 1, "{own:?}");
    let made = dock.engine.inspect_container(&own[0], None).await.unwrap();
    let volumes: Vec<String> = made.mounts.unwrap().into_iter().filter_map(|m| m.name).collect();
    assert_eq!(volumes.len(), 1, "the image has a volume without a name");
    let labels: HashMap<String, String> = made.config.unwrap().labels.unwrap();
    assert_eq!(labels["toolcrib.owner"], dock.instance.id().to_string());

    within(peer.close(LIMIT)).await;
    assert_eq!(dock.own().await, [] as [String; 0]);
    let volume = dock.engine.inspect_volume(&volumes[0]).await;
    assert!(volume.is_err(), "{volume:?}");
    dock.end().await;
}

#[tokio::test]
async fn dkr_21_a_container_whose_server_cannot_be_run_is_gone_when_the_error_is_told() {
    let dock = Dock::new().await;
    let mut config = served(from_image(), &Script::default());
    config.command = Plain::literal("no-such-program");
    let error = dock.refusal(config).await;
    assert_eq!(error.code(), "docker.exec_failed");
    let words = crate::remote::chain(&error);
    assert!(words.contains("no-such-program"), "{words}");
    assert_eq!(dock.own().await, [] as [String; 0]);
    dock.end().await;
}

#[tokio::test]
async fn what_is_missing_is_named_with_its_fix() {
    let dock = Dock::new().await;
    let existing = |name: &str| Container::Existing(Plain::literal(name));
    let image = |name: &str| Container::FromImage(Plain::literal(name));
    for (target, code, fix) in [
        (existing("toolcrib-no-such"), "docker.no_container", "give an `image`"),
        (existing("../images/x"), "docker.no_container", "give an `image`"),
        (image("toolcrib-test:no-such"), "docker.no_image", "`docker pull toolcrib-test:no-such`"),
        (image("Not An Image"), "docker.create_failed", "see the engine's words"),
        (image(super::BARE), "docker.create_failed", "the image needs `sh`"),
    ] {
        let error = dock.refusal(served(target, &Script::default())).await;
        assert_eq!(error.code(), code, "{}", crate::remote::chain(&error));
        assert!(error.fix().contains(fix), "{}", error.fix());
    }
    let mut config = served(from_image(), &Script::default());
    config.endpoint = Some(Plain::literal("unix:///no/such.sock"));
    let error = dock.refusal(config).await;
    assert_eq!(error.code(), "docker.unreachable");
    dock.end().await;
}

#[tokio::test]
async fn a_container_that_does_not_run_is_not_started_behind_its_owner_s_back() {
    let (dock, foreign) = (Dock::new().await, Foreign::new().await);
    dock.engine.pause_container(&foreign.id).await.unwrap();
    let paused = dock.refusal(served(foreign.target(), &Script::default())).await;
    dock.engine.unpause_container(&foreign.id).await.unwrap();
    assert_eq!(paused.code(), "docker.not_running");
    let body = bollard::models::ContainerCreateBody {
        image: Some(IMAGE.to_owned()),
        cmd: Some(vec!["sleep".to_owned(), "300".to_owned()]),
        ..Default::default()
    };
    let id = dock.engine.create_container(None, body).await.unwrap().id;
    let stopped = Foreign { id, engine: dock.engine.clone() };
    let error = dock.refusal(served(stopped.target(), &Script::default())).await;
    assert_eq!(error.code(), "docker.not_running");
    assert!(error.fix().contains("docker start"), "{}", error.fix());
    dock.end().await;
}

#[tokio::test]
async fn a_host_that_may_not_use_the_engine_refuses_and_one_without_network_reaches_none_over_it() {
    let mut dock = Dock::new().await;
    dock.world.permissions.docker = false;
    let error = dock.refusal(served(from_image(), &Script::default())).await;
    assert!(matches!(error, OpenError::DockerForbidden), "{error:?}");

    dock.world.permissions.docker = true;
    dock.world.permissions.network = false;
    let mut config = served(from_image(), &Script::default());
    config.endpoint = Some(Plain::literal("tcp://127.0.0.1:1"));
    let error = dock.refusal(config).await;
    assert!(matches!(error, OpenError::NetworkForbidden), "{error:?}");
    dock.end().await;
}

#[tokio::test]
async fn a_kept_container_outlives_its_server_and_is_found_again() {
    let mut dock = Dock::new().await;
    dock.world.graces = super::HASTY;
    // A name of this test's own, since a kept container is found by its image.
    let tag = dock.instance.id().to_string();
    let image = format!("toolcrib-test:{tag}");
    let options = TagImageOptions { repo: Some("toolcrib-test".to_owned()), tag: Some(tag) };
    dock.engine.tag_image(IMAGE, Some(options)).await.unwrap();
    let name = format!("toolcrib-{}", image.replace(':', "-"));
    let mut config = served(Container::FromImage(Plain::literal(&image)), &stubborn());
    config.keep_container = true;

    // It is removed by its name, even if the test fails before it has seen an id.
    let kept = Foreign { id: name, engine: dock.engine.clone() };
    let mut ids = Vec::new();
    for _ in 0..2 {
        let (peer, _events) = dock.peer(config.clone()).await;
        echo(&peer, "hello").await;
        ids.push(dock.engine.inspect_container(&kept.id, None).await.unwrap().id.unwrap());
        assert!(kept.runs("scripted-server").await);
        within(peer.close(LIMIT)).await;
        assert!(!kept.runs("scripted-server").await);
    }
    assert_eq!(ids[0], ids[1]);
    drop(kept);
    let _ = dock.engine.remove_image(&image, None::<RemoveImageOptions>, None).await;
    let owned = owned_by(&dock.engine, &dock.instance.id().to_string()).await;
    assert!(owned.is_empty(), "a kept container belongs to no host: {owned:?}");
    dock.end().await;
}
