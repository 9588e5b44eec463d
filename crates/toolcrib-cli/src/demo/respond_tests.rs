//! What the demo server answers, without any IO.

use serde_json::{Value, json};
use toolcrib_wire::{Id, Limits, Message, Packet, build, parse};

use super::*;
use crate::demo::tools::greeting;

/// One client and the server's memory.
#[derive(Default)]
struct Scene {
    session: Session,
    state: State,
}

impl Scene {
    /// A client that has opened a session.
    fn opened(version: &str, capabilities: &Value) -> Self {
        let mut scene = Self::default();
        let params = json!({"protocolVersion": version, "capabilities": capabilities, "clientInfo": {"name": "t", "version": "0"}});
        scene.answer("initialize", &params).unwrap();
        scene
    }

    fn ask(&mut self, method: &str, params: &Value) -> Work {
        let params = Raw::of(params).unwrap();
        let message = build::request(&Id::from(1), method, Some(params.json()));
        let packet = parse(message.as_bytes(), &Limits::default()).unwrap();
        let Packet::One(Message::Request(request)) = packet else { panic!("a request") };
        match Caller::of(&request, &self.session) {
            Ok(caller) => respond(&request, &caller, &mut self.session, &mut self.state),
            Err(error) => Work::Done(Err(error)),
        }
    }

    fn answer(&mut self, method: &str, params: &Value) -> Result<Value, RpcError> {
        match self.ask(method, params) {
            Work::Done(answer) => answer.map(|raw| raw.json().read().unwrap()),
            other => panic!("{other:?}"),
        }
    }

    fn code(&mut self, method: &str, params: &Value) -> i64 {
        self.answer(method, params).unwrap_err().code
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.answer("tools/call", &json!({"name": tool, "arguments": arguments})).unwrap()
    }
}

/// Params of the modern era.
fn modern(mut params: Value, capabilities: &Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    });
    params
}

#[test]
fn each_version_of_the_legacy_era_is_answered_with_itself_and_any_other_with_the_newest() {
    for (asked, answered) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
        ("soon", "2025-11-25"),
    ] {
        let params = json!({"protocolVersion": asked, "capabilities": {}});
        let hello = Scene::default().answer("initialize", &params).unwrap();
        assert_eq!(hello["protocolVersion"], answered, "{asked}");
        assert_eq!(hello["serverInfo"]["name"], "toolcrib-demo");
    }
}

#[test]
fn a_stranger_may_only_knock() {
    let mut scene = Scene::default();
    assert_eq!(scene.answer("ping", &json!({})).unwrap(), json!({}));
    assert_eq!(scene.code("tools/list", &json!({})), -32602);
    assert_eq!(scene.code("initialize", &json!({})), -32602);
    assert_eq!(scene.code("server/discover", &json!({})), -32602, "its `_meta` is missing");
}

#[test]
fn each_era_has_its_own_methods() {
    let mut scene = Scene::opened("2025-11-25", &json!({}));
    for method in ["subscriptions/listen", "no/such", "roots/list", "elicitation/create"] {
        assert_eq!(scene.code(method, &json!({})), -32601, "{method}");
    }
    for method in ["ping", "initialize", "resources/subscribe", "no/such", "sampling/createMessage"]
    {
        assert_eq!(scene.code(method, &modern(json!({}), &json!({}))), -32601, "{method}");
    }
}

#[test]
fn a_request_of_the_modern_era_needs_no_opening_and_gets_its_marks() {
    let mut scene = Scene::default();
    for method in ["tools/list", "prompts/list", "resources/list", "resources/templates/list"] {
        let result = scene.answer(method, &modern(json!({}), &json!({}))).unwrap();
        assert_eq!(result["resultType"], "complete", "{method}");
        assert_eq!(
            (&result["ttlMs"], &result["cacheScope"]),
            (&json!(3_600_000), &json!("public"))
        );
        let server = &result["_meta"]["io.modelcontextprotocol/serverInfo"];
        assert_eq!(server["name"], "toolcrib-demo");
    }
    let params = modern(json!({"name": "echo", "arguments": {"text": "a"}}), &json!({}));
    let result = scene.answer("tools/call", &params).unwrap();
    assert_eq!((&result["resultType"], result.get("ttlMs")), (&json!("complete"), None));
    let found = scene.answer("server/discover", &modern(json!({}), &json!({}))).unwrap();
    assert_eq!(found["supportedVersions"][0], "2026-07-28");
    let legacy = Scene::opened("2025-11-25", &json!({})).answer("tools/list", &json!({})).unwrap();
    assert_eq!(legacy.as_object().unwrap().keys().collect::<Vec<_>>(), ["tools"]);
}

