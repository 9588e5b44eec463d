//! Checks the gateway's response to arbitrary client input.

use std::cell::RefCell;
use std::net::SocketAddr;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use toolcrib::Host;
use toolcrib_server::front::{Front, WorkerThreads};
use toolcrib_server::identity::Identity;
use toolcrib_testkit::gateway_input;

/// Number of inputs per session. Inputs also open sessions, and all sessions end when they are idle.
const INPUTS_PER_SESSION: usize = 256;

/// Sends `bytes` to a gateway that outlives the input. A panic in any of its tasks ends the process. The
/// gateway is never dropped, because the runtime's dependencies are gone when libFuzzer exits.
pub fn check(bytes: &[u8]) {
    type FixtureSlot = RefCell<Option<&'static mut GatewayFixture>>;
    thread_local!(static FIXTURE: FixtureSlot = const { RefCell::new(None) });
    FIXTURE.with_borrow_mut(|fixture| {
        fixture.get_or_insert_with(|| Box::leak(Box::new(GatewayFixture::new()))).check(bytes);
    });
}

/// A host without servers, its gateway and a session for the inputs.
struct GatewayFixture {
    runtime: Runtime,
    address: SocketAddr,
    session: String,
    input_count: usize,
    _folder: TempDir,
    _server_task: JoinSet<()>,
}

impl GatewayFixture {
    fn new() -> Self {
        let runtime =
            Builder::new_current_thread().enable_all().build().expect("cannot build the runtime");
        let folder = tempfile::tempdir().expect("cannot create a folder");
        let (root, state) = (folder.path().join("root"), folder.path().join("state"));
        std::fs::create_dir(&root).expect("cannot create the root folder");
        let file = json!({"version": 1, "servers": {}, "gateway": {"limits": {"sessions": 0, "idle": "10s"}}});
        std::fs::write(root.join("toolcrib.yaml"), file.to_string())
            .expect("cannot write the configuration");
        let mut server_task = JoinSet::new();
        let address = runtime.block_on(async {
            let host = Host::builder(root, state).start().await.expect("cannot start the host");
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("cannot listen");
            let address = listener.local_addr().expect("the listener has no address");
            let front = Front::new(host, Identity::default());
            server_task
                .spawn(async move { front.serve(listener, &WorkerThreads::default()).await });
            address
        });
        let session = runtime.block_on(open_session(address));
        GatewayFixture {
            runtime,
            address,
            session,
            input_count: 0,
            _folder: folder,
            _server_task: server_task,
        }
    }

    fn check(&mut self, bytes: &[u8]) {
        self.input_count += 1;
        if self.input_count.is_multiple_of(INPUTS_PER_SESSION) {
            self.session = self.runtime.block_on(open_session(self.address));
        }
        let checked =
            self.runtime.block_on(gateway_input::send_input(self.address, &self.session, bytes));
        if let Err(failure) = checked {
            panic!("{failure}");
        }
    }
}

async fn open_session(address: SocketAddr) -> String {
    let initialize: Value = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "fuzz", "version": "1"}},
    });
    let initialize = initialize.to_string();
    let request = format!(
        "POST /mcp HTTP/1.0\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{initialize}",
        initialize.len()
    );
    let mut stream = TcpStream::connect(address).await.expect("cannot connect to the gateway");
    stream.write_all(request.as_bytes()).await.expect("cannot send the request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("cannot read the response");
    let session = answer.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
    session.expect("the response has no session id").to_owned()
}
