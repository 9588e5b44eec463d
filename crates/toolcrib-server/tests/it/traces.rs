//! Spans of calls at a collector, and the client's own trace at the server.

use std::net::SocketAddr;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use toolcrib_server::trace::{Traces, TracesError};
use toolcrib_testkit::scripted::{Script, Step};

use crate::scene::{Scene, within};
use crate::web::{Served, request};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "00f067aa0ba902b7";

/// Takes what it is sent, and has each span once.
struct Collector {
    address: SocketAddr,
    spans: mpsc::Receiver<(String, Span)>,
    _tasks: JoinSet<()>,
}

impl Collector {
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (to, spans) = mpsc::channel(100);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            loop {
                let mut stream = BufReader::new(listener.accept().await.unwrap().0);
                let (mut line, mut length, mut first) = (String::new(), 0, String::new());
                while line != "\r\n" {
                    line.clear();
                    if stream.read_line(&mut line).await.unwrap() == 0 {
                        break;
                    }
                    first = if first.is_empty() { line.clone() } else { first };
                    let lower = line.to_lowercase();
                    if let Some(value) = lower.strip_prefix("content-length: ") {
                        length = value.trim().parse().unwrap();
                    }
                }
                let mut body = vec![0; length];
                stream.read_exact(&mut body).await.unwrap();
                let answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
                stream.write_all(answer).await.unwrap();
                assert!(first.starts_with("POST /v1/traces "), "{first}");
                let sent = ExportTraceServiceRequest::decode(&*body).unwrap();
                for resource in sent.resource_spans {
                    let service = attribute(&resource.resource.unwrap().attributes, "service.name");
                    for span in resource.scope_spans.into_iter().flat_map(|it| it.spans) {
                        to.send((service.clone(), span)).await.unwrap();
                    }
                }
            }
        });
        Collector { address, spans, _tasks: tasks }
    }

    async fn span(&mut self) -> Span {
        let (service, span) = within(self.spans.recv()).await.unwrap();
        assert_eq!(service, "toolcrib");
        span
    }
}

