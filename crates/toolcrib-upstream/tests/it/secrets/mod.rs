//! Tests of resolving secrets from all stores, and of the errors.

mod rejected_secrets;
mod vault;

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolcrib_config::{Reference, SecretString};
use toolcrib_testkit::scripted::Script;
use toolcrib_upstream::conn::{Demand, FailureKind};
use toolcrib_upstream::secrets::input_credential_name;
use toolcrib_upstream::transport::Permissions;

use crate::secrets_fixture::{ALL, lookup, lookup_error, server_with_secret};
use crate::test_host::{TestHost, call_tool, result_text, with_time_limit};

fn write_program(host: &TestHost, name: &str, text: &str) -> String {
    use std::os::unix::fs::PermissionsExt;
    let path = host.path().join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

fn line_count(path: &Path) -> usize {
    std::fs::read_to_string(path).unwrap_or_default().lines().count()
}

#[tokio::test]
async fn min_69_ext_22_server_gets_its_secrets_and_fails_without_them() {
    let host = TestHost::new();
    std::fs::write(host.path().join("token"), "c4nary\n").unwrap();
    let conn = host.start(server_with_secret(&host, &json!({}), "file:token"));
    let permit = with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap();
    let result = call_tool(&permit.session, "env", &json!({})).await.unwrap();
    let output: Value = serde_json::from_str(result_text(&result)).unwrap();
    assert_eq!(output["env"]["V"], "c4nary"); // MIN-69
    drop((permit, conn));

    let conn = host.start(server_with_secret(&host, &json!({}), "file:nothing"));
    let failure = with_time_limit(conn.acquire_without_retry(Demand::Call)).await.unwrap_err();
    // EXT-22: a missing reference fails the server, and no process is started.
    assert_eq!((failure.code, failure.kind), ("secret.missing", FailureKind::Config));
    assert!(failure.message.contains("the secret `nothing` of `file`"), "{failure:?}");
    assert!(failure.fix.is_some());
    drop(conn);
    host.close().await;
}

#[tokio::test]
async fn file_store_paths_are_relative_to_the_configuration() {
    let host = TestHost::new();
    let folder = host.path().join("safe");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("db"), "one").unwrap();
    std::fs::write(host.path().join("all.env"), "DB=two\n").unwrap();
    let stores = json!({"safe": {"kind": "file", "path": "safe"}, "all": {"kind": "file", "path": "all.env"}});
    assert_eq!(lookup(&host, &stores, "safe:db").await.unwrap(), "one");
    assert_eq!(lookup(&host, &stores, "all:DB").await.unwrap(), "two");
    let whole = format!("file:{}", folder.join("db").display());
    assert_eq!(lookup(&host, &stores, &whole).await.unwrap(), "one");
    assert_eq!(lookup_error(&host, &stores, "all:NONE").await.0, "secret.missing");
    let (code, text) = lookup_error(&host, &stores, "nobody:x").await;
    assert_eq!(code, "secret.undeclared");
    assert!(text.contains("declare `nobody` under `host.secrets`"), "{text}");
    host.close().await;
}

#[tokio::test]
async fn command_store_runs_once_without_a_shell() {
    let host = TestHost::new();
    let log = host.path().join("asked");
    let text = format!("echo asked >> {}\nprintf '%s|%s\\n' \"$1\" \"$HOME\"", log.display());
    let ask = write_program(&host, "ask", &text);
    let stores = json!({"pass": {"kind": "command", "command": [ask, "show {path}"]},
        "fresh": {"kind": "command", "command": [ask, "{path}"], "cache": "0s"}});
    let path = "pass:db; echo $HOME";
    assert_eq!(lookup(&host, &stores, path).await.unwrap(), "show db; echo $HOME|");
    let spec = server_with_secret(&host, &stores, path);
    let ask = || host.context.sources.resolve(&spec, ALL);
    let (one, other, third) = tokio::join!(ask(), ask(), ask());
    assert!(one.is_ok() && other.is_ok() && third.is_ok());
    assert_eq!(line_count(&log), 1);
    for _ in 0..2 {
        lookup(&host, &stores, "fresh:x").await.unwrap();
    }
    assert_eq!(line_count(&log), 3);
    host.close().await;
}