#[test]
fn a_version_that_is_not_spoken_is_refused_with_those_that_are() {
    let mut params = modern(json!({}), &json!({}));
    for version in ["2027-01-01", "2025-11-25", "x"] {
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(version);
        let error = Scene::default().answer("tools/list", &params).unwrap_err();
        assert_eq!(error.code, -32022, "{version}");
        assert_eq!(error.supported_versions()[0].as_str(), "2026-07-28");
    }
}

#[test]
fn a_cursor_that_nobody_gave_out_is_refused() {
    let mut scene = Scene::opened("2025-11-25", &json!({}));
    assert_eq!(scene.code("tools/list", &json!({"cursor": "2"})), -32602);
    assert!(scene.answer("tools/list", &json!({"cursor": null})).is_ok());
}

#[test]
fn sums_are_whole_where_they_can_be() {
    let mut scene = Scene::opened("2025-11-25", &json!({}));
    for (a, b, sum) in [
        (json!(2), json!(3), "5"),
        (json!(0.5), json!(0.25), "0.75"),
        (json!(-1.5), json!(0.5), "-1"),
    ] {
        let result = scene.call("add", &json!({"a": a, "b": b}));
        assert_eq!(result["structuredContent"]["sum"].to_string(), sum);
        assert_eq!(result["content"][0]["text"], format!("{{\"sum\":{sum}}}"));
    }
}

#[test]
fn arguments_that_do_not_fit_are_the_tool_s_error_and_an_unknown_tool_is_the_protocol_s() {
    let mut scene = Scene::opened("2025-11-25", &json!({}));
    for (tool, arguments) in [
        ("echo", json!({})),
        ("echo", json!({"text": 7})),
        ("add", json!({"a": 1})),
        ("add", json!({"a": 1e308, "b": 1e308})),
        ("counter", json!({"counter": "no such"})),
        ("counter", json!({"by": 0.5})),
        ("slow", json!({"seconds": -1})),
        ("slow", json!({"seconds": 1e9})),
        ("fail", json!({})),
    ] {
        let result = scene.call(tool, &arguments);
        assert_eq!(result["isError"], true, "{tool} {arguments}");
        assert!(!result["content"][0]["text"].as_str().unwrap().is_empty());
    }
    assert_eq!(scene.code("tools/call", &json!({"name": "nope"})), -32602);
    assert_eq!(scene.code("tools/call", &json!({})), -32602);
}

#[test]
fn a_session_has_its_counter_and_without_one_a_handle_is_passed_on() {
    let mut scene = Scene::opened("2025-11-25", &json!({}));
    scene.call("counter", &json!({}));
    let second = scene.call("counter", &json!({"by": 5}))["structuredContent"].clone();
    assert_eq!(second["value"], 6);
    let mut count = |arguments: Value| {
        let params = modern(json!({"name": "counter", "arguments": arguments}), &json!({}));
        let result = scene.answer("tools/call", &params).unwrap();
        result["structuredContent"].clone()
    };
    let (one, other) = (count(json!({})), count(json!({})));
    assert_eq!((&one["value"], &other["value"]), (&json!(1), &json!(1)));
    assert_ne!(one["counter"], other["counter"]);
    assert_eq!(count(json!({"counter": one["counter"]}))["value"], 2);
    assert_eq!(count(json!({"counter": second["counter"], "by": 0}))["value"], 6);
}

#[test]
fn a_counter_cannot_overflow() {
    let mut scene = Scene::opened("2025-11-25", &json!({}));
    scene.call("counter", &json!({"by": i64::MAX}));
    assert_eq!(scene.call("counter", &json!({}))["isError"], true);
    assert_eq!(
        scene.call("counter", &json!({"by": -1}))["structuredContent"]["value"],
        i64::MAX - 1
    );
}

