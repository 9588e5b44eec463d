//! A real server: the TypeScript SDK's `server-everything`.

use toolcrib_wire::method;

use crate::everything::Everything;
use crate::remote::{INITIALIZE, Scene, answer, close, notification, request};

#[tokio::test]
async fn everything_is_opened_listed_and_closed() {
    let server = Everything::start("streamableHttp").await;
    let mut link = Scene::new().http(&server.url("/mcp")).await;
    link.outbox.send(request(1, method::INITIALIZE, INITIALIZE)).await.unwrap();
    let (_, hello) = answer(&mut link).await;
    assert!(hello.text().contains("mcp-servers/everything"), "{}", hello.text());
    link.outbox.send(notification(method::INITIALIZED)).await.unwrap();
    link.outbox.send(request(2, method::TOOLS_LIST, "{}")).await.unwrap();
    let tools = server.tools(&mut link).await;
    assert!(tools > 5, "{tools} tools");
    close(link).await;
}
