//! Tests of the relay's session state.

use serde_json::{Value, json};
use toolcrib_server::message_stream::LIMITS;
use toolcrib_wire::{Message, Packet, RawJson, parse};

use super::forwarding::Forwarding;
use super::relay_state::{RelayState, Replay};

fn message(message: &Value) -> Message {
    match parse(message.to_string(), &LIMITS).unwrap() {
        Packet::One(message) => message,
        Packet::Batch(_) => panic!("a batch"),
    }
}

fn request(id: i64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn notification(method: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": method})
}

fn response(id: impl Into<Value>) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "result": {}})
}

fn error_response(id: i64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": -1, "message": "no"}})
}

fn values(messages: &[RawJson]) -> Vec<Value> {
    messages.iter().map(|it| serde_json::from_str(it.text()).unwrap()).collect()
}

impl RelayState {
    fn receive_from_client(&mut self, sent: &Value) -> Forwarding {
        self.on_client_message(&message(sent))
    }

    fn receive_from_host(&mut self, sent: &Value) -> Forwarding {
        self.on_host_message(&message(sent))
    }

    /// Sends a request that the host answers with success.
    fn complete_request(&mut self, id: i64, method: &str, params: Value) {
        assert_eq!(self.receive_from_client(&request(id, method, params)), Forwarding::Unchanged);
        assert_eq!(self.receive_from_host(&response(id)), Forwarding::Unchanged);
    }

    /// Returns the replay for the next host as JSON.
    fn replay_values(&mut self) -> (Option<Value>, Vec<Value>) {
        let Replay { opening, requests } = self.replay();
        (opening.map(|it| values(&[it]).remove(0)), values(&requests))
    }

    fn methods_of_news(&self) -> Vec<Value> {
        values(&self.change_notifications())
            .into_iter()
            .map(|mut change_notifications| change_notifications["method"].take())
            .collect()
    }
}

/// Returns the state of a legacy client with an open session.
fn opened() -> RelayState {
    let mut state = RelayState::default();
    state.complete_request(1, "initialize", json!({"protocolVersion": "2025-11-25"}));
    state.receive_from_client(&notification("notifications/initialized"));
    state
}

#[test]
fn new_relay_state_replays_nothing() {
    let mut state = RelayState::default();
    assert_eq!(state.replay(), Replay::default());
    assert!(
        state.on_host_end().is_empty()
            && state.change_notifications().is_empty()
            && !state.is_opening()
    );
}

#[test]
fn legacy_session_is_reopened_and_replay_responses_are_dropped() {
    let mut state = opened();
    state.complete_request(2, "logging/setLevel", json!({"level": "error"}));
    state.complete_request(3, "logging/setLevel", json!({"level": "debug"}));
    for (id, uri) in [(4, "a:b"), (5, "a:c"), (6, "a:d")] {
        state.complete_request(id, "resources/subscribe", json!({"uri": uri}));
    }
    state.complete_request(7, "resources/unsubscribe", json!({"uri": "a:c"}));
    assert!(state.on_host_end().is_empty());
    let (first, then) = state.replay_values();
    let opening = json!({"jsonrpc": "2.0", "id": "toolcrib:initialize", "method": "initialize",
        "params": {"protocolVersion": "2025-11-25"}});
    assert_eq!(first, Some(opening));
    let own = |id: &str, method: &str, params: Value| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    let expected = [
        notification("notifications/initialized"),
        own("toolcrib:1", "logging/setLevel", json!({"level": "debug"})),
        own("toolcrib:2", "resources/subscribe", json!({"uri": "a:b"})),
        own("toolcrib:3", "resources/subscribe", json!({"uri": "a:d"})),
    ];
    assert_eq!(then, expected);
    assert!(state.is_opening());
    for id in ["toolcrib:initialize", "toolcrib:1", "toolcrib:2", "toolcrib:3"] {
        assert_eq!(state.receive_from_host(&response(id)), Forwarding::Drop, "{id}");
    }
    assert!(!state.is_opening());
    assert_eq!(
        state.methods_of_news(),
        ["tools", "prompts", "resources"].map(|list| format!("notifications/{list}/list_changed"))
    );
    // Every later host gets the same replay.
    state.on_host_end();
    assert_eq!(state.replay_values().1, expected);
}

#[test]
fn rejected_requests_are_not_replayed() {
    let mut state = opened();
    for (id, method, params) in [
        (2, "initialize", json!({"protocolVersion": 7})),
        (3, "logging/setLevel", json!({"level": "debug"})),
        (4, "resources/subscribe", json!({"uri": "a:b"})),
    ] {
        state.receive_from_client(&request(id, method, params));
        assert_eq!(state.receive_from_host(&error_response(id)), Forwarding::Unchanged);
    }
    let (first, then) = state.replay_values();
    assert_eq!(first.unwrap()["params"], json!({"protocolVersion": "2025-11-25"}));
    assert!(then.is_empty(), "{then:?}");
}

#[test]
fn calls_in_flight_fail_and_are_not_replayed() {
    let mut state = opened();
    for id in 2..6 {
        assert_eq!(
            state.receive_from_client(&request(id, "tools/call", json!({"name": "t"}))),
            Forwarding::Unchanged
        );
    }
    assert_eq!(state.receive_from_host(&response(3)), Forwarding::Unchanged);
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 4}});
    assert_eq!(state.receive_from_client(&cancelled), Forwarding::Unchanged);
    let sent = values(&state.on_host_end());
    let error = |id| {
        json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32603,
            "message": "the host of this workspace has ended before it answered: ask again"}})
    };
    assert_eq!(sent, [error(2), error(5)]);
    assert_eq!(state.replay_values().1, [notification("notifications/initialized")]);
    assert!(state.on_host_end().is_empty(), "each failure is reported once");
}

