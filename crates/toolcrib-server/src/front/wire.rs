//! A connection as bytes: what has come and is not used yet, what is to be written, and how long is waited.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::mem;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::task::yield_now;
use tokio::time::{Instant, Sleep, sleep_until};
use toolcrib_upstream::burst::{Left, Outlet};

use super::posted::Unread;
use super::replay::Replay;
use super::vigil::{Vigil, Watch};
use crate::body_budget::{NoRoom, Reservation};

/// Room for what comes. A usual request is much smaller, so that one read tells that there is nothing more.
const ROOM: usize = 8 << 10;

/// When there is less room than this, there has to be more.
const LITTLE: usize = 512;

/// The most room that is made at once: what is said to come may never come.
const MUCH: usize = 1 << 20;

/// How much of the next requests is kept while one is answered.
const AHEAD: usize = 16 << 10;

/// Memory that was needed for once is given back when it is more than this.
const KEPT: usize = 64 << 10;

/// What is smaller is written together with what is written before it.
const SMALL: usize = 4 << 10;

/// How long somebody may go on sending what nobody will read.
const LINGER: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Wire<S> {
    /// Where answers wait for those of others. It goes before the stream does.
    outlet: Option<Outlet>,
    stream: S,
    /// What has come.
    pub(super) bytes: BytesMut,
    /// What is to be written.
    pub(super) out: Vec<u8>,
    /// What was to be written before that, and the other side has had no room for.
    late: Bytes,
    deadline: Deadline,
    /// How long is waited for what comes, and for work that is done meanwhile.
    coming: Watch,
    working: Watch,
}

