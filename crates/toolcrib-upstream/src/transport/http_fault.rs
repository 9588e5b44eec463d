//! What can go wrong between us and a server that is reached over HTTP.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use reqwest::header::{DATE, HeaderMap, HeaderName, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE};
use reqwest::{StatusCode, Url};

use super::link::LinkFault;
use super::remote::without_secrets;
use super::tokens::{NoToken, Trouble};

/// The cause in a [`LinkFault`] of the transports over HTTP and of a WebSocket's opening.
#[derive(Debug, thiserror::Error)]
pub enum HttpFault {
    /// The challenge is what `WWW-Authenticate` says.
    #[error("the server wants other credentials (status {status})")]
    Denied { status: u16, challenge: Option<String> },
    #[error("there is no token for the server")]
    NoToken(#[source] NoToken),
    #[error("the server has too many requests to answer")]
    TooMany { retry_after: Option<Duration> },
    #[error("the server does not know the session any more: it has to be initialised again")]
    SessionGone,
    /// `to` shows neither query nor password.
    #[error("the server redirects to `{to}`, which is not followed")]
    Redirected { to: String },
    #[error("the server answered with status {status}{}", note(.said))]
    Status { status: u16, retry_after: Option<Duration>, said: Option<String> },
    #[error("the server answered with the content type `{0}`")]
    ContentType(String),
    #[error("the server ended the exchange without an answer")]
    NoAnswer,
    #[error("the answer is over the limit of {limit} bytes")]
    TooLarge { limit: usize },
    #[error("nothing came for {}", seconds(.0))]
    Silent(Duration),
    #[error("the server did not answer within {}", seconds(.0))]
    Unanswered(Duration),
    #[error("the header `{0}` cannot be sent")]
    BadHeader(String),
    #[error("the server names an endpoint that is not its own: `{0}`")]
    ForeignEndpoint(String),
    #[error("the connection failed")]
    Network(#[source] Arc<dyn std::error::Error + Send + Sync>),
}

impl HttpFault {
    /// The address is left out: it may hold a key.
    pub(super) fn network(error: reqwest::Error) -> Self {
        Self::Network(Arc::new(error.without_url()))
    }

    /// What a status other than success means. `had_session` says whether the request named one.
    pub(super) fn of(
        status: StatusCode,
        headers: &HeaderMap,
        had_session: bool,
        asked: &Url,
    ) -> Self {
        let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let retry_after = || patience(text(RETRY_AFTER)?.trim(), text(DATE));
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Self::Denied {
                status: status.as_u16(),
                challenge: text(WWW_AUTHENTICATE).map(str::to_owned),
            },
            StatusCode::TOO_MANY_REQUESTS => Self::TooMany { retry_after: retry_after() },
            StatusCode::NOT_FOUND if had_session => Self::SessionGone,
            status if status.is_redirection() => {
                let to = text(LOCATION).and_then(|to| asked.join(to).ok());
                Self::Redirected {
                    to: to.map_or_else(String::new, |to| without_secrets(to.as_str())),
                }
            }
            status => {
                Self::Status { status: status.as_u16(), retry_after: retry_after(), said: None }
            }
        }
    }

    /// Whether the same request, were it harmless, might succeed a little later.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Status { status, .. } => *status >= 500,
            Self::NoToken(why) => why.trouble == Trouble::Passing,
            Self::Network(_) | Self::Silent(_) | Self::TooMany { .. } | Self::NoAnswer => true,
            _ => false,
        }
    }

    /// Whether it will not succeed before there are other credentials.
    pub(super) fn is_denial(&self) -> bool {
        match self {
            Self::Denied { status, .. } => *status == StatusCode::UNAUTHORIZED.as_u16(),
            Self::NoToken(why) => why.trouble != Trouble::Passing,
            _ => false,
        }
    }

    pub(super) fn while_doing(self, doing: &'static str) -> LinkFault {
        LinkFault { doing, cause: Arc::new(self) }
    }
}

/// Seconds, or a date. How far away a date is the server's own clock tells best.
fn patience(after: &str, servers_now: Option<&str>) -> Option<Duration> {
    if let Ok(seconds) = after.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = |text: &str| httpdate::parse_http_date(text).ok();
    let now = servers_now.and_then(date).unwrap_or_else(SystemTime::now);
    // A date that has passed asks for no patience any more.
    Some(date(after)?.duration_since(now).unwrap_or_default())
}

fn note(said: &Option<String>) -> String {
    said.as_ref().map_or_else(String::new, |said| format!(": {said}"))
}

fn seconds(time: &Duration) -> String {
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
        let asked = Url::parse("http://a.example/mcp").unwrap();
        format!(
            "{:?}",
            HttpFault::of(StatusCode::from_u16(status).unwrap(), &headers, had_session, &asked)
        )
    }

    #[test]
    fn patience_is_asked_for_in_seconds_or_until_a_date() {
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
            assert_eq!(patience(after, now), expected.map(Duration::from_secs), "{after} {now:?}");
        }
        let far = patience("Fri, 31 Dec 9999 23:59:59 GMT", None).unwrap();
        assert!(far > Duration::from_secs(3600), "by our own clock: {far:?}");
    }

    #[test]
    fn a_status_keeps_what_its_headers_add() {
        let challenge = Some((WWW_AUTHENTICATE, "Bearer realm=\"x\""));
        assert!(of(401, challenge, true).starts_with("Denied { status: 401, challenge: Some("));
        assert_eq!(of(403, None, true), "Denied { status: 403, challenge: None }");
        assert_eq!(of(429, Some((RETRY_AFTER, "7")), false), "TooMany { retry_after: Some(7s) }");
        assert_eq!(of(429, Some((RETRY_AFTER, "soon")), false), "TooMany { retry_after: None }");
        assert_eq!(of(404, None, true), "SessionGone");
        assert!(of(404, None, false).starts_with("Status { status: 404"));
        assert!(of(503, Some((RETRY_AFTER, "2")), true).contains("Some(2s)"));
        assert_eq!(
            of(302, Some((LOCATION, "https://b.example/x?token=1")), false),
            "Redirected { to: \"https://b.example/x\" }"
        );
    }
}
