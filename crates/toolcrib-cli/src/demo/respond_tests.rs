//! Tests of the demo server without IO.

use serde_json::{Value, json};
use toolcrib_wire::{Id, Message, MessageLimits, Packet, build, parse};

use super::*;
use crate::demo::tools::greeting;

/// A client with the server's state.
#[derive(Default)]
struct DemoClient {
    session: Session,
    state: State,
}

impl DemoClient {
    /// Returns a client with an open session.
    fn opened(version: &str, capabilities: &Value) -> Self {
        let mut client = Self::default();
        let params = json!({"protocolVersion": version, "capabilities": capabilities, "clientInfo": {"name": "t", "version": "0"}});
        client.response("initialize", &params).unwrap();
        client
    }

    fn send(&mut self, method: &str, params: &Value) -> RequestAction {
        let params = RawJson::from_value(params).unwrap();
        let message = build::request(&Id::from(1), method, Some(params.json()));
        let packet = parse(message.as_bytes(), &MessageLimits::default()).unwrap();
        let Packet::One(Message::Request(request)) = packet else { panic!("a request") };
        match Caller::from_request(&request, &self.session) {
            Ok(caller) => respond(&request, &caller, &mut self.session, &mut self.state),
            Err(error) => RequestAction::Done(Err(error)),
        }
    }

    fn response(&mut self, method: &str, params: &Value) -> Result<Value, RpcError> {
        match self.send(method, params) {
            RequestAction::Done(response) => response.map(|raw| raw.json().read().unwrap()),
            other => panic!("{other:?}"),
        }
    }

    fn error_code(&mut self, method: &str, params: &Value) -> i64 {
        self.response(method, params).unwrap_err().code
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.response("tools/call", &json!({"name": tool, "arguments": arguments})).unwrap()
    }
}

/// Adds the members of a modern request to params.
fn modern(mut params: Value, capabilities: &Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    });
    params
}

#[test]
fn initialize_negotiates_legacy_versions_and_falls_back_to_the_newest() {
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
        let hello = DemoClient::default().response("initialize", &params).unwrap();
        assert_eq!(hello["protocolVersion"], answered, "{asked}");
        assert_eq!(hello["serverInfo"]["name"], "toolcrib-demo");
    }
}

#[test]
fn requests_before_initialize_are_rejected() {
    let mut client = DemoClient::default();
    assert_eq!(client.response("ping", &json!({})).unwrap(), json!({}));
    assert_eq!(client.error_code("tools/list", &json!({})), -32602);
    assert_eq!(client.error_code("initialize", &json!({})), -32602);
    assert_eq!(client.error_code("server/discover", &json!({})), -32602, "its `_meta` is missing");
}

#[test]
fn methods_of_the_other_era_are_not_found() {
    let mut client = DemoClient::opened("2025-11-25", &json!({}));
    for method in ["subscriptions/listen", "no/such", "roots/list", "elicitation/create"] {
        assert_eq!(client.error_code(method, &json!({})), -32601, "{method}");
    }
    for method in ["ping", "initialize", "resources/subscribe", "no/such", "sampling/createMessage"]
    {
        assert_eq!(client.error_code(method, &modern(json!({}), &json!({}))), -32601, "{method}");
    }
}

#[test]
fn modern_requests_need_no_initialize_and_results_carry_metadata() {
    let mut client = DemoClient::default();
    for method in ["tools/list", "prompts/list", "resources/list", "resources/templates/list"] {
        let result = client.response(method, &modern(json!({}), &json!({}))).unwrap();
        assert_eq!(result["resultType"], "complete", "{method}");
        assert_eq!(
            (&result["ttlMs"], &result["cacheScope"]),
            (&json!(3_600_000), &json!("public"))
        );
        let server = &result["_meta"]["io.modelcontextprotocol/serverInfo"];
        assert_eq!(server["name"], "toolcrib-demo");
    }
    let params = modern(json!({"name": "echo", "arguments": {"text": "a"}}), &json!({}));
    let result = client.response("tools/call", &params).unwrap();
    assert_eq!((&result["resultType"], result.get("ttlMs")), (&json!("complete"), None));
    let found = client.response("server/discover", &modern(json!({}), &json!({}))).unwrap();
    assert_eq!(found["supportedVersions"][0], "2026-07-28");
    let legacy =
        DemoClient::opened("2025-11-25", &json!({})).response("tools/list", &json!({})).unwrap();
    assert_eq!(legacy.as_object().unwrap().keys().collect::<Vec<_>>(), ["tools"]);
}

