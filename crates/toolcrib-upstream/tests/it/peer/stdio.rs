//! The transport of child processes: what they get, what they may write, and what the host may forbid.

use serde_json::{Value, json};
use toolcrib_config::Value as Setting;
use toolcrib_config::model::choice::{AnyOf, Inherit};
use toolcrib_config::model::transport::{Framing, Plain};
use toolcrib_testkit::scripted::{Script, Step};
use toolcrib_upstream::conn::peer::{CallError, Event, Odd};
use toolcrib_upstream::transport::OpenError;
use toolcrib_wire::Framing as Spoken;

use super::{AT_ONCE, Served, echo, patience, raw, seen, text, tool, within};

/// What the server says of itself.
async fn surroundings(served: &Served) -> Value {
    let body = tool(&served.peer, "env", &json!({})).await.unwrap();
    serde_json::from_str(&text(&body)).unwrap()
}

#[tokio::test]
async fn dom_08_arguments_arrive_unchanged() {
    let args = ["two words", "$HOME", "; exit 1", "$(id)", "", "ü"];
    let served = Served::with(Script::default(), |stdio, _| {
        stdio.args.extend(args.map(Plain::literal));
    })
    .await;
    assert_eq!(surroundings(&served).await["args"].as_array().unwrap()[1..], args);
    served.end().await;
}

#[tokio::test]
async fn dom_56_min_13_the_host_s_environment_is_inherited_and_overridden() {
    // MIN-13 as well.
    let served = Served::with(Script::default(), |stdio, world| {
        world.env.push(("FROM_HOST".to_owned(), "host".to_owned()));
        world.env.push(("BOTH".to_owned(), "host".to_owned()));
        stdio.env.inherit = Inherit::All;
        stdio.env.set.insert("BOTH".to_owned(), Setting::literal("server"));
    })
    .await;
    let env = &surroundings(&served).await["env"];
    assert_eq!((&env["FROM_HOST"], &env["BOTH"]), (&json!("host"), &json!("server")));
    served.end().await;
}

#[tokio::test]
async fn only_the_variables_that_the_policy_admits_are_inherited() {
    for (inherit, expected) in [
        (Inherit::None, Value::Null),
        (Inherit::Minimal, Value::Null),
        (Inherit::These(vec!["FROM_HOST".to_owned()]), json!("host")),
    ] {
        let served = Served::with(Script::default(), |stdio, world| {
            world.env.push(("FROM_HOST".to_owned(), "host".to_owned()));
            stdio.env.inherit = inherit.clone();
        })
        .await;
        assert_eq!(surroundings(&served).await["env"]["FROM_HOST"], expected, "{inherit:?}");
        served.end().await;
    }
}

#[tokio::test]
async fn min_14_the_working_directory_is_the_given_one_or_the_host_s() {
    for cwd in [None, Some("state")] {
        let served = Served::with(Script::default(), |stdio, _| {
            stdio.cwd = cwd.map(Plain::literal);
        })
        .await;
        let folder = served.folder.path().canonicalize().unwrap();
        let folder = folder.join(cwd.unwrap_or_default());
        let found = surroundings(&served).await["cwd"].as_str().unwrap().to_owned();
        assert_eq!(found.trim_end_matches('/'), folder.to_str().unwrap().trim_end_matches('/'));
        served.end().await;
    }
}

#[tokio::test]
async fn dom_24_stderr_is_a_log_and_never_protocol() {
    let forged = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"forged\":true}}\n";
    let steps = [Step::Stderr(forged.to_owned()), Step::Sleep(50), Step::Answer];
    let served = Served::new(Script::default().on("tools/call loud", steps)).await;
    let body = tool(&served.peer, "loud", &json!({"a": 1})).await.unwrap();
    assert_eq!(text(&body), "{\"a\":1}");
    let stderr = served.peer.facts().stderr.clone().unwrap();
    assert!(stderr.text().contains("forged"), "{}", stderr.text());
    assert_eq!(served.peer.oddities(), []);
    served.end().await;
}

