//! Protocol versions that the gateway supports, and the methods of each.

use toolcrib_wire::method::{self, MethodSender};
use toolcrib_wire::{RpcError, Version};

/// All supported protocol versions, newest first.
pub fn supported_versions() -> Vec<Version> {
    Version::KNOWN.into_iter().rev().collect()
}

/// Rejects methods that the client's version does not have. A client without a version may only call `initialize` and
/// `ping`.
pub fn check_method(version: Option<&Version>, method: &str) -> Result<(), RpcError> {
    let Some(version) = version else {
        return match method {
            method::INITIALIZE | method::PING => Ok(()),
            _ => Err(RpcError::invalid_params(
                "send `initialize` first, or name the protocol version in `_meta`",
            )),
        };
    };
    match method::sender(method, version) {
        Some(MethodSender::Client | MethodSender::Either) => Ok(()),
        _ => Err(RpcError::method_not_found(method)),
    }
}
