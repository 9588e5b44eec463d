//! What becomes of calls when their callers, their link or their own way ends.

use super::*;
use crate::transport::{Direct, HttpFault, Incoming, LinkFault};

/// A link that has a stream for each request; the other side is the test's.
fn http() -> (Link, mpsc::Receiver<Outgoing>, mpsc::Sender<Incoming>) {
    let mut ends = None;
    let link = Link::start(Facts::of(Channel::Http), |given| {
        ends = Some((given.outgoing, given.incoming));
        std::future::pending()
    });
    let (outgoing, incoming) = ends.unwrap();
    (link, outgoing, incoming)
}

fn peer_over(link: Link) -> Peer {
    let settings = PeerSettings {
        server: "http".to_owned(),
        handler: Arc::new(NoRequests),
        masks_results: false,
    };
    Peer::start(link, settings).0
}

async fn dropped_call(version: Version) -> (What, Vec<String>) {
    let (link, mut outgoing, _incoming) = http();
    let peer = peer_over(link);
    peer.speak(version);
    let params = ObjectWriter::new().string("name", "log").finish();
    let mut call = Box::pin(peer.call("tools/call", params, CallOptions::default()));
    let sent = tokio::select! {
        _ = &mut call => None,
        sent = outgoing.recv() => sent,
    };
    drop(call);
    drop(peer);
    let mut after = Vec::new();
    while let Ok(next) = outgoing.try_recv() {
        after.push(match next {
            Outgoing::Abandon(id) => format!("abandon {id}"),
            Outgoing::Adopt(id, _) => format!("adopt {id}"),
            Outgoing::Finish(_) => "finish".to_owned(),
            Outgoing::Message(message) => message.raw.text().to_owned(),
        });
    }
    match sent {
        Some(Outgoing::Message(message)) => (message.what, after),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn dis_25_a_call_is_cancelled_in_the_way_of_its_era() {
    let request = |name: Option<&str>| What::Request {
        id: Id::Number(1),
        method: "tools/call".into(),
        name: name.map(Into::into),
    };
    let (what, after) = dropped_call(Version::V2026_07_28).await;
    assert_eq!((what, after), (request(Some("log")), vec!["abandon 1".to_owned()]));
    let (what, after) = dropped_call(Version::V2025_11_25).await;
    assert_eq!((what, after.len()), (request(None), 2));
    assert!(after[0].contains("notifications/cancelled"), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn a_link_that_breaks_makes_no_call_late() {
    #[derive(Debug)]
    struct Endless;
    impl Direct for Endless {
        fn exchange(&self, _: Outward) -> Exchange {
            Exchange { work: Box::pin(std::future::pending()), arrived: oneshot::channel().1 }
        }
    }
    let (link, _outgoing, incoming) = http();
    let peer = peer_over(link.with_direct(Arc::new(Endless)));
    let begun = Instant::now();
    let patience = Patience { request: Some(LAST_WORD - Duration::from_secs(1)), max: None };
    let options = CallOptions { patience, is_direct: true, ..CallOptions::default() };
    let call = peer.call("tools/call", ObjectWriter::new().finish(), options);
    let fault = LinkFault::io("listen", std::io::ErrorKind::ConnectionReset.into());
    let breaks = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let closed = Incoming::Closed(CloseReason::Broken(fault));
        incoming.send(closed).await.unwrap();
    };
    let (outcome, ()) = tokio::join!(call, breaks);
    assert!(matches!(outcome, Err(CallError::Closed(_))), "{outcome:?}");
    assert_eq!(begun.elapsed(), LAST_WORD - Duration::from_secs(1));
}

/// Ends the link before it says what came of its request, and waits until everybody knows that.
#[derive(Debug)]
struct Forgotten(mpsc::Sender<Incoming>, Arc<Mutex<Option<Peer>>>);

impl Direct for Forgotten {
    fn exchange(&self, _: Outward) -> Exchange {
        let (incoming, peer) = (self.0.clone(), self.1.lock().unwrap().clone().unwrap());
        let work = Box::pin(async move {
            let fault = LinkFault { doing: "x", cause: Arc::new(HttpFault::SessionGone) };
            let closed = Incoming::Closed(CloseReason::Broken(fault.clone()));
            incoming.try_send(closed).unwrap();
            let begun = std::time::Instant::now();
            // On this thread, so that whoever calls cannot notice it first.
            while peer.in_flight() > 0 && begun.elapsed() < Duration::from_secs(20) {
                std::thread::yield_now();
            }
            Went::Failed(fault)
        });
        Exchange { work, arrived: oneshot::channel().1 }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_server_refused_is_told_as_that_although_it_ends_the_link() {
    let (link, _outgoing, incoming) = http();
    let known = Arc::default();
    let direct = Forgotten(incoming, Arc::clone(&known));
    let peer = peer_over(link.with_direct(Arc::new(direct)));
    *known.lock().unwrap() = Some(peer.clone());
    // The second is begun on a link that has ended: nothing of it was sent.
    for call in ["first", "second"] {
        let options = CallOptions { is_direct: true, ..CallOptions::default() };
        let outcome = peer.call("tools/call", ObjectWriter::new().finish(), options).await;
        assert!(matches!(outcome, Err(CallError::Failed(_))), "{call}: {outcome:?}");
    }
    known.lock().unwrap().take();
}

#[tokio::test]
async fn a_request_that_was_not_delivered_fails_alone() {
    let (link, mut outgoing, incoming) = http();
    let peer = peer_over(link);
    let call = |method| peer.call(method, ObjectWriter::new().finish(), CallOptions::default());
    let server = async {
        outgoing.recv().await;
        outgoing.recv().await;
        let fault = LinkFault::io("post a message", std::io::ErrorKind::TimedOut.into());
        let failed = Incoming::Failed { request: Id::Number(1), fault };
        incoming.send(failed).await.unwrap();
        let bytes = br#"{"jsonrpc":"2.0","id":2,"result":{}}"#;
        let packet = toolcrib_wire::parse(&bytes[..], &Default::default()).unwrap();
        let on = Some(Id::Number(2));
        incoming.send(Incoming::Packet { packet, on }).await.unwrap();
    };
    let (first, second, ()) = tokio::join!(call("a"), call("b"), server);
    assert!(matches!(first, Err(CallError::Failed(_))), "{first:?}");
    second.unwrap();
}
