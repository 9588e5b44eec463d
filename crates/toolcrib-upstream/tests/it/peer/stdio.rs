//! Tests the stdio transport: environment, output and permissions.

use serde_json::{Value, json};
use toolcrib_config::Value as Setting;
use toolcrib_config::model::choice::{AllowList, InheritedEnv};
use toolcrib_config::model::transport::{DisplayValue, FramingMode};
use toolcrib_testkit::scripted::{Script, Step};
use toolcrib_upstream::conn::peer::{Anomaly, PeerCallError, PeerEvent};
use toolcrib_upstream::transport::OpenError;
use toolcrib_wire::Framing as Spoken;

use super::{
    IMMEDIATE, ScriptedPeer, call_tool, check_echo, oddity_count, raw, request_timeout,
    result_text, with_time_limit,
};

/// The environment as the server's tool `env` reports it.
async fn server_environment(scripted: &ScriptedPeer) -> Value {
    let body = call_tool(&scripted.peer, "env", &json!({})).await.unwrap();
    serde_json::from_str(&result_text(&body)).unwrap()
}

#[tokio::test]
async fn dom_08_arguments_reach_server_unchanged() {
    let args = ["two words", "$HOME", "; exit 1", "$(id)", "", "ü"];
    let scripted = ScriptedPeer::with_config(Script::default(), |stdio, _| {
        stdio.args.extend(args.map(DisplayValue::literal));
    })
    .await;
    assert_eq!(server_environment(&scripted).await["args"].as_array().unwrap()[1..], args);
    scripted.close().await;
}

#[tokio::test]
async fn dom_56_min_13_host_environment_is_inherited_and_overridden() {
    let scripted = ScriptedPeer::with_config(Script::default(), |stdio, host| {
        host.env.push(("FROM_HOST".to_owned(), "host".to_owned()));
        host.env.push(("BOTH".to_owned(), "host".to_owned()));
        stdio.env.inherit = InheritedEnv::All;
        stdio.env.set.insert("BOTH".to_owned(), Setting::literal("server"));
    })
    .await;
    let env = &server_environment(&scripted).await["env"];
    assert_eq!((&env["FROM_HOST"], &env["BOTH"]), (&json!("host"), &json!("server")));
    scripted.close().await;
}

#[tokio::test]
async fn only_admitted_variables_are_inherited() {
    for (inherit, expected) in [
        (InheritedEnv::None, Value::Null),
        (InheritedEnv::Minimal, Value::Null),
        (InheritedEnv::These(vec!["FROM_HOST".to_owned()]), json!("host")),
    ] {
        let scripted = ScriptedPeer::with_config(Script::default(), |stdio, host| {
            host.env.push(("FROM_HOST".to_owned(), "host".to_owned()));
            stdio.env.inherit = inherit.clone();
        })
        .await;
        assert_eq!(
            server_environment(&scripted).await["env"]["FROM_HOST"],
            expected,
            "{inherit:?}"
        );
        scripted.close().await;
    }
}

#[tokio::test]
async fn min_14_working_directory_is_configured_or_host_default() {
    for cwd in [None, Some("state")] {
        let scripted = ScriptedPeer::with_config(Script::default(), |stdio, _| {
            stdio.cwd = cwd.map(DisplayValue::literal);
        })
        .await;
        let folder = scripted.folder.path().canonicalize().unwrap();
        let folder = folder.join(cwd.unwrap_or_default());
        let found = server_environment(&scripted).await["cwd"].as_str().unwrap().to_owned();
        assert_eq!(found.trim_end_matches('/'), folder.to_str().unwrap().trim_end_matches('/'));
        scripted.close().await;
    }
}

#[tokio::test]
async fn dom_24_stderr_is_never_parsed_as_protocol() {
    let forged = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"forged\":true}}\n";
    let steps = [Step::Stderr(forged.to_owned()), Step::Sleep(50), Step::Respond];
    let scripted = ScriptedPeer::new(Script::default().on("tools/call loud", steps)).await;
    let body = call_tool(&scripted.peer, "loud", &json!({"a": 1})).await.unwrap();
    assert_eq!(result_text(&body), "{\"a\":1}");
    let stderr = scripted.peer.link_info().stderr.clone().unwrap();
    assert!(stderr.text().contains("forged"), "{}", stderr.text());
    assert_eq!(scripted.peer.anomalies(), []);
    scripted.close().await;
}

#[tokio::test]
async fn dom_25_banner_is_reported_and_connection_continues() {
    let banner = Step::Raw("Welcome to the server!\n".to_owned());
    let mut scripted = ScriptedPeer::new(Script::default().start([banner])).await;
    check_echo(&scripted.peer, "after the banner").await;
    let event = with_time_limit(scripted.events.next()).await;
    assert!(matches!(event, Some(PeerEvent::Anomaly(Anomaly::Noise))), "{event:?}");
    let oddity = &scripted.peer.anomalies()[0];
    assert_eq!(
        (oddity.anomaly, oddity.count, oddity.example.as_str()),
        (Anomaly::Noise, 1, "Welcome to the server!")
    );
    scripted.close().await;
}

