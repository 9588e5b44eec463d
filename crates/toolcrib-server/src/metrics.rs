//! Metrics of the host in the Prometheus text format.
//!
//! The counters exist elsewhere already, and this module only renders them; a metrics framework would count everything
//! twice. Labels name existing servers and tools, so their number is bounded. A principal sees only the series of
//! servers that are visible to it.
//!
//! The crate `prometheus-client` would change the output: it encodes OpenMetrics, whose `HELP` and `TYPE` lines name
//! a counter without `_total`, and which ends with `# EOF`. Scrapers of the text format 0.0.4 would lose the types of
//! all counters. Its registry is also built once, while the series here depend on the principal of each request.

use std::collections::HashMap;
use std::fmt::{Display, Write};
use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use toolcrib::internal::{LATENCY_BOUNDS, ToolCount, Visibility};
use toolcrib::{HostStats, ServerStatus};

use crate::api::scope;
use crate::front::Front;
use crate::identity::Principal;

const TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(crate) fn routes() -> Router<Arc<Front>> {
    Router::new().route("/metrics", get(serve_metrics))
}

async fn serve_metrics(
    State(front): State<Arc<Front>>,
    Extension(principal): Extension<Principal>,
) -> Response {
    let visible = front.visibility_for(&principal);
    let mut text = MetricsText::default();
    write_host_metrics(&mut text, &scope::visible_stats(&front, &principal, &visible));
    let clients = front.gateway.sessions();
    text.family("toolcrib_gateway_sessions", "gauge", "Open client sessions over HTTP.")
        .sample(&[], clients);
    let bodies = front.gateway.body_bytes();
    text.family("toolcrib_request_body_bytes", "gauge", "Memory used by request bodies.")
        .sample(&[], bodies);
    let servers = scope::visible_servers(&front, &visible);
    write_server_metrics(&mut text, &servers);
    let mut tally = front.host.tool_counts();
    tally.retain(|counted| is_visible(&visible, counted));
    write_tool_metrics(&mut text, &servers, &tally);
    ([(CONTENT_TYPE, TYPE)], text.0).into_response()
}

/// Calls of the host's own tools are visible only without restrictions.
fn is_visible(visible: &Visibility, counted: &ToolCount) -> bool {
    let of_server = |key: &Arc<str>| visible.includes_registered(key, &counted.tool);
    visible.is_unrestricted() || counted.server.as_ref().is_some_and(of_server)
}

fn write_host_metrics(text: &mut MetricsText, status: &HostStats) {
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    text.family("toolcrib_build_info", "gauge", "The program.").sample(&version, 1);
    for (name, kind, help, value) in [
        ("toolcrib_registry_version", "gauge", "Version of the newest snapshot.", status.version),
        ("toolcrib_reloads_total", "counter", "Loaded configurations.", status.reloads),
        ("toolcrib_servers", "gauge", "Servers.", status.servers as u64),
        ("toolcrib_servers_ready", "gauge", "Ready servers.", status.ready as u64),
        ("toolcrib_servers_draining", "gauge", "Draining servers.", status.draining as u64),
        ("toolcrib_tools", "gauge", "Tools in the newest snapshot.", status.tools as u64),
        ("toolcrib_dialogs", "gauge", "Dialogs.", status.dialogs as u64),
        ("toolcrib_leases", "gauge", "Leases.", status.leases as u64),
        ("toolcrib_problems", "gauge", "Problems.", status.problems as u64),
        ("toolcrib_dropped_records_total", "counter", "Records lost.", status.dropped_records),
    ] {
        text.family(name, kind, help).sample(&[], value);
    }
    text.family("toolcrib_uptime_seconds", "gauge", "Time since the host started.")
        .sample(&[], status.uptime.as_secs_f64());
    if let Some(memory) = toolcrib_upstream::process::memory_usage() {
        text.family("process_resident_memory_bytes", "gauge", "Resident memory of the host.")
            .sample(&[], memory);
    }
}

