//! Tests of what is remembered of a client, message by message.

use serde_json::{Value, json};
use toolcrib_server::lines::LIMITS;
use toolcrib_wire::{Message, Packet, Raw, parse};

use super::memory::{Memory, Replay};
use super::passing::Fate;

fn message(message: &Value) -> Message {
    match parse(message.to_string(), &LIMITS).unwrap() {
        Packet::One(message) => message,
        Packet::Batch(_) => panic!("a batch"),
    }
}

fn ask(id: i64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn told(method: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": method})
}

fn answer(id: impl Into<Value>) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "result": {}})
}

fn refusal(id: i64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": -1, "message": "no"}})
}

fn values(messages: &[Raw]) -> Vec<Value> {
    messages.iter().map(|it| serde_json::from_str(it.text()).unwrap()).collect()
}

impl Memory {
    fn client(&mut self, said: &Value) -> Fate {
        self.of_client(&message(said))
    }

    fn host(&mut self, said: &Value) -> Fate {
        self.of_host(&message(said))
    }

    /// A request that the host has answered well.
    fn done(&mut self, id: i64, method: &str, params: Value) {
        assert_eq!(self.client(&ask(id, method, params)), Fate::On);
        assert_eq!(self.host(&answer(id)), Fate::On);
    }

    /// What the next host is told first, and then.
    fn retold(&mut self) -> (Option<Value>, Vec<Value>) {
        let Replay { first, then } = self.replay();
        (first.map(|it| values(&[it]).remove(0)), values(&then))
    }

    fn methods_of_news(&self) -> Vec<Value> {
        values(&self.news()).into_iter().map(|mut news| news["method"].take()).collect()
    }
}

/// A client of the legacy era that has opened its conversation.
fn opened() -> Memory {
    let mut memory = Memory::default();
    memory.done(1, "initialize", json!({"protocolVersion": "2025-11-25"}));
    memory.client(&told("notifications/initialized"));
    memory
}

#[test]
fn who_has_said_nothing_has_nothing_to_be_told() {
    let mut memory = Memory::default();
    assert_eq!(memory.replay(), Replay::default());
    assert!(memory.host_ended().is_empty() && memory.news().is_empty() && !memory.is_opening());
}

#[test]
fn a_conversation_of_the_legacy_era_is_opened_again_and_the_answers_are_nobodys() {
    let mut memory = opened();
    memory.done(2, "logging/setLevel", json!({"level": "error"}));
    memory.done(3, "logging/setLevel", json!({"level": "debug"}));
    for (id, uri) in [(4, "a:b"), (5, "a:c"), (6, "a:d")] {
        memory.done(id, "resources/subscribe", json!({"uri": uri}));
    }
    memory.done(7, "resources/unsubscribe", json!({"uri": "a:c"}));
    assert!(memory.host_ended().is_empty());
    let (first, then) = memory.retold();
    let opening = json!({"jsonrpc": "2.0", "id": "toolcrib:initialize", "method": "initialize",
        "params": {"protocolVersion": "2025-11-25"}});
    assert_eq!(first, Some(opening));
    let own = |id: &str, method: &str, params: Value| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    let expected = [
        told("notifications/initialized"),
        own("toolcrib:1", "logging/setLevel", json!({"level": "debug"})),
        own("toolcrib:2", "resources/subscribe", json!({"uri": "a:b"})),
        own("toolcrib:3", "resources/subscribe", json!({"uri": "a:d"})),
    ];
    assert_eq!(then, expected);
    assert!(memory.is_opening());
    for id in ["toolcrib:initialize", "toolcrib:1", "toolcrib:2", "toolcrib:3"] {
        assert_eq!(memory.host(&answer(id)), Fate::Nowhere, "{id}");
    }
    assert!(!memory.is_opening());
    assert_eq!(
        memory.methods_of_news(),
        ["tools", "prompts", "resources"].map(|list| format!("notifications/{list}/list_changed"))
    );
    // And so it is with every further host.
    memory.host_ended();
    assert_eq!(memory.retold().1, expected);
}

#[test]
fn what_a_host_refused_is_not_asked_of_the_next() {
    let mut memory = opened();
    for (id, method, params) in [
        (2, "initialize", json!({"protocolVersion": 7})),
        (3, "logging/setLevel", json!({"level": "debug"})),
        (4, "resources/subscribe", json!({"uri": "a:b"})),
    ] {
        memory.client(&ask(id, method, params));
        assert_eq!(memory.host(&refusal(id)), Fate::On);
    }
    let (first, then) = memory.retold();
    assert_eq!(first.unwrap()["params"], json!({"protocolVersion": "2025-11-25"}));
    assert!(then.is_empty(), "{then:?}");
}

#[test]
fn calls_under_way_fail_and_are_never_sent_again() {
    let mut memory = opened();
    for id in 2..6 {
        assert_eq!(memory.client(&ask(id, "tools/call", json!({"name": "t"}))), Fate::On);
    }
    assert_eq!(memory.host(&answer(3)), Fate::On);
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 4}});
    assert_eq!(memory.client(&cancelled), Fate::On);
    let said = values(&memory.host_ended());
    let error = |id| {
        json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32603,
            "message": "the host of this workspace has ended before it answered: ask again"}})
    };
    assert_eq!(said, [error(2), error(5)]);
    assert_eq!(memory.retold().1, [told("notifications/initialized")]);
    assert!(memory.host_ended().is_empty(), "each is told once");
}