#[test]
fn a_name_is_asked_for_in_the_way_of_each_era_or_not_at_all() {
    let able = json!({"elicitation": {}});
    let mut scene = Scene::opened("2025-06-18", &able);
    let Work::Ask(params) = scene.ask("tools/call", &json!({"name": "elicit"})) else {
        panic!("a question")
    };
    assert!(params.json().get("requestedSchema").is_some());
    for (version, capabilities) in [
        ("2025-11-25", json!({})),
        ("2025-11-25", json!({"elicitation": {"url": {}}})),
        ("2025-03-26", able.clone()),
    ] {
        let polite = Scene::opened(version, &capabilities).call("elicit", &json!({}));
        assert!(polite["content"][0]["text"].as_str().unwrap().contains("stranger"), "{version}");
    }
    let params = modern(json!({"name": "elicit"}), &able);
    let asked = scene.answer("tools/call", &params).unwrap();
    assert_eq!(asked["resultType"], "input_required");
    assert_eq!(asked["inputRequests"]["name"]["method"], "elicitation/create");
    assert_eq!(asked["inputRequests"]["name"]["params"]["mode"], "form");
    let polite =
        scene.answer("tools/call", &modern(json!({"name": "elicit"}), &json!({}))).unwrap();
    assert_eq!(polite["resultType"], "complete");
}

#[test]
fn the_answer_must_come_with_the_state_and_a_missing_one_is_asked_for_again() {
    let mut scene = Scene::default();
    let mut again = |responses: Value, state: &str| {
        let params = json!({"name": "elicit", "inputResponses": responses, "requestState": state});
        scene.answer("tools/call", &modern(params, &json!({"elicitation": {}})))
    };
    let asked = again(json!({}), "").unwrap();
    let state = asked["requestState"].as_str().unwrap();
    let accepted = json!({"name": {"action": "accept", "content": {"name": "Ada"}}});
    let greeted = again(accepted.clone(), state).unwrap();
    assert_eq!(greeted["content"][0]["text"], "Hello, Ada!");
    assert_eq!(again(accepted, "forged").unwrap_err().code, -32602);
    assert_eq!(again(json!({"name": {"action": "nod"}}), state).unwrap()["isError"], true);
}

#[test]
fn whatever_the_client_answers_is_a_result() {
    let refused = RpcError::new(-1, "no");
    let raw = |value: Value| Raw::of(&value).unwrap();
    for (answer, expected) in [
        (Some(Ok(raw(json!({"action": "decline"})))), "would not tell"),
        (Some(Ok(raw(json!({"action": "cancel"})))), "closed the question"),
        (Some(Ok(raw(json!({"action": "accept"})))), "cannot be read"),
        (Some(Ok(raw(json!([])))), "cannot be read"),
        (Some(Err(refused)), "could not ask: no"),
        (None, "in time"),
    ] {
        let result = greeting(answer).unwrap();
        assert!(result.text().contains(expected), "{}", result.text());
    }
}

#[test]
fn resources_and_the_prompt_are_read_and_unknown_ones_refused_as_the_era_says() {
    let mut scene = Scene::opened("2025-11-25", &json!({}));
    let read = |uri: &str| json!({"uri": uri});
    let square = scene.answer("resources/read", &read("demo://square/-12")).unwrap();
    assert_eq!(square["contents"][0]["text"], "144");
    scene.call("echo", &json!({"text": ""}));
    let calls = scene.answer("resources/read", &read("demo://calls")).unwrap();
    assert_eq!(calls["contents"][0]["text"], r#"{"calls":1,"running":0}"#);
    for uri in
        ["demo://square/x", "demo://square/9999999999999999", "demo://", "file:///etc/passwd"]
    {
        assert_eq!(scene.code("resources/read", &read(uri)), -32002, "{uri}");
        assert_eq!(scene.code("resources/read", &modern(read(uri), &json!({}))), -32602, "{uri}");
    }
    let params = json!({"name": "introduce", "arguments": {"name": "Ada"}});
    let prompt = scene.answer("prompts/get", &params).unwrap();
    assert!(prompt["messages"][0]["content"]["text"].as_str().unwrap().contains("Show Ada"));
    assert_eq!(scene.code("prompts/get", &json!({"name": "introduce"})), -32602);
    assert_eq!(scene.code("prompts/get", &json!({"name": "other"})), -32602);
}

#[test]
fn only_what_changes_can_be_listened_to() {
    let wanted = json!({"notifications": {"toolsListChanged": true, "resourceSubscriptions": ["demo://calls", "demo://calls", "demo://x"]}});
    let work = Scene::default().ask("subscriptions/listen", &modern(wanted, &json!({})));
    let Work::Listen(filter) = work else { panic!("{work:?}") };
    assert_eq!(filter.to_raw().text(), r#"{"resourceSubscriptions":["demo://calls"]}"#);
}
