//! Decides which addresses the host may listen on.

use std::net::SocketAddr;

/// Error: the address is public and the host has no authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "cannot listen on the public address {0} without authentication: listen on 127.0.0.1, create a token with \
     `toolcrib token new`, or set gateway.oauth with issuer and audience"
)]
pub struct UnprotectedAddress(pub SocketAddr);

/// Rejects public addresses unless the host is protected.
pub fn check_listen(address: SocketAddr, is_protected: bool) -> Result<(), UnprotectedAddress> {
    match address.ip().is_loopback() || is_protected {
        true => Ok(()),
        false => Err(UnprotectedAddress(address)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_address_requires_protection() {
        for (address, is_protected, good) in [
            ("127.0.0.1:1", false, true),
            ("[::1]:1", false, true),
            ("0.0.0.0:1", false, false),
            ("[::]:1", false, false),
            ("192.0.2.1:1", false, false),
            ("0.0.0.0:1", true, true),
            ("192.0.2.1:1", true, true),
        ] {
            let checked = check_listen(address.parse().unwrap(), is_protected);
            assert_eq!(checked.is_ok(), good, "{address}");
            if let Err(error) = checked {
                assert!(error.to_string().contains("toolcrib token new"), "{error}");
            }
        }
    }
}