fn attribute(all: &[opentelemetry_proto::tonic::common::v1::KeyValue], name: &str) -> String {
    let found = all.iter().find(|it| it.key == name);
    match found.and_then(|it| it.value.clone()?.value) {
        Some(Any::StringValue(text)) => text,
        _ => String::new(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What the server was told with its newest call.
fn told(scene: &Scene) -> Value {
    let log = scene.log("it");
    log.iter().rev().find(|it| it["method"] == "tools/call").unwrap()["params"]["_meta"].clone()
}

#[tokio::test]
async fn a_call_is_a_span_of_the_client_s_trace_and_the_server_is_told_so() {
    let script = Script::default().on("tools/call stuck", [Step::Sleep(60_000), Step::Answer]);
    let scene = Scene::new(&[("it", script, json!({}))]).await;
    let mut collector = Collector::new().await;
    let address = format!("http://{}/v1/traces", collector.address);
    let (traces, sending) = Traces::to(&address).unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(sending);
    let served = Served::traced(&scene, traces.clone()).await;
    let parent = format!("00-{TRACE}-{PARENT}-01");
    let meta = json!({"traceparent": parent, "tracestate": "a=b", "baggage": "c=d"});
    let call = json!({"name": "it__echo", "arguments": {}, "_meta": meta});
    served.ask("/mcp", &[], "tools/call", call, &json!({})).await.json().await;
    let span = collector.span().await;
    assert_eq!((hex(&span.trace_id), hex(&span.parent_span_id)), (TRACE.into(), PARENT.into()));
    assert_eq!(span.name, "tools/call it__echo");
    let said = |name: &str| attribute(&span.attributes, name);
    assert_eq!(
        [
            said("toolcrib.server"),
            said("gen_ai.tool.name"),
            said("toolcrib.outcome"),
            said("toolcrib.agent")
        ],
        ["it", "it__echo", "ok", "default"]
    );
    assert!(span.end_time_unix_nano > span.start_time_unix_nano);
    let own = format!("00-{TRACE}-{}-01", hex(&span.span_id));
    assert_eq!(told(&scene)["traceparent"], own.as_str(), "the span is the parent of the server's");
    assert_eq!(
        (&told(&scene)["tracestate"], &told(&scene)["baggage"]),
        (&json!("a=b"), &json!("c=d"))
    );

    // In the legacy era, and said by the head alone.
    let session = served.open("/mcp", json!({})).await;
    let body = request(2, "tools/call", json!({"name": "it__fail", "arguments": {}})).to_string();
    let headers = [
        ("content-type", "application/json"),
        ("mcp-session-id", &*session),
        ("traceparent", &*parent),
        ("tracestate", "a=b"),
    ];
    served.send("POST", "/mcp", &headers, body).await.json().await;
    let span = collector.span().await;
    assert_eq!((hex(&span.trace_id), hex(&span.parent_span_id)), (TRACE.into(), PARENT.into()));
    assert_eq!(attribute(&span.attributes, "toolcrib.outcome"), "tool");
    assert_eq!(attribute(&span.attributes, "error.type"), "tool");
    assert_eq!(told(&scene)["tracestate"], "a=b");

    // A call that is cancelled is a span, too, of a trace of its own; and what has ended is sent at the end.
    let stuck = request(3, "tools/call", json!({"name": "it__stuck", "arguments": {}}));
    let calls = scene.log("it").len();
    let calling = served.post("/mcp", Some(&session), &stuck);
    let cancelling = async {
        while scene.log("it").len() == calls {
            // The server is a process of its own.
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        let off = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3}});
        served.post("/mcp", Some(&session), &off).await;
    };
    tokio::join!(calling, cancelling);
    within(traces.flush()).await;
    let span = collector.spans.try_recv().expect("it was sent before").1;
    assert_eq!(attribute(&span.attributes, "toolcrib.outcome"), "cancelled");
    assert!(span.parent_span_id.is_empty() && hex(&span.trace_id) != TRACE);
    served.end().await;
    within(scene.host.close()).await;
}

#[tokio::test]
async fn without_a_collector_what_a_client_says_of_its_trace_is_handed_on() {
    let scene = Scene::new(&[("it", Script::default(), json!({}))]).await;
    let served = Served::new(&scene).await;
    let parent = format!("00-{TRACE}-{PARENT}-01");
    let call = json!({"name": "it__echo", "arguments": {}});
    let head = [("traceparent", &*parent)];
    served.ask("/mcp", &head, "tools/call", call.clone(), &json!({})).await.json().await;
    assert_eq!(told(&scene)["traceparent"], parent.as_str());
    let other = format!("00-{TRACE}-{}-00", "1".repeat(16));
    let mut said = call;
    said["_meta"] = json!({"traceparent": other});
    served.ask("/mcp", &head, "tools/call", said, &json!({})).await.json().await;
    assert_eq!(told(&scene)["traceparent"], other.as_str(), "the body counts before the head");
    served.end().await;
    within(scene.host.close()).await;
}

#[tokio::test]
async fn a_collector_that_is_away_holds_nobody_up() {
    assert!(matches!(Traces::to("no address"), Err(TracesError::Address)));
    let scene = Scene::new(&[("it", Script::default(), json!({}))]).await;
    // Nobody listens there any more.
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let (traces, sending) = Traces::to(&format!("http://{gone}/v1/traces")).unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(sending);
    let served = Served::traced(&scene, traces.clone()).await;
    for _ in 0..3 {
        let call = json!({"name": "it__echo", "arguments": {}});
        let called = served.ask("/mcp", &[], "tools/call", call, &json!({})).await.json().await;
        assert!(called["result"]["content"].is_array(), "{called}");
    }
    within(traces.flush()).await;
    served.end().await;
    within(scene.host.close()).await;
}
