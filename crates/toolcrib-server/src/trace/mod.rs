//! Traces: a span for each tool call of a client, and the client's own trace handed on to the server.
//!
//! Without a collector ([`Traces::default`]) what a client says of its trace is only handed on. Sending spans needs the
//! feature `otlp`.

mod context;
#[cfg(feature = "otlp")]
mod export;

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use toolcrib::host::Execution;
use toolcrib_wire::{ObjectWriter, Raw};

pub(crate) use context::{PARENT, STATE};

use context::Context;

/// Spans that wait to be sent; more are lost, since no call waits for one.
const QUEUE: usize = 4096;

/// How long the last spans may take.
const LAST: Duration = Duration::from_secs(5);

/// Where spans go. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Traces(Option<mpsc::Sender<Said>>);

/// Sends spans for as long as it is polled.
pub type Sending = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Why no spans can be sent.
#[derive(Debug, thiserror::Error)]
pub enum TracesError {
    #[error("this program was built without `otlp`, and cannot send traces")]
    NotBuilt,
    /// It is not repeated: people put keys into addresses.
    #[error(
        "the collector's address is none that traces can be sent to: it has to begin with http or https"
    )]
    Address,
    #[error("cannot send traces")]
    Exporter(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// What whoever sends spans is told.
#[derive(Debug)]
#[cfg_attr(not(feature = "otlp"), expect(dead_code, reason = "only whoever sends spans reads it"))]
enum Said {
    Ended(Box<Ended>),
    /// Everything up to here is to be sent now.
    Flush(oneshot::Sender<()>),
}

/// A span that is over.
#[derive(Debug)]
#[cfg_attr(not(feature = "otlp"), expect(dead_code, reason = "only whoever sends it reads it"))]
struct Ended {
    own: Context,
    parent: Option<Context>,
    agent: Arc<str>,
    tool: String,
    server: Option<String>,
    outcome: &'static str,
    start: SystemTime,
    end: SystemTime,
}

/// A call that is under way. Dropped before its end, it was cancelled.
#[derive(Debug)]
pub(crate) struct Span {
    to: mpsc::Sender<Said>,
    ended: Option<Box<Ended>>,
}

impl Traces {
    /// Sends spans to a collector that takes OTLP over HTTP. Headers and time-outs are those of the usual variables
    /// (`OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_EXPORTER_OTLP_TIMEOUT`), and so is the name (`OTEL_SERVICE_NAME`).
    pub fn to(collector: &str) -> Result<(Self, Sending), TracesError> {
        let (to, spans) = mpsc::channel(QUEUE);
        Ok((Traces(Some(to)), sending(collector, spans)?))
    }

    /// Where the usual variables say that spans are sent to, if they do.
    pub fn collector(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
        let said = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let is_off = said("OTEL_SDK_DISABLED").is_some_and(|it| it.eq_ignore_ascii_case("true"))
            || said("OTEL_TRACES_EXPORTER").is_some_and(|it| it != "otlp");
        if is_off {
            return None;
        }
        let of_all = || {
            let address = said("OTEL_EXPORTER_OTLP_ENDPOINT")?;
            Some(format!("{}/v1/traces", address.trim_end_matches('/')))
        };
        said("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").or_else(of_all)
    }

    /// Waits until what has ended is sent, for some time.
    pub async fn flush(&self) {
        let Some(to) = &self.0 else { return };
        let (done, sent) = oneshot::channel();
        let flushing = async {
            if to.send(Said::Flush(done)).await.is_ok() {
                // Whoever sends has ended otherwise.
                let _ = sent.await;
            }
        };
        // What is not sent by then is lost.
        let _ = timeout(LAST, flushing).await;
    }

    /// A span for a call, where it is to be recorded; and what the server is told with it, in which the span takes the
    /// place of the client's.
    pub(crate) fn begin(
        &self,
        agent: &Arc<str>,
        tool: &str,
        meta: Option<Raw>,
    ) -> (Option<Span>, Option<Raw>) {
        let Some(to) = &self.0 else { return (None, meta) };
        let said = meta.as_ref().and_then(|meta| meta.get(PARENT));
        let parent = said.and_then(|said| Context::read(&said.json().as_str()?));
        let own = parent.map_or_else(Context::fresh, Context::child);
        let Some(own) = own.filter(|own| own.is_recorded()) else { return (None, meta) };
        let told = meta.unwrap_or_else(|| ObjectWriter::new().finish());
        let told = told.with_members([(PARENT, Some(Raw::string(&own.to_string())))]);
        let now = SystemTime::now();
        let ended = Box::new(Ended {
            own,
            parent,
            agent: Arc::clone(agent),
            tool: tool.to_owned(),
            server: None,
            outcome: "cancelled",
            start: now,
            end: now,
        });
        (Some(Span { to: to.clone(), ended: Some(ended) }), Some(told))
    }
}

impl Span {
    /// How the call ended.
    pub(crate) fn end(mut self, done: &Execution) {
        if let Some(ended) = &mut self.ended {
            ended.server = Some(done.facts.server.clone()).filter(|server| !server.is_empty());
            ended.outcome = match &done.outcome {
                Ok(result) if result.is_error() => "tool",
                Ok(_) => "ok",
                Err(error) => error.kind().as_str(),
            };
        }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        if let Some(mut ended) = self.ended.take() {
            ended.end = SystemTime::now();
            // A collector that is too slow loses some.
            let _ = self.to.try_send(Said::Ended(ended));
        }
    }
}

#[cfg(feature = "otlp")]
fn sending(collector: &str, spans: mpsc::Receiver<Said>) -> Result<Sending, TracesError> {
    export::to(collector, spans)
}

#[cfg(not(feature = "otlp"))]
fn sending(_: &str, _: mpsc::Receiver<Said>) -> Result<Sending, TracesError> {
    Err(TracesError::NotBuilt)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_variables_say_where_spans_go() {
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
            let said = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            assert_eq!(Traces::collector(said).as_deref(), expected, "{variables:?}");
        }
    }

    #[tokio::test]
    async fn without_a_collector_the_client_s_trace_is_handed_on_as_it_is() {
        let meta = ObjectWriter::new().string(PARENT, "00-any").finish();
        let (span, told) = Traces::default().begin(&"default".into(), "t", Some(meta.clone()));
        assert!(span.is_none());
        assert_eq!(told.unwrap().text(), meta.text());
    }

    #[tokio::test]
    async fn who_wants_no_record_gets_none_and_his_context_goes_on() {
        let (to, mut spans) = mpsc::channel(4);
        let traces = Traces(Some(to));
        let parent = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-00";
        let meta = ObjectWriter::new().string(PARENT, parent).finish();
        let (span, told) = traces.begin(&"default".into(), "t", Some(meta.clone()));
        assert!(span.is_none());
        assert_eq!(told.unwrap().text(), meta.text());
        // Whoever says nothing begins a trace here, and a call that is dropped was cancelled.
        let (span, told) = traces.begin(&"default".into(), "t", None);
        assert!(told.unwrap().text().contains("traceparent"));
        drop(span);
        let Some(Said::Ended(ended)) = spans.recv().await else { panic!("a span") };
        assert_eq!((ended.outcome, ended.parent), ("cancelled", None));
    }
}