/// What came of waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Came {
    Bytes,
    /// There will be nothing more.
    End,
    Late,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    pub(super) fn new(
        stream: S,
        longest: Duration,
        vigil: Option<Vigil>,
        outlet: Option<Outlet>,
    ) -> Self {
        let (bytes, out, late) = (BytesMut::new(), Vec::new(), Bytes::new());
        let (coming, working) = (Watch::of(vigil.clone()), Watch::of(vigil));
        let deadline = Deadline::after(longest);
        Wire { outlet, stream, bytes, out, late, deadline, coming, working }
    }

    /// What is left of the connection, for somebody else. All is written.
    pub(super) fn replay(self) -> Replay<S> {
        Replay::new(self.bytes.freeze(), self.stream)
    }

    /// A request is waited for, so long.
    pub(super) fn begin(&mut self, longest: Duration) {
        self.deadline.set(longest);
        if self.bytes.is_empty() {
            // Nobody uses any more what was there before, so that this takes no memory but the first time.
            self.bytes.reserve(ROOM);
        }
    }

    /// Waits for more, as long as there is time.
    pub(super) async fn more(&mut self) -> Came {
        let came = poll_fn(|cx| {
            if !self.goes_on(cx) {
                return Poll::Ready(Came::End);
            }
            match self.poll_more(cx) {
                Poll::Ready(true) => Poll::Ready(Came::Bytes),
                Poll::Ready(false) => Poll::Ready(Came::End),
                Poll::Pending => {
                    self.coming.begin();
                    self.deadline.poll(cx).map(|()| Came::Late)
                }
            }
        })
        .await;
        self.coming.end();
        came
    }

    /// Waits until so many bytes are there, which are counted as they come.
    pub(super) async fn gather(
        &mut self,
        length: usize,
        longest: Duration,
        held: &mut Reservation,
    ) -> Result<(), Unread> {
        self.deadline.set(longest);
        while self.bytes.len() < length {
            match self.more().await {
                Came::Bytes => held.resize(self.bytes.len()).map_err(|NoRoom| Unread::NoRoom)?,
                Came::End => return Err(Unread::Broken),
                Came::Late => return Err(Unread::TooSlow),
            }
        }
        Ok(())
    }

    /// Takes so many bytes off, of those that are there.
    pub(super) fn take(&mut self, length: usize) -> Bytes {
        let taken = self.bytes.split_to(length.min(self.bytes.len())).freeze();
        if taken.len() > KEPT {
            self.bytes = BytesMut::from(&*self.bytes);
        }
        taken
    }

    /// What comes of some work, unless the other side goes away meanwhile. What comes from there is kept.
    pub(super) async fn unless_gone<T>(
        &mut self,
        mut work: Pin<&mut impl Future<Output = T>>,
    ) -> Option<T> {
        poll_fn(|cx| {
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                self.working.end();
                return Poll::Ready(Some(done));
            }
            self.working.begin();
            if !self.goes_on(cx) {
                return Poll::Ready(None);
            }
            while self.bytes.len() < AHEAD {
                match self.poll_more(cx) {
                    Poll::Ready(true) => {}
                    Poll::Ready(false) => return Poll::Ready(None),
                    Poll::Pending => return Poll::Pending,
                }
            }
            // Whoever sends that much has not gone.
            Poll::Pending
        })
        .await
    }

    /// Writes something after what is to be written, or leaves that for later where it is little.
    pub(super) async fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.out.len() + bytes.len() > SMALL {
            return self.write(bytes).await;
        }
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    /// Has written what is to be written, after all that this thread can do at once: who is woken by it takes the
    /// processor from what is done. What goes out with others need not be waited for.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        let is_put = self.out.is_empty() || self.is_put();
        if is_put {
            self.forget_written();
        }
        // Whoever has asked for more already does not keep others from their turn.
        if !is_put || !self.bytes.is_empty() {
            yield_now().await;
        }
        if is_put { Ok(()) } else { self.settle().await }
    }

    /// Waits until all is written.
    pub(super) async fn settle(&mut self) -> io::Result<()> {
        self.write(&[]).await?;
        self.stream.flush().await
    }

    /// The end of what is said.
    pub(super) async fn finish(&mut self) {
        // Whoever does not hear of it has gone already.
        if self.settle().await.is_ok() {
            let _ = self.stream.shutdown().await;
        }
    }

    /// Who is still sending would not hear what he is told if nobody listened to him any more.
    pub(super) async fn linger(&mut self) {
        self.deadline.set(LINGER);
        while !self.deadline.is_over() && self.more().await == Came::Bytes {
            self.bytes.clear();
        }
    }

    /// Whether what is to be written goes out with what others on this thread say.
    fn is_put(&self) -> bool {
        let is_usual = self.late.is_empty() && self.out.len() <= SMALL;
        let outlet = self.outlet.as_ref().filter(|_| is_usual);
        outlet.is_some_and(|outlet| outlet.put([&self.out, &[], &[]]))
    }

    /// Goes on with what the other side had no room for. False where it never will have.
    fn goes_on(&mut self, cx: &mut Context<'_>) -> bool {
        match self.outlet.as_ref().and_then(|outlet| outlet.poll_left(cx)) {
            Some(Left { fault: Some(_), .. }) => return false,
            Some(left) => self.late = left.bytes.into(),
            None => {}
        }
        while !self.late.is_empty() {
            match Pin::new(&mut self.stream).poll_write(cx, &self.late) {
                Poll::Ready(Ok(written)) if written > 0 => self.late.advance(written),
                Poll::Ready(_) => return false,
                Poll::Pending => break,
            }
        }
        true
    }

    /// What was put and is not written comes before what is to be written.
    fn recall(&mut self) -> io::Result<()> {
        let left = self.outlet.as_ref().and_then(Outlet::take_back);
        if let Some(Left { fault: Some(fault), .. }) = left {
            self.late.clear();
            return Err(fault);
        }
        let waiting = left.map(|left| left.bytes).unwrap_or_default();
        if !(self.late.is_empty() && waiting.is_empty()) {
            self.out = [&*mem::take(&mut self.late), &waiting, &self.out].concat();
        }
        Ok(())
    }

    /// After a fault nothing is written any more: what follows would be taken for what is missing.
    async fn write(&mut self, last: &[u8]) -> io::Result<()> {
        let written = match self.recall() {
            Ok(()) => self.write_all(last).await,
            Err(fault) => Err(fault),
        };
        self.forget_written();
        written
    }

    fn forget_written(&mut self) {
        self.out.clear();
        if self.out.capacity() > KEPT {
            self.out = Vec::new();
        }
    }

    async fn write_all(&mut self, mut last: &[u8]) -> io::Result<()> {
        let mut first = &self.out[..];
        while !first.is_empty() || !last.is_empty() {
            let written = match last.is_empty() {
                true => self.stream.write(first).await?,
                false => {
                    let parts = [IoSlice::new(first), IoSlice::new(last)];
                    self.stream.write_vectored(&parts).await?
                }
            };
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            let of_first = written.min(first.len());
            first = first.get(of_first..).unwrap_or_default();
            last = last.get(written - of_first..).unwrap_or_default();
        }
        Ok(())
    }

    /// Whether more has come; it has not where the other side has ended.
    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let (there, room) = (self.bytes.len(), self.bytes.capacity());
        if room - there < LITTLE {
            self.bytes.reserve(there.clamp(ROOM, MUCH));
        }
        let read = pin!(self.stream.read_buf(&mut self.bytes)).poll(cx);
        read.map(|read| read.is_ok_and(|length| length > 0))
    }
}

