//! Client end: pooled connections without TLS that the caller drives.

mod body_decoder;
mod connection_pool;
mod http_connection;
mod malformed_response;
mod request_template;
mod response_head;

pub use connection_pool::{ConnectionPool, PoolOptions};
pub use http_connection::{BodyReader, BoxError};
pub use malformed_response::MalformedResponse;
pub use request_template::RequestTemplate;
pub use response_head::ResponseHead;