#[test]
fn unanswered_initialize_is_replayed_under_its_id() {
    let mut state = RelayState::default();
    let opening = request(1, "initialize", json!({"protocolVersion": "2025-11-25"}));
    state.receive_from_client(&opening);
    assert!(state.on_host_end().is_empty());
    assert_eq!(state.replay_values(), (Some(opening), vec![]));
    assert!(state.is_opening() && state.change_notifications().is_empty());
    assert_eq!(state.receive_from_host(&response(1)), Forwarding::Unchanged);
    assert!(!state.is_opening());
}

#[test]
fn modern_subscriptions_continue_under_the_same_id() {
    let mut state = RelayState::default();
    let listen = |id, wanted| request(id, "subscriptions/listen", json!({"notifications": wanted}));
    let [tools, none, gone] = [
        listen(1, json!({"toolsListChanged": true, "resourcesListChanged": true})),
        listen(2, json!({"resourceSubscriptions": ["a:b"]})),
        listen(3, json!({})),
    ];
    for sent in [&tools, &none, &gone] {
        state.receive_from_client(sent);
    }
    // A host that closes in order ends its subscriptions with a response.
    assert_eq!(state.receive_from_host(&response(1)), Forwarding::Drop);
    assert_eq!(state.receive_from_host(&error_response(3)), Forwarding::Unchanged);
    assert!(state.on_host_end().is_empty());
    assert_eq!(state.replay_values(), (None, vec![tools, none]));
    let change_notifications = |list| {
        json!({"jsonrpc": "2.0", "method": format!("notifications/{list}/list_changed"),
        "params": {"_meta": {"io.modelcontextprotocol/subscriptionId": 1}}})
    };
    assert_eq!(
        values(&state.change_notifications()),
        [change_notifications("tools"), change_notifications("resources")]
    );
    // A client that ends with its host gets the response.
    state.set_last_host();
    assert_eq!(state.receive_from_host(&response(1)), Forwarding::Unchanged);
}

#[test]
fn host_requests_are_cancelled_when_the_host_ends() {
    let mut state = opened();
    let question = request(1, "elicitation/create", json!({"message": "?"}));
    assert_eq!(state.receive_from_host(&question), Forwarding::Unchanged);
    assert_eq!(state.receive_from_client(&response(1)), Forwarding::Unchanged);
    assert_eq!(
        state.receive_from_client(&response(1)),
        Forwarding::Drop,
        "second response without a request"
    );
    let question = request(2, "elicitation/create", json!({"message": "?"}));
    state.receive_from_host(&question);
    let sent = values(&state.on_host_end());
    assert_eq!(sent.len(), 1);
    assert_eq!(
        (&sent[0]["method"], &sent[0]["params"]["requestId"]),
        (&json!("notifications/cancelled"), &json!(2))
    );
    // The next host reuses the id. The client's response to the first request must not reach it.
    let Forwarding::Rewritten(asked) = state.receive_from_host(&question) else {
        panic!("expected a rewritten request")
    };
    let asked = values(&[asked]).remove(0);
    assert_eq!((&asked["id"], &asked["params"]), (&json!("1:2"), &json!({"message": "?"})));
    assert_eq!(state.receive_from_client(&response(2)), Forwarding::Drop);
    let Forwarding::Rewritten(answered) = state.receive_from_client(&response("1:2")) else {
        panic!("expected a rewritten response")
    };
    assert_eq!(values(&[answered]), [response(2)]);
}

#[test]
fn cancellation_from_a_later_host_uses_the_client_side_id() {
    let mut state = opened();
    state.on_host_end();
    state.receive_from_host(&request(1, "roots/list", json!({})));
    let off = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1, "reason": "late"}});
    let Forwarding::Rewritten(sent) = state.receive_from_host(&off) else {
        panic!("expected a rewritten cancellation")
    };
    assert_eq!(values(&[sent])[0]["params"], json!({"requestId": "1:1", "reason": "late"}));
    assert_eq!(state.receive_from_host(&off), Forwarding::Unchanged, "unknown request");
    assert!(state.on_host_end().is_empty());
}

#[test]
fn relay_state_is_bounded() {
    let mut state = opened();
    for id in 0..2000 {
        state.complete_request(id, "resources/subscribe", json!({"uri": format!("a:{id}")}));
    }
    state.complete_request(
        0,
        "resources/subscribe",
        json!({"uri": "b:".to_owned() + &"x".repeat(10_000)}),
    );
    assert_eq!(state.replay_values().1.len(), 1 + 1024);
    for id in 0..100 {
        state.receive_from_client(&request(id, "subscriptions/listen", json!({})));
    }
    state.receive_from_client(&request(
        200,
        "subscriptions/listen",
        json!({"x": "y".repeat(70_000)}),
    ));
    for id in 1000..3000 {
        let fate = state.receive_from_client(&request(id, "tools/list", json!({})));
        assert_eq!(fate == Forwarding::Unchanged, id < 1000 + 1024 - 101, "{id}");
    }
    for id in 0..2000 {
        state.receive_from_host(&request(id, "ping", json!({})));
    }
    let lost = values(&state.on_host_end());
    let cancelled = lost.iter().filter(|sent| sent["method"] == "notifications/cancelled").count();
    assert_eq!((cancelled, lost.len()), (256, 256 + 1024 - 64));
    assert_eq!(state.change_notifications().len(), 3);
}
