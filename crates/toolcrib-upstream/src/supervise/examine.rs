//! Starts a server once and reports its eras, startup time, lists and anomalies.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};
use toolcrib_config::ServerSpec;
use toolcrib_config::model::choice::Protocol;
use toolcrib_config::model::naming::is_legal;
use toolcrib_wire::handshake::{DiscoverResult, Implementation, InitializeResult};
use toolcrib_wire::view::ServerCapabilities;
use toolcrib_wire::{Era, Framing, Version};

use super::{DedicatedOptions, Server, ServerOptions, Supervisor};
use crate::conn::{AgreedProtocol, Catalog, ConnEvent, ConnView, Demand, Failure, Session};
use crate::process::StderrTail;
use crate::signals::chain;

/// Startup time that is reported as slow.
const SLOW_START: Duration = Duration::from_secs(10);

/// Minimum time limit for the legacy probe. Otherwise the limit is twice the first startup time.
const MIN_LEGACY_PROBE_TIME: Duration = Duration::from_secs(5);

/// Length limit of the reported stderr.
const MAX_STDERR_CHARS: usize = 2000;

/// Report of one start.
#[derive(Debug, Clone)]
pub struct ServerExamination {
    /// Time from the start to the complete lists or the failure.
    pub elapsed: Duration,
    /// Summary, or the failure of the start.
    pub outcome: Result<ServerSummary, Failure>,
    /// Observations that are not failures.
    pub findings: Vec<StartFinding>,
    /// End of the server's stderr, if it is captured.
    pub stderr: String,
}

/// Summary of a server that started.
#[derive(Debug, Clone)]
pub struct ServerSummary {
    /// Known eras, the agreed one first.
    pub eras: Vec<Era>,
    /// Agreed protocol version.
    pub version: Version,
    /// Detected message framing.
    pub framing: Option<Framing>,
    /// Name from the server's `serverInfo`.
    pub name: Option<String>,
    /// Version from the server's `serverInfo`.
    pub release: Option<String>,
    pub tools: usize,
    pub prompts: usize,
    pub resources: usize,
    pub templates: usize,
}

/// An observation that is not a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartFinding {
    /// Stable problem code.
    pub code: &'static str,
    /// Text for users.
    pub text: String,
}

/// Starts a server once, examines it and stops it. If the legacy era is still unknown, starts it once more to find
/// out.
pub async fn examine(
    supervisor: &Supervisor,
    spec: Arc<ServerSpec>,
    options: ServerOptions,
) -> ServerExamination {
    let started_at = Instant::now();
    let server = supervisor.add_server(spec, options).await;
    // An examination is a single attempt.
    let outcome = match server.main().acquire_without_retry(Demand::Call).await {
        // The server may use `Content-Length`, which is tried after the timeout.
        Err(failure) if server.main().view().lifecycle.is_trying_content_length() => {
            server.main().content_length_attempt().await.ok_or(failure)
        }
        outcome => outcome,
    };
    let elapsed = started_at.elapsed();
    let view = server.main().view();
    let mut examined = match outcome {
        Ok(permit) => ServerExamination {
            elapsed,
            findings: start_findings(server.spec(), &view, elapsed, &permit.session),
            stderr: stderr_tail(&view),
            outcome: Ok(summarize(&permit.session, &view.catalog.unwrap_or_default())),
        },
        Err(failure) => ServerExamination {
            elapsed,
            findings: Vec::new(),
            stderr: stderr_tail(&view),
            outcome: Err(failure),
        },
    };
    if let Ok(found) = &mut examined.outcome
        && needs_legacy_probe(&server.spec().policy.protocol, &found.eras)
        && speaks_legacy(&server, elapsed).await
    {
        found.eras.push(Era::Legacy);
    }
    supervisor.retire_and_wait(&server).await;
    examined
}

/// Returns whether the legacy era is still unknown. A server that agreed on the legacy era has rejected the modern one before.
fn needs_legacy_probe(protocol: &Protocol, known: &[Era]) -> bool {
    *protocol == Protocol::Auto && known == [Era::Modern]
}

/// Returns whether a modern server supports the legacy era. Uses a new connection, because a server may refuse `initialize`
/// after the modern era.
async fn speaks_legacy(server: &Arc<Server>, elapsed: Duration) -> bool {
    // Not concurrently: some servers run only once.
    server.main().send_event(ConnEvent::Retire).await;
    server.main().wait_until_ended().await;
    let spare = server.open_dedicated(DedicatedOptions {
        protocol: Some(Protocol::Legacy),
        ..DedicatedOptions::default()
    });
    let tried = timeout(
        MIN_LEGACY_PROBE_TIME.max(elapsed * 2),
        spare.conn().acquire_without_retry(Demand::Call),
    );
    let speaks_legacy = tried.await.is_ok_and(|tried| tried.is_ok());
    spare.close().await;
    speaks_legacy
}

