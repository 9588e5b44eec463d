//! Tests opening: choice of the container, and errors.

use std::collections::HashMap;

use bollard::query_parameters::{RemoveImageOptions, TagImageOptions};
use toolcrib_config::model::transport::{ContainerTarget, DisplayValue};
use toolcrib_testkit::scripted::Script;
use toolcrib_upstream::transport::OpenError;

use super::{
    DockerTestHost, ForeignContainer, IMAGE, containers_of, from_image, scripted_exec, stubborn,
};
use crate::peer_fixture::{TIME_LIMIT, check_echo, with_time_limit};

#[tokio::test]
async fn dkr_12_dkr_21_container_from_image_is_labelled_and_removed_with_volumes() {
    let docker_host = DockerTestHost::new().await;
    let (peer, _events) = docker_host.peer(scripted_exec(from_image(), &Script::default())).await;
    check_echo(&peer, "hello").await;
    let own = docker_host.own_containers().await;
    assert_eq!(own.len(), 1, "{own:?}");
    let made = docker_host.engine.inspect_container(&own[0], None).await.unwrap();
    let volumes: Vec<String> = made.mounts.unwrap().into_iter().filter_map(|m| m.name).collect();
    assert_eq!(volumes.len(), 1, "the image has a volume without a name");
    let labels: HashMap<String, String> = made.config.unwrap().labels.unwrap();
    assert_eq!(labels["toolcrib.owner"], docker_host.instance.id().to_string());

    with_time_limit(peer.close(TIME_LIMIT)).await;
    assert_eq!(docker_host.own_containers().await, [] as [String; 0]);
    let volume = docker_host.engine.inspect_volume(&volumes[0]).await;
    assert!(volume.is_err(), "{volume:?}");
    docker_host.close().await;
}

#[tokio::test]
async fn dkr_21_container_is_removed_before_start_error_is_returned() {
    let docker_host = DockerTestHost::new().await;
    let mut config = scripted_exec(from_image(), &Script::default());
    config.command = DisplayValue::literal("no-such-program");
    let error = docker_host.open_error(config).await;
    assert_eq!(error.code(), "docker.exec_failed");
    let words = crate::link_fixture::chain(&error);
    assert!(words.contains("no-such-program"), "{words}");
    assert_eq!(docker_host.own_containers().await, [] as [String; 0]);
    docker_host.close().await;
}

#[tokio::test]
async fn missing_container_or_image_is_named_with_fix() {
    let docker_host = DockerTestHost::new().await;
    let existing = |name: &str| ContainerTarget::Existing(DisplayValue::literal(name));
    let image = |name: &str| ContainerTarget::FromImage(DisplayValue::literal(name));
    for (target, code, fix) in [
        (existing("toolcrib-no-such"), "docker.no_container", "give an `image`"),
        (existing("../images/x"), "docker.no_container", "give an `image`"),
        (image("toolcrib-test:no-such"), "docker.no_image", "`docker pull toolcrib-test:no-such`"),
        (image("Not An Image"), "docker.create_failed", "see the engine's error"),
        (image(super::BARE_IMAGE), "docker.create_failed", "the image needs `sh`"),
    ] {
        let error = docker_host.open_error(scripted_exec(target, &Script::default())).await;
        assert_eq!(error.code(), code, "{}", crate::link_fixture::chain(&error));
        assert!(error.fix().contains(fix), "{}", error.fix());
    }
    let mut config = scripted_exec(from_image(), &Script::default());
    config.endpoint = Some(DisplayValue::literal("unix:///no/such.sock"));
    let error = docker_host.open_error(config).await;
    assert_eq!(error.code(), "docker.unreachable");
    docker_host.close().await;
}

#[tokio::test]
async fn stopped_foreign_container_is_not_started() {
    let (docker_host, foreign) = (DockerTestHost::new().await, ForeignContainer::new().await);
    docker_host.engine.pause_container(&foreign.id).await.unwrap();
    let paused = docker_host.open_error(scripted_exec(foreign.target(), &Script::default())).await;
    docker_host.engine.unpause_container(&foreign.id).await.unwrap();
    assert_eq!(paused.code(), "docker.not_running");
    let body = bollard::models::ContainerCreateBody {
        image: Some(IMAGE.to_owned()),
        cmd: Some(vec!["sleep".to_owned(), "300".to_owned()]),
        ..Default::default()
    };
    let id = docker_host.engine.create_container(None, body).await.unwrap().id;
    let stopped = ForeignContainer { id, engine: docker_host.engine.clone() };
    let error = docker_host.open_error(scripted_exec(stopped.target(), &Script::default())).await;
    assert_eq!(error.code(), "docker.not_running");
    assert!(error.fix().contains("docker start"), "{}", error.fix());
    docker_host.close().await;
}

#[tokio::test]
async fn docker_and_network_permissions_are_enforced() {
    let mut docker_host = DockerTestHost::new().await;
    docker_host.config.permissions.docker = false;
    let error = docker_host.open_error(scripted_exec(from_image(), &Script::default())).await;
    assert!(matches!(error, OpenError::DockerForbidden), "{error:?}");

    docker_host.config.permissions.docker = true;
    docker_host.config.permissions.network = false;
    let mut config = scripted_exec(from_image(), &Script::default());
    config.endpoint = Some(DisplayValue::literal("tcp://127.0.0.1:1"));
    let error = docker_host.open_error(config).await;
    assert!(matches!(error, OpenError::NetworkForbidden), "{error:?}");
    docker_host.close().await;
}

#[tokio::test]
async fn kept_container_outlives_server_and_is_reused() {
    let mut docker_host = DockerTestHost::new().await;
    docker_host.config.graces = super::SHORT_GRACES;
    // A unique image name, since a kept container is found by its image.
    let tag = docker_host.instance.id().to_string();
    let image = format!("toolcrib-test:{tag}");
    let options = TagImageOptions { repo: Some("toolcrib-test".to_owned()), tag: Some(tag) };
    docker_host.engine.tag_image(IMAGE, Some(options)).await.unwrap();
    let name = format!("toolcrib-{}", image.replace(':', "-"));
    let mut config =
        scripted_exec(ContainerTarget::FromImage(DisplayValue::literal(&image)), &stubborn());
    config.keep_container = true;

    // Removed by name, so that a failure before the first inspection leaves no container.
    let kept = ForeignContainer { id: name, engine: docker_host.engine.clone() };
    let mut ids = Vec::new();
    for _ in 0..2 {
        let (peer, _events) = docker_host.peer(config.clone()).await;
        check_echo(&peer, "hello").await;
        ids.push(docker_host.engine.inspect_container(&kept.id, None).await.unwrap().id.unwrap());
        assert!(kept.has_process("scripted-server").await);
        with_time_limit(peer.close(TIME_LIMIT)).await;
        assert!(!kept.has_process("scripted-server").await);
    }
    assert_eq!(ids[0], ids[1]);
    drop(kept);
    let _ = docker_host.engine.remove_image(&image, None::<RemoveImageOptions>, None).await;
    let owned = containers_of(&docker_host.engine, &docker_host.instance.id().to_string()).await;
    assert!(owned.is_empty(), "a kept container belongs to no host: {owned:?}");
    docker_host.close().await;
}
