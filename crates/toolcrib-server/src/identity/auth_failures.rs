//! Counts wrong tokens per address. Above the limit the response is 429 instead of 401; valid tokens are not affected.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use super::rate_limiter::RateLimiter;

const MINUTE: Duration = Duration::from_secs(60);

/// Rate of wrong tokens per address.
#[derive(Debug, Default)]
pub(super) struct AuthFailures(RateLimiter<IpAddr>);

impl AuthFailures {
    /// Records a wrong token. Returns `false` if its address has exceeded `limit` per minute.
    pub(super) fn record(&self, peer: IpAddr, limit: u32) -> bool {
        self.0.try_acquire(&address_block(peer), limit, MINUTE).is_ok()
    }
}

/// The /64 block of an IPv6 address, because one client usually controls the whole block.
pub(crate) fn address_block(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn wrong_tokens_are_counted_per_address_block() {
        let failures = AuthFailures::default();
        let [here, same, other, old] =
            ["2001:db8::1", "2001:db8::2", "2001:db8:0:1::1", "::ffff:1.2.3.4"]
                .map(|address| address.parse().unwrap());
        assert!((0..3).all(|_| failures.record(here, 3)));
        assert!(!failures.record(here, 3) && !failures.record(same, 3));
        assert!(failures.record(other, 3) && failures.record(old, 3));
        assert_eq!(address_block(old), "1.2.3.4".parse::<IpAddr>().unwrap());
        tokio::time::advance(Duration::from_secs(21)).await;
        assert!(failures.record(here, 3), "one attempt refills in 20 seconds");
    }
}
