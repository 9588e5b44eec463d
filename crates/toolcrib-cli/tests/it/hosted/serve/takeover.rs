//! Clients that go on when the host they share has ended: with another one, or one of them is it.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use toolcrib_testkit::scripted::{Script, Step};

use super::{Client, Served, spawn, state, tell, text};
use crate::hosted::{PATH, demo, is_alive, native, scripted, server};
use crate::{PROGRAM, Place};

/// A workspace with one server for everybody, and one whose tool `slow` takes a minute.
fn shared() -> Place {
    let mut entry = demo();
    entry["session"] = json!({"scope": "shared"});
    let slow = Script::default().on("tools/call slow", [Step::Sleep(60_000), Step::Answer]);
    native(&json!({"demo": entry, "s": scripted(&slow)}))
}

/// The process that is the host, as it tells of itself.
fn host(place: &Place) -> Option<u32> {
    let lock = fs::read_to_string(state(place).join("host.lock")).unwrap_or_default();
    let lock: Value = serde_json::from_str(&lock).ok()?;
    lock["pid"].as_u64()?.try_into().ok()
}

fn server_pid(place: &Place) -> u32 {
    let listed = place.json(&["servers"]);
    server(&listed, "demo")["pid"]
        .as_u64()
        .unwrap_or_else(|| panic!("{listed}"))
        .try_into()
        .unwrap()
}

impl Client {
    async fn echo(&mut self, said: &str) {
        assert_eq!(text(&self.call("demo__echo", json!({"text": said})).await), said);
    }

    async fn hears_of(&mut self, method: &str) -> Value {
        self.hear(|message| message["method"] == method).await
    }

    /// After the handshake of a further host nothing may be as it was.
    async fn hears_that_anything_changed(&mut self) {
        for list in ["tools", "prompts", "resources"] {
            self.hears_of(&format!("notifications/{list}/list_changed")).await;
        }
    }

    /// A request of the modern era, which needs no handshake.
    async fn ask_modern(&mut self, method: &str, mut params: Value) -> i64 {
        params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "it", "version": "0"},
            "io.modelcontextprotocol/clientCapabilities": {}});
        self.send(method, params).await
    }
}

/// A host, and how it ends.
enum First {
    Served(Served, Signal),
    Client(Client, Option<Signal>),
}

impl First {
    fn pid(&self) -> u32 {
        match self {
            First::Served(served, _) => served.pid(),
            First::Client(client, _) => client.pid(),
        }
    }

    /// Tells it to end.
    fn end(&mut self) {
        match self {
            First::Served(served, signal) => tell(served.pid(), *signal),
            First::Client(client, Some(signal)) => tell(client.pid(), *signal),
            First::Client(client, None) => client.stdin = None,
        }
    }
}

#[tokio::test]
async fn a_client_goes_on_however_its_host_ends() {
    let (kill, term) = (Signal::KILL, Signal::TERM);
    for (listens, signal) in [
        (true, Some(kill)),
        (true, Some(term)),
        (false, Some(kill)),
        (false, Some(term)),
        (false, None),
    ] {
        let place = shared();
        let mut first = match (listens, signal) {
            (true, signal) => First::Served(Served::start(&place).await, signal.unwrap()),
            (false, signal) => First::Client(Client::start(&place).await, signal),
        };
        let mut client = Client::start(&place).await;
        client.echo("before").await;
        let pid = first.pid();
        assert_eq!(host(&place), Some(pid));
        first.end();
        client.hears_that_anything_changed().await;
        assert_eq!(host(&place), Some(client.pid()), "{listens} {signal:?}");
        let listed = client.ask("tools/list", json!({})).await;
        assert_eq!(listed["tools"].as_array().unwrap().len(), 11, "{listed}");
        client.echo("after").await;
        let server = server_pid(&place);
        let (code, said) = client.end().await;
        assert_eq!(code, Some(0));
        let told = format!("the host of this root has ended (pid {pid}, ");
        assert!(said.contains(&told) && said.contains("this process is the host now"), "{said}");
        assert!(!is_alive(server) && !state(&place).join("socket").exists());
    }
}

