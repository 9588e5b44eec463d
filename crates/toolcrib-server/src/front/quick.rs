//! Usual requests, which are nearly all, on the shortest way: one read, one answer, one write. A connection on which
//! anything else comes is handed over as if nothing had been read.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use http_body_util::BodyExt;
use hyper::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite};
use toolcrib_upstream::burst::Outlet;
use toolcrib_wire::{Held, Raw};

use super::crowd::Seen;
use super::head::{self, Found, Lines, Usual};
use super::listen::Origin;
use super::replay::Replay;
use super::reply::{Answered, Reply};
use super::route::{self, Asked};
use super::speak::{self, Date, Size};
use super::vigil::Vigil;
use super::wire::{Came, Wire};
use super::{Front, lapse, posted};
use crate::closing::Listening;
use crate::gateway;
use crate::identity::Principal;

/// Answers for as long as what comes is usual; what is left of the connection when it is not.
pub(super) async fn serve<S>(
    front: &Arc<Front>,
    stream: S,
    (origin, seen): (Origin, &Seen),
    vigil: Option<Vigil>,
    outlet: Option<Outlet>,
) -> Option<Replay<S>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let longest = front.limits().read;
    let wire = Wire::new(stream, longest, vigil, outlet);
    let mut quick = Quick { front, origin, seen, longest, wire, date: Date::default() };
    let mut lines = Lines::default();
    let mut closing = front.closing.listening();
    let goes_on = loop {
        match quick.next(&mut lines, &mut closing).await {
            Next::Usual(usual) => match quick.answer(&lines, usual).await {
                Some(()) => {}
                None => break false,
            },
            Next::Other => break true,
            Next::End => break false,
        }
    };
    // An answer may still wait for those of others.
    let is_written = quick.wire.settle().await.is_ok();
    (goes_on && is_written).then(|| quick.wire.replay())
}

struct Quick<'a, S> {
    front: &'a Arc<Front>,
    origin: Origin,
    seen: &'a Seen,
    /// How long a head may take.
    longest: Duration,
    wire: Wire<S>,
    date: Date,
}

/// What comes next on a connection.
enum Next {
    Usual(Usual),
    Other,
    End,
}

