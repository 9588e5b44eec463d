//! Tests with real sockets, so that accepted and rejected writes are those of the kernel.

use std::io::{ErrorKind, Read};
use std::net::{TcpListener, TcpStream};
use std::task::{Context, Poll, Waker};

use futures_util::FutureExt;
use tokio::task::{JoinSet, yield_now};

use super::*;

/// A non-blocking socket in a batch, and its peer.
fn pair(batch: &WriteBatch) -> (BatchedStream<TcpStream>, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    ours.set_nonblocking(true).unwrap();
    let theirs = listener.accept().unwrap().0;
    theirs.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
    (BatchedStream::in_batch(ours, Some(batch.clone())), theirs)
}

fn read_bytes(theirs: &mut TcpStream, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    theirs.read_exact(&mut bytes).unwrap();
    bytes
}

fn has_no_bytes(theirs: &TcpStream) -> bool {
    theirs.set_nonblocking(true).unwrap();
    let nothing = theirs.peek(&mut [0]).is_err_and(|it| it.kind() == ErrorKind::WouldBlock);
    theirs.set_nonblocking(false).unwrap();
    nothing
}

fn writer(stream: &BatchedStream<TcpStream>) -> &SocketWriter {
    stream.socket_writer().unwrap()
}

fn poll_unwritten(writer: &SocketWriter) -> Option<Unwritten> {
    writer.poll_unwritten(&Context::from_waker(Waker::noop()))
}

#[tokio::test]
async fn writes_of_one_tick_are_flushed_in_order_per_socket() {
    for count in [1, 2, 3, 200] {
        let (batch, mut writing) = (WriteBatch::default(), JoinSet::new());
        writing.spawn(batch.clone().run());
        yield_now().await;
        let (streams, mut peers): (Vec<_>, Vec<_>) = (0..count).map(|_| pair(&batch)).unzip();
        let writers: Vec<_> = streams.iter().map(writer).collect();
        for turn in ["a", "b"] {
            for (number, writer) in writers.iter().enumerate() {
                assert!(writer.enqueue([turn.as_bytes(), b"-", number.to_string().as_bytes()]));
                assert!(writer.enqueue([b";", b"", b""]));
            }
            assert!(peers.iter().all(has_no_bytes), "not written before the end of the tick");
            yield_now().await;
            for (number, theirs) in peers.iter_mut().enumerate() {
                let expected = format!("{turn}-{number};");
                assert_eq!(read_bytes(theirs, expected.len()), expected.as_bytes());
                assert!(has_no_bytes(theirs));
            }
        }
        assert!(writers.iter().all(|writer| poll_unwritten(writer).is_none()));
    }
}

#[tokio::test]
async fn unwritten_bytes_are_returned_and_other_sockets_are_written() {
    let (batch, mut writing) = (WriteBatch::default(), JoinSet::new());
    writing.spawn(batch.clone().run());
    let [(slow, mut read_late), (gone, other_end), (quick, mut read_soon)] =
        [pair(&batch), pair(&batch), pair(&batch)];
    gone.get_ref().shutdown(std::net::Shutdown::Both).unwrap();
    let [slow, broken, quick] = [&slow, &gone, &quick].map(writer);
    let much = vec![7; 64 << 20];
    assert!(slow.enqueue([&much, b"", b""]) && broken.enqueue([b"a", b"", b""]));
    assert!(quick.enqueue([b"b", b"", b""]));
    let waiting = std::future::poll_fn(|cx| match slow.poll_unwritten(cx) {
        Some(left) => Poll::Ready(left),
        None => Poll::Pending,
    });
    let rest = waiting.await;
    assert!(rest.error.is_none() && rest.sent > 0 && rest.sent + rest.bytes.len() == much.len());
    assert_eq!(read_bytes(&mut read_late, rest.sent), much[..rest.sent]);
    let fault = poll_unwritten(broken).unwrap();
    assert_eq!((fault.sent, fault.bytes), (0, b"a".to_vec()));
    assert_eq!(fault.error.unwrap().kind(), ErrorKind::BrokenPipe);
    assert_eq!(read_bytes(&mut read_soon, 1), b"b");
    assert!(poll_unwritten(slow).is_none() && slow.enqueue([b"c", b"", b""]), "returned only once");
    drop(other_end);
}

