//! Usual requests on connections that are kept, byte by byte: what is answered, in which order, and when it ends.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::sleep;
use toolcrib_testkit::scripted::{Script, Step};

use crate::scene::{Client, Scene, within};
use crate::web::{Served, request};

const ALIVE: &str = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// A connection on which anything can be said.
struct Line {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// An answer as it was written.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    status: u16,
    head: String,
    body: String,
}

impl Said {
    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find_map(|(key, value)| (key == name).then_some(value))
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{self:?}"))
    }
}

impl Line {
    async fn to(served: &Served) -> Self {
        let stream = within(TcpStream::connect(served.address)).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Line { stream, buffer: Vec::new() }
    }

    async fn say(&mut self, text: &str) {
        within(self.stream.write_all(text.as_bytes())).await.unwrap();
    }

    /// Whether there is more.
    async fn more(&mut self) -> bool {
        within(self.stream.read_buf(&mut self.buffer)).await.unwrap_or_default() > 0
    }

    /// Everything up to and with some text.
    async fn until(&mut self, end: &str) -> String {
        loop {
            let found = self.buffer.windows(end.len()).position(|it| it == end.as_bytes());
            if let Some(found) = found {
                return self.bytes(found + end.len()).await;
            }
            assert!(self.more().await, "the end after {:?}", String::from_utf8_lossy(&self.buffer));
        }
    }

    async fn bytes(&mut self, length: usize) -> String {
        while self.buffer.len() < length {
            assert!(self.more().await, "the end after {:?}", String::from_utf8_lossy(&self.buffer));
        }
        String::from_utf8(self.buffer.drain(..length).collect()).unwrap()
    }

    async fn answer(&mut self) -> Said {
        let head = self.until("\r\n\r\n").await;
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut said = Said { status, head, body: String::new() };
        if said.header("transfer-encoding") == Some("chunked") {
            loop {
                let size = self.until("\r\n").await;
                let size = usize::from_str_radix(size.trim_end(), 16).unwrap();
                let chunk = self.bytes(size + 2).await;
                said.body += chunk.strip_suffix("\r\n").unwrap();
                if size == 0 {
                    return said;
                }
            }
        }
        let length = said.header("content-length").map_or(0, |length| length.parse().unwrap());
        said.body = self.bytes(length).await;
        said
    }

    async fn is_over(&mut self) -> bool {
        !self.more().await && self.buffer.is_empty()
    }
}

