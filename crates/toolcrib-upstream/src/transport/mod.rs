//! Transports: each opens a [`Link`], so that the layers above know no transport.
//!
//! One file per transport. The reader of a transport may wait for the inbox of its link and for nothing else.

mod http_response;
mod body_decoder;
mod diagnosis;
mod docker_exec;
mod encoding;
mod event_stream;
mod direct_exchange;
mod fetch;
mod malformed_response;
mod response_head;
mod http_client;
mod http_fault;
mod http_session;
mod session_state;
mod http_connection;
mod connection_pool;
mod link;
mod open;
mod request_template;
mod remote_target;
mod sse;
mod stdio;
mod byte_stream;
mod streamable_http;
mod tls;
mod token_provider;
mod request_waiter;
mod websocket;

pub(crate) use diagnosis::{diagnose, probe};
pub use docker_exec::{ContainersReaped, DockerFault, reap_containers};
pub use encoding::{Encoding, UnknownEncoding};
pub use direct_exchange::{DirectResponse, DirectTransport, Exchange, ExchangeOutcome, StaticBoxFuture};
pub(crate) use fetch::fetch_document_with_headers;
pub use fetch::{FetchError, build_client, fetch_document};
pub(crate) use http_client::HTTP_SCHEMES;
pub use http_fault::HttpFault;
pub use link::{
    CloseReason, Closer, LinkInfo, RemainingWork, Incoming, Link, LinkFault, Outbox, Outgoing, OutgoingMessage, OutboxPermit,
    SendError, OutgoingKind,
};
pub use open::{OpenError, OpenContext, Permissions, open};
pub use remote_target::Credentials;
pub(crate) use remote_target::{resolve_with_credentials, http_remote, resolve_remote};
pub use stdio::program_candidates;
pub use byte_stream::{StreamSettings, link_over_streams};
pub use tls::Tls;
pub use token_provider::{BoxFuture, Denial, TokenError, TokenProvider, TokenErrorKind};