fn summarize(session: &Session, catalog: &Catalog) -> ServerSummary {
    let agreed = session.agreed();
    let implementation = implementation(agreed);
    let text_field = |read: fn(&Implementation) -> Option<std::borrow::Cow<'_, str>>| {
        implementation.as_ref().and_then(read).map(std::borrow::Cow::into_owned)
    };
    ServerSummary {
        eras: spoken_eras(agreed),
        version: agreed.version.clone(),
        framing: session.peer().framing(),
        name: text_field(Implementation::name),
        release: text_field(Implementation::version),
        tools: catalog.tools.len(),
        prompts: catalog.prompts.len(),
        resources: catalog.resources.len(),
        templates: catalog.templates.len(),
    }
}

fn implementation(agreed: &AgreedProtocol) -> Option<Implementation> {
    match agreed.era {
        Era::Legacy => InitializeResult::read(agreed.answer.clone()).ok()?.server(),
        Era::Modern => DiscoverResult::read(agreed.answer.clone()).ok()?.server(),
    }
}

/// A modern server lists its versions, legacy ones included.
fn spoken_eras(agreed: &AgreedProtocol) -> Vec<Era> {
    let mut eras = vec![agreed.era];
    if let Ok(discovered) = DiscoverResult::read(agreed.answer.clone()) {
        let has_legacy =
            discovered.versions().iter().any(|version| version.era() == Some(Era::Legacy));
        eras.extend(has_legacy.then_some(Era::Legacy));
    }
    eras.dedup();
    eras
}

fn start_findings(
    spec: &ServerSpec,
    view: &ConnView,
    elapsed: Duration,
    session: &Session,
) -> Vec<StartFinding> {
    let mut all = Vec::new();
    if elapsed > SLOW_START {
        let text = format!("slow start: {:.1} s", elapsed.as_secs_f64());
        all.push(StartFinding { code: "start.slow", text });
    }
    all.extend(view.anomalies().into_iter().map(|report| StartFinding {
        code: report.anomaly.code(),
        text: format!("{} ({}×), first: `{}`", report.anomaly, report.count, report.example),
    }));
    if let Some(catalog) = &view.catalog {
        all.extend(catalog_findings(catalog));
    }
    let missing = missing_capabilities(spec, &session.agreed().capabilities);
    all.extend(missing.into_iter().map(|name| StartFinding {
        code: "capability.missing",
        text: format!("missing capability `{name}`, which `init.require_server` requires"),
    }));
    all
}

fn catalog_findings(catalog: &Catalog) -> Vec<StartFinding> {
    let items = catalog.defects.iter().map(|defect| {
        let name = defect.name.as_deref().unwrap_or("?");
        let text = format!("{} `{name}`: {}", defect.list, chain(&defect.kind));
        StartFinding { code: "list.item", text }
    });
    let illegal =
        catalog.tools.iter().filter(|tool| !is_legal(tool.name())).map(|tool| StartFinding {
            code: "name.illegal",
            text: format!("model providers refuse the tool name `{}`", tool.name()),
        });
    items.chain(illegal).collect()
}

/// Capabilities that the configuration requires and the server does not declare.
pub fn missing_capabilities(spec: &ServerSpec, declared: &ServerCapabilities) -> Vec<String> {
    let wanted = spec.policy.init.require_server.iter();
    wanted.filter(|name| declared.raw().get(name).is_none()).cloned().collect()
}

fn stderr_tail(view: &ConnView) -> String {
    let text = view.stderr.as_ref().map(StderrTail::text).unwrap_or_default();
    let start = text.char_indices().rev().nth(MAX_STDERR_CHARS).map_or(0, |(at, _)| at);
    text.get(start..).unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legacy_probe_is_needed_only_for_unknown_eras() {
        let version = |text: &str| Protocol::Version(text.to_owned());
        for (protocol, known, open) in [
            (Protocol::Auto, &[Era::Modern][..], true),
            (Protocol::Auto, &[Era::Modern, Era::Legacy], false),
            (Protocol::Auto, &[Era::Legacy], false),
            (Protocol::Modern, &[Era::Modern], false),
            (version("2026-07-28"), &[Era::Modern], false),
        ] {
            assert_eq!(needs_legacy_probe(&protocol, known), open, "{protocol:?} {known:?}");
        }
    }
}
