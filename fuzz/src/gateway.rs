//! What must hold for everything that clients send to a gateway, whatever its bytes are.

use std::cell::RefCell;
use std::net::SocketAddr;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use toolcrib::Host;
use toolcrib_server::front::{Front, Loops};
use toolcrib_server::identity::Identity;
use toolcrib_testkit::foreign;

/// A session is used for so many inputs; inputs open sessions as well, and all of them end when they are idle.
const USES: usize = 256;

/// Sends `bytes` to a gateway that outlives them. A panic in it ends the process, whichever task has it. It ends with the
/// process: what a runtime needs to be dropped is gone when libFuzzer leaves.
pub fn check(bytes: &[u8]) {
    type Slot = RefCell<Option<&'static mut Crib>>;
    thread_local!(static CRIB: Slot = const { RefCell::new(None) });
    CRIB.with_borrow_mut(|crib| {
        crib.get_or_insert_with(|| Box::leak(Box::new(Crib::new()))).check(bytes);
    });
}

/// A host without servers, its gateway, and a session that inputs may use.
struct Crib {
    runtime: Runtime,
    address: SocketAddr,
    session: String,
    used: usize,
    _folder: TempDir,
    _serving: JoinSet<()>,
}

impl Crib {
    fn new() -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let folder = tempfile::tempdir().expect("a folder");
        let (root, state) = (folder.path().join("root"), folder.path().join("state"));
        std::fs::create_dir(&root).expect("a root");
        let file = json!({"version": 1, "servers": {}, "gateway": {"limits": {"sessions": 0, "idle": "10s"}}});
        std::fs::write(root.join("toolcrib.yaml"), file.to_string()).expect("a configuration");
        let mut serving = JoinSet::new();
        let address = runtime.block_on(async {
            let host = Host::builder(root, state).start().await.expect("a host");
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("an address");
            let address = listener.local_addr().expect("an address");
            let front = Front::new(host, Identity::default());
            serving.spawn(async move { front.serve(listener, &Loops::default()).await });
            address
        });
        let session = runtime.block_on(open(address));
        Crib { runtime, address, session, used: 0, _folder: folder, _serving: serving }
    }

    fn check(&mut self, bytes: &[u8]) {
        self.used += 1;
        if self.used.is_multiple_of(USES) {
            self.session = self.runtime.block_on(open(self.address));
        }
        let checked = self.runtime.block_on(foreign::check(self.address, &self.session, bytes));
        if let Err(wrong) = checked {
            panic!("{wrong}");
        }
    }
}

async fn open(address: SocketAddr) -> String {
    let opening: Value = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "fuzz", "version": "1"}},
    });
    let opening = opening.to_string();
    let request = format!(
        "POST /mcp HTTP/1.0\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{opening}",
        opening.len()
    );
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    let session = answer.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
    session.expect("a session").to_owned()
}
