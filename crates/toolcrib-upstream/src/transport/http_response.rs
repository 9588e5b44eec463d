//! HTTP responses: head, bounded body, content type.

use std::borrow::Cow;
use std::future::Future;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName};
use reqwest::{Response, StatusCode};
use tokio::time::timeout;
use toolcrib_http::client::{BodyReader, BoxError, ResponseHead};

use super::http_fault::HttpFault;
use crate::signals::SecretMask;

/// Most memory reserved because of a declared length. A server can declare a length and send nothing.
const MAX_PREALLOCATED: usize = 2 << 20;

/// Time limit for draining a body.
pub(super) const DRAIN_TIMEOUT: Duration = Duration::from_millis(250);

/// Most bytes read of an error response.
const MAX_REFUSAL_BODY: usize = 64 * 1024;
const MAX_EXCERPT: usize = 200;

/// A response with its unread body.
pub(super) enum HttpResponse {
    /// From `reqwest`, whose own tasks drive the connection.
    Reqwest(Response),
    /// From a connection that the reader drives.
    Direct(ResponseHead, BodyReader),
}

/// The unread body. Reading fails after the idle timeout.
pub(super) struct ResponseBody {
    response: HttpResponse,
    idle_timeout: Option<Duration>,
}

/// The content of a successful response.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ResponseContent {
    Json,
    Events,
    Nothing,
    Other(String),
}

impl HttpResponse {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::Reqwest(response) => response.status(),
            Self::Direct(head, _) => head.status,
        }
    }

    /// The first header with this name, if its value is text.
    pub(super) fn header(&self, name: &HeaderName) -> Option<&str> {
        match self {
            Self::Reqwest(response) => response.headers().get(name)?.to_str().ok(),
            Self::Direct(head, _) => head.header(name),
        }
    }

    /// All headers. A direct response collects them first.
    pub(super) fn headers(&self) -> Cow<'_, HeaderMap> {
        match self {
            Self::Reqwest(response) => Cow::Borrowed(response.headers()),
            Self::Direct(head, _) => Cow::Owned(head.headers()),
        }
    }

    /// The declared length, if there is one.
    fn announced_length(&self) -> Option<u64> {
        match self {
            Self::Reqwest(response) => response.content_length(),
            Self::Direct(_, reader) => reader.remaining_length(),
        }
    }
}

impl ResponseBody {
    pub(super) fn new(response: HttpResponse, idle_timeout: Option<Duration>) -> Self {
        Self { response, idle_timeout }
    }

    /// The next chunk, or `None` at the end.
    pub(super) async fn next_chunk(&mut self) -> Result<Option<Bytes>, HttpFault> {
        let reader = match &mut self.response {
            HttpResponse::Direct(_, reader) => reader,
            HttpResponse::Reqwest(response) => {
                let chunk = with_idle_timeout(self.idle_timeout, response.chunk()).await?;
                return chunk.map_err(HttpFault::network);
            }
        };
        loop {
            // Buffered bytes need no timer.
            if let Poll::Ready(chunk) = reader.buffered_chunk() {
                return chunk.map_err(network_fault);
            }
            with_idle_timeout(self.idle_timeout, reader.fill()).await?.map_err(network_fault)?;
        }
    }

    /// Reads the whole body behind `headroom` spaces, which later take a prefix without moving the body.
    pub(super) async fn read_all(
        mut self,
        limit: usize,
        headroom: usize,
    ) -> Result<Vec<u8>, HttpFault> {
        let announced_length = self.response.announced_length().unwrap_or(0);
        if announced_length > limit as u64 {
            return Err(HttpFault::TooLarge { limit });
        }
        let mut body =
            Vec::with_capacity(headroom + (announced_length as usize).min(MAX_PREALLOCATED));
        body.resize(headroom, b' ');
        loop {
            let goes_on = self.read_more_into(&mut body).await?;
            if body.len() - headroom > limit {
                return Err(HttpFault::TooLarge { limit });
            }
            if !goes_on {
                return Ok(body);
            }
        }
    }

