//! A server on the Rust SDK, of either era of the protocol: `rmcp-peer legacy|modern|both stdio|http`. And a client
//! that talks to `toolcrib demo-server`: `rmcp-peer client legacy|modern URL|PROGRAM ARGS…`.
//!
//! Over HTTP the server listens on a free loopback port and says its address in one line on stdout. It ends
//! when its stdin ends, either way, so that it cannot outlive the test that started it.

mod client;
mod server;
mod tools;

use std::env;
use std::error::Error;
use std::sync::Arc;

use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use rmcp::ServiceExt;
use rmcp::model::ProtocolVersion;
use rmcp::transport::stdio;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use server::Server;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

type Fallible = Result<(), Box<dyn Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Fallible {
    let words: Vec<String> = env::args().skip(1).collect();
    if let [first, era, target, args @ ..] = words.as_slice()
        && first == "client"
    {
        client::run(era, target, args).await?;
        return say("all as it should be\n").await;
    }
    let [era, transport] = words.as_slice() else { return Err(USAGE.into()) };
    let server = Server::new(versions(era)?);
    match transport.as_str() {
        "stdio" => over_stdio(server).await,
        "http" => tokio::select! {
            ended = over_http(server) => ended,
            () = stdin_ends() => Ok(()),
        },
        _ => Err(USAGE.into()),
    }
}

const USAGE: &str =
    "usage: rmcp-peer legacy|modern|both stdio|http, rmcp-peer client legacy|modern TARGET";

fn versions(era: &str) -> Result<&'static [ProtocolVersion], Box<dyn Error>> {
    match era {
        "legacy" => Ok(ProtocolVersion::known_up_to(&ProtocolVersion::V_2025_11_25)),
        "modern" => Ok(&[ProtocolVersion::V_2026_07_28]),
        "both" => Ok(ProtocolVersion::KNOWN_VERSIONS),
        _ => Err(USAGE.into()),
    }
}

async fn over_stdio(server: Server) -> Fallible {
    server.serve(stdio()).await?.waiting().await?;
    Ok(())
}

async fn over_http(server: Server) -> Fallible {
    let sessions = Arc::new(LocalSessionManager::default());
    let make = move || Ok(server.clone());
    let service = StreamableHttpService::new(make, sessions, StreamableHttpServerConfig::default());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    say(&format!("http://{}/mcp\n", listener.local_addr()?)).await?;
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let service = TowerToHyperService::new(service.clone());
        connections.spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        while connections.try_join_next().is_some() {}
    }
}

async fn say(line: &str) -> Fallible {
    let mut stdout = tokio::io::stdout();
    stdout.write_all(line.as_bytes()).await?;
    stdout.flush().await?;
    Ok(())
}

async fn stdin_ends() {
    let mut rest = [0; 1024];
    while let Ok(1..) = tokio::io::stdin().read(&mut rest).await {}
}
