//! Secrets that configuration refers to: where they are found, and what is told where they are not.

mod keyring;
mod refused;
mod vault;

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolcrib_config::{Hidden, Reference, ServerSpec};
use toolcrib_testkit::scripted::Script;
use toolcrib_upstream::conn::{FailureKind, Want};
use toolcrib_upstream::secrets::{Unresolved, input_name};
use toolcrib_upstream::transport::Permissions;

use crate::scene::{Scene, text, tool, within};

const ALL: Permissions = Permissions { spawn: true, network: true, docker: true };

/// A server whose variable `V` is a secret, of a file with these stores.
fn referring(scene: &Scene, stores: &Value, secret: &str) -> ServerSpec {
    let mut entry = scene.scripted(Script::default(), "log");
    entry["env"] = json!({"V": {"secret": secret}});
    let text = json!({"version": 1, "host": {"secrets": stores}, "servers": {"it": entry}});
    let mut config = scene.config("toolcrib.yaml", &text.to_string());
    scene.world.sources.declare(&config.host.secrets);
    config.servers.remove(0)
}

/// What a secret is found to be.
async fn found(scene: &Scene, stores: &Value, secret: &str) -> Result<String, Unresolved> {
    let spec = referring(scene, stores, secret);
    let found = within(scene.world.sources.resolve(&spec, ALL)).await?;
    let (provider, path) = secret.split_once(':').unwrap();
    let reference = Reference::Secret { provider: provider.to_owned(), path: path.to_owned() };
    Ok(found.find(&[], None, &reference).unwrap())
}

/// What is told where it is not found: the code, the sentence and the fix.
async fn told(scene: &Scene, stores: &Value, secret: &str) -> (&'static str, String) {
    let error = found(scene, stores, secret).await.unwrap_err();
    let told = format!("{}; fix: {}", toolcrib_upstream::signals::chain(&error), error.fix("it"));
    (error.code(), told)
}

fn program(scene: &Scene, name: &str, text: &str) -> String {
    use std::os::unix::fs::PermissionsExt;
    let path = scene.path().join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

fn lines(path: &Path) -> usize {
    std::fs::read_to_string(path).unwrap_or_default().lines().count()
}

#[tokio::test]
async fn min_69_ext_22_a_server_gets_its_secrets_and_fails_without_them() {
    let scene = Scene::new();
    std::fs::write(scene.path().join("token"), "c4nary\n").unwrap();
    let conn = scene.start(referring(&scene, &json!({}), "file:token"));
    let ticket = within(conn.ready(Want::Call)).await.unwrap();
    let result = tool(&ticket.session, "env", &json!({})).await.unwrap();
    let told: Value = serde_json::from_str(text(&result)).unwrap();
    assert_eq!(told["env"]["V"], "c4nary"); // MIN-69
    drop((ticket, conn));

    let conn = scene.start(referring(&scene, &json!({}), "file:nothing"));
    let failure = within(conn.first_try(Want::Call)).await.unwrap_err();
    // EXT-22: a reference that is not there fails the server, and nothing is started.
    assert_eq!((failure.code, failure.kind), ("secret.missing", FailureKind::Config));
    assert!(failure.message.contains("the secret `nothing` of `file`"), "{failure:?}");
    assert!(failure.fix.is_some());
    drop(conn);
    scene.close().await;
}

#[tokio::test]
async fn a_file_is_found_from_the_folder_of_the_configuration() {
    let scene = Scene::new();
    let folder = scene.path().join("safe");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("db"), "one").unwrap();
    std::fs::write(scene.path().join("all.env"), "DB=two\n").unwrap();
    let stores = json!({"safe": {"kind": "file", "path": "safe"}, "all": {"kind": "file", "path": "all.env"}});
    assert_eq!(found(&scene, &stores, "safe:db").await.unwrap(), "one");
    assert_eq!(found(&scene, &stores, "all:DB").await.unwrap(), "two");
    let whole = format!("file:{}", folder.join("db").display());
    assert_eq!(found(&scene, &stores, &whole).await.unwrap(), "one");
    assert_eq!(told(&scene, &stores, "all:NONE").await.0, "secret.missing");
    let (code, text) = told(&scene, &stores, "nobody:x").await;
    assert_eq!(code, "secret.undeclared");
    assert!(text.contains("declare `nobody` under `host.secrets`"), "{text}");
    scene.close().await;
}

#[tokio::test]
async fn a_command_is_asked_once_for_all_without_a_shell() {
    let scene = Scene::new();
    let log = scene.path().join("asked");
    let text = format!("echo asked >> {}\nprintf '%s|%s\\n' \"$1\" \"$HOME\"", log.display());
    let ask = program(&scene, "ask", &text);
    let stores = json!({"pass": {"kind": "command", "command": [ask, "show {path}"]},
        "fresh": {"kind": "command", "command": [ask, "{path}"], "cache": "0s"}});
    let path = "pass:db; echo $HOME";
    assert_eq!(found(&scene, &stores, path).await.unwrap(), "show db; echo $HOME|");
    let spec = referring(&scene, &stores, path);
    let ask = || scene.world.sources.resolve(&spec, ALL);
    let (one, other, third) = tokio::join!(ask(), ask(), ask());
    assert!(one.is_ok() && other.is_ok() && third.is_ok());
    assert_eq!(lines(&log), 1);
    for _ in 0..2 {
        found(&scene, &stores, "fresh:x").await.unwrap();
    }
    assert_eq!(lines(&log), 3);
    scene.close().await;
}

