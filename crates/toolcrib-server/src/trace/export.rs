//! Exports spans in batches with OTLP over HTTP.

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
use toolcrib_upstream::transport::{Tls, build_client};
use url::Url;

use super::{ExportCommand, ExportTask, FinishedSpan, TraceError};

/// Maximum number of spans in a batch.
const MAX_BATCH: usize = 512;

/// Time that a span waits for more spans.
const BATCH_DELAY: Duration = Duration::from_secs(1);

/// Timeout for one batch, including retries.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) fn start_export(
    collector: &str,
    spans: mpsc::Receiver<ExportCommand>,
) -> Result<ExportTask, TraceError> {
    let url = Url::parse(collector).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let url = url.ok_or(TraceError::Address)?;
    let client =
        build_client(&url, &Tls::default()).map_err(|error| exporter_error(Box::new(error)))?;
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(client)
        .with_endpoint(url.as_str())
        .build();
    let mut exporter = exporter.map_err(|error| exporter_error(Box::new(error)))?;
    exporter.set_resource(&resource());
    Ok(Box::pin(run_exporter(exporter, spans)))
}

fn exporter_error(cause: Box<dyn std::error::Error + Send + Sync>) -> TraceError {
    TraceError::Exporter(cause)
}

/// Resource attributes from the standard environment variables, with a default service name.
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

/// Exports spans until all senders are dropped.
async fn run_exporter(exporter: SpanExporter, mut spans: mpsc::Receiver<ExportCommand>) {
    let mut was_accepted = true;
    while let Some(first) = spans.recv().await {
        let (batch, flushed) = gather_batch(first, &mut spans).await;
        if !batch.is_empty() {
            let sent = match timeout(EXPORT_TIMEOUT, exporter.export(batch)).await {
                Ok(sent) => sent.map_err(|error| chain(&error)),
                Err(late) => Err(late.to_string()),
            };
            // Logs once until the collector recovers, not for each batch.
            if let (true, Err(error)) = (was_accepted, &sent) {
                tracing::warn!(%error, "cannot export traces: the collector does not accept them");
            }
            was_accepted = sent.is_ok();
        }
        for done in flushed {
            // The waiting task may have been cancelled.
            let _ = done.send(());
        }
    }
}

/// Gathers spans until the delay ends, the batch is full, or a flush is requested.
async fn gather_batch(
    first: ExportCommand,
    spans: &mut mpsc::Receiver<ExportCommand>,
) -> (Vec<SpanData>, Vec<oneshot::Sender<()>>) {
    let (mut batch, mut flushed) = (Vec::new(), Vec::new());
    let end = Instant::now() + BATCH_DELAY;
    let mut next = Some(first);
    while let Some(command) = next {
        match command {
            ExportCommand::Finished(finished) => batch.push(span_data(*finished)),
            ExportCommand::Flush(done) => flushed.push(done),
        }
        if batch.len() >= MAX_BATCH || !flushed.is_empty() {
            break;
        }
        next = tokio::select! {
            command = spans.recv() => command,
            () = sleep_until(end) => None,
        };
    }
    (batch, flushed)
}

fn span_data(span: FinishedSpan) -> SpanData {
    let FinishedSpan { own, parent, agent, tool, server, outcome, start, end } = span;
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