    /// Reads more bytes, without an intermediate copy where possible. Returns false at the end.
    async fn read_more_into(&mut self, body: &mut Vec<u8>) -> Result<bool, HttpFault> {
        let HttpResponse::Direct(_, reader) = &mut self.response else {
            let chunk = Box::pin(self.next_chunk()).await?;
            body.extend_from_slice(chunk.as_deref().unwrap_or_default());
            return Ok(chunk.is_some());
        };
        if let Poll::Ready(end) = reader.copy_buffered(body) {
            return end.map(|()| false).map_err(network_fault);
        }
        with_idle_timeout(self.idle_timeout, reader.fill_into(body))
            .await?
            .map_err(network_fault)?;
        Ok(true)
    }

    /// Discards the body. A connection can be reused only after the end of its response.
    pub(super) async fn drain(self) {
        let _ = timeout(DRAIN_TIMEOUT, self.read_prefix()).await;
    }

    /// Reads the start of an error body.
    pub(super) async fn read_prefix(mut self) -> Vec<u8> {
        let mut body = Vec::new();
        while let Ok(Some(chunk)) = self.next_chunk().await {
            body.extend_from_slice(&chunk);
            if body.len() > MAX_REFUSAL_BODY {
                break;
            }
        }
        body
    }
}

impl ResponseContent {
    pub(super) fn of_response(response: &HttpResponse) -> Self {
        if matches!(response.status(), StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Self::Nothing;
        }
        let named = response.header(&CONTENT_TYPE).unwrap_or_default();
        // Fast path: nearly every server writes it exactly so, and parsing is expensive.
        if named == "application/json" {
            return Self::Json;
        }
        let kind = named.split(';').next().unwrap_or_default().trim();
        match kind {
            _ if kind.eq_ignore_ascii_case("application/json") => Self::Json,
            _ if kind.eq_ignore_ascii_case("text/event-stream") => Self::Events,
            "" if response.announced_length() == Some(0) => Self::Nothing,
            _ => Self::Other(named.to_owned()),
        }
    }
}

fn network_fault(fault: impl Into<BoxError>) -> HttpFault {
    HttpFault::Network(fault.into().into())
}

/// The start of an error body, if it is text.
pub(super) fn excerpt(body: &[u8], mask: &SecretMask) -> Option<String> {
    // Masked before it is cut, since the cut may split a secret.
    let text = mask.mask_excerpt(String::from_utf8_lossy(body).into_owned());
    let plain: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let short: String = plain.chars().filter(|c| !c.is_control()).take(MAX_EXCERPT).collect();
    (!short.is_empty()).then_some(short)
}

pub(super) async fn with_idle_timeout<F: Future>(
    idle_timeout: Option<Duration>,
    work: F,
) -> Result<F::Output, HttpFault> {
    match idle_timeout {
        Some(limit) => timeout(limit, work).await.map_err(|_| HttpFault::ReadTimeout(limit)),
        None => Ok(work.await),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;
    use toolcrib_http::client::{ConnectionPool, PoolOptions};
    use url::Url;

    use super::*;

    const OPTIONS: PoolOptions = PoolOptions {
        user_agent: "test",
        connect_timeout: None,
        idle_timeout: Duration::from_secs(4),
        max_idle: 1,
    };

    #[tokio::test]
    async fn response_limit_applies_to_every_framing() {
        for output in [
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}/mcp", listener.local_addr().unwrap());
            let pool = ConnectionPool::for_plain_url(&Url::parse(&url).unwrap(), &OPTIONS).unwrap();
            let answering = async {
                let mut stream = listener.accept().await.unwrap().0;
                stream.write_all(output.as_bytes()).await.unwrap();
                stream
            };
            let head = b"POST /mcp HTTP/1.1\r\nhost: a\r\n";
            let (response, _stream) = tokio::join!(pool.post(head, b"{}"), answering);
            let (head, reader) = response.unwrap();
            let read = ResponseBody::new(HttpResponse::Direct(head, reader), None).read_all(1, 0);
            assert!(matches!(read.await, Err(HttpFault::TooLarge { limit: 1 })), "{output}");
        }
    }
}
