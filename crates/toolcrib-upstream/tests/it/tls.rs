//! Encrypted connections: to whom they are made, and to whom not.

use std::net::SocketAddr;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use toolcrib_config::model::transport::Transport;
use toolcrib_testkit::http::{HttpServer, Reply};
use toolcrib_testkit::websocket::{Act, Greeting, WebSocketServer};
use toolcrib_upstream::transport::{HttpFault, OpenError, Tls};

use crate::remote::{Scene, chain, expect_result, failure, http_fault, remote, request, result};

/// Encrypts the way to a server that does not: what it decrypts it hands on.
struct Encrypted {
    port: u16,
    authority: CertificateDer<'static>,
    _accepting: JoinSet<()>,
}

impl Encrypted {
    async fn before(server: SocketAddr) -> Self {
        let (authority, config) = certified("localhost");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, TlsAcceptor::from(Arc::new(config)), server));
        Self { port, authority, _accepting: accepting }
    }

    /// A host that trusts the authority of this server.
    fn trusted(&self) -> Scene {
        let mut scene = Scene::new();
        scene.tls = Tls::trusting([self.authority.clone()]).unwrap();
        scene
    }
}

/// A new authority, and a server by this name that it vouches for.
fn certified(name: &str) -> (CertificateDer<'static>, ServerConfig) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&key).unwrap();
    let issuer = Issuer::new(params, key);
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new([name.to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key.into());
    (authority.der().clone(), config.unwrap())
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, server: SocketAddr) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let acceptor = acceptor.clone();
        connections.spawn(async move {
            // A client that does not trust us hangs up.
            let Ok(mut inner) = acceptor.accept(stream).await else { return };
            let mut plain = TcpStream::connect(server).await.unwrap();
            let _ = tokio::io::copy_bidirectional(&mut inner, &mut plain).await;
        });
    }
}

#[tokio::test]
async fn https_reaches_a_server_whose_authority_is_trusted() {
    let server = HttpServer::start(|_| Reply::json(result(1, 7))).await.unwrap();
    let encrypted = Encrypted::before(server.address()).await;
    let url = format!("https://localhost:{}/mcp", encrypted.port);
    let mut link = encrypted.trusted().http(&url).await;
    link.outbox.send(request(1, "initialize", "{}")).await.unwrap();
    expect_result(&mut link, 1, 7).await;
    let host = format!("localhost:{}", encrypted.port);
    assert_eq!(server.requests()[0].header("host"), Some(host.as_str()));
}

#[tokio::test]
async fn https_refuses_a_server_of_another_authority_or_name() {
    let server = HttpServer::start(|_| Reply::json(result(1, 7))).await.unwrap();
    let encrypted = Encrypted::before(server.address()).await;
    let mut stranger = Scene::new();
    stranger.tls = Tls::trusting([certified("localhost").0]).unwrap();
    for (scene, host, reason) in [
        (stranger, "localhost", "invalid peer certificate"),
        (encrypted.trusted(), "127.0.0.1", "not valid for"),
    ] {
        let mut link = scene.http(&format!("https://{host}:{}/mcp", encrypted.port)).await;
        link.outbox.send(request(1, "initialize", "{}")).await.unwrap();
        let (_, fault) = failure(&mut link).await;
        assert!(matches!(http_fault(&fault), HttpFault::Network(_)), "{fault:?}");
        assert!(chain(&fault).contains(reason), "{}", chain(&fault));
    }
    assert!(server.requests().is_empty(), "nothing was said to it");
}

#[tokio::test]
async fn wss_reaches_a_server_whose_authority_is_trusted_and_no_other() {
    let server = WebSocketServer::start(Greeting::Mcp, |_| vec![Act::Send(result(1, 7))]);
    let server = server.await.unwrap();
    let encrypted = Encrypted::before(server.address()).await;
    let transport = Transport::WebSocket(remote(&format!("wss://localhost:{}/", encrypted.port)));
    let mut link = encrypted.trusted().open(&transport).await;
    link.outbox.send(request(1, "initialize", "{}")).await.unwrap();
    expect_result(&mut link, 1, 7).await;

    let mut stranger = Scene::new();
    stranger.tls = Tls::trusting([certified("localhost").0]).unwrap();
    match stranger.try_open(&transport).await {
        Err(OpenError::Connect(fault)) => {
            assert!(chain(&fault).contains("invalid peer certificate"), "{}", chain(&fault));
        }
        other => panic!("{other:?}"),
    }
}