#[tokio::test]
async fn no_bytes_are_queued_behind_unwritten_bytes() {
    let (batch, mut writing) = (WriteBatch::default(), JoinSet::new());
    writing.spawn(batch.clone().run());
    let (ours, _theirs) = pair(&batch);
    let writer = writer(&ours);
    assert!(writer.enqueue([&vec![7; 64 << 20], b"", b""]));
    yield_now().await;
    yield_now().await;
    assert!(!writer.enqueue([b"more", b"", b""]));
    assert!(writer.take_unwritten().is_some_and(|left| left.sent > 0));
    assert!(writer.enqueue([b"more", b"", b""]));
}

#[tokio::test]
async fn queued_bytes_per_socket_are_limited() {
    let (ours, _theirs) = pair(&WriteBatch::default());
    let writer = writer(&ours);
    let put = (0..1000).take_while(|_| writer.enqueue([&[7; 1000], b"", b""])).count();
    assert_eq!(put, 66, "64 KiB, and what passes that");
    assert_eq!(writer.take_unwritten().map(|left| left.bytes.len()), Some(66_000));
}

#[tokio::test]
async fn taken_back_and_dropped_writes_are_not_written() {
    let (batch, mut writing) = (WriteBatch::default(), JoinSet::new());
    writing.spawn(batch.clone().run());
    let [(first, mut one), (second, mut two)] = [pair(&batch), pair(&batch)];
    let taken = writer(&first);
    assert!(taken.enqueue([b"a", b"b", b"c"]) && writer(&second).enqueue([b"d", b"", b""]));
    let back = taken.take_unwritten().unwrap();
    assert_eq!((back.sent, back.bytes), (0, b"abc".to_vec()));
    drop(second);
    yield_now().await;
    assert!(has_no_bytes(&one) && taken.take_unwritten().is_none());
    assert_eq!(two.read(&mut [0]).unwrap(), 0, "closed without a byte");
    assert!(taken.enqueue([b"again", b"", b""]));
    yield_now().await;
    assert_eq!(read_bytes(&mut one, 5), b"again");
}

#[tokio::test]
async fn dropped_batch_returns_queued_bytes_and_rejects_writes() {
    let batch = WriteBatch::default();
    let running = batch.clone().run();
    let (ours, theirs) = pair(&batch);
    let writer = writer(&ours);
    assert!(writer.enqueue([b"word", b"", b""]));
    drop(running);
    let back = poll_unwritten(writer).unwrap();
    assert_eq!((back.sent, back.bytes, back.error.is_none()), (0, b"word".to_vec(), true));
    assert!(!writer.enqueue([b"more", b"", b""]) && has_no_bytes(&theirs));
}

#[tokio::test]
async fn thread_has_batch_while_guard_lives() {
    let has_writer = || {
        let socket = std::os::unix::net::UnixStream::pair().unwrap().0;
        BatchedStream::new(socket).socket_writer().is_some()
    };
    assert!(!WriteBatch::has_current() && !has_writer());
    let batch = WriteBatch::default();
    let guard = batch.set_current();
    assert!(WriteBatch::has_current() && has_writer());
    // A nested batch.
    let other = WriteBatch::default();
    drop(other.set_current());
    assert!(WriteBatch::current().is_some_and(|here| Arc::ptr_eq(&here.0, &batch.0)));
    let elsewhere = std::thread::scope(|it| it.spawn(WriteBatch::has_current).join().unwrap());
    assert!(!elsewhere);
    drop(guard);
    assert!(!WriteBatch::has_current() && batch.run().now_or_never().is_none());
}