#[tokio::test]
async fn command_store_failures_hide_the_output() {
    let host = TestHost::new();
    let fail = write_program(&host, "fail", "echo c4nary; echo c4nary >&2; exit 3");
    let hang = write_program(&host, "hang", "echo $$ > hanging; echo c4nary; exec sleep 600");
    let flood = write_program(&host, "flood", "yes c4nary");
    let stores = json!({"fail": {"kind": "command", "command": [fail]},
        "hang": {"kind": "command", "command": [hang], "timeout": "300ms"},
        "flood": {"kind": "command", "command": [flood]},
        "none": {"kind": "command", "command": ["no-such-program-here"]},
        "empty": {"kind": "command"}});
    let started = Instant::now();
    for (secret, code, part) in [
        ("fail:x", "secret.failed", "exit code 3"),
        ("hang:x", "secret.unreachable", "within 0.3 s"),
        ("flood:x", "secret.unusable", "over 65536 bytes"),
        ("none:x", "secret.invalid", "no-such-program-here"),
        ("empty:x", "secret.invalid", "`command`"),
    ] {
        let (found, text) = lookup_error(&host, &stores, secret).await;
        assert_eq!(found, code, "{text}");
        assert!(text.contains(part) && !text.contains("c4nary"), "{text}");
    }
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    let hung = std::fs::read_to_string(host.path().join("hanging")).unwrap();
    let hung: u32 = hung.trim().parse().unwrap();
    crate::test_host::wait_until("the command has ended", || !crate::test_host::is_alive(hung))
        .await;
    host.close().await;
}

#[tokio::test]
async fn dis_45_forbidden_spawn_or_network_blocks_secret_stores() {
    let host = TestHost::new();
    let stores = json!({"c": {"kind": "command", "command": ["true"]},
        "v": {"kind": "vault", "url": "http://127.0.0.1:1", "token": "t"}});
    let none = Permissions { spawn: false, network: false, docker: false };
    for (secret, code) in [("c:x", "spawn.forbidden"), ("v:x/y", "network.forbidden")] {
        let spec = server_with_secret(&host, &stores, secret);
        let error = host.context.sources.resolve(&spec, none).await.unwrap_err();
        assert_eq!(error.code(), code);
    }
    host.close().await;
}

#[tokio::test]
async fn inputs_are_stored_per_configuration_folder() {
    let host = TestHost::new();
    let mut entry = host.scripted(Script::default(), "log");
    entry["env"] = json!({"V": "key-${input:api key}"});
    let spec = host.server(&entry);
    let error = host.context.sources.resolve(&spec, ALL).await.unwrap_err();
    assert_eq!(error.code(), "input.missing");
    assert!(error.fix("it").contains("`toolcrib login it`"), "{}", error.fix("it"));
    let store = host.context.sources.credentials();
    store
        .write(&input_credential_name(Path::new("/elsewhere"), "api key"), &SecretString::new("x"))
        .await
        .unwrap();
    assert!(host.context.sources.resolve(&spec, ALL).await.is_err());
    store
        .write(&input_credential_name(&spec.base, "api key"), &SecretString::new("c4nary"))
        .await
        .unwrap();
    let found = host.context.sources.resolve(&spec, ALL).await.unwrap();
    assert!(!format!("{found:?}").contains("c4nary"));
    let find = |reference: &Reference| found.find(&[], Some(&spec), reference);
    let value = &spec.transport.env().unwrap().set["V"];
    assert_eq!(value.resolve(&find).unwrap().reveal(), "key-c4nary");
    host.close().await;
}

#[tokio::test]
async fn values_may_refer_to_variables_of_the_env_file() {
    let host = TestHost::with(Default::default(), &[("BOTH", "host")]);
    std::fs::write(host.path().join(".env"), "OWN=file\nBOTH=file\n").unwrap();
    let mut entry = host.scripted(Script::default(), "log");
    entry["env_file"] = json!(".env");
    entry["env"] = json!({"V": "${OWN}-${BOTH}"});
    let conn = host.start(host.server(&entry));
    let permit = with_time_limit(conn.acquire_session(Demand::Call)).await.unwrap();
    let result = call_tool(&permit.session, "env", &json!({})).await.unwrap();
    let output: Value = serde_json::from_str(result_text(&result)).unwrap();
    assert_eq!(output["env"]["V"], "file-host");
    drop((permit, conn));
    host.close().await;
}
