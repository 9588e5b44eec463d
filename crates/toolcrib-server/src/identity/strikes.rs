//! Counts wrong tokens for each address. Over the limit the answer is 429 instead of 401; valid tokens are not affected.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use super::rate::Rates;

const MINUTE: Duration = Duration::from_secs(60);

/// Wrong tokens of each address.
#[derive(Debug, Default)]
pub(super) struct Strikes(Rates<IpAddr>);

impl Strikes {
    /// Counts one more wrong token. False where its address is over `most` in a minute.
    pub(super) fn count_wrong(&self, peer: IpAddr, most: u32) -> bool {
        self.0.count(&block(peer), most, MINUTE).is_ok()
    }
}

/// Whoever has one IPv6 address has all of its block.
pub(crate) fn block(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn wrong_tokens_are_counted_for_each_address_block() {
        let strikes = Strikes::default();
        let [here, same, other, old] =
            ["2001:db8::1", "2001:db8::2", "2001:db8:0:1::1", "::ffff:1.2.3.4"]
                .map(|address| address.parse().unwrap());
        assert!((0..3).all(|_| strikes.count_wrong(here, 3)));
        assert!(!strikes.count_wrong(here, 3) && !strikes.count_wrong(same, 3));
        assert!(strikes.count_wrong(other, 3) && strikes.count_wrong(old, 3));
        assert_eq!(block(old), "1.2.3.4".parse::<IpAddr>().unwrap());
        tokio::time::advance(Duration::from_secs(21)).await;
        assert!(strikes.count_wrong(here, 3), "one comes back in a third of a minute");
    }
}