/// A time by which something has to have come. What waits for it is moved only when it fires, and not for each request.
#[derive(Debug)]
struct Deadline {
    end: Instant,
    sleep: Pin<Box<Sleep>>,
}

impl Deadline {
    fn after(longest: Duration) -> Self {
        let end = Instant::now() + longest;
        Deadline { end, sleep: Box::pin(sleep_until(end)) }
    }

    fn set(&mut self, longest: Duration) {
        self.end = Instant::now() + longest;
        if self.sleep.deadline() > self.end {
            self.sleep.as_mut().reset(self.end);
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.sleep.as_mut().poll(cx).is_ready() {
            if self.is_over() {
                return Poll::Ready(());
            }
            self.sleep.as_mut().reset(self.end);
        }
        Poll::Pending
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::{pending, ready};

    use futures_util::FutureExt;
    use tokio::io::{DuplexStream, duplex};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::task::JoinSet;
    use tokio::time::{sleep, timeout};
    use toolcrib_upstream::burst::{Burst, Settled};

    use super::*;

    const LONGEST: Duration = Duration::from_secs(30);

    fn wire() -> (Wire<DuplexStream>, DuplexStream) {
        let (ours, theirs) = duplex(1 << 10);
        (Wire::new(ours, LONGEST, None, None), theirs)
    }

    #[tokio::test(start_paused = true)]
    async fn each_wait_has_its_own_time_whenever_the_one_before_would_have_ended() {
        let (mut wire, mut theirs) = wire();
        let begun = Instant::now();
        for wait in [20, 29, 1, 25] {
            wire.begin(LONGEST);
            let saying = async {
                sleep(Duration::from_secs(wait)).await;
                theirs.write_all(b"word").await.unwrap();
            };
            assert_eq!(tokio::join!(wire.more(), saying).0, Came::Bytes);
        }
        wire.begin(LONGEST);
        assert_eq!(wire.more().await, Came::Late);
        let passed = begun.elapsed().as_secs();
        assert_eq!(passed, 20 + 29 + 1 + 25 + 30);
        // A shorter one is not waited for until a longer one is over.
        wire.begin(LONGEST);
        assert_eq!(
            wire.gather(100, Duration::from_secs(1), &mut Reservation::default()).await,
            Err(Unread::TooSlow)
        );
        assert_eq!(begun.elapsed().as_secs(), passed + 1);
    }

    #[tokio::test(start_paused = true)]
    async fn work_goes_on_until_the_other_side_ends_and_what_it_said_is_kept() {
        let (mut wire, mut theirs) = wire();
        wire.begin(LONGEST);
        theirs.write_all(b"next").await.unwrap();
        assert_eq!(wire.unless_gone(pin!(ready(1))).await, Some(1));
        let work = pin!(sleep(LONGEST * 2));
        assert_eq!(wire.unless_gone(work).await, Some(()), "nobody waits for the client here");
        assert_eq!(&wire.bytes[..], b"next");
        drop(theirs);
        assert_eq!(wire.unless_gone(pin!(pending::<()>())).await, None);
        assert_eq!(wire.gather(4, LONGEST, &mut Reservation::default()).await, Ok(()));
        assert_eq!(wire.gather(5, LONGEST, &mut Reservation::default()).await, Err(Unread::Broken));
    }

    #[tokio::test(start_paused = true)]
    async fn only_so_much_is_read_ahead_and_a_large_message_leaves_nothing_behind() {
        let (mut wire, mut theirs) = wire();
        let sending = async { theirs.write_all(&vec![7; 4 * KEPT]).await.unwrap() };
        let working = async {
            let idle = pin!(pending::<()>());
            let _ = timeout(LONGEST, wire.unless_gone(idle)).await;
            assert!((AHEAD..2 * AHEAD).contains(&wire.bytes.len()), "{}", wire.bytes.len());
            wire.gather(3 * KEPT, LONGEST, &mut Reservation::default()).await.unwrap();
            assert_eq!(wire.take(3 * KEPT), vec![7; 3 * KEPT]);
            assert!(wire.bytes.capacity() < KEPT, "{}", wire.bytes.capacity());
            wire.gather(KEPT, LONGEST, &mut Reservation::default()).await.unwrap();
        };
        tokio::join!(sending, working);
        assert_eq!(wire.bytes.len(), KEPT);
    }

    #[tokio::test]
    async fn what_can_be_done_at_once_is_done_before_anything_is_written() {
        let ((mut first, _first), (mut second, _second)) = (wire(), wire());
        let done = Cell::new(0);
        let saying = async |wire: &mut Wire<DuplexStream>| {
            done.set(done.get() + 1);
            wire.put(b"word").await.unwrap();
            wire.flush().await.unwrap();
            assert_eq!(done.get(), 2);
        };
        tokio::join!(saying(&mut first), saying(&mut second));
        assert_eq!(first.flush().now_or_never().map(Result::ok), Some(Some(())), "nothing is left");
    }

    /// A connection whose answers go out with those of others for as long as the last of these lives.
    async fn together() -> (Wire<TcpStream>, TcpStream, (Settled, JoinSet<()>)) {
        let (burst, mut writing) = (Burst::default(), JoinSet::new());
        let settled = burst.settle();
        writing.spawn(burst.run());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let theirs = listener.accept().await.unwrap().0;
        let outlet = Outlet::here(&ours);
        (Wire::new(ours, LONGEST, None, outlet), theirs, (settled, writing))
    }

    #[tokio::test]
    async fn what_goes_out_with_what_others_say_is_all_heard_in_order_by_whoever_reads_late() {
        let (mut wire, mut theirs, _together) = together().await;
        // More than the system keeps for somebody who does not read.
        let parts: Vec<String> = (0..8000).map(|number| format!("{number:03000}")).collect();
        let (filled, reads) = (Cell::new(0), tokio::sync::Notify::new());
        let saying = async {
            for part in &parts {
                wire.out.extend_from_slice(part.as_bytes());
                wire.flush().await.unwrap();
                // As if the next request were waited for.
                assert_eq!(wire.more().now_or_never(), None);
                yield_now().await;
                filled.set(filled.get() + 1);
                reads.notify_one();
            }
            wire.finish().await;
        };
        let mut all = Vec::new();
        let hearing = async {
            // Nothing is read until nothing more can be said.
            while timeout(Duration::from_millis(200), reads.notified()).await.is_ok() {}
            assert!(filled.get() < parts.len());
            theirs.read_to_end(&mut all).await.unwrap()
        };
        tokio::join!(saying, hearing);
        assert!(all == parts.concat().into_bytes());
    }

    #[tokio::test]
    async fn what_is_written_otherwise_comes_after_what_goes_out_with_what_others_say() {
        let (mut wire, mut theirs, _together) = together().await;
        wire.put(b"first ").await.unwrap();
        wire.flush().await.unwrap();
        let large = vec![b'x'; 2 * SMALL];
        wire.put(&large).await.unwrap();
        wire.put(b" last").await.unwrap();
        wire.flush().await.unwrap();
        wire.finish().await;
        let mut all = Vec::new();
        theirs.read_to_end(&mut all).await.unwrap();
        assert_eq!(all, [&b"first "[..], &large, b" last"].concat());
    }

    #[tokio::test]
    async fn what_is_little_is_written_with_what_follows_and_everything_in_order() {
        let (mut wire, mut theirs) = wire();
        let large = vec![b'x'; 4 * SMALL];
        let saying = async {
            wire.out.extend_from_slice(b"head ");
            wire.put(b"little ").await.unwrap();
            assert_eq!(wire.out, b"head little ");
            wire.put(&large).await.unwrap();
            wire.put(b" end").await.unwrap();
            wire.flush().await.unwrap();
            wire.finish().await;
        };
        let mut all = Vec::new();
        let hearing = async { theirs.read_to_end(&mut all).await.unwrap() };
        tokio::join!(saying, hearing);
        assert_eq!(all, [&b"head little "[..], &large, b" end"].concat());
    }
}
