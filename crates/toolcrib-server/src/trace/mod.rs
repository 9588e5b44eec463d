//! Spans for the tool calls of clients, and forwarding of the clients' trace context to servers.
//!
//! Without a collector ([`TraceSender::default`]) the trace context of the client is only forwarded. Export needs the
//! feature `otlp`.

mod context;
#[cfg(feature = "otlp")]
mod export;

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use toolcrib::Execution;
use toolcrib_wire::{ObjectWriter, RawJson};

pub(crate) use context::{TRACEPARENT, TRACESTATE};

use context::TraceParent;

/// Capacity of the span queue. More spans are dropped, because no call waits for the export.
const QUEUE_CAPACITY: usize = 4096;

/// Time limit of a flush.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// Sends finished spans to the exporter. Clones share the queue.
#[derive(Clone, Debug, Default)]
pub struct TraceSender(Option<mpsc::Sender<ExportCommand>>);

/// Exports spans as long as it is polled.
pub type ExportTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Why spans cannot be exported.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    #[error("cannot export traces: this program was built without the feature `otlp`")]
    NotBuilt,
    /// The message omits the address, because users put keys into addresses.
    #[error("invalid collector address: it must start with http:// or https://")]
    Address,
    #[error("cannot create the trace exporter")]
    Exporter(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Command to the exporter.
#[derive(Debug)]
#[cfg_attr(not(feature = "otlp"), expect(dead_code, reason = "only the exporter reads it"))]
enum ExportCommand {
    Finished(Box<FinishedSpan>),
    /// Export all earlier spans now.
    Flush(oneshot::Sender<()>),
}

/// A finished span.
#[derive(Debug)]
#[cfg_attr(not(feature = "otlp"), expect(dead_code, reason = "only the exporter reads it"))]
struct FinishedSpan {
    own: TraceParent,
    parent: Option<TraceParent>,
    agent: Arc<str>,
    tool: String,
    server: Option<String>,
    outcome: &'static str,
    start: SystemTime,
    end: SystemTime,
}

/// The span of a running call. Dropping it without `finish` records a cancellation.
#[derive(Debug)]
pub(crate) struct CallSpan {
    to: mpsc::Sender<ExportCommand>,
    finished: Option<Box<FinishedSpan>>,
}

impl TraceSender {
    /// Exports spans to an OTLP collector over HTTP. Headers, timeout and service name come from the standard variables
    /// (`OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_EXPORTER_OTLP_TIMEOUT`, `OTEL_SERVICE_NAME`).
    pub fn with_collector(collector: &str) -> Result<(Self, ExportTask), TraceError> {
        let (to, spans) = mpsc::channel(QUEUE_CAPACITY);
        Ok((TraceSender(Some(to)), export_task(collector, spans)?))
    }

    /// The collector address from the standard environment variables, if tracing is on.
    pub fn collector_from_env(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
        let value = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let is_off = value("OTEL_SDK_DISABLED").is_some_and(|it| it.eq_ignore_ascii_case("true"))
            || value("OTEL_TRACES_EXPORTER").is_some_and(|it| it != "otlp");
        if is_off {
            return None;
        }
        let of_all = || {
            let address = value("OTEL_EXPORTER_OTLP_ENDPOINT")?;
            Some(format!("{}/v1/traces", address.trim_end_matches('/')))
        };
        value("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").or_else(of_all)
    }

    /// Waits until all finished spans are exported, within a time limit.
    pub async fn flush(&self) {
        let Some(to) = &self.0 else { return };
        let (done, sent) = oneshot::channel();
        let flushing = async {
            if to.send(ExportCommand::Flush(done)).await.is_ok() {
                // An error means that the exporter has ended.
                let _ = sent.await;
            }
        };
        // Spans that are not exported by then are lost.
        let _ = timeout(FLUSH_TIMEOUT, flushing).await;
    }

    /// Starts the span of a call, if it is sampled. Returns the `_meta` for the server, with the new span as the
    /// parent.
    pub(crate) fn start_span(
        &self,
        agent: &Arc<str>,
        tool: &str,
        meta: Option<RawJson>,
    ) -> (Option<CallSpan>, Option<RawJson>) {
        let Some(to) = &self.0 else { return (None, meta) };
        let value = meta.as_ref().and_then(|meta| meta.get(TRACEPARENT));
        let parent = value.and_then(|value| TraceParent::parse(&value.json().as_str()?));
        let own = parent.map_or_else(TraceParent::new_root, TraceParent::child);
        let Some(own) = own.filter(|own| own.is_recorded()) else { return (None, meta) };
        let forwarded_meta = meta.unwrap_or_else(|| ObjectWriter::new().finish());
        let forwarded_meta =
            forwarded_meta.with_members([(TRACEPARENT, Some(RawJson::string(&own.to_string())))]);
        let now = SystemTime::now();
        let finished = Box::new(FinishedSpan {
            own,
            parent,
            agent: Arc::clone(agent),
            tool: tool.to_owned(),
            server: None,
            outcome: "cancelled",
            start: now,
            end: now,
        });
        (Some(CallSpan { to: to.clone(), finished: Some(finished) }), Some(forwarded_meta))
    }
}

impl CallSpan {
    /// Records the outcome of the call.
    pub(crate) fn finish(mut self, done: &Execution) {
        if let Some(finished) = &mut self.finished {
            finished.server = Some(done.facts.server.clone()).filter(|server| !server.is_empty());
            finished.outcome = match &done.outcome {
                Ok(result) if result.is_error() => "tool",
                Ok(_) => "ok",
                Err(error) => error.kind().as_str(),
            };
        }
    }
}

impl Drop for CallSpan {
    fn drop(&mut self) {
        if let Some(mut finished) = self.finished.take() {
            finished.end = SystemTime::now();
            // A slow collector loses spans.
            let _ = self.to.try_send(ExportCommand::Finished(finished));
        }
    }
}

#[cfg(feature = "otlp")]
fn export_task(
    collector: &str,
    spans: mpsc::Receiver<ExportCommand>,
) -> Result<ExportTask, TraceError> {
    export::start_export(collector, spans)
}

#[cfg(not(feature = "otlp"))]
fn export_task(_: &str, _: mpsc::Receiver<ExportCommand>) -> Result<ExportTask, TraceError> {
    Err(TraceError::NotBuilt)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collector_address_comes_from_otel_variables() {
        let all = "OTEL_EXPORTER_OTLP_ENDPOINT";
        let own = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
        for (variables, expected) in [
            (vec![], None),
            (vec![(all, " ")], None),
            (vec![(all, "http://c:4318/")], Some("http://c:4318/v1/traces")),
            (vec![(all, "http://c:4318"), (own, "http://t/x")], Some("http://t/x")),
            (vec![(own, "http://t/x"), ("OTEL_SDK_DISABLED", "TRUE")], None),
            (vec![(own, "http://t/x"), ("OTEL_TRACES_EXPORTER", "none")], None),
            (vec![(own, "http://t/x"), ("OTEL_TRACES_EXPORTER", "otlp")], Some("http://t/x")),
        ] {
            let value = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            assert_eq!(
                TraceSender::collector_from_env(value).as_deref(),
                expected,
                "{variables:?}"
            );
        }
    }

    #[tokio::test]
    async fn without_a_collector_the_trace_meta_is_unchanged() {
        let meta = ObjectWriter::new().string(TRACEPARENT, "00-any").finish();
        let (span, forwarded_meta) =
            TraceSender::default().start_span(&"default".into(), "t", Some(meta.clone()));
        assert!(span.is_none());
        assert_eq!(forwarded_meta.unwrap().text(), meta.text());
    }

    #[tokio::test]
    async fn unsampled_trace_is_forwarded_without_a_span() {
        let (to, mut spans) = mpsc::channel(4);
        let traces = TraceSender(Some(to));
        let parent = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-00";
        let meta = ObjectWriter::new().string(TRACEPARENT, parent).finish();
        let (span, forwarded_meta) = traces.start_span(&"default".into(), "t", Some(meta.clone()));
        assert!(span.is_none());
        assert_eq!(forwarded_meta.unwrap().text(), meta.text());
        // A request without trace context starts a trace, and a dropped span counts as cancelled.
        let (span, forwarded_meta) = traces.start_span(&"default".into(), "t", None);
        assert!(forwarded_meta.unwrap().text().contains("traceparent"));
        drop(span);
        let Some(ExportCommand::Finished(finished)) = spans.recv().await else { panic!("a span") };
        assert_eq!((finished.outcome, finished.parent), ("cancelled", None));
    }
}
