//! The host in figures, in the text form of Prometheus.
//!
//! Everything is counted already where it happens; this only writes it down. A framework would count it a second
//! time. Labels are servers and tools that exist, so there is an end to them. A principal sees the series of servers
//! that it may know of.

use std::collections::HashMap;
use std::fmt::{Display, Write};
use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use toolcrib::ServerStatus;
use toolcrib::host::{BOUNDS, Status, Tallied, Visibility};

use crate::api::scope;
use crate::front::Front;
use crate::identity::Principal;

const TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(crate) fn routes() -> Router<Arc<Front>> {
    Router::new().route("/metrics", get(show))
}

async fn show(State(front): State<Arc<Front>>, Extension(who): Extension<Principal>) -> Response {
    let visible = front.visible_to(&who);
    let mut text = Text::default();
    of_host(&mut text, &scope::figures(&front, &who, &visible));
    let clients = front.gateway.sessions();
    text.family("toolcrib_gateway_sessions", "gauge", "Clients over HTTP.").sample(&[], clients);
    let bodies = front.gateway.body_bytes();
    text.family("toolcrib_request_body_bytes", "gauge", "Memory that request bodies take.")
        .sample(&[], bodies);
    let servers = scope::servers(&front, &visible);
    of_servers(&mut text, &servers);
    let mut tally = front.host.tally();
    tally.retain(|counted| is_visible(&visible, counted));
    of_tools(&mut text, &servers, &tally);
    ([(CONTENT_TYPE, TYPE)], text.0).into_response()
}

/// Calls of the host's own tools are a matter of the host.
fn is_visible(visible: &Visibility, counted: &Tallied) -> bool {
    let of_server = |key: &Arc<str>| visible.includes_registered(key, &counted.tool);
    visible.is_unrestricted() || counted.server.as_ref().is_some_and(of_server)
}

fn of_host(text: &mut Text, status: &Status) {
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    text.family("toolcrib_build_info", "gauge", "The program.").sample(&version, 1);
    for (name, kind, help, value) in [
        (
            "toolcrib_registry_version",
            "gauge",
            "The number of the newest snapshot.",
            status.version,
        ),
        ("toolcrib_reloads_total", "counter", "Configurations taken up.", status.reloads),
        ("toolcrib_servers", "gauge", "Servers.", status.servers as u64),
        ("toolcrib_servers_ready", "gauge", "Servers that are ready.", status.ready as u64),
        ("toolcrib_servers_draining", "gauge", "Servers that are ending.", status.draining as u64),
        ("toolcrib_tools", "gauge", "Tools in the newest snapshot.", status.tools as u64),
        ("toolcrib_dialogs", "gauge", "Dialogs.", status.dialogs as u64),
        ("toolcrib_leases", "gauge", "Leases.", status.leases as u64),
        ("toolcrib_problems", "gauge", "Problems.", status.problems as u64),
        ("toolcrib_dropped_records_total", "counter", "Records lost.", status.dropped_records),
    ] {
        text.family(name, kind, help).sample(&[], value);
    }
    text.family("toolcrib_uptime_seconds", "gauge", "Since the host began.")
        .sample(&[], status.uptime.as_secs_f64());
    if let Some(memory) = toolcrib_upstream::process::memory() {
        text.family("process_resident_memory_bytes", "gauge", "Memory of the host in use.")
            .sample(&[], memory);
    }
}

fn of_servers(text: &mut Text, servers: &[ServerStatus]) {
    type Figure = fn(&ServerStatus) -> u64;
    let figures: [(&str, &str, &str, Figure); 6] = [
        ("toolcrib_server_sessions", "gauge", "Sessions of a server.", |it| it.sessions as u64),
        ("toolcrib_server_leases", "gauge", "Leases of a server.", |it| it.leases as u64),
        ("toolcrib_server_restarts_total", "counter", "Connections lost or begun anew.", |it| {
            it.restarts.into()
        }),
        ("toolcrib_server_attempts", "gauge", "Failed attempts since the last success.", |it| {
            it.attempts.into()
        }),
        ("toolcrib_server_tools", "gauge", "Tools that are offered.", |it| it.tools as u64),
        ("toolcrib_server_calls_in_flight", "gauge", "Calls under way.", |it| it.calls.in_flight),
    ];
    for (name, kind, help, figure) in figures {
        text.family(name, kind, help);
        for server in servers {
            text.sample(&labels(server), figure(server));
        }
    }
    text.family("toolcrib_server_state", "gauge", "1 for the state that a server is in.");
    for server in servers {
        let [id, source] = labels(server);
        text.sample(&[id, source, ("state", server.state.as_str())], 1);
    }
    text.family("toolcrib_call_duration_seconds", "histogram", "How long calls took.");
    for server in servers {
        durations(text, server);
    }
}

fn durations(text: &mut Text, server: &ServerStatus) {
    let [id, source] = labels(server);
    let mut count = 0;
    let bounds = BOUNDS.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
    for (bound, more) in bounds.zip(server.calls.histogram) {
        count += more;
        text.part("_bucket", &[id, source, ("le", &bound)], count);
    }
    text.part("_sum", &[id, source], server.calls.sum);
    text.part("_count", &[id, source], count);
}

fn of_tools(text: &mut Text, servers: &[ServerStatus], tally: &[Tallied]) {
    let known: HashMap<&str, [(&str, &str); 2]> =
        servers.iter().map(|server| (&*server.key, labels(server))).collect();
    text.family("toolcrib_calls_total", "counter", "Calls, by how they ended.");
    for Tallied { server, tool, ended, count } in tally {
        let key = server.as_deref().unwrap_or_default();
        let gone = || {
            let (source, id) = key.rsplit_once('#').unwrap_or(("", key));
            [("server", id), ("source", source)]
        };
        let [id, source] = known.get(key).copied().unwrap_or_else(gone);
        text.sample(&[id, source, ("tool", tool), ("outcome", ended)], count);
    }
}

fn labels(server: &ServerStatus) -> [(&str, &str); 2] {
    [("server", &server.spec.id), ("source", &server.spec.source)]
}

/// The text so far, and of what the samples are that follow.
#[derive(Default)]
struct Text(String, &'static str);

impl Text {
    fn family(&mut self, name: &'static str, kind: &str, help: &str) -> &mut Self {
        self.1 = name;
        // A string takes whatever it is given.
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
    fn foreign_names_stay_within_their_quotes() {
        let mut text = Text::default();
        text.family("x", "gauge", "Y.").sample(&[("a", "b\"} 7\nc\\")], 1);
        assert_eq!(text.0, "# HELP x Y.\n# TYPE x gauge\nx{a=\"b\\\"} 7\\nc\\\\\"} 1\n");
    }
}
