//! Ways to reach a server: each opens a [`Link`], and what speaks over links knows no transport.
//!
//! One file each. A transport's reader may wait for the inbox of its link and for nothing else.

mod encoding;
mod link;
mod open;
mod stdio;
mod stream;

pub use encoding::{Encoding, UnknownEncoding};
pub use link::{
    CloseReason, Closer, Facts, Incoming, Link, LinkFault, Outbox, Outgoing, Outward, Room,
    SendError, What,
};
pub use open::{OpenError, Opening, Permissions, open};
pub use stream::{StreamSettings, over};