fn posted(session: &str, besides: &str, message: &Value) -> String {
    let body = message.to_string();
    format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{besides}\
         Mcp-Session-Id: {session}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn ping(session: &str, id: i64) -> String {
    posted(session, "", &request(id, "ping", json!({})))
}

fn call(session: &str, id: i64, tool: &str) -> String {
    let params = json!({"name": tool, "arguments": {}, "_meta": {"progressToken": "mine"}});
    posted(session, "", &request(id, "tools/call", params))
}

/// In the modern era whoever hangs up has called it off.
fn modern_call(tool: &str) -> String {
    let params = Client::modern(json!({"name": tool, "arguments": {}}), &json!({}));
    let body = request(1, "tools/call", params).to_string();
    format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMcp-Protocol-Version: 2026-07-28\r\n\
         Mcp-Method: tools/call\r\nMcp-Name: {tool}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

async fn end(scene: Scene, served: Served) {
    served.end().await;
    within(scene.host.close()).await;
}

#[tokio::test]
async fn whoever_says_twice_or_unreadably_where_he_comes_from_is_kept_out() {
    let scene = Scene::new(&[("it", Script::default(), json!({}))]).await;
    let served = Served::new(&scene).await;
    let session = served.open("/mcp", json!({})).await;
    for (origin, status) in [
        ("Origin: http://localhost\r\n", 200),
        ("Origin: http://evil.example\r\n", 403),
        ("Origin: http://localhost\r\nOrigin: http://evil.example\r\n", 403),
        ("Origin: http://évil.example\r\n", 403),
        ("Host: evil.example\r\n", 403),
    ] {
        let mut line = Line::to(&served).await;
        line.say(&posted(&session, origin, &request(1, "ping", json!({})))).await;
        assert_eq!(line.answer().await.status, status, "{origin}");
        let mut line = Line::to(&served).await;
        line.say(&format!("GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\n{origin}\r\n")).await;
        assert_eq!(line.answer().await.status, status, "{origin}");
    }
    end(scene, served).await;
}

#[tokio::test]
async fn requests_that_come_together_are_answered_in_their_order() {
    let script = Script::default().on("tools/call slow", [Step::Sleep(100), Step::Answer]);
    let scene = Scene::new(&[("it", script, json!({}))]).await;
    let served = Served::new(&scene).await;
    let session = served.open("/mcp", json!({})).await;
    let mut line = Line::to(&served).await;
    // More than is kept while something is answered.
    let pings: String = (1..200).map(|id| ping(&session, id)).collect();
    let all = call(&session, 0, "it__slow") + &pings + ALIVE + &ping(&session, 200);
    line.say(&all).await;
    for id in 0..200 {
        let said = line.answer().await;
        assert_eq!((said.status, &said.json()["id"]), (200, &json!(id)));
        assert!(said.header("date").is_some_and(|date| date.ends_with(" GMT")), "{said:?}");
    }
    assert_eq!(line.answer().await.status, 204, "whatever it is");
    assert_eq!(line.answer().await.json()["id"], 200);
    end(scene, served).await;
}

#[tokio::test]
async fn a_request_is_the_same_wherever_it_is_cut() {
    let scene = Scene::new(&[]).await;
    let served = Served::new(&scene).await;
    let session = served.open("/mcp", json!({})).await;
    let whole = ping(&session, 7);
    let mut line = Line::to(&served).await;
    line.say(&whole).await;
    let wanted = line.answer().await;
    assert_eq!((wanted.status, &wanted.json()["result"]), (200, &json!({})));
    for cut in 1..whole.len() {
        let (first, second) = whole.split_at(cut);
        line.say(first).await;
        sleep(Duration::from_millis(1)).await;
        line.say(second).await;
        let said = line.answer().await;
        assert_eq!((said.status, &said.body), (wanted.status, &wanted.body), "{cut}");
    }
    for byte in whole.as_bytes().chunks(1) {
        line.say(str::from_utf8(byte).unwrap()).await;
    }
    assert_eq!(line.answer().await.body, wanted.body);
    end(scene, served).await;
}

#[tokio::test]
async fn what_is_not_usual_is_answered_on_the_same_connection() {
    let scene = Scene::new(&[]).await;
    let served = Served::new(&scene).await;
    let session = served.open("/mcp", json!({})).await;
    let mut line = Line::to(&served).await;
    line.say(&ping(&session, 1)).await;
    assert_eq!(line.answer().await.json()["id"], 1);
    line.say("GET /heal").await;
    sleep(Duration::from_millis(20)).await;
    line.say("thz HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert_eq!(line.answer().await.status, 204);
    line.say(&ping(&session, 2)).await;
    assert_eq!(line.answer().await.json()["id"], 2);
    // A body that has to be asked for.
    let mut line = Line::to(&served).await;
    let asks = posted(&session, "Expect: 100-continue\r\n", &request(3, "ping", json!({})));
    let (head, body) = asks.split_at(asks.find("{\"jsonrpc").unwrap());
    line.say(head).await;
    assert_eq!(line.until("\r\n\r\n").await, "HTTP/1.1 100 Continue\r\n\r\n");
    line.say(body).await;
    assert_eq!(line.answer().await.json()["id"], 3);
    end(scene, served).await;
}

#[tokio::test]
async fn nothing_is_smuggled_past_a_length_that_is_not_clear() {
    let scene = Scene::new(&[]).await;
    let served = Served::new(&scene).await;
    let session = served.open("/mcp", json!({})).await;
    let hidden = ping(&session, 666);
    for (besides, status) in [
        ("Content-Length: 5\r\n", 400),
        ("Content-Length: +5\r\n", 400),
        ("Content-Length : 5\r\n", 400),
        ("X: y\r\n Content-Length: 5\r\n", 400),
        ("Transfer-Encoding: identity\r\n", 400),
    ] {
        let mut line = Line::to(&served).await;
        let message = posted(&session, besides, &request(1, "ping", json!({})));
        line.say(&(message + &hidden)).await;
        assert_eq!(line.answer().await.status, status, "{besides}");
        assert!(line.is_over().await, "{besides}");
    }
    end(scene, served).await;
}

#[tokio::test]
async fn a_call_without_a_word_is_cancelled_when_its_client_hangs_up() {
    let script = Script::default().on("tools/call stuck", [Step::Sleep(60_000), Step::Answer]);
    let scene = Scene::new(&[("it", script, json!({}))]).await;
    let served = Served::new(&scene).await;
    let session = served.open("/mcp", json!({})).await;
    let reached = async |method: &str, times: usize| {
        while scene.log("it").iter().filter(|it| it["method"] == method).count() < times {
            sleep(Duration::from_millis(20)).await;
        }
    };
    // The second has sent something more before it goes.
    for (times, besides) in [(1, String::new()), (2, ping(&session, 2))] {
        let mut line = Line::to(&served).await;
        line.say(&(modern_call("it__stuck") + &besides)).await;
        within(reached("tools/call", times)).await;
        drop(line);
        within(reached("notifications/cancelled", times)).await;
    }
    end(scene, served).await;
}

#[tokio::test]
async fn a_body_that_is_too_slow_or_too_large_is_the_last_that_is_answered() {
    let limits = json!({"gateway": {"limits": {"read": "300ms", "body": 1000}}});
    let scene = Scene::with(&limits, &[]).await;
    let served = Served::new(&scene).await;
    let head = |besides: &str, length: usize| {
        format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\n{besides}Content-Length: {length}\r\n\r\n{{"
        )
    };
    let json = "Content-Type: application/json\r\n";
    for (sent, status) in [
        (head(json, 100), 408),
        (head(json, 1001), 413),
        (head("", 100), 415),
        // Whoever may not ask is told so before his message is read.
        (head("Origin: http://evil.example\r\n", 100), 403),
    ] {
        let mut line = Line::to(&served).await;
        line.say(&sent).await;
        let said = line.answer().await;
        assert_eq!((said.status, said.header("connection")), (status, Some("close")), "{sent}");
        assert!(line.is_over().await);
    }
    // Whoever is still sending hears it, too.
    let mut line = Line::to(&served).await;
    line.say(&(head(json, 2 << 20) + &"x".repeat(2 << 20))).await;
    assert_eq!(line.answer().await.status, 413);
    // A body that ends before its end.
    let mut line = Line::to(&served).await;
    line.say(&head(json, 100)).await;
    within(line.stream.shutdown()).await.unwrap();
    assert_eq!(line.answer().await.status, 400);
    end(scene, served).await;
}

#[tokio::test]
async fn an_answer_in_parts_goes_in_chunks_and_the_connection_goes_on() {
    let steps = [Step::Progress { times: 3, every: 20 }, Step::Answer];
    let script = Script::default().on("tools/call slow", steps);
    let scene = Scene::new(&[("it", script, json!({}))]).await;
    let served = Served::new(&scene).await;
    let session = served.open("/mcp", json!({})).await;
    let mut line = Line::to(&served).await;
    for id in 1..4 {
        line.say(&call(&session, id, "it__slow")).await;
        let said = line.answer().await;
        assert_eq!(said.header("content-type"), Some("text/event-stream"));
        let events: Vec<Value> = (said.body.lines())
            .filter_map(|text| serde_json::from_str(text.strip_prefix("data:")?.trim()).ok())
            .collect();
        let progress = events.iter().filter(|it| it["method"] == "notifications/progress");
        assert_eq!((progress.count(), events.len()), (3, 4), "{said:?}");
        assert_eq!(events[3]["id"], id);
        line.say(&ping(&session, 100 + id)).await;
        assert_eq!(line.answer().await.json()["id"], 100 + id);
    }
    end(scene, served).await;
}

#[tokio::test]
async fn a_connection_ends_when_it_is_asked_to_or_nothing_comes_any_more() {
    let limits = json!({"gateway": {"limits": {"read": "300ms"}}});
    let scene = Scene::with(&limits, &[]).await;
    let served = Served::new(&scene).await;
    let session = served.open("/mcp", json!({})).await;
    let mut line = Line::to(&served).await;
    let last = posted(&session, "Connection: close\r\n", &request(1, "ping", json!({})));
    line.say(&(last + &ping(&session, 2))).await;
    let said = line.answer().await;
    assert_eq!((said.status, said.header("connection")), (200, Some("close")));
    assert!(line.is_over().await);
    let mut line = Line::to(&served).await;
    for id in 0..5 {
        // Each has its own time.
        sleep(Duration::from_millis(100)).await;
        line.say(&ping(&session, id)).await;
        assert_eq!(line.answer().await.header("connection"), None);
    }
    assert!(line.is_over().await);
    end(scene, served).await;
}

#[tokio::test]
async fn what_is_under_way_is_answered_when_the_front_closes() {
    let script = Script::default().on("tools/call slow", [Step::Sleep(300), Step::Answer]);
    let scene = Scene::new(&[("it", script, json!({}))]).await;
    let served = Served::new(&scene).await;
    let session = served.open("/mcp", json!({})).await;
    let (mut busy, mut idle) = (Line::to(&served).await, Line::to(&served).await);
    idle.say(&ping(&session, 1)).await;
    assert_eq!(idle.answer().await.status, 200);
    busy.say(&call(&session, 2, "it__slow")).await;
    while !scene.log("it").iter().any(|it| it["method"] == "tools/call") {
        sleep(Duration::from_millis(10)).await;
    }
    let (said, is_over, ()) = tokio::join!(busy.answer(), idle.is_over(), served.end());
    assert_eq!((said.status, said.header("connection")), (200, Some("close")));
    assert!(is_over && busy.is_over().await);
    within(scene.host.close()).await;
}