#[test]
fn unsupported_version_error_lists_supported_versions() {
    let mut params = modern(json!({}), &json!({}));
    for version in ["2027-01-01", "2025-11-25", "x"] {
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(version);
        let error = DemoClient::default().response("tools/list", &params).unwrap_err();
        assert_eq!(error.code, -32022, "{version}");
        assert_eq!(error.supported_versions()[0].as_str(), "2026-07-28");
    }
}

#[test]
fn unknown_cursor_is_rejected() {
    let mut client = DemoClient::opened("2025-11-25", &json!({}));
    assert_eq!(client.error_code("tools/list", &json!({"cursor": "2"})), -32602);
    assert!(client.response("tools/list", &json!({"cursor": null})).is_ok());
}

#[test]
fn add_returns_integers_where_possible() {
    let mut client = DemoClient::opened("2025-11-25", &json!({}));
    for (a, b, sum) in [
        (json!(2), json!(3), "5"),
        (json!(0.5), json!(0.25), "0.75"),
        (json!(-1.5), json!(0.5), "-1"),
    ] {
        let result = client.call("add", &json!({"a": a, "b": b}));
        assert_eq!(result["structuredContent"]["sum"].to_string(), sum);
        assert_eq!(result["content"][0]["text"], format!("{{\"sum\":{sum}}}"));
    }
}

#[test]
fn invalid_arguments_are_tool_errors_and_unknown_tools_are_protocol_errors() {
    let mut client = DemoClient::opened("2025-11-25", &json!({}));
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
        let result = client.call(tool, &arguments);
        assert_eq!(result["isError"], true, "{tool} {arguments}");
        assert!(!result["content"][0]["text"].as_str().unwrap().is_empty());
    }
    assert_eq!(client.error_code("tools/call", &json!({"name": "nope"})), -32602);
    assert_eq!(client.error_code("tools/call", &json!({})), -32602);
}

#[test]
fn counter_state_lives_in_the_session_or_in_a_handle() {
    let mut client = DemoClient::opened("2025-11-25", &json!({}));
    client.call("counter", &json!({}));
    let second = client.call("counter", &json!({"by": 5}))["structuredContent"].clone();
    assert_eq!(second["value"], 6);
    let mut count = |arguments: Value| {
        let params = modern(json!({"name": "counter", "arguments": arguments}), &json!({}));
        let result = client.response("tools/call", &params).unwrap();
        result["structuredContent"].clone()
    };
    let (one, other) = (count(json!({})), count(json!({})));
    assert_eq!((&one["value"], &other["value"]), (&json!(1), &json!(1)));
    assert_ne!(one["counter"], other["counter"]);
    assert_eq!(count(json!({"counter": one["counter"]}))["value"], 2);
    assert_eq!(count(json!({"counter": second["counter"], "by": 0}))["value"], 6);
}

#[test]
fn counter_overflow_is_a_tool_error() {
    let mut client = DemoClient::opened("2025-11-25", &json!({}));
    client.call("counter", &json!({"by": i64::MAX}));
    assert_eq!(client.call("counter", &json!({}))["isError"], true);
    assert_eq!(
        client.call("counter", &json!({"by": -1}))["structuredContent"]["value"],
        i64::MAX - 1
    );
}