#[tokio::test]
async fn dis_45_spawn_without_permission_is_rejected() {
    let error =
        ScriptedPeer::try_with_config(Script::default(), |_, host| host.permissions.spawn = false)
            .await
            .err();
    assert!(matches!(error, Some(OpenError::SpawnForbidden)), "{error:?}");
}

#[tokio::test]
async fn commands_outside_allow_list_are_rejected() {
    let error = ScriptedPeer::try_with_config(Script::default(), |stdio, _| {
        stdio.allow_commands = AllowList::These(vec!["npx".to_owned()]);
    })
    .await
    .err();
    assert_eq!(error.map(|error| error.code()), Some("command.not_allowed"));
}

#[tokio::test]
async fn missing_reference_is_named() {
    let error = ScriptedPeer::try_with_config(Script::default(), |stdio, _| {
        stdio.env.set.insert("KEY".to_owned(), Setting::from_env("NO_SUCH"));
    })
    .await
    .err()
    .unwrap();
    assert_eq!(
        (error.code(), error.to_string().as_str()),
        ("env.missing", "the variable `NO_SUCH` is not set")
    );
}

#[tokio::test]
async fn dis_47_dkr_08_both_framings_carry_multibyte_text() {
    for (content_length, framing, framing_kind) in [
        (false, FramingMode::Auto, Spoken::Newline),
        (true, FramingMode::ContentLength, Spoken::ContentLength),
    ] {
        let script = Script { content_length, ..Script::default() };
        let scripted = ScriptedPeer::with_config(script, |stdio, _| stdio.framing = framing).await;
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let call = scripted.peer.call("initialize", raw(&params), request_timeout(IMMEDIATE));
        let body = with_time_limit(call).await.unwrap();
        assert_eq!(body.get("protocolVersion").unwrap().as_str().unwrap(), "2025-06-18");
        check_echo(&scripted.peer, "grüße 日本 🦀").await;
        assert_eq!(scripted.peer.framing(), Some(framing_kind));
        scripted.close().await;
    }
}

#[tokio::test]
async fn hol_10_latin_1_server_exchanges_text() {
    let script = Script { latin1: true, ..Script::default() };
    let scripted =
        ScriptedPeer::with_config(script, |stdio, _| stdio.encoding = "latin-1".to_owned()).await;
    check_echo(&scripted.peer, "é").await;
    // Characters outside of the encoding are escaped in requests. The server answers with a question mark.
    let body = call_tool(&scripted.peer, "echo", &json!({"word": "é€"})).await.unwrap();
    assert!(result_text(&body).contains("é\\u20ac"), "{}", result_text(&body));
    scripted.close().await;
    let unknown = ScriptedPeer::try_with_config(Script::default(), |stdio, _| {
        stdio.encoding = "klingon".to_owned()
    })
    .await;
    assert_eq!(unknown.err().map(|error| error.code()), Some("encoding.unknown"));
}

#[tokio::test]
async fn dkr_06_malformed_line_is_reported_and_connection_continues() {
    let steps = [Step::Raw("{\"jsonrpc\": oops}\n".to_owned()), Step::Respond];
    let scripted = ScriptedPeer::new(Script::default().on("tools/call odd", steps)).await;
    call_tool(&scripted.peer, "odd", &json!({})).await.unwrap();
    assert_eq!(oddity_count(&scripted.peer, Anomaly::Malformed), 1);
    scripted.close().await;
}

#[tokio::test]
async fn dkr_05_sending_after_close_fails() {
    let scripted = ScriptedPeer::new(Script::default()).await;
    check_echo(&scripted.peer, "before").await;
    with_time_limit(scripted.peer.close(IMMEDIATE)).await;
    let error = call_tool(&scripted.peer, "echo", &json!({})).await.unwrap_err();
    assert!(matches!(error, PeerCallError::Unsent(_)), "{error:?}");
    assert_eq!(error.to_string(), "Transport closed");
    let error = scripted.peer.notify("notifications/x", None).await.unwrap_err();
    assert_eq!(error.to_string(), "Transport closed");
}

#[tokio::test]
async fn scripted_server_speaks_both_eras_and_pages_tools() {
    let script = Script { page: 2, ..Script::default() };
    let scripted = ScriptedPeer::new(script).await;
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"});
    let ask = async |method: &str, params: Value| {
        let call = scripted.peer.call(method, raw(&params), request_timeout(IMMEDIATE));
        let body = with_time_limit(call).await.unwrap();
        serde_json::from_str::<Value>(body.json().text()).unwrap()
    };
    let found = ask("server/discover", json!({"_meta": meta})).await;
    assert_eq!(
        (&found["supportedVersions"], &found["resultType"]),
        (&json!(["2026-07-28"]), &json!("complete"))
    );
    let first = ask("tools/list", json!({})).await;
    let second = ask("tools/list", json!({"cursor": first["nextCursor"]})).await;
    assert_eq!((first["tools"].as_array().unwrap().len(), first.get("resultType")), (2, None));
    assert_eq!((&second["tools"][0]["name"], second.get("nextCursor")), (&json!("env"), None));
    scripted.close().await;
}
