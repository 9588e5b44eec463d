//! Where a browser comes back to after a login: one page on this machine, for one visit.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

const PATH: &str = "/callback";

/// A browser that has connected says what it wants soon.
const PATIENCE: Duration = Duration::from_secs(5);
/// The head of a request is longer than this only if something is wrong.
const LONGEST: usize = 32 * 1024;

/// Listens on this machine only.
#[derive(Debug)]
pub(crate) struct Callback {
    listener: TcpListener,
    port: u16,
}

/// What a browser brought, and where it waits for a word.
#[derive(Debug)]
pub(crate) struct Visit {
    pub(crate) query: String,
    pub(crate) reply: Reply,
}

#[derive(Debug)]
pub(crate) struct Reply(TcpStream);

impl Callback {
    /// At the port of `last`, if it is free, else at any.
    pub(crate) async fn listen(last: Option<&str>) -> io::Result<Self> {
        let port = last.and_then(port);
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

    pub(crate) fn address(&self) -> String {
        format!("http://127.0.0.1:{}{PATH}", self.port)
    }

    /// Waits for the visit that is the answer; any other is turned away.
    pub(crate) async fn visit(&self, is_answer: impl Fn(&str) -> bool) -> io::Result<Visit> {
        loop {
            let (mut stream, _) = self.listener.accept().await?;
            let head = timeout(PATIENCE, head(&mut stream)).await;
            let query = head.ok().and_then(Result::ok).and_then(|head| query(&head));
            match query.filter(|query| is_answer(query)) {
                Some(query) => return Ok(Visit { query, reply: Reply(stream) }),
                None => Reply(stream).send("404 Not Found", "there is nothing here").await,
            }
        }
    }
}

impl Reply {
    pub(crate) async fn say(self, is_good: bool) {
        let text = match is_good {
            true => "You are logged in. This page can be closed.",
            false => "The login failed; the command line says why. This page can be closed.",
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
        // A browser that has gone needs no word.
        let _ = timeout(PATIENCE, async {
            self.0.write_all(answer.as_bytes()).await?;
            self.0.shutdown().await
        })
        .await;
    }
}

async fn head(stream: &mut TcpStream) -> io::Result<String> {
    let mut read = Vec::new();
    let mut piece = [0; 2048];
    while !read.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut piece).await? {
            0 => break,
            _ if read.len() > LONGEST => return Err(io::ErrorKind::InvalidData.into()),
            count => read.extend_from_slice(piece.get(..count).unwrap_or_default()),
        }
    }
    Ok(String::from_utf8_lossy(&read).into_owned())
}

/// What a browser asks for at the page.
fn query(head: &str) -> Option<String> {
    let mut words = head.lines().next()?.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    let (path, query) = target.split_once('?')?;
    (method == "GET" && path == PATH).then(|| query.to_owned())
}

fn port(address: &str) -> Option<u16> {
    address.strip_prefix("http://127.0.0.1:")?.strip_suffix(PATH)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_get_of_the_page_is_a_visit() {
        for (head, expected) in [
            ("GET /callback?code=1&state=2 HTTP/1.1\r\nhost: x\r\n\r\n", Some("code=1&state=2")),
            ("POST /callback?code=1 HTTP/1.1\r\n\r\n", None),
            ("GET /favicon.ico HTTP/1.1\r\n\r\n", None),
            ("GET /callback HTTP/1.1\r\n\r\n", None),
            ("GET", None),
            ("", None),
        ] {
            assert_eq!(query(head).as_deref(), expected, "{head}");
        }
    }

    #[test]
    fn a_port_is_used_again_if_it_was_ours() {
        assert_eq!(port("http://127.0.0.1:4711/callback"), Some(4711));
        for other in ["http://127.0.0.1/callback", "http://evil:1/callback", ""] {
            assert_eq!(port(other), None, "{other}");
        }
    }
}
