//! Spans of calls at a collector, and trace context at the server.

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
use toolcrib_server::trace::{TraceError, TraceSender};
use toolcrib_testkit::scripted::{Script, Step};

use crate::fixture::{TestHost, with_timeout};
use crate::http_client::{TestServer, request};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT_SPAN: &str = "00f067aa0ba902b7";

/// Accepts exports and returns each span once.
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
        let (service, span) = with_timeout(self.spans.recv()).await.unwrap();
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

/// `_meta` of the server's newest call.
fn newest_call_meta(host_fixture: &TestHost) -> Value {
    let log = host_fixture.log("it");
    log.iter().rev().find(|it| it["method"] == "tools/call").unwrap()["params"]["_meta"].clone()
}

#[tokio::test]
async fn call_span_joins_the_client_trace_and_reaches_the_server() {
    let script = Script::default().on("tools/call stuck", [Step::Sleep(60_000), Step::Respond]);
    let host_fixture = TestHost::new(&[("it", script, json!({}))]).await;
    let mut collector = Collector::new().await;
    let address = format!("http://{}/v1/traces", collector.address);
    let (traces, sending) = TraceSender::with_collector(&address).unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(sending);
    let server = TestServer::with_traces(&host_fixture, traces.clone()).await;
    let parent = format!("00-{TRACE}-{PARENT_SPAN}-01");
    let meta = json!({"traceparent": parent, "tracestate": "a=b", "baggage": "c=d"});
    let call = json!({"name": "it__echo", "arguments": {}, "_meta": meta});
    server.post_modern("/mcp", &[], "tools/call", call, &json!({})).await.json().await;
    let span = collector.span().await;
    assert_eq!(
        (hex(&span.trace_id), hex(&span.parent_span_id)),
        (TRACE.into(), PARENT_SPAN.into())
    );
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
    assert_eq!(
        newest_call_meta(&host_fixture)["traceparent"],
        own.as_str(),
        "the server's parent is the span"
    );
    assert_eq!(
        (
            &newest_call_meta(&host_fixture)["tracestate"],
            &newest_call_meta(&host_fixture)["baggage"]
        ),
        (&json!("a=b"), &json!("c=d"))
    );

    // In the legacy era, with trace headers only.
    let session = server.open_session("/mcp", json!({})).await;
    let body = request(2, "tools/call", json!({"name": "it__fail", "arguments": {}})).to_string();
    let headers = [
        ("content-type", "application/json"),
        ("mcp-session-id", &*session),
        ("traceparent", &*parent),
        ("tracestate", "a=b"),
    ];
    server.send("POST", "/mcp", &headers, body).await.json().await;
    let span = collector.span().await;
    assert_eq!(
        (hex(&span.trace_id), hex(&span.parent_span_id)),
        (TRACE.into(), PARENT_SPAN.into())
    );
    assert_eq!(attribute(&span.attributes, "toolcrib.outcome"), "tool");
    assert_eq!(attribute(&span.attributes, "error.type"), "tool");
    assert_eq!(newest_call_meta(&host_fixture)["tracestate"], "a=b");

    // A cancelled call is a span of a new trace, and a flush exports finished spans.
    let stuck = request(3, "tools/call", json!({"name": "it__stuck", "arguments": {}}));
    let calls = host_fixture.log("it").len();
    let calling = server.post("/mcp", Some(&session), &stuck);
    let cancelling = async {
        while host_fixture.log("it").len() == calls {
            // The server is another process.
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        let off = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3}});
        server.post("/mcp", Some(&session), &off).await;
    };
    tokio::join!(calling, cancelling);
    with_timeout(traces.flush()).await;
    let span = collector.spans.try_recv().expect("exported before the flush returned").1;
    assert_eq!(attribute(&span.attributes, "toolcrib.outcome"), "cancelled");
    assert!(span.parent_span_id.is_empty() && hex(&span.trace_id) != TRACE);
    server.close().await;
    with_timeout(host_fixture.host.close()).await;
}

#[tokio::test]
async fn without_a_collector_the_client_trace_is_forwarded() {
    let host_fixture = TestHost::new(&[("it", Script::default(), json!({}))]).await;
    let server = TestServer::new(&host_fixture).await;
    let parent = format!("00-{TRACE}-{PARENT_SPAN}-01");
    let call = json!({"name": "it__echo", "arguments": {}});
    let head = [("traceparent", &*parent)];
    server.post_modern("/mcp", &head, "tools/call", call.clone(), &json!({})).await.json().await;
    assert_eq!(newest_call_meta(&host_fixture)["traceparent"], parent.as_str());
    let other = format!("00-{TRACE}-{}-00", "1".repeat(16));
    let mut said = call;
    said["_meta"] = json!({"traceparent": other});
    server.post_modern("/mcp", &head, "tools/call", said, &json!({})).await.json().await;
    assert_eq!(
        newest_call_meta(&host_fixture)["traceparent"],
        other.as_str(),
        "the body takes precedence over headers"
    );
    server.close().await;
    with_timeout(host_fixture.host.close()).await;
}

#[tokio::test]
async fn unreachable_collector_does_not_delay_calls() {
    assert!(matches!(TraceSender::with_collector("no address"), Err(TraceError::Address)));
    let host_fixture = TestHost::new(&[("it", Script::default(), json!({}))]).await;
    // No listener is left on this address.
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let (traces, sending) =
        TraceSender::with_collector(&format!("http://{gone}/v1/traces")).unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(sending);
    let server = TestServer::with_traces(&host_fixture, traces.clone()).await;
    for _ in 0..3 {
        let call = json!({"name": "it__echo", "arguments": {}});
        let called =
            server.post_modern("/mcp", &[], "tools/call", call, &json!({})).await.json().await;
        assert!(called["result"]["content"].is_array(), "{called}");
    }
    with_timeout(traces.flush()).await;
    server.close().await;
    with_timeout(host_fixture.host.close()).await;
}
