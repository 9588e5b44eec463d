//! Tests of TLS connections to trusted and untrusted servers.

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
use toolcrib_testkit::http::{HttpServer, ScriptedResponse};
use toolcrib_testkit::websocket::{HandshakePolicy, SocketAction, WebSocketServer};
use toolcrib_upstream::transport::{HttpFault, OpenError, Tls};

use crate::link_fixture::{
    LinkFixture, chain, expect_result, http_fault, next_failure, remote, request, result_text,
};

/// TLS proxy in front of a plain server.
struct TlsProxy {
    port: u16,
    authority: CertificateDer<'static>,
    _accepting: JoinSet<()>,
}

impl TlsProxy {
    async fn start(server: SocketAddr) -> Self {
        let (authority, config) = issue_certificate("localhost");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut accepting = JoinSet::new();
        accepting.spawn(accept_connections(listener, TlsAcceptor::from(Arc::new(config)), server));
        Self { port, authority, _accepting: accepting }
    }

    /// A fixture that trusts the authority of this server.
    fn trusting_fixture(&self) -> LinkFixture {
        let mut scene = LinkFixture::new();
        scene.tls = Tls::with_authorities([self.authority.clone()]).unwrap();
        scene
    }
}

/// Creates an authority and a server configuration with its certificate for `name`.
fn issue_certificate(name: &str) -> (CertificateDer<'static>, ServerConfig) {
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

async fn accept_connections(listener: TcpListener, acceptor: TlsAcceptor, server: SocketAddr) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let acceptor = acceptor.clone();
        connections.spawn(async move {
            // A client that does not trust the authority disconnects.
            let Ok(mut inner) = acceptor.accept(stream).await else { return };
            let mut plain = TcpStream::connect(server).await.unwrap();
            let _ = tokio::io::copy_bidirectional(&mut inner, &mut plain).await;
        });
    }
}

#[tokio::test]
async fn https_accepts_a_trusted_authority() {
    let server = HttpServer::start(|_| ScriptedResponse::json(result_text(1, 7))).await.unwrap();
    let proxy = TlsProxy::start(server.address()).await;
    let url = format!("https://localhost:{}/mcp", proxy.port);
    let mut link = proxy.trusting_fixture().http(&url).await;
    link.outbox.send(request(1, "initialize", "{}")).await.unwrap();
    expect_result(&mut link, 1, 7).await;
    let host = format!("localhost:{}", proxy.port);
    assert_eq!(server.requests()[0].header("host"), Some(host.as_str()));
}

#[tokio::test]
async fn https_rejects_another_authority_or_name() {
    let server = HttpServer::start(|_| ScriptedResponse::json(result_text(1, 7))).await.unwrap();
    let proxy = TlsProxy::start(server.address()).await;
    let mut stranger = LinkFixture::new();
    stranger.tls = Tls::with_authorities([issue_certificate("localhost").0]).unwrap();
    for (scene, host, reason) in [
        (stranger, "localhost", "invalid peer certificate"),
        (proxy.trusting_fixture(), "127.0.0.1", "not valid for"),
    ] {
        let mut link = scene.http(&format!("https://{host}:{}/mcp", proxy.port)).await;
        link.outbox.send(request(1, "initialize", "{}")).await.unwrap();
        let (_, fault) = next_failure(&mut link).await;
        assert!(matches!(http_fault(&fault), HttpFault::Network(_)), "{fault:?}");
        assert!(chain(&fault).contains(reason), "{}", chain(&fault));
    }
    assert!(server.requests().is_empty(), "the server receives no request");
}

#[tokio::test]
async fn wss_requires_a_trusted_authority() {
    let server = WebSocketServer::start(HandshakePolicy::RequireMcp, |_| {
        vec![SocketAction::Send(result_text(1, 7))]
    });
    let server = server.await.unwrap();
    let proxy = TlsProxy::start(server.address()).await;
    let transport = Transport::WebSocket(remote(&format!("wss://localhost:{}/", proxy.port)));
    let mut link = proxy.trusting_fixture().open(&transport).await;
    link.outbox.send(request(1, "initialize", "{}")).await.unwrap();
    expect_result(&mut link, 1, 7).await;

    let mut stranger = LinkFixture::new();
    stranger.tls = Tls::with_authorities([issue_certificate("localhost").0]).unwrap();
    match stranger.try_open(&transport).await {
        Err(OpenError::Connect(fault)) => {
            assert!(chain(&fault).contains("invalid peer certificate"), "{}", chain(&fault));
        }
        other => panic!("{other:?}"),
    }
}