#[tokio::test]
async fn a_call_that_was_under_way_fails_and_is_not_made_again() {
    let place = shared();
    let mut served = Served::start(&place).await;
    let mut client = Client::start(&place).await;
    client.ask("logging/setLevel", json!({"level": "debug"})).await;
    let call = client.send("tools/call", json!({"name": "s__slow", "arguments": {}})).await;
    client.echo("both are under way").await;
    served.child.kill().await.unwrap();
    let answer = client.answer(call).await;
    let message = answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{answer}"));
    assert!(message.contains("the host of this workspace has ended"), "{message}");
    // What is said before there is another host is answered by that one, whether it was listed there or not.
    let read = client.ask("resources/read", json!({"uri": "demo://calls"})).await;
    assert_eq!(read["contents"][0]["text"], r#"{"calls":0,"running":0}"#, "{read}");
    client.echo("after").await;
    assert_eq!(client.end().await.0, Some(0));
}

#[tokio::test]
async fn of_several_clients_one_is_the_host_and_the_others_join_it_any_number_of_times() {
    let place = shared();
    let mut served = Served::start(&place).await;
    let starting = (0..3).map(|_| Client::start(&place));
    let mut clients = futures_util::future::join_all(starting).await;
    for client in &mut clients {
        client.echo("before").await;
    }
    served.child.kill().await.unwrap();
    while !clients.is_empty() {
        for client in &mut clients {
            client.hears_that_anything_changed().await;
            client.echo("still here").await;
        }
        let host = host(&place);
        let place = clients.iter().position(|client| Some(client.pid()) == host).unwrap();
        // Its own client goes on with it, and the others without.
        let mut host = clients.remove(place);
        host.echo("as host").await;
        host.child.kill().await.unwrap();
    }
    assert!(place.json(&["status"])["version"].is_string());
}

#[tokio::test]
async fn a_host_that_is_started_again_gets_its_clients_back() {
    let place = shared();
    let served = Served::start(&place).await;
    let mut client = Client::start(&place).await;
    client.echo("before").await;
    assert_eq!(served.end(Signal::TERM).await, Some(0));
    let served = Served::start(&place).await;
    client.hears_that_anything_changed().await;
    client.echo("after").await;
    assert_eq!(host(&place), Some(served.pid()));
    let (code, said) = client.end().await;
    assert_eq!(code, Some(0));
    assert!(said.contains(&format!("go on with pid {}, http://", served.pid())), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[tokio::test]
async fn who_listens_in_the_modern_era_still_hears_of_changes() {
    for signal in [Signal::KILL, Signal::TERM] {
        let place = shared();
        let served = Served::start(&place).await;
        let mut client = Client::begin(&place);
        let wanted = json!({"notifications": {"toolsListChanged": true}});
        let listen = client.ask_modern("subscriptions/listen", wanted).await;
        let acknowledged = "notifications/subscriptions/acknowledged";
        client.hears_of(acknowledged).await;
        tell(served.pid(), signal);
        let is_of = |message: &Value| {
            assert_ne!(message["id"], listen, "it is still open: {message}");
            message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == listen
        };
        let changed = "notifications/tools/list_changed";
        client.hear(|message| is_of(message) && message["method"] == changed).await;
        client.hear(|message| is_of(message) && message["method"] == acknowledged).await;
        let list = client.ask_modern("tools/list", json!({})).await;
        let listed = client.answer(list).await;
        assert_eq!(listed["result"]["tools"].as_array().map(Vec::len), Some(11), "{listed}");
        let place = place.file("toolcrib.yaml", r#"{"version": 1, "servers": {}}"#);
        client.hear(|message| is_of(message) && message["method"] == changed).await;
        assert_eq!(client.end().await.0, Some(0));
        drop(place);
    }
}

#[tokio::test]
async fn a_client_that_goes_while_there_is_no_host_starts_none() {
    let place = shared();
    let mut served = Served::start(&place).await;
    let mut client = Client::start(&place).await;
    served.child.kill().await.unwrap();
    let begun = Instant::now();
    // Nobody has to be told what it only tells.
    client.write(&json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"})).await;
    assert_eq!(client.end().await, (Some(0), String::new()));
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    // So it is where it is told to.
    let mut served = Served::start(&place).await;
    let mut client = Client::start(&place).await;
    served.child.kill().await.unwrap();
    tell(client.pid(), Signal::TERM);
    assert_eq!(client.ended().await, (Some(0), String::new()));
}

#[tokio::test]
async fn a_further_host_that_reads_other_files_is_not_joined() {
    let place = shared();
    let other = json!({"mcpServers": {"other": {"command": PROGRAM, "args": ["demo-server"]}}});
    let place = place.file("other.json", &other.to_string());
    let mut served = Served::start(&place).await;
    let mut client = Client::start(&place).await;
    served.child.kill().await.unwrap();
    let args =
        ["serve", "--listen", ":0", "--json", "--config", "other.json", "--dialect", "claude"];
    let _other = Served::of(spawn(&place, &args, &[PATH])).await;
    let (code, said) = client.ended().await;
    assert_eq!(code, Some(1));
    assert!(said.contains("runs already and reads other files: pid "), "{said}");
}
