//! The loopback listener that receives a browser's redirect after a login.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

const CALLBACK_PATH: &str = "/callback";

/// Time limit for reading a request and for writing a response.
const IO_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest accepted request head.
const MAX_HEAD: usize = 32 * 1024;

/// Accepts connections from this machine only.
#[derive(Debug)]
pub(crate) struct CallbackListener {
    listener: TcpListener,
    port: u16,
}

/// The redirect that a browser delivered, and the open response.
#[derive(Debug)]
pub(crate) struct BrowserRedirect {
    pub(crate) query: String,
    pub(crate) reply: PageResponse,
}

#[derive(Debug)]
pub(crate) struct PageResponse(TcpStream);

impl CallbackListener {
    /// Listens on the port of `last` if that port is free, or else on any free port.
    pub(crate) async fn bind(last: Option<&str>) -> io::Result<Self> {
        let port = last.and_then(callback_port);
        let listener = match port {
            Some(port) => TcpListener::bind(("127.0.0.1", port)).await.ok(),
            None => None,
        };
        let listener = match listener {
            Some(listener) => listener,
            None => TcpListener::bind(("127.0.0.1", 0)).await?,
        };
        let port = listener.local_addr()?.port();
        Ok(Self { listener, port })
    }

    pub(crate) fn redirect_uri(&self) -> String {
        format!("http://127.0.0.1:{}{CALLBACK_PATH}", self.port)
    }

    /// Waits for the redirect that `is_answer` accepts. Other requests get 404.
    pub(crate) async fn wait_for_redirect(
        &self,
        is_answer: impl Fn(&str) -> bool,
    ) -> io::Result<BrowserRedirect> {
        loop {
            let (mut stream, _) = self.listener.accept().await?;
            let head = timeout(IO_TIMEOUT, read_head(&mut stream)).await;
            let query = head.ok().and_then(Result::ok).and_then(|head| callback_query(&head));
            match query.filter(|query| is_answer(query)) {
                Some(query) => return Ok(BrowserRedirect { query, reply: PageResponse(stream) }),
                None => PageResponse(stream).send("404 Not Found", "not found").await,
            }
        }
    }
}

impl PageResponse {
    pub(crate) async fn send_outcome(self, is_good: bool) {
        let text = match is_good {
            true => "You are logged in. This page can be closed.",
            false => "The login failed. The terminal shows the reason. This page can be closed.",
        };
        self.send("200 OK", text).await;
    }

    async fn send(mut self, status: &str, text: &str) {
        let page = format!("<!doctype html><title>Toolcrib</title><p>{text}</p>\n");
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {}\r\n\
             cache-control: no-store\r\nreferrer-policy: no-referrer\r\nconnection: close\r\n\r\n{page}",
            page.len()
        );
        // The browser may have disconnected, so write errors are ignored.
        let _ = timeout(IO_TIMEOUT, async {
            self.0.write_all(answer.as_bytes()).await?;
            self.0.shutdown().await
        })
        .await;
    }
}

async fn read_head(stream: &mut TcpStream) -> io::Result<String> {
    let mut read = Vec::new();
    let mut piece = [0; 2048];
    while !read.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut piece).await? {
            0 => break,
            _ if read.len() > MAX_HEAD => return Err(io::ErrorKind::InvalidData.into()),
            count => read.extend_from_slice(piece.get(..count).unwrap_or_default()),
        }
    }
    Ok(String::from_utf8_lossy(&read).into_owned())
}

/// Returns the query of a GET request for the callback path.
fn callback_query(head: &str) -> Option<String> {
    let mut words = head.lines().next()?.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    let (path, query) = target.split_once('?')?;
    (method == "GET" && path == CALLBACK_PATH).then(|| query.to_owned())
}

fn callback_port(address: &str) -> Option<u16> {
    address.strip_prefix("http://127.0.0.1:")?.strip_suffix(CALLBACK_PATH)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_get_requests_for_the_callback_path_are_accepted() {
        for (head, expected) in [
            ("GET /callback?code=1&state=2 HTTP/1.1\r\nhost: x\r\n\r\n", Some("code=1&state=2")),
            ("POST /callback?code=1 HTTP/1.1\r\n\r\n", None),
            ("GET /favicon.ico HTTP/1.1\r\n\r\n", None),
            ("GET /callback HTTP/1.1\r\n\r\n", None),
            ("GET", None),
            ("", None),
        ] {
            assert_eq!(callback_query(head).as_deref(), expected, "{head}");
        }
    }

    #[test]
    fn callback_port_is_reused_only_from_a_loopback_redirect_uri() {
        assert_eq!(callback_port("http://127.0.0.1:4711/callback"), Some(4711));
        for other in ["http://127.0.0.1/callback", "http://evil:1/callback", ""] {
            assert_eq!(callback_port(other), None, "{other}");
        }
    }
}
