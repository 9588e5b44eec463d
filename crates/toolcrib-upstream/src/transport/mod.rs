//! Transports: each opens a [`Link`], so that the layers above know no transport.
//!
//! One file per transport. The reader of a transport may wait for the inbox of its link and for nothing else.

mod byte_stream;
mod diagnosis;
mod direct_exchange;
mod docker_exec;
mod encoding;
mod event_stream;
mod fetch;
mod http_client;
mod http_fault;
mod http_response;
mod http_session;
mod link;
mod open;
mod remote_target;
mod request_waiter;
mod session_state;
mod sse;
mod stdio;
mod streamable_http;
mod tls;
mod token_provider;
mod websocket;

pub use byte_stream::{StreamSettings, link_over_streams};
pub(crate) use diagnosis::{diagnose, probe};
pub use direct_exchange::{
    DirectResponse, DirectTransport, Exchange, ExchangeOutcome, StaticBoxFuture,
};
pub use docker_exec::{ContainersReaped, DockerFault, reap_containers};
pub use encoding::{Encoding, UnknownEncoding};
pub(crate) use fetch::fetch_document_with_headers;
pub use fetch::{FetchError, build_client, fetch_document};
pub(crate) use http_client::HTTP_SCHEMES;
pub use http_fault::HttpFault;
pub use link::{
    CloseReason, Closer, Incoming, Link, LinkFault, LinkInfo, Outbox, OutboxPermit, Outgoing,
    OutgoingKind, OutgoingMessage, RemainingWork, SendError,
};
pub use open::{OpenContext, OpenError, Permissions, open};
pub use remote_target::Credentials;
pub(crate) use remote_target::{http_remote, resolve_remote, resolve_with_credentials};
pub use stdio::program_candidates;
pub use tls::Tls;
pub use token_provider::{BoxFuture, Denial, TokenError, TokenErrorKind, TokenProvider};