/// Nothing is the end of the connection.
impl<S: AsyncRead + AsyncWrite + Unpin> Quick<'_, S> {
    async fn next(&mut self, lines: &mut Lines, closing: &mut Listening<'_>) -> Next {
        self.wire.begin(self.longest);
        let mut seen = 0;
        loop {
            match head::take(&mut self.wire.bytes, seen, lines) {
                Found::Usual(usual) => return Next::Usual(usual),
                Found::Other => return Next::Other,
                Found::Part => seen = self.wire.bytes.len(),
            }
            tokio::select! {
                biased;
                came = self.wire.more() => match came {
                    Came::Bytes => {}
                    Came::End | Came::Late => return Next::End,
                },
                // What has begun is still answered.
                () = poll_fn(|cx| closing.poll(cx)), if seen == 0 => return Next::End,
            }
        }
    }

    async fn answer(&mut self, lines: &Lines, usual: Usual) -> Option<()> {
        let asked = Asked::new(lines, gateway::PATH, self.origin);
        let admitting = pin!(route::admit(self.front, asked));
        let principal = match self.wire.unless_gone(admitting).await? {
            Ok(principal) => principal,
            Err(refused) => return self.refuse(*refused, usual).await,
        };
        self.seen.admit();
        let (body, held) = match self.body(lines, usual.body, &principal).await {
            Ok(body) => body,
            Err(refused) => return self.refuse(*refused, usual).await,
        };
        let (door, _) = self.origin;
        let serving = gateway::serve_whole(self.front, &principal, door, lines, (body, held));
        let answering = pin!(serving);
        match self.wire.unless_gone(answering).await? {
            Answered::Message(status, message) => self.tell(status, &message, usual.closes).await,
            Answered::Reply(reply) => {
                let expiry = Some(self.seen.expiry());
                let reply = lapse::bound(self.front, lines, door, &principal, expiry, reply);
                self.say(reply, usual.closes).await
            }
        }
    }

    /// The body, which is nearly always there already.
    async fn body(
        &mut self,
        lines: &Lines,
        length: usize,
        who: &Principal,
    ) -> Result<(Bytes, Held), Box<Reply>> {
        if self.wire.bytes.len() >= length {
            return Ok((self.wire.take(length), None));
        }
        let (limits, longest) = self.front.gateway.bounds();
        posted::check(lines, length, &limits)?;
        let mut held = self.front.gateway.reservation(who.chooses, &who.agent);
        self.wire.gather(length, longest, &mut held).await.map_err(posted::unread)?;
        Ok((self.wire.take(length), held.into_held()))
    }

    /// An answer to what may not have come as a whole, and then never will.
    async fn refuse(&mut self, reply: Reply, usual: Usual) -> Option<()> {
        let is_whole = self.wire.bytes.len() >= usual.body;
        match is_whole {
            true => drop(self.wire.take(usual.body)),
            // Nobody will use what has come of it.
            false => self.wire.bytes = BytesMut::new(),
        }
        let said = self.say(reply, usual.closes || !is_whole).await;
        if !is_whole {
            self.wire.linger().await;
        }
        said
    }

    /// One message, which is nearly every answer.
    async fn tell(&mut self, status: StatusCode, message: &Raw, closes: bool) -> Option<()> {
        let closes = closes || self.front.is_closing();
        let size = Size::Known(message.as_bytes().len() as u64);
        speak::status(&mut self.wire.out, status);
        speak::line(&mut self.wire.out, "content-type", b"application/json");
        speak::end(&mut self.wire.out, size, closes, self.date.at(SystemTime::now()));
        self.wire.put(message.as_bytes()).await.ok()?;
        self.end(closes).await
    }

    async fn say(&mut self, reply: Reply, closes: bool) -> Option<()> {
        let closes = closes || self.front.is_closing();
        let (head, body) = reply.into_parts();
        let size = Size::of(head.status, &body);
        let date = self.date.at(SystemTime::now());
        speak::head(&mut self.wire.out, &head, size, closes, date);
        if size != Size::Nothing {
            // Boxed, so that messages do not carry the room for it.
            Box::pin(self.say_all(body, size)).await?;
        }
        self.end(closes || self.seen.has_expired()).await
    }

    /// The end of an answer, which may be that of the connection.
    async fn end(&mut self, closes: bool) -> Option<()> {
        self.wire.flush().await.ok()?;
        if closes {
            self.wire.finish().await;
        }
        (!closes).then_some(())
    }

    async fn say_all(&mut self, mut body: Body, size: Size) -> Option<()> {
        while let Some(bytes) = self.frame(&mut body).await? {
            // An empty chunk would be the last.
            if !bytes.is_empty() {
                size.begin(&mut self.wire.out, bytes.len());
                self.wire.put(&bytes).await.ok()?;
                size.end(&mut self.wire.out);
            }
        }
        size.finish(&mut self.wire.out);
        Some(())
    }

    /// The next part of a body. What was said before is not held back for it.
    async fn frame(&mut self, body: &mut Body) -> Option<Option<Bytes>> {
        let frame = match body.frame().now_or_never() {
            Some(frame) => frame,
            None => {
                self.wire.flush().await.ok()?;
                self.wire.unless_gone(pin!(body.frame())).await?
            }
        };
        match frame {
            Some(frame) => Some(Some(frame.ok()?.into_data().unwrap_or_default())),
            None => Some(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tempfile::TempDir;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::task::JoinSet;
    use toolcrib::Host;
    use toolcrib_upstream::burst::Burst;

    use super::*;
    use crate::front::listen::Peer;
    use crate::identity::{Door, Identity};

    const TOLD: &[u8] =
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
        Mcp-Protocol-Version: 2026-07-28\r\nContent-Length: 39\r\n\r\n\
        {\"jsonrpc\":\"2.0\",\"method\":\"heard/this\"}";

    async fn tell(client: &mut TcpStream) {
        client.write_all(TOLD).await.unwrap();
        let mut answer = [0; 1000];
        let length = client.read(&mut answer).await.unwrap();
        let answer = str::from_utf8(&answer[..length]).unwrap();
        assert!(answer.starts_with("HTTP/1.1 202 ") && answer.ends_with("\r\n\r\n"), "{answer}");
    }

    /// A host with nothing in it, and a connection to it.
    async fn connected() -> (TempDir, Arc<Front>, TcpStream, TcpStream) {
        let folder = tempfile::tempdir().unwrap();
        let [root, state] = ["root", "state"].map(|name| folder.path().join(name));
        std::fs::create_dir(&root).unwrap();
        let host = Host::builder(root, state).start().await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        (folder, Front::new(host, Identity::default()), client, stream)
    }

    /// How often a connection is woken for so many requests that need nobody else.
    async fn polls(requests: usize, outlet: fn(&TcpStream) -> Option<Outlet>) -> usize {
        let (_folder, front, mut client, stream) = connected().await;
        let outlet = outlet(&stream);
        let polls = Arc::new(AtomicUsize::new(0));
        let (mut tasks, counted) = (JoinSet::new(), Arc::clone(&polls));
        let host = front.host.clone();
        tasks.spawn(async move {
            let (origin, seen) = ((Door::Tcp, Peer(None)), Seen::default());
            let mut serving = pin!(serve(&front, stream, (origin, &seen), None, outlet));
            let counting = poll_fn(|cx| {
                counted.fetch_add(1, Ordering::Relaxed);
                serving.as_mut().poll(cx)
            });
            counting.await.is_none()
        });
        // Whether it can be written to is not known the first time.
        tell(&mut client).await;
        let before = polls.load(Ordering::Relaxed);
        for _ in 0..requests {
            tell(&mut client).await;
        }
        let after = polls.load(Ordering::Relaxed);
        drop(client);
        assert!(tasks.join_next().await.unwrap().unwrap(), "nothing is left of it");
        host.close().await;
        after - before
    }

    /// What costs most is to go through everything once more, with nothing to do.
    #[tokio::test]
    async fn a_request_that_needs_nobody_else_wakes_its_connection_to_be_answered_and_to_write() {
        assert_eq!(polls(20, |_| None).await, 2 * 20);
    }

    #[tokio::test]
    async fn where_answers_go_out_together_a_connection_is_woken_only_to_answer() {
        let (burst, mut writing) = (Burst::default(), JoinSet::new());
        let _settled = burst.settle();
        writing.spawn(burst.run());
        assert_eq!(polls(20, Outlet::here).await, 20);
    }

    /// An answer that waits for those of others is not lost with the connection.
    #[tokio::test]
    async fn whoever_says_no_more_is_still_answered() {
        let (burst, mut writing) = (Burst::default(), JoinSet::new());
        let _settled = burst.settle();
        writing.spawn(burst.run());
        let (_folder, front, mut client, stream) = connected().await;
        let (host, outlet) = (front.host.clone(), Outlet::here(&stream));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let (origin, seen) = ((Door::Tcp, Peer(None)), Seen::default());
            serve(&front, stream, (origin, &seen), None, outlet).await.is_none()
        });
        tell(&mut client).await;
        client.write_all(TOLD).await.unwrap();
        client.shutdown().await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 202 "), "{answer}");
        assert!(tasks.join_next().await.unwrap().unwrap(), "nothing is left of it");
        host.close().await;
    }
}