#[test]
fn what_was_to_open_the_conversation_is_asked_again_under_its_id() {
    let mut memory = Memory::default();
    let opening = ask(1, "initialize", json!({"protocolVersion": "2025-11-25"}));
    memory.client(&opening);
    assert!(memory.host_ended().is_empty());
    assert_eq!(memory.retold(), (Some(opening), vec![]));
    assert!(memory.is_opening() && memory.news().is_empty());
    assert_eq!(memory.host(&answer(1)), Fate::On);
    assert!(!memory.is_opening());
}

#[test]
fn who_listens_in_the_modern_era_goes_on_under_the_same_id() {
    let mut memory = Memory::default();
    let listen = |id, wanted| ask(id, "subscriptions/listen", json!({"notifications": wanted}));
    let [tools, none, gone] = [
        listen(1, json!({"toolsListChanged": true, "resourcesListChanged": true})),
        listen(2, json!({"resourceSubscriptions": ["a:b"]})),
        listen(3, json!({})),
    ];
    for said in [&tools, &none, &gone] {
        memory.client(said);
    }
    // A host that ends in good order says so, and only that.
    assert_eq!(memory.host(&answer(1)), Fate::Nowhere);
    assert_eq!(memory.host(&refusal(3)), Fate::On);
    assert!(memory.host_ended().is_empty());
    assert_eq!(memory.retold(), (None, vec![tools, none]));
    let news = |list| {
        json!({"jsonrpc": "2.0", "method": format!("notifications/{list}/list_changed"),
        "params": {"_meta": {"io.modelcontextprotocol/subscriptionId": 1}}})
    };
    assert_eq!(values(&memory.news()), [news("tools"), news("resources")]);
    // Where the client ends with its host it is told.
    memory.settle();
    assert_eq!(memory.host(&answer(1)), Fate::On);
}

#[test]
fn questions_of_a_host_that_has_ended_are_called_off_and_their_answers_are_nobodys() {
    let mut memory = opened();
    let question = ask(1, "elicitation/create", json!({"message": "?"}));
    assert_eq!(memory.host(&question), Fate::On);
    assert_eq!(memory.client(&answer(1)), Fate::On);
    assert_eq!(memory.client(&answer(1)), Fate::Nowhere, "nobody asked twice");
    let question = ask(2, "elicitation/create", json!({"message": "?"}));
    memory.host(&question);
    let said = values(&memory.host_ended());
    assert_eq!(said.len(), 1);
    assert_eq!(
        (&said[0]["method"], &said[0]["params"]["requestId"]),
        (&json!("notifications/cancelled"), &json!(2))
    );
    // The next host gives the same id; what the client says to the first question must not be taken for an answer.
    let Fate::OnAs(asked) = memory.host(&question) else { panic!("the same id") };
    let asked = values(&[asked]).remove(0);
    assert_eq!((&asked["id"], &asked["params"]), (&json!("1:2"), &json!({"message": "?"})));
    assert_eq!(memory.client(&answer(2)), Fate::Nowhere);
    let Fate::OnAs(answered) = memory.client(&answer("1:2")) else { panic!("it does not go on") };
    assert_eq!(values(&[answered]), [answer(2)]);
}

#[test]
fn a_question_that_a_later_host_calls_off_is_called_off_under_its_id_at_the_client() {
    let mut memory = opened();
    memory.host_ended();
    memory.host(&ask(1, "roots/list", json!({})));
    let off = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1, "reason": "late"}});
    let Fate::OnAs(said) = memory.host(&off) else { panic!("the id of the host") };
    assert_eq!(values(&[said])[0]["params"], json!({"requestId": "1:1", "reason": "late"}));
    assert_eq!(memory.host(&off), Fate::On, "it is not known any more");
    assert!(memory.host_ended().is_empty());
}

#[test]
fn nothing_is_remembered_without_bounds() {
    let mut memory = opened();
    for id in 0..2000 {
        memory.done(id, "resources/subscribe", json!({"uri": format!("a:{id}")}));
    }
    memory.done(0, "resources/subscribe", json!({"uri": "b:".to_owned() + &"x".repeat(10_000)}));
    assert_eq!(memory.retold().1.len(), 1 + 1024);
    for id in 0..100 {
        memory.client(&ask(id, "subscriptions/listen", json!({})));
    }
    memory.client(&ask(200, "subscriptions/listen", json!({"x": "y".repeat(70_000)})));
    for id in 1000..3000 {
        let fate = memory.client(&ask(id, "tools/list", json!({})));
        assert_eq!(fate == Fate::On, id < 1000 + 1024 - 101, "{id}");
    }
    for id in 0..2000 {
        memory.host(&ask(id, "ping", json!({})));
    }
    let lost = values(&memory.host_ended());
    let cancelled = lost.iter().filter(|said| said["method"] == "notifications/cancelled").count();
    assert_eq!((cancelled, lost.len()), (256, 256 + 1024 - 64));
    assert_eq!(memory.news().len(), 3);
}