#[tokio::test]
async fn a_command_that_fails_or_hangs_is_told_without_what_it_said() {
    let scene = Scene::new();
    let fail = program(&scene, "fail", "echo c4nary; echo c4nary >&2; exit 3");
    let hang = program(&scene, "hang", "echo $$ > hanging; echo c4nary; exec sleep 600");
    let flood = program(&scene, "flood", "yes c4nary");
    let stores = json!({"fail": {"kind": "command", "command": [fail]},
        "hang": {"kind": "command", "command": [hang], "timeout": "300ms"},
        "flood": {"kind": "command", "command": [flood]},
        "none": {"kind": "command", "command": ["no-such-program-here"]},
        "empty": {"kind": "command"}});
    let begun = Instant::now();
    for (secret, code, part) in [
        ("fail:x", "secret.failed", "exit code 3"),
        ("hang:x", "secret.unreachable", "within 0.3 s"),
        ("flood:x", "secret.unusable", "over 65536 bytes"),
        ("none:x", "secret.invalid", "no-such-program-here"),
        ("empty:x", "secret.invalid", "`command`"),
    ] {
        let (found, text) = told(&scene, &stores, secret).await;
        assert_eq!(found, code, "{text}");
        assert!(text.contains(part) && !text.contains("c4nary"), "{text}");
    }
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    let hung = std::fs::read_to_string(scene.path().join("hanging")).unwrap();
    let hung: u32 = hung.trim().parse().unwrap();
    crate::scene::until("the command has ended", || !crate::scene::is_alive(hung)).await;
    scene.close().await;
}

#[tokio::test]
async fn dis_45_a_host_that_may_not_start_processes_asks_no_command() {
    let scene = Scene::new();
    let stores = json!({"c": {"kind": "command", "command": ["true"]},
        "v": {"kind": "vault", "url": "http://127.0.0.1:1", "token": "t"}});
    let none = Permissions { spawn: false, network: false, docker: false };
    for (secret, code) in [("c:x", "spawn.forbidden"), ("v:x/y", "network.forbidden")] {
        let spec = referring(&scene, &stores, secret);
        let error = scene.world.sources.resolve(&spec, none).await.unwrap_err();
        assert_eq!(error.code(), code);
    }
    scene.close().await;
}

#[tokio::test]
async fn an_input_is_what_was_kept_for_the_folder_of_its_file() {
    let scene = Scene::new();
    let mut entry = scene.scripted(Script::default(), "log");
    entry["env"] = json!({"V": "key-${input:api key}"});
    let spec = scene.server(&entry);
    let error = scene.world.sources.resolve(&spec, ALL).await.unwrap_err();
    assert_eq!(error.code(), "input.missing");
    assert!(error.fix("it").contains("`toolcrib login it`"), "{}", error.fix("it"));
    let keep = scene.world.sources.keep();
    keep.write(&input_name(Path::new("/elsewhere"), "api key"), &Hidden::new("x")).await.unwrap();
    assert!(scene.world.sources.resolve(&spec, ALL).await.is_err());
    keep.write(&input_name(&spec.base, "api key"), &Hidden::new("c4nary")).await.unwrap();
    let found = scene.world.sources.resolve(&spec, ALL).await.unwrap();
    assert!(!format!("{found:?}").contains("c4nary"));
    let find = |reference: &Reference| found.find(&[], Some(&spec), reference);
    let value = &spec.transport.env().unwrap().set["V"];
    assert_eq!(value.resolve(&find).unwrap().reveal(), "key-c4nary");
    scene.close().await;
}

#[tokio::test]
async fn a_value_may_refer_to_a_variable_of_the_servers_own_file() {
    let scene = Scene::with(Default::default(), &[("BOTH", "host")]);
    std::fs::write(scene.path().join(".env"), "OWN=file\nBOTH=file\n").unwrap();
    let mut entry = scene.scripted(Script::default(), "log");
    entry["env_file"] = json!(".env");
    entry["env"] = json!({"V": "${OWN}-${BOTH}"});
    let conn = scene.start(scene.server(&entry));
    let ticket = within(conn.ready(Want::Call)).await.unwrap();
    let result = tool(&ticket.session, "env", &json!({})).await.unwrap();
    let told: Value = serde_json::from_str(text(&result)).unwrap();
    assert_eq!(told["env"]["V"], "file-host");
    drop((ticket, conn));
    scene.close().await;
}
