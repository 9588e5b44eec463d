//! Sockets of the system, so that what they take and what they refuse is what they do.

use std::io::{ErrorKind, Read};
use std::net::{TcpListener, TcpStream};
use std::task::{Context, Poll, Waker};

use futures_util::FutureExt;
use tokio::task::{JoinSet, yield_now};

use super::*;

/// A socket that does not block, and its other end.
fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    ours.set_nonblocking(true).unwrap();
    let theirs = listener.accept().unwrap().0;
    theirs.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
    (ours, theirs)
}

fn said(theirs: &mut TcpStream, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    theirs.read_exact(&mut bytes).unwrap();
    bytes
}

fn has_said_nothing(theirs: &TcpStream) -> bool {
    theirs.set_nonblocking(true).unwrap();
    let nothing = theirs.peek(&mut [0]).is_err_and(|it| it.kind() == ErrorKind::WouldBlock);
    theirs.set_nonblocking(false).unwrap();
    nothing
}

fn left(outlet: &Outlet) -> Option<Left> {
    outlet.poll_left(&Context::from_waker(Waker::noop()))
}

#[tokio::test]
async fn whatever_is_put_in_one_turn_is_written_at_its_end_by_each_in_order() {
    for count in [1, 2, 3, 200] {
        let (burst, mut writing) = (Burst::default(), JoinSet::new());
        writing.spawn(burst.clone().run());
        yield_now().await;
        let mut all: Vec<_> = (0..count).map(|_| pair()).collect();
        let outlets: Vec<_> = all.iter().map(|(ours, _)| Outlet::of(burst.clone(), ours)).collect();
        for turn in ["a", "b"] {
            for (number, outlet) in outlets.iter().enumerate() {
                assert!(outlet.put([turn.as_bytes(), b"-", number.to_string().as_bytes()]));
                assert!(outlet.put([b";", b"", b""]));
            }
            assert!(all.iter().all(|(_, theirs)| has_said_nothing(theirs)), "not yet");
            yield_now().await;
            for (number, (_, theirs)) in all.iter_mut().enumerate() {
                let expected = format!("{turn}-{number};");
                assert_eq!(said(theirs, expected.len()), expected.as_bytes());
                assert!(has_said_nothing(theirs));
            }
        }
        assert!(outlets.iter().all(|outlet| left(outlet).is_none()));
    }
}

#[tokio::test]
async fn what_a_socket_does_not_take_is_left_for_its_owner_and_holds_up_nobody() {
    let (burst, mut writing) = (Burst::default(), JoinSet::new());
    writing.spawn(burst.clone().run());
    let [(slow, mut read_late), (gone, other_end), (quick, mut read_soon)] =
        [pair(), pair(), pair()];
    let [slow, quick] = [&slow, &quick].map(|it| Outlet::of(burst.clone(), it));
    gone.shutdown(std::net::Shutdown::Both).unwrap();
    let broken = Outlet::of(burst, &gone);
    let much = vec![7; 64 << 20];
    assert!(slow.put([&much, b"", b""]) && broken.put([b"a", b"", b""]));
    assert!(quick.put([b"b", b"", b""]));
    let waiting = std::future::poll_fn(|cx| match slow.poll_left(cx) {
        Some(left) => Poll::Ready(left),
        None => Poll::Pending,
    });
    let rest = waiting.await;
    assert!(rest.fault.is_none() && rest.sent > 0 && rest.sent + rest.bytes.len() == much.len());
    assert_eq!(said(&mut read_late, rest.sent), much[..rest.sent]);
    let fault = left(&broken).unwrap();
    assert_eq!((fault.sent, fault.bytes), (0, b"a".to_vec()));
    assert_eq!(fault.fault.unwrap().kind(), ErrorKind::BrokenPipe);
    assert_eq!(said(&mut read_soon, 1), b"b");
    assert!(left(&slow).is_none() && slow.put([b"c", b"", b""]), "it is told once");
    drop(other_end);
}

#[tokio::test]
async fn nothing_is_put_behind_what_is_left() {
    let (burst, mut writing) = (Burst::default(), JoinSet::new());
    writing.spawn(burst.clone().run());
    let (ours, _theirs) = pair();
    let outlet = Outlet::of(burst, &ours);
    assert!(outlet.put([&vec![7; 64 << 20], b"", b""]));
    yield_now().await;
    yield_now().await;
    assert!(!outlet.put([b"more", b"", b""]));
    assert!(outlet.take_back().is_some_and(|left| left.sent > 0));
    assert!(outlet.put([b"more", b"", b""]));
}

#[tokio::test]
async fn only_so_much_waits_for_one_socket() {
    let (ours, _theirs) = pair();
    let outlet = Outlet::of(Burst::default(), &ours);
    let put = (0..1000).take_while(|_| outlet.put([&[7; 1000], b"", b""])).count();
    assert_eq!(put, 66, "64 KiB, and what passes that");
    assert_eq!(outlet.take_back().map(|left| left.bytes.len()), Some(66_000));
}

#[tokio::test]
async fn what_is_taken_back_is_not_written_nor_what_nobody_wants_to_say_any_more() {
    let (burst, mut writing) = (Burst::default(), JoinSet::new());
    writing.spawn(burst.clone().run());
    let [(first, mut one), (second, two)] = [pair(), pair()];
    let [taken, dropped] = [&first, &second].map(|it| Outlet::of(burst.clone(), it));
    assert!(taken.put([b"a", b"b", b"c"]) && dropped.put([b"d", b"", b""]));
    let back = taken.take_back().unwrap();
    assert_eq!((back.sent, back.bytes), (0, b"abc".to_vec()));
    drop(dropped);
    yield_now().await;
    assert!(has_said_nothing(&one) && has_said_nothing(&two) && taken.take_back().is_none());
    assert!(taken.put([b"again", b"", b""]));
    yield_now().await;
    assert_eq!(said(&mut one, 5), b"again");
}

#[tokio::test]
async fn when_nobody_writes_any_more_what_was_put_is_left_and_no_more_is_taken() {
    let burst = Burst::default();
    let running = burst.clone().run();
    let (ours, theirs) = pair();
    let outlet = Outlet::of(burst, &ours);
    assert!(outlet.put([b"word", b"", b""]));
    drop(running);
    let back = left(&outlet).unwrap();
    assert_eq!((back.sent, back.bytes, back.fault.is_none()), (0, b"word".to_vec(), true));
    assert!(!outlet.put([b"more", b"", b""]) && has_said_nothing(&theirs));
}

#[tokio::test]
async fn a_thread_has_a_burst_for_as_long_as_it_is_settled() {
    let (ours, _theirs) = pair();
    assert!(!Burst::is_here() && Outlet::here(&ours).is_none());
    let burst = Burst::default();
    let settled = burst.settle();
    assert!(Burst::is_here() && Outlet::here(&ours).is_some());
    // Another one for a while.
    let other = Burst::default();
    drop(other.settle());
    assert!(Burst::here().is_some_and(|here| Arc::ptr_eq(&here.0, &burst.0)));
    let elsewhere = std::thread::scope(|it| it.spawn(Burst::is_here).join().unwrap());
    assert!(!elsewhere);
    drop(settled);
    assert!(!Burst::is_here() && burst.run().now_or_never().is_none());
}
