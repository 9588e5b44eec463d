//! The place of a call in a trace, as clients and servers tell it each other (W3C Trace Context).

use std::fmt;

/// The keys of `_meta`, and the headers, that tell it.
pub(crate) const PARENT: &str = "traceparent";
pub(crate) const STATE: &str = "tracestate";

/// One span of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Context {
    pub(super) trace: u128,
    pub(super) span: u64,
    flags: u8,
}

impl Context {
    /// The beginning of a trace that is recorded; nothing where there is no randomness.
    pub(super) fn fresh() -> Option<Self> {
        let (high, low) = (getrandom::u64().ok()?, getrandom::u64().ok()?);
        let trace = u128::from(high) << 64 | u128::from(low);
        Some(Context { trace: trace.max(1), span: getrandom::u64().ok()?.max(1), flags: 1 })
    }

    /// A span below this one.
    pub(super) fn child(self) -> Option<Self> {
        Some(Context { span: getrandom::u64().ok()?.max(1), ..self })
    }

    /// Whether whoever began the trace wants it to be recorded.
    pub(super) fn is_recorded(self) -> bool {
        self.flags & 1 == 1
    }

    /// What `traceparent` says; nothing where that is not well-formed, since a trace must not be mended.
    pub(super) fn read(text: &str) -> Option<Self> {
        let digits = |text: &str, count: usize| {
            let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
            text.len() == count && text.bytes().all(is_hex)
        };
        let mut parts = text.split('-');
        let [version, trace, span, flags] = [(); 4].map(|()| parts.next().unwrap_or_default());
        let is_good =
            digits(version, 2) && digits(trace, 32) && digits(span, 16) && digits(flags, 2);
        // Later versions may say more; this one does not.
        let is_over = version != "00" || parts.next().is_none();
        if !is_good || version == "ff" || !is_over {
            return None;
        }
        let trace = u128::from_str_radix(trace, 16).ok().filter(|it| *it != 0)?;
        let span = u64::from_str_radix(span, 16).ok().filter(|it| *it != 0)?;
        Some(Context { trace, span, flags: u8::from_str_radix(flags, 16).ok()? })
    }
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Context { trace, span, flags } = self;
        write!(f, "00-{trace:032x}-{span:016x}-{flags:02x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_well_formed_is_read_and_it_is_written_as_it_was() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";
        let read = Context::read(good).unwrap();
        assert_eq!((read.to_string().as_str(), read.is_recorded()), (good, true));
        let child = read.child().unwrap();
        assert_eq!((child.trace, child.flags), (read.trace, read.flags));
        assert_ne!(child.span, read.span);
        assert!(!Context::read(&good.replace("-01", "-00")).unwrap().is_recorded());
        let later = format!("cc{}-more", &good[2..]);
        assert_eq!(Context::read(&later), Some(read));
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
            assert_eq!(Context::read(&bad), None, "{bad}");
        }
        assert_ne!(Context::fresh(), Context::fresh());
    }
}