#[tokio::test]
async fn dom_25_a_banner_is_reported_and_the_conversation_goes_on() {
    let banner = Step::Raw("Welcome to the server!\n".to_owned());
    let mut served = Served::new(Script::default().start([banner])).await;
    echo(&served.peer, "after the banner").await;
    let event = within(served.events.next()).await;
    assert!(matches!(event, Some(Event::Odd(Odd::Noise))), "{event:?}");
    let oddity = &served.peer.oddities()[0];
    assert_eq!(
        (oddity.odd, oddity.count, oddity.example.as_str()),
        (Odd::Noise, 1, "Welcome to the server!")
    );
    served.end().await;
}

#[tokio::test]
async fn dis_45_a_host_that_may_not_spawn_refuses() {
    let error =
        Served::try_with(Script::default(), |_, world| world.permissions.spawn = false).await.err();
    assert!(matches!(error, Some(OpenError::SpawnForbidden)), "{error:?}");
}

#[tokio::test]
async fn only_allowed_commands_are_run() {
    let error = Served::try_with(Script::default(), |stdio, _| {
        stdio.allow_commands = AnyOf::These(vec!["npx".to_owned()]);
    })
    .await
    .err();
    assert_eq!(error.map(|error| error.code()), Some("command.not_allowed"));
}

#[tokio::test]
async fn a_reference_to_nothing_is_named() {
    let error = Served::try_with(Script::default(), |stdio, _| {
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
async fn dis_47_dkr_08_both_framings_carry_text_of_many_bytes() {
    // DKR-08 as well.
    for (content_length, framing, spoken) in [
        (false, Framing::Auto, Spoken::Newline),
        (true, Framing::ContentLength, Spoken::ContentLength),
    ] {
        let script = Script { content_length, ..Script::default() };
        let served = Served::with(script, |stdio, _| stdio.framing = framing).await;
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let call = served.peer.call("initialize", raw(&params), patience(AT_ONCE));
        let body = within(call).await.unwrap();
        assert_eq!(body.get("protocolVersion").unwrap().as_str().unwrap(), "2025-06-18");
        echo(&served.peer, "grüße 日本 🦀").await;
        assert_eq!(served.peer.framing(), Some(spoken));
        served.end().await;
    }
}

#[tokio::test]
async fn hol_10_a_latin_1_server_is_understood_and_understands() {
    let script = Script { latin1: true, ..Script::default() };
    let served = Served::with(script, |stdio, _| stdio.encoding = "latin-1".to_owned()).await;
    echo(&served.peer, "é").await;
    // What the encoding lacks is escaped on the way out; this server answers with a question mark.
    let body = tool(&served.peer, "echo", &json!({"word": "é€"})).await.unwrap();
    assert!(text(&body).contains("é\\u20ac"), "{}", text(&body));
    served.end().await;
    let unknown =
        Served::try_with(Script::default(), |stdio, _| stdio.encoding = "klingon".to_owned()).await;
    assert_eq!(unknown.err().map(|error| error.code()), Some("encoding.unknown"));
}

#[tokio::test]
async fn dkr_06_a_malformed_line_is_told_and_is_not_the_end() {
    let steps = [Step::Raw("{\"jsonrpc\": oops}\n".to_owned()), Step::Answer];
    let served = Served::new(Script::default().on("tools/call odd", steps)).await;
    tool(&served.peer, "odd", &json!({})).await.unwrap();
    assert_eq!(seen(&served.peer, Odd::Malformed), 1);
    served.end().await;
}

#[tokio::test]
async fn dkr_05_sending_after_the_end_fails() {
    let served = Served::new(Script::default()).await;
    echo(&served.peer, "before").await;
    within(served.peer.close(AT_ONCE)).await;
    let error = tool(&served.peer, "echo", &json!({})).await.unwrap_err();
    assert!(matches!(error, CallError::Unsent(_)), "{error:?}");
    assert_eq!(error.to_string(), "Transport closed");
    let error = served.peer.notify("notifications/x", None).await.unwrap_err();
    assert_eq!(error.to_string(), "Transport closed");
}

#[tokio::test]
async fn the_scripted_server_speaks_both_eras_and_pages_its_tools() {
    let script = Script { page: 2, ..Script::default() };
    let served = Served::new(script).await;
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"});
    let ask = async |method: &str, params: Value| {
        let call = served.peer.call(method, raw(&params), patience(AT_ONCE));
        let body = within(call).await.unwrap();
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
    served.end().await;
}
