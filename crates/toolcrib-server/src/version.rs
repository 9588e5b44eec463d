//! What a server makes of the version that a client speaks.

use toolcrib_wire::method::{self, Sender};
use toolcrib_wire::{RpcError, Version};

/// Everything that is spoken here, newest first.
pub fn spoken() -> Vec<Version> {
    Version::KNOWN.into_iter().rev().collect()
}

/// Refuses what a client's version of the protocol does not have; almost all, where it has not said which one.
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
        Some(Sender::Client | Sender::Either) => Ok(()),
        _ => Err(RpcError::method_not_found(method)),
    }
}
