//! Ways to reach a server: each opens a [`Link`], and what speaks over links knows no transport.
//!
//! One file each. A transport's reader may wait for the inbox of its link and for nothing else.

mod answer;
mod decoder;
mod diagnosis;
mod docker_exec;
mod encoding;
mod event_stream;
mod exchange;
mod fetch;
mod garbled;
mod head;
mod http;
mod http_fault;
mod http_session;
mod known;
mod lane;
mod lanes;
mod link;
mod open;
mod posting;
mod remote;
mod sse;
mod stdio;
mod stream;
mod streamable_http;
mod tls;
mod tokens;
mod waiting;
mod websocket;

pub(crate) use diagnosis::{diagnose, look};
pub use docker_exec::{ContainersReaped, DockerFault, reap_containers};
pub use encoding::{Encoding, UnknownEncoding};
pub use exchange::{Alone, Direct, Exchange, Went, Work};
pub(crate) use fetch::fetch_with;
pub use fetch::{FetchError, client, fetch};
pub(crate) use http::SCHEMES;
pub use http_fault::HttpFault;
pub use link::{
    CloseReason, Closer, Facts, Finish, Incoming, Link, LinkFault, Outbox, Outgoing, Outward, Room,
    SendError, What,
};
pub use open::{OpenError, Opening, Permissions, open};
pub use remote::Credentials;
pub(crate) use remote::{dressed, remote_of, resolved};
pub use stdio::program_files;
pub use stream::{StreamSettings, over};
pub use tls::Tls;
pub use tokens::{Coming, Denial, NoToken, Tokens, Trouble};
