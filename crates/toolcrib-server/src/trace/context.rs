//! W3C trace context of a call.

use std::fmt;

/// Keys in `_meta`, and names of HTTP headers.
pub(crate) const TRACEPARENT: &str = "traceparent";
pub(crate) const TRACESTATE: &str = "tracestate";

/// Trace context of one span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TraceParent {
    pub(super) trace: u128,
    pub(super) span: u64,
    flags: u8,
}

impl TraceParent {
    /// Starts a sampled trace; `None` without randomness.
    pub(super) fn new_root() -> Option<Self> {
        let (high, low) = (getrandom::u64().ok()?, getrandom::u64().ok()?);
        let trace = u128::from(high) << 64 | u128::from(low);
        Some(TraceParent { trace: trace.max(1), span: getrandom::u64().ok()?.max(1), flags: 1 })
    }

    /// A child span in the same trace.
    pub(super) fn child(self) -> Option<Self> {
        Some(TraceParent { span: getrandom::u64().ok()?.max(1), ..self })
    }

    /// Returns whether the trace is sampled.
    pub(super) fn is_recorded(self) -> bool {
        self.flags & 1 == 1
    }

    /// Parses a `traceparent` value; `None` if it is malformed, because a trace must not be repaired.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let digits = |text: &str, count: usize| {
            let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
            text.len() == count && text.bytes().all(is_hex)
        };
        let mut parts = text.split('-');
        let [version, trace, span, flags] = [(); 4].map(|()| parts.next().unwrap_or_default());
        let is_good =
            digits(version, 2) && digits(trace, 32) && digits(span, 16) && digits(flags, 2);
        // Later versions may append fields; version 00 must not.
        let is_over = version != "00" || parts.next().is_none();
        if !is_good || version == "ff" || !is_over {
            return None;
        }
        let trace = u128::from_str_radix(trace, 16).ok().filter(|it| *it != 0)?;
        let span = u64::from_str_radix(span, 16).ok().filter(|it| *it != 0)?;
        Some(TraceParent { trace, span, flags: u8::from_str_radix(flags, 16).ok()? })
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TraceParent { trace, span, flags } = self;
        write!(f, "00-{trace:032x}-{span:016x}-{flags:02x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traceparent_round_trips_and_rejects_malformed_text() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";
        let read = TraceParent::parse(good).unwrap();
        assert_eq!((read.to_string().as_str(), read.is_recorded()), (good, true));
        let child = read.child().unwrap();
        assert_eq!((child.trace, child.flags), (read.trace, read.flags));
        assert_ne!(child.span, read.span);
        assert!(!TraceParent::parse(&good.replace("-01", "-00")).unwrap().is_recorded());
        let later = format!("cc{}-more", &good[2..]);
        assert_eq!(TraceParent::parse(&later), Some(read));
        for bad in [
            String::new(),
            good.to_uppercase(),
            good[1..].to_owned(),
            format!("{good}-more"),
            format!("ff{}", &good[2..]),
            good.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            good.replace("00f067aa0ba902b7", &"0".repeat(16)),
            good.replace("0af7", "+af7"),
        ] {
            assert_eq!(TraceParent::parse(&bad), None, "{bad}");
        }
        assert_ne!(TraceParent::new_root(), TraceParent::new_root());
    }
}