fn write_server_metrics(text: &mut MetricsText, servers: &[ServerStatus]) {
    type Figure = fn(&ServerStatus) -> u64;
    let figures: [(&str, &str, &str, Figure); 6] = [
        ("toolcrib_server_sessions", "gauge", "Sessions of a server.", |it| it.sessions as u64),
        ("toolcrib_server_leases", "gauge", "Leases of a server.", |it| it.leases as u64),
        ("toolcrib_server_restarts_total", "counter", "Lost or restarted connections.", |it| {
            it.restarts.into()
        }),
        ("toolcrib_server_attempts", "gauge", "Failed attempts since the last success.", |it| {
            it.attempts.into()
        }),
        ("toolcrib_server_tools", "gauge", "Offered tools.", |it| it.tools as u64),
        ("toolcrib_server_calls_in_flight", "gauge", "Running calls.", |it| it.calls.in_flight),
    ];
    for (name, kind, help, figure) in figures {
        text.family(name, kind, help);
        for server in servers {
            text.sample(&labels(server), figure(server));
        }
    }
    text.family("toolcrib_server_state", "gauge", "1 for the current state of a server.");
    for server in servers {
        let [id, source] = labels(server);
        text.sample(&[id, source, ("state", server.state.as_str())], 1);
    }
    text.family("toolcrib_call_duration_seconds", "histogram", "Duration of calls.");
    for server in servers {
        write_durations(text, server);
    }
}

fn write_durations(text: &mut MetricsText, server: &ServerStatus) {
    let [id, source] = labels(server);
    let mut count = 0;
    let bounds = LATENCY_BOUNDS.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
    for (bound, more) in bounds.zip(server.calls.histogram) {
        count += more;
        text.part("_bucket", &[id, source, ("le", &bound)], count);
    }
    text.part("_sum", &[id, source], server.calls.sum);
    text.part("_count", &[id, source], count);
}

fn write_tool_metrics(text: &mut MetricsText, servers: &[ServerStatus], tally: &[ToolCount]) {
    let known: HashMap<&str, [(&str, &str); 2]> =
        servers.iter().map(|server| (&*server.key, labels(server))).collect();
    text.family("toolcrib_calls_total", "counter", "Finished calls by outcome.");
    for ToolCount { server, tool, outcome, count } in tally {
        let key = server.as_deref().unwrap_or_default();
        let gone = || {
            let (source, id) = key.rsplit_once('#').unwrap_or(("", key));
            [("server", id), ("source", source)]
        };
        let [id, source] = known.get(key).copied().unwrap_or_else(gone);
        text.sample(&[id, source, ("tool", tool), ("outcome", outcome)], count);
    }
}

fn labels(server: &ServerStatus) -> [(&str, &str); 2] {
    [("server", &server.spec.id), ("source", &server.spec.source)]
}

/// The rendered text, and the name of the current metric family.
#[derive(Default)]
struct MetricsText(String, &'static str);

impl MetricsText {
    fn family(&mut self, name: &'static str, kind: &str, help: &str) -> &mut Self {
        self.1 = name;
        // Writing to a `String` never fails.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
        self
    }

    fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.part("", labels, value);
    }

    fn part(&mut self, part: &str, labels: &[(&str, &str)], value: impl Display) {
        let labels: Vec<String> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let labels = match labels.is_empty() {
            true => String::new(),
            false => format!("{{{}}}", labels.join(",")),
        };
        let _ = writeln!(self.0, "{}{part}{labels} {value}", self.1);
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_values_are_escaped() {
        let mut text = MetricsText::default();
        text.family("x", "gauge", "Y.").sample(&[("a", "b\"} 7\nc\\")], 1);
        assert_eq!(text.0, "# HELP x Y.\n# TYPE x gauge\nx{a=\"b\\\"} 7\\nc\\\\\"} 1\n");
    }
}
