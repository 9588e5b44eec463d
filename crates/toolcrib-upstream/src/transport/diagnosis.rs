//! Why an address cannot be connected to: two quick looks at it, and what they mean together.

use std::error::Error;
use std::io;
use std::time::Duration;

use reqwest::header::HeaderMap;
use tokio::time::timeout;
use toolcrib_config::model::transport::Transport;
use toolcrib_wire::{Id, build, method};

use super::answer::Answer;
use super::http::{Http, Post, SCHEMES};
use super::http_fault::HttpFault;
use super::open::Opening;
use super::remote::{Target, remote_of};
use super::waiting::Waiting;

/// One look takes no longer.
const PATIENCE: Duration = Duration::from_secs(3);

/// Where servers say whether they are well, if they do.
const HEALTH: &str = "/health";

/// What was found at an address: by a message to it, and by a question for its health.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sight {
    pub(crate) post: Look,
    pub(crate) health: Look,
}

/// What one look found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    Status(u16),
    /// Nobody listens there.
    Refused,
    /// The host has no address.
    Unknown,
    /// There is somebody, but no encryption that both can use.
    Unencrypted,
    Silent,
    /// The connection broke, or anything else.
    Broken,
}

/// The likely cause of a failed connect, and what a person can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Diagnosis {
    pub(crate) cause: &'static str,
    pub(crate) step: &'static str,
}

/// Looks at the address of a server that could not be connected to; nothing for transports without HTTP.
pub(crate) async fn look(transport: &Transport, opening: &Opening<'_>) -> Option<Sight> {
    let http =
        Http::new(Target::of(remote_of(transport)?, SCHEMES, opening).ok()?, opening).ok()?;
    let ping = build::request(&Id::Number(0), method::PING, None);
    let posting = http.posting(http.url(), http.headers());
    let post = Post { url: http.url(), posting: &posting, own: HeaderMap::new(), message: &ping };
    let post = http.post(post, Waiting::NOBODY);
    let health = http.url().join(HEALTH).ok()?;
    let (post, health) = tokio::join!(found(post), found(http.get(health)));
    Some(Sight { post, health })
}

/// What is likely wrong. The health only tells apart what the message left open.
pub(crate) fn diagnose(sight: Sight) -> Diagnosis {
    let is_well = matches!(sight.health, Look::Status(200..=299));
    let (cause, step) = match sight.post {
        Look::Refused => {
            ("nothing listens at this address", "start the server, or correct the port in `url`")
        }
        Look::Unknown => ("the host is not known", "correct the host in `url`"),
        Look::Unencrypted => (
            "the server speaks no encryption that can be trusted",
            "write `http://` in `url` if it has none, or see to its certificate",
        ),
        Look::Silent => (
            "the server accepts connections or drops them, and answers nothing",
            "see whether it hangs, or whether a firewall is in between",
        ),
        Look::Broken => (
            "the connection breaks before there is an answer",
            "see whether `http://` should be `https://`, and look at the server's log",
        ),
        Look::Status(401 | 403) => {
            ("the server wants other credentials", "set `auth`, or renew what it holds")
        }
        Look::Status(404 | 405) if is_well => (
            "the server is well, but takes no messages at this path",
            "correct the path in `url`; it is often `/mcp` or `/sse`",
        ),
        Look::Status(404 | 405) => (
            "there is a web server, but no MCP server at this path",
            "correct `url`: the port may be another program's, or the path another",
        ),
        Look::Status(500..) if is_well => {
            ("the server is well, but fails at messages", "look at the server's log")
        }
        Look::Status(500..) => {
            ("the server fails, or is still starting", "look at the server's log, or wait a little")
        }
        Look::Status(_) => (
            "there is an answer, but not of an MCP server that speaks this",
            "see that `url` is that of an MCP server, and what `protocol` and `transport` say",
        ),
    };
    Diagnosis { cause, step }
}

async fn found(request: impl Future<Output = Result<Answer, HttpFault>>) -> Look {
    match timeout(PATIENCE, request).await {
        Ok(Ok(response)) => Look::Status(response.status().as_u16()),
        Ok(Err(fault)) => meaning(&fault),
        Err(_) => Look::Silent,
    }
}

fn meaning(fault: &HttpFault) -> Look {
    let mut next: Option<&(dyn Error + 'static)> = Some(fault);
    while let Some(cause) = next {
        let io = cause.downcast_ref::<io::Error>();
        match io.map(io::Error::kind) {
            Some(io::ErrorKind::ConnectionRefused) => return Look::Refused,
            Some(io::ErrorKind::TimedOut) => return Look::Silent,
            _ if cause.is::<rustls::Error>() => return Look::Unencrypted,
            // Only its words tell it from other failures to connect.
            _ if cause.to_string() == "dns error" => return Look::Unknown,
            _ => {}
        }
        next = match io {
            // What it wraps is shown as if it were itself, and `source` leaves it out.
            Some(io) => io.get_ref().map(|inner| inner as &(dyn Error + 'static)),
            None => cause.source(),
        };
    }
    Look::Broken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ext_07_what_was_seen_tells_the_likely_cause_and_the_next_step() {
        let well = Look::Status(200);
        let none = Look::Status(404);
        for (post, health, cause, step) in [
            (Look::Refused, Look::Refused, "nothing listens", "start the server"),
            (Look::Unknown, Look::Unknown, "host is not known", "correct the host"),
            (Look::Unencrypted, Look::Unencrypted, "no encryption", "`http://`"),
            (Look::Silent, Look::Silent, "answers nothing", "firewall"),
            (Look::Broken, Look::Broken, "breaks", "`https://`"),
            (Look::Status(401), well, "credentials", "`auth`"),
            (none, well, "is well, but takes no messages", "the path"),
            (Look::Status(405), none, "no MCP server", "correct `url`"),
            (Look::Status(502), well, "fails at messages", "log"),
            (Look::Status(503), Look::Status(503), "still starting", "wait"),
            (well, none, "not of an MCP server", "`protocol`"),
        ] {
            let told = diagnose(Sight { post, health });
            assert!(told.cause.contains(cause) && told.step.contains(step), "{post:?} {told:?}");
        }
    }
}
