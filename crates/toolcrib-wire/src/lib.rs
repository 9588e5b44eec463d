//! MCP messages as raw JSON: what routing needs is read, what policy asks for can be read, the rest stays bytes.
//!
//! Bytes come in as frames ([`FrameDecoder`], [`SseDecoder`]) and become messages ([`parse`]). A message is read
//! where it stands ([`Body`], [`view`]), passed on with another id ([`Request::with_id`]), or built anew ([`build`]). Nothing here does IO, and nothing that a peer sends makes it panic.
//!
//! ```
//! use toolcrib_wire::{Id, MessageLimits, Message, Packet, parse};
//!
//! let line = br#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"git_log","arguments":{"n": 1.0}}}"#;
//! let Ok(Packet::One(Message::Request(call))) = parse(&line[..], &MessageLimits::default()) else {
//!     panic!("a request");
//! };
//! let onward = call.with_id(&Id::from("a-1"));
//! assert_eq!(
//!     onward.text(),
//!     r#"{"jsonrpc":"2.0","id":"a-1","method":"tools/call","params":{"name":"git_log","arguments":{"n": 1.0}}}"#
//! );
//! ```

mod bracket_stack;
mod decoder;
mod envelope;
mod frame;
mod id;
mod json;
mod key;
mod limits;
mod long_string;
mod map_strings;
mod member;
mod message_index;
mod object_writer;
mod outline;
mod parse;
mod parse_error;
mod plain_bytes;
mod quoting;
mod raw_json;
mod rpc_error;
mod scan_error;
mod scanner;
mod skip_value;
mod splice;
mod sse;
#[cfg(test)]
mod test_support;
mod version;

pub mod base64;
pub mod build;
pub mod handshake;
pub mod header;
pub mod meta;
pub mod method;
pub mod notification;
pub mod param_header;
pub mod subscription;
pub mod view;

pub use decoder::{FrameDecoder, FrameTooLarge};
pub use envelope::{Body, Message, Notification, Packet, Request, Response};
pub use frame::{Frame, FrameError, Framing};
pub use id::{Id, IdError, ProgressToken};
pub use json::{Items, Json, JsonKind, Members};
pub use limits::MessageLimits;
pub use map_strings::StringKind;
pub use object_writer::ObjectWriter;
pub use parse::{parse, parse_with_guard, recover_id};
pub use parse_error::{MalformedMessage, MessageKind, ParseError};
pub use raw_json::{RawJson, TextGuard};
pub use rpc_error::{RpcError, code};
pub use sse::{KEEP_ALIVE, SseDecoder, SseEvent, SseItem, SseTooLarge};
pub use version::{CancelMethod, Channel, Era, Version};
