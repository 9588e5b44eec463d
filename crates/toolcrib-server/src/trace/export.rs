//! Sending spans in batches, by OTLP over HTTP.

use std::time::Duration;

use opentelemetry::trace::{
    SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanExporter as _, SpanLinks};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};
use toolcrib_upstream::signals::chain;
use toolcrib_upstream::transport::{Tls, client};
use url::Url;

use super::{Ended, Said, Sending, TracesError};

/// Spans that are sent at once, at most.
const BATCH: usize = 512;

/// How long a span waits for others.
const WAIT: Duration = Duration::from_secs(1);

/// How long a collector may take for one batch, all tries together.
const LONGEST: Duration = Duration::from_secs(30);

pub(super) fn to(collector: &str, spans: mpsc::Receiver<Said>) -> Result<Sending, TracesError> {
    let url = Url::parse(collector).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let url = url.ok_or(TracesError::Address)?;
    let client = client(&url, &Tls::default()).map_err(|error| failed(Box::new(error)))?;
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(client)
        .with_endpoint(url.as_str())
        .build();
    let mut exporter = exporter.map_err(|error| failed(Box::new(error)))?;
    exporter.set_resource(&resource());
    Ok(Box::pin(send(exporter, spans)))
}

fn failed(cause: Box<dyn std::error::Error + Send + Sync>) -> TracesError {
    TracesError::Exporter(cause)
}

/// What the usual variables say of this program, and its name where they say none.
fn resource() -> Resource {
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let named = Resource::builder().build();
    let name = named.iter().find(|(key, _)| key.as_str() == "service.name");
    let is_named = name.is_some_and(|(_, name)| !name.as_str().starts_with("unknown_service"));
    let builder = Resource::builder().with_attribute(version);
    match is_named {
        true => builder.build(),
        false => builder.with_service_name("toolcrib").build(),
    }
}

/// Until nobody can tell of spans any more.
async fn send(exporter: SpanExporter, mut spans: mpsc::Receiver<Said>) {
    let mut was_taken = true;
    while let Some(first) = spans.recv().await {
        let (batch, flushed) = gather(first, &mut spans).await;
        if !batch.is_empty() {
            let sent = match timeout(LONGEST, exporter.export(batch)).await {
                Ok(sent) => sent.map_err(|error| chain(&error)),
                Err(late) => Err(late.to_string()),
            };
            // A collector that is away is told of once, not with each batch.
            if let (true, Err(error)) = (was_taken, &sent) {
                tracing::warn!(%error, "traces are lost: the collector does not take them");
            }
            was_taken = sent.is_ok();
        }
        for done in flushed {
            // Whoever waited may have gone.
            let _ = done.send(());
        }
    }
}

/// All that ends within some time, or until somebody wants it to be sent.
async fn gather(
    first: Said,
    spans: &mut mpsc::Receiver<Said>,
) -> (Vec<SpanData>, Vec<oneshot::Sender<()>>) {
    let (mut batch, mut flushed) = (Vec::new(), Vec::new());
    let end = Instant::now() + WAIT;
    let mut next = Some(first);
    while let Some(said) = next {
        match said {
            Said::Ended(ended) => batch.push(data(*ended)),
            Said::Flush(done) => flushed.push(done),
        }
        if batch.len() >= BATCH || !flushed.is_empty() {
            break;
        }
        next = tokio::select! {
            said = spans.recv() => said,
            () = sleep_until(end) => None,
        };
    }
    (batch, flushed)
}

fn data(ended: Ended) -> SpanData {
    let Ended { own, parent, agent, tool, server, outcome, start, end } = ended;
    let is_good = outcome == "ok";
    let mut attributes = vec![
        KeyValue::new("mcp.method.name", "tools/call"),
        KeyValue::new("gen_ai.operation.name", "execute_tool"),
        KeyValue::new("gen_ai.tool.name", tool.clone()),
        KeyValue::new("toolcrib.agent", agent.to_string()),
        KeyValue::new("toolcrib.outcome", outcome),
    ];
    attributes.extend(server.map(|server| KeyValue::new("toolcrib.server", server)));
    attributes.extend((!is_good).then(|| KeyValue::new("error.type", outcome)));
    SpanData {
        span_context: SpanContext::new(
            TraceId::from(own.trace),
            SpanId::from(own.span),
            TraceFlags::SAMPLED,
            false,
            TraceState::NONE,
        ),
        parent_span_id: parent.map_or(SpanId::INVALID, |parent| SpanId::from(parent.span)),
        parent_span_is_remote: parent.is_some(),
        span_kind: SpanKind::Server,
        name: format!("tools/call {tool}").into(),
        start_time: start,
        end_time: end,
        attributes,
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: if is_good { Status::Unset } else { Status::error(outcome) },
        instrumentation_scope: InstrumentationScope::builder("toolcrib").build(),
    }
}
