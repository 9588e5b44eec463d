//! Errors of a server that is reached over HTTP.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use reqwest::header::{DATE, HeaderMap, HeaderName, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE};
use reqwest::{StatusCode, Url};

use super::link::LinkFault;
use super::remote_target::redact_url;
use super::token_provider::{TokenError, TokenErrorKind};

/// Cause of a [`LinkFault`] of the HTTP transports, and of a failed WebSocket handshake.
#[derive(Debug, thiserror::Error)]
pub enum HttpFault {
    /// `challenge` is the value of `WWW-Authenticate`.
    #[error("the server rejected the credentials (status {status})")]
    Denied { status: u16, challenge: Option<String> },
    #[error("no token for the server")]
    Token(#[source] TokenError),
    #[error("the server limits the rate of requests (status 429)")]
    RateLimited { retry_after: Option<Duration> },
    #[error("the server has lost the session: it has to be initialised again")]
    SessionGone,
    /// `to` has neither query nor password.
    #[error("the server redirects to `{to}`, which is outside of its origin or changes the method")]
    Redirected { to: String },
    #[error("the server answered with status {status}{}", excerpt_suffix(.excerpt))]
    Status { status: u16, retry_after: Option<Duration>, excerpt: Option<String> },
    #[error("the server answered with the unexpected content type `{0}`")]
    ContentType(String),
    #[error("the server ended the response without an answer to the request")]
    NoResponse,
    #[error("the answer is over the limit of {limit} bytes")]
    TooLarge { limit: usize },
    #[error("the server sent no data for {}", format_seconds(.0))]
    ReadTimeout(Duration),
    #[error("the server did not answer within {}", format_seconds(.0))]
    ResponseTimeout(Duration),
    #[error("the header `{0}` cannot be sent")]
    BadHeader(String),
    #[error("the server announced an endpoint outside of its origin: `{0}`")]
    ForeignEndpoint(String),
    #[error("the connection failed")]
    Network(#[source] Arc<dyn std::error::Error + Send + Sync>),
}

impl HttpFault {
    /// Removes the URL from the error, since the URL may contain a key.
    pub(super) fn network(error: reqwest::Error) -> Self {
        Self::Network(Arc::new(error.without_url()))
    }

    /// Translates an error status. `had_session` tells whether the request named a session.
    pub(super) fn from_response(
        status: StatusCode,
        headers: &HeaderMap,
        had_session: bool,
        requested: &Url,
    ) -> Self {
        let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let retry_after = || parse_retry_after(text(RETRY_AFTER)?.trim(), text(DATE));
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Self::Denied {
                status: status.as_u16(),
                challenge: text(WWW_AUTHENTICATE).map(str::to_owned),
            },
            StatusCode::TOO_MANY_REQUESTS => Self::RateLimited { retry_after: retry_after() },
            StatusCode::NOT_FOUND if had_session => Self::SessionGone,
            status if status.is_redirection() => {
                let to = text(LOCATION).and_then(|to| requested.join(to).ok());
                Self::Redirected { to: to.map_or_else(String::new, |to| redact_url(to.as_str())) }
            }
            status => {
                Self::Status { status: status.as_u16(), retry_after: retry_after(), excerpt: None }
            }
        }
    }

    /// True if the same request might succeed a little later.
    pub(super) fn is_transient(&self) -> bool {
        match self {
            Self::Status { status, .. } => *status >= 500,
            Self::Token(why) => why.kind == TokenErrorKind::Transient,
            Self::Network(_)
            | Self::ReadTimeout(_)
            | Self::RateLimited { .. }
            | Self::NoResponse => true,
            _ => false,
        }
    }

    /// True if only other credentials can help.
    pub(super) fn is_denial(&self) -> bool {
        match self {
            Self::Denied { status, .. } => *status == StatusCode::UNAUTHORIZED.as_u16(),
            Self::Token(why) => why.kind != TokenErrorKind::Transient,
            _ => false,
        }
    }

    pub(super) fn into_link_fault(self, operation: &'static str) -> LinkFault {
        LinkFault { operation, cause: Arc::new(self) }
    }
}

/// Parses seconds or a date. A date is compared with the server's own clock if the server sent `Date`.
fn parse_retry_after(after: &str, servers_now: Option<&str>) -> Option<Duration> {
    if let Ok(seconds) = after.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = |text: &str| httpdate::parse_http_date(text).ok();
    let now = servers_now.and_then(date).unwrap_or_else(SystemTime::now);
    // A past date means no delay.
    Some(date(after)?.duration_since(now).unwrap_or_default())
}

fn excerpt_suffix(excerpt: &Option<String>) -> String {
    excerpt.as_ref().map_or_else(String::new, |excerpt| format!(": {excerpt}"))
}

fn format_seconds(time: &Duration) -> String {
    format!("{} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    fn of(status: u16, header: Option<(HeaderName, &'static str)>, had_session: bool) -> String {
        let headers: HeaderMap = header
            .into_iter()
            .map(|(name, value)| (name, HeaderValue::from_static(value)))
            .collect();
        let requested = Url::parse("http://a.example/mcp").unwrap();
        format!(
            "{:?}",
            HttpFault::from_response(
                StatusCode::from_u16(status).unwrap(),
                &headers,
                had_session,
                &requested
            )
        )
    }

    #[test]
    fn retry_after_is_parsed_from_seconds_or_date() {
        let date = "Wed, 21 Oct 2026 07:28:00 GMT";
        for (after, now, expected) in [
            ("7", None, Some(7)),
            (date, Some("Wed, 21 Oct 2026 07:27:30 GMT"), Some(30)),
            (date, Some("Wed, 21 Oct 2026 07:28:01 GMT"), Some(0)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", None, Some(0)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some("soon"), Some(0)),
            ("soon", Some(date), None),
            ("-1", None, None),
        ] {
            assert_eq!(
                parse_retry_after(after, now),
                expected.map(Duration::from_secs),
                "{after} {now:?}"
            );
        }
        let far = parse_retry_after("Fri, 31 Dec 9999 23:59:59 GMT", None).unwrap();
        assert!(far > Duration::from_secs(3600), "without `Date` the local clock counts: {far:?}");
    }

    #[test]
    fn status_fault_keeps_header_details() {
        let challenge = Some((WWW_AUTHENTICATE, "Bearer realm=\"x\""));
        assert!(of(401, challenge, true).starts_with("Denied { status: 401, challenge: Some("));
        assert_eq!(of(403, None, true), "Denied { status: 403, challenge: None }");
        assert_eq!(
            of(429, Some((RETRY_AFTER, "7")), false),
            "RateLimited { retry_after: Some(7s) }"
        );
        assert_eq!(
            of(429, Some((RETRY_AFTER, "soon")), false),
            "RateLimited { retry_after: None }"
        );
        assert_eq!(of(404, None, true), "SessionGone");
        assert!(of(404, None, false).starts_with("Status { status: 404"));
        assert!(of(503, Some((RETRY_AFTER, "2")), true).contains("Some(2s)"));
        assert_eq!(
            of(302, Some((LOCATION, "https://b.example/x?token=1")), false),
            "Redirected { to: \"https://b.example/x\" }"
        );
    }
}
