//! Diagnoses why an address cannot be connected to, from two probe requests.

use std::error::Error;
use std::io;
use std::time::Duration;

use reqwest::header::HeaderMap;
use tokio::time::timeout;
use toolcrib_config::model::transport::Transport;
use toolcrib_wire::{Id, build, method};

use super::http_client::{HTTP_SCHEMES, HttpClient, PostRequest};
use super::http_fault::HttpFault;
use super::http_response::HttpResponse;
use super::open::OpenContext;
use super::remote_target::{RemoteTarget, http_remote};
use super::request_waiter::RequestWaiter;

/// Limit of one probe request.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// Common path of health endpoints.
const HEALTH_PATH: &str = "/health";

/// Outcomes of both probes: a JSON-RPC message and a request for the health endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProbeReport {
    pub(crate) post: ProbeOutcome,
    pub(crate) health: ProbeOutcome,
}

/// Outcome of one probe request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProbeOutcome {
    Status(u16),
    /// The connection was refused.
    Refused,
    /// The host name has no address.
    UnknownHost,
    /// The TLS handshake failed.
    TlsFailed,
    TimedOut,
    /// The connection broke, or another error occurred.
    Broken,
}

/// Likely cause of a failed connect, and the next step for a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Diagnosis {
    pub(crate) cause: &'static str,
    pub(crate) step: &'static str,
}

/// Probes the address of a server that could not be connected to. Returns `None` for transports without HTTP.
pub(crate) async fn probe(transport: &Transport, context: &OpenContext<'_>) -> Option<ProbeReport> {
    let http = HttpClient::new(
        RemoteTarget::resolve(http_remote(transport)?, HTTP_SCHEMES, context).ok()?,
        context,
    )
    .ok()?;
    let ping = build::request(&Id::Number(0), method::PING, None);
    let template = http.request_template(http.url(), http.headers());
    let post = PostRequest {
        url: http.url(),
        template: &template,
        headers: HeaderMap::new(),
        message: &ping,
    };
    let post = http.post(post, RequestWaiter::NONE);
    let health = http.url().join(HEALTH_PATH).ok()?;
    let (post, health) = tokio::join!(probe_outcome(post), probe_outcome(http.get(health)));
    Some(ProbeReport { post, health })
}

/// Derives the likely cause. The health probe only decides cases that the message probe leaves open.
pub(crate) fn diagnose(probes: ProbeReport) -> Diagnosis {
    let is_well = matches!(probes.health, ProbeOutcome::Status(200..=299));
    let (cause, step) = match probes.post {
        ProbeOutcome::Refused => {
            ("nothing listens at this address", "start the server, or correct the port in `url`")
        }
        ProbeOutcome::UnknownHost => ("the host is not known", "correct the host in `url`"),
        ProbeOutcome::TlsFailed => (
            "no trusted TLS connection to the server is possible",
            "write `http://` in `url` if the server has no TLS, or correct its certificate",
        ),
        ProbeOutcome::TimedOut => (
            "the server accepts connections but answers nothing, or a firewall drops them",
            "check whether the server hangs, or a firewall is in between",
        ),
        ProbeOutcome::Broken => (
            "the connection breaks before a response",
            "check whether `http://` should be `https://`, and read the server's log",
        ),
        ProbeOutcome::Status(401 | 403) => {
            ("the server rejected the credentials", "set `auth`, or renew its credentials")
        }
        ProbeOutcome::Status(404 | 405) if is_well => (
            "the server is healthy, but accepts no messages at this path",
            "correct the path in `url`; it is often `/mcp` or `/sse`",
        ),
        ProbeOutcome::Status(404 | 405) => (
            "a web server responds, but there is no MCP server at this path",
            "correct `url`: its port may belong to another program, or its path is wrong",
        ),
        ProbeOutcome::Status(500..) if is_well => {
            ("the server is healthy, but fails at messages", "read the server's log")
        }
        ProbeOutcome::Status(500..) => {
            ("the server fails, or is still starting", "read the server's log, or wait a little")
        }
        ProbeOutcome::Status(_) => (
            "the response is not of an MCP server with this protocol and transport",
            "check that `url` belongs to an MCP server, and check `protocol` and `transport`",
        ),
    };
    Diagnosis { cause, step }
}

async fn probe_outcome(
    request: impl Future<Output = Result<HttpResponse, HttpFault>>,
) -> ProbeOutcome {
    match timeout(PROBE_TIMEOUT, request).await {
        Ok(Ok(response)) => ProbeOutcome::Status(response.status().as_u16()),
        Ok(Err(fault)) => classify_fault(&fault),
        Err(_) => ProbeOutcome::TimedOut,
    }
}

fn classify_fault(fault: &HttpFault) -> ProbeOutcome {
    let mut next: Option<&(dyn Error + 'static)> = Some(fault);
    while let Some(cause) = next {
        let io = cause.downcast_ref::<io::Error>();
        match io.map(io::Error::kind) {
            Some(io::ErrorKind::ConnectionRefused) => return ProbeOutcome::Refused,
            Some(io::ErrorKind::TimedOut) => return ProbeOutcome::TimedOut,
            _ if cause.is::<rustls::Error>() => return ProbeOutcome::TlsFailed,
            // hyper's connect errors differ only in their text.
            _ if cause.to_string() == "dns error" => return ProbeOutcome::UnknownHost,
            _ => {}
        }
        next = match io {
            // `io::Error` displays its inner error as its own text, so `source` skips that error.
            Some(io) => io.get_ref().map(|inner| inner as &(dyn Error + 'static)),
            None => cause.source(),
        };
    }
    ProbeOutcome::Broken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ext_07_probe_outcomes_map_to_cause_and_next_step() {
        let well = ProbeOutcome::Status(200);
        let none = ProbeOutcome::Status(404);
        for (post, health, cause, step) in [
            (ProbeOutcome::Refused, ProbeOutcome::Refused, "nothing listens", "start the server"),
            (
                ProbeOutcome::UnknownHost,
                ProbeOutcome::UnknownHost,
                "host is not known",
                "correct the host",
            ),
            (ProbeOutcome::TlsFailed, ProbeOutcome::TlsFailed, "no trusted TLS", "`http://`"),
            (ProbeOutcome::TimedOut, ProbeOutcome::TimedOut, "answers nothing", "firewall"),
            (ProbeOutcome::Broken, ProbeOutcome::Broken, "breaks", "`https://`"),
            (ProbeOutcome::Status(401), well, "credentials", "`auth`"),
            (none, well, "is healthy, but accepts no messages", "the path"),
            (ProbeOutcome::Status(405), none, "no MCP server", "correct `url`"),
            (ProbeOutcome::Status(502), well, "fails at messages", "log"),
            (ProbeOutcome::Status(503), ProbeOutcome::Status(503), "still starting", "wait"),
            (well, none, "not of an MCP server", "`protocol`"),
        ] {
            let report = diagnose(ProbeReport { post, health });
            assert!(
                report.cause.contains(cause) && report.step.contains(step),
                "{post:?} {report:?}"
            );
        }
    }
}
