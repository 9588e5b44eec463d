//! Tests the network transports with a real server: `server-everything` of the TypeScript SDK.

use toolcrib_config::model::transport::Transport;
use toolcrib_wire::method;

use crate::everything_server::EverythingServer;
use crate::link_fixture::{
    INITIALIZE, LinkFixture, close, next_answer, notification, remote, request,
};

#[tokio::test]
async fn streamable_http_initializes_lists_tools_and_closes() {
    let server = EverythingServer::start("streamableHttp").await;
    let mut link = LinkFixture::new().http(&server.url("/mcp")).await;
    link.outbox.send(request(1, method::INITIALIZE, INITIALIZE)).await.unwrap();
    let (_, hello) = next_answer(&mut link).await;
    assert!(hello.text().contains("mcp-servers/everything"), "{}", hello.text());
    link.outbox.send(notification(method::INITIALIZED)).await.unwrap();
    link.outbox.send(request(2, method::TOOLS_LIST, "{}")).await.unwrap();
    let tools = server.count_tools(&mut link).await;
    assert!(tools > 5, "{tools} tools");
    close(link).await;
}

#[tokio::test]
async fn sse_initializes_lists_tools_and_closes() {
    let server = EverythingServer::start("sse").await;
    let mut link = LinkFixture::new().open(&Transport::Sse(remote(&server.url("/sse")))).await;
    link.outbox.send(request(1, method::INITIALIZE, INITIALIZE)).await.unwrap();
    let (_, hello) = next_answer(&mut link).await;
    assert!(hello.text().contains("mcp-servers/everything"), "{}", hello.text());
    link.outbox.send(notification(method::INITIALIZED)).await.unwrap();
    link.outbox.send(request(2, method::TOOLS_LIST, "{}")).await.unwrap();
    let tools = server.count_tools(&mut link).await;
    assert!(tools > 5, "{tools} tools");
    close(link).await;
}
