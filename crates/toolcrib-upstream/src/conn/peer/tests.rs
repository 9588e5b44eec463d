//! Tests of calls whose caller, link or exchange ends.

use super::*;
use crate::transport::{DirectTransport, HttpFault, Incoming, LinkFault};

/// A link with one stream for each request. The test plays the server.
fn http() -> (Link, mpsc::Receiver<Outgoing>, mpsc::Sender<Incoming>) {
    let mut ends = None;
    let link = Link::start(LinkInfo::new(Channel::Http), |given| {
        ends = Some((given.outgoing, given.incoming));
        std::future::pending()
    });
    let (outgoing, incoming) = ends.unwrap();
    (link, outgoing, incoming)
}

fn peer_over(link: Link) -> Peer {
    let settings = PeerSettings {
        server: "http".to_owned(),
        handler: Arc::new(RefuseRequests),
        masks_results: false,
    };
    Peer::start(link, settings).0
}

async fn dropped_call(version: Version) -> (OutgoingKind, Vec<String>) {
    let (link, mut outgoing, _incoming) = http();
    let peer = peer_over(link);
    peer.set_version(version);
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
            Outgoing::RunRemaining(_) => "finish".to_owned(),
            Outgoing::Message(message) => message.raw.text().to_owned(),
        });
    }
    match sent {
        Some(Outgoing::Message(message)) => (message.kind, after),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn dis_25_dropped_call_is_cancelled_as_its_era_requires() {
    let request = |name: Option<&str>| OutgoingKind::Request {
        id: Id::Number(1),
        method: "tools/call".into(),
        name: name.map(Into::into),
    };
    let (kind, after) = dropped_call(Version::V2026_07_28).await;
    assert_eq!((kind, after), (request(Some("log")), vec!["abandon 1".to_owned()]));
    let (kind, after) = dropped_call(Version::V2025_11_25).await;
    assert_eq!((kind, after.len()), (request(None), 2));
    assert!(after[0].contains("notifications/cancelled"), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn broken_link_does_not_extend_the_call_deadline() {
    #[derive(Debug)]
    struct Endless;
    impl DirectTransport for Endless {
        fn start_exchange(&self, _: OutgoingMessage) -> Exchange {
            Exchange { work: Box::pin(std::future::pending()), arrived: oneshot::channel().1 }
        }
    }
    let (link, _outgoing, incoming) = http();
    let peer = peer_over(link.with_direct(Arc::new(Endless)));
    let started_at = Instant::now();
    let timeouts =
        CallTimeouts { request: Some(EXCHANGE_GRACE - Duration::from_secs(1)), max: None };
    let options = CallOptions { timeouts, is_direct: true, ..CallOptions::default() };
    let call = peer.call("tools/call", ObjectWriter::new().finish(), options);
    let fault = LinkFault::from_io("listen", std::io::ErrorKind::ConnectionReset.into());
    let breaks = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let closed = Incoming::Closed(CloseReason::Broken(fault));
        incoming.send(closed).await.unwrap();
    };
    let (outcome, ()) = tokio::join!(call, breaks);
    assert!(matches!(outcome, Err(PeerCallError::Closed(_))), "{outcome:?}");
    assert_eq!(started_at.elapsed(), EXCHANGE_GRACE - Duration::from_secs(1));
}

/// Closes the link before the exchange returns, and waits until the peer has seen that.
#[derive(Debug)]
struct Forgotten(mpsc::Sender<Incoming>, Arc<Mutex<Option<Peer>>>);

impl DirectTransport for Forgotten {
    fn start_exchange(&self, _: OutgoingMessage) -> Exchange {
        let (incoming, peer) = (self.0.clone(), self.1.lock().unwrap().clone().unwrap());
        let work = Box::pin(async move {
            let fault = LinkFault { operation: "x", cause: Arc::new(HttpFault::SessionGone) };
            let closed = Incoming::Closed(CloseReason::Broken(fault.clone()));
            incoming.try_send(closed).unwrap();
            let started_at = std::time::Instant::now();
            // Blocks this thread, so that the caller cannot see it first.
            while peer.in_flight() > 0 && started_at.elapsed() < Duration::from_secs(20) {
                std::thread::yield_now();
            }
            ExchangeOutcome::Failed(fault)
        });
        Exchange { work, arrived: oneshot::channel().1 }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_call_keeps_its_fault_when_the_link_ends() {
    let (link, _outgoing, incoming) = http();
    let known = Arc::default();
    let direct = Forgotten(incoming, Arc::clone(&known));
    let peer = peer_over(link.with_direct(Arc::new(direct)));
    *known.lock().unwrap() = Some(peer.clone());
    // The second call starts on a closed link, so nothing is sent.
    for call in ["first", "second"] {
        let options = CallOptions { is_direct: true, ..CallOptions::default() };
        let outcome = peer.call("tools/call", ObjectWriter::new().finish(), options).await;
        assert!(matches!(outcome, Err(PeerCallError::Failed(_))), "{call}: {outcome:?}");
    }
    known.lock().unwrap().take();
}

#[tokio::test]
async fn undelivered_request_fails_without_the_others() {
    let (link, mut outgoing, incoming) = http();
    let peer = peer_over(link);
    let call = |method| peer.call(method, ObjectWriter::new().finish(), CallOptions::default());
    let server = async {
        outgoing.recv().await;
        outgoing.recv().await;
        let fault = LinkFault::from_io("post a message", std::io::ErrorKind::TimedOut.into());
        let failed = Incoming::Failed { request: Id::Number(1), fault };
        incoming.send(failed).await.unwrap();
        let bytes = br#"{"jsonrpc":"2.0","id":2,"result":{}}"#;
        let packet = toolcrib_wire::parse(&bytes[..], &Default::default()).unwrap();
        let on = Some(Id::Number(2));
        incoming.send(Incoming::Packet { packet, on }).await.unwrap();
    };
    let (first, second, ()) = tokio::join!(call("a"), call("b"), server);
    assert!(matches!(first, Err(PeerCallError::Failed(_))), "{first:?}");
    second.unwrap();
}
