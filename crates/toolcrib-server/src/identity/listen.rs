//! Which addresses may be listened on.

use std::net::SocketAddr;

/// An address that others can reach, and nothing that tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0} can be reached by others, and nobody is told apart: listen on 127.0.0.1, make a token with \
     `toolcrib token new`, or set gateway.oauth with issuer and audience"
)]
pub struct Unsafe(pub SocketAddr);

/// Others may reach the host only where it is known who they are.
pub fn check_listen(address: SocketAddr, is_protected: bool) -> Result<(), Unsafe> {
    match address.ip().is_loopback() || is_protected {
        true => Ok(()),
        false => Err(Unsafe(address)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_others_reach_needs_tokens_or_an_issuer() {
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
