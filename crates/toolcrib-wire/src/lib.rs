//! MCP messages as raw JSON: what routing needs is read, what policy asks for can be read, the rest stays bytes.
//!
//! Bytes come in as frames ([`Decoder`], [`SseDecoder`]) and become messages ([`parse`]). A message is read
//! where it stands ([`Body`], [`view`]), passed on with a few members changed ([`Rewrite`]), or built anew
//! ([`build`]). Nothing here does IO, and nothing that a peer sends makes it panic.
//!
//! ```
//! use toolcrib_wire::{Id, Limits, Message, Packet, parse};
//!
//! let line = br#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"git_log","arguments":{"n": 1.0}}}"#;
//! let Ok(Packet::One(Message::Request(call))) = parse(&line[..], &Limits::default()) else {
//!     panic!("a request");
//! };
//! let onward = call.rewrite().id(&Id::from("a-1")).name("log").finish();
//! assert_eq!(
//!     onward.text(),
//!     r#"{"jsonrpc":"2.0","id":"a-1","method":"tools/call","params":{"name":"log","arguments":{"n": 1.0}}}"#
//! );
//! ```

mod again;
mod decoder;
mod draft;
mod envelope;
mod frame;
mod id;
mod json;
mod key;
mod known;
mod limits;
mod long_string;
mod malformed;
mod map_strings;
mod member;
mod nest;
mod object;
mod outline;
mod parse;
mod plain;
mod raw;
mod rewrite;
mod rpc_error;
mod scan;
mod splice;
mod sse;
#[cfg(test)]
mod testing;
mod text;
mod version;
mod wrong;

pub mod base64;
pub mod build;
pub mod handshake;
pub mod header;
pub mod meta;
pub mod method;
pub mod notice;
pub mod param_header;
pub mod subscription;
pub mod view;

pub use again::said_again;
pub use decoder::{Decoder, Overrun};
pub use envelope::{Body, Message, Notification, Packet, Request, Response};
pub use frame::{Frame, FrameError, Framing};
pub use id::{BadId, Id, ProgressToken};
pub use json::{Items, Json, Kind, Members};
pub use limits::Limits;
pub use malformed::{Fault, Malformed, Shape};
pub use map_strings::StringKind;
pub use object::ObjectWriter;
pub use parse::{parse, parse_holding, recover_id};
pub use raw::{Held, Raw};
pub use rewrite::Rewrite;
pub use rpc_error::{RpcError, code};
pub use sse::{KEEP_ALIVE, SseDecoder, SseEvent, SseItem, SseTooLarge, write_retry};
pub use version::{Cancel, Channel, Era, Version};