#[test]
fn elicitation_uses_the_form_of_the_clients_era() {
    let able = json!({"elicitation": {}});
    let mut client = DemoClient::opened("2025-06-18", &able);
    let RequestAction::Elicit(params) = client.send("tools/call", &json!({"name": "elicit"}))
    else {
        panic!("a question")
    };
    assert!(params.json().get("requestedSchema").is_some());
    for (version, capabilities) in [
        ("2025-11-25", json!({})),
        ("2025-11-25", json!({"elicitation": {"url": {}}})),
        ("2025-03-26", able.clone()),
    ] {
        let polite = DemoClient::opened(version, &capabilities).call("elicit", &json!({}));
        assert!(polite["content"][0]["text"].as_str().unwrap().contains("stranger"), "{version}");
    }
    let params = modern(json!({"name": "elicit"}), &able);
    let asked = client.response("tools/call", &params).unwrap();
    assert_eq!(asked["resultType"], "input_required");
    assert_eq!(asked["inputRequests"]["name"]["method"], "elicitation/create");
    assert_eq!(asked["inputRequests"]["name"]["params"]["mode"], "form");
    let polite =
        client.response("tools/call", &modern(json!({"name": "elicit"}), &json!({}))).unwrap();
    assert_eq!(polite["resultType"], "complete");
}

#[test]
fn modern_elicitation_response_requires_the_request_state() {
    let mut client = DemoClient::default();
    let mut again = |responses: Value, state: &str| {
        let params = json!({"name": "elicit", "inputResponses": responses, "requestState": state});
        client.response("tools/call", &modern(params, &json!({"elicitation": {}})))
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
fn every_elicitation_response_gives_a_result() {
    let refused = RpcError::new(-1, "no");
    let raw = |value: Value| RawJson::from_value(&value).unwrap();
    for (response, expected) in [
        (Some(Ok(raw(json!({"action": "decline"})))), "would not tell"),
        (Some(Ok(raw(json!({"action": "cancel"})))), "closed the question"),
        (Some(Ok(raw(json!({"action": "accept"})))), "cannot be read"),
        (Some(Ok(raw(json!([])))), "cannot be read"),
        (Some(Err(refused)), "could not ask: no"),
        (None, "in time"),
    ] {
        let result = greeting(response).unwrap();
        assert!(result.text().contains(expected), "{}", result.text());
    }
}

#[test]
fn unknown_resources_get_the_error_code_of_the_era() {
    let mut client = DemoClient::opened("2025-11-25", &json!({}));
    let read = |uri: &str| json!({"uri": uri});
    let square = client.response("resources/read", &read("demo://square/-12")).unwrap();
    assert_eq!(square["contents"][0]["text"], "144");
    client.call("echo", &json!({"text": ""}));
    let calls = client.response("resources/read", &read("demo://calls")).unwrap();
    assert_eq!(calls["contents"][0]["text"], r#"{"calls":1,"running":0}"#);
    for uri in
        ["demo://square/x", "demo://square/9999999999999999", "demo://", "file:///etc/passwd"]
    {
        assert_eq!(client.error_code("resources/read", &read(uri)), -32002, "{uri}");
        assert_eq!(
            client.error_code("resources/read", &modern(read(uri), &json!({}))),
            -32602,
            "{uri}"
        );
    }
    let params = json!({"name": "introduce", "arguments": {"name": "Ada"}});
    let prompt = client.response("prompts/get", &params).unwrap();
    assert!(prompt["messages"][0]["content"]["text"].as_str().unwrap().contains("Show Ada"));
    assert_eq!(client.error_code("prompts/get", &json!({"name": "introduce"})), -32602);
    assert_eq!(client.error_code("prompts/get", &json!({"name": "other"})), -32602);
}

#[test]
fn subscription_accepts_only_the_changing_resource() {
    let wanted = json!({"notifications": {"toolsListChanged": true, "resourceSubscriptions": ["demo://calls", "demo://calls", "demo://x"]}});
    let work = DemoClient::default().send("subscriptions/listen", &modern(wanted, &json!({})));
    let RequestAction::Listen(filter) = work else { panic!("{work:?}") };
    assert_eq!(filter.to_raw().text(), r#"{"resourceSubscriptions":["demo://calls"]}"#);
}
