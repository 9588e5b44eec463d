//! Long strings sixty-four bytes at a time: most of a large message is one, and full of escapes.
//!
//! The idea is simdjson's: facts about a block are numbers with one bit a byte, and what is escaped follows
//! from them without a branch for each backslash. The compiler makes vector code of the comparisons.

const BLOCK: usize = 64;

/// Passes over the blocks from `at`, inside a string and not inside an escape, that hold neither its end nor
/// anything wrong. What remains begins there, and is at most a block and an escape longer than it has to be.
pub(crate) fn pass(bytes: &[u8], mut at: usize) -> usize {
    let mut carry = false;
    while let Some(block) = bytes[at..].first_chunk() {
        let Some(next) = is_inside(bytes, at, block, carry) else { break };
        carry = next;
        at += BLOCK;
    }
    at - usize::from(carry)
}

/// Whether the byte after the block is escaped; none if the string ends here or something is wrong. `carry`
/// tells whether the first byte is escaped.
fn is_inside(bytes: &[u8], at: usize, block: &[u8; BLOCK], carry: bool) -> Option<bool> {
    if !carry && !any(block, |byte| (byte == b'"') | (byte == b'\\') | (byte < b' ')) {
        return Some(false);
    }
    let (escaped, carry) = escaped(bits(block, |byte| byte == b'\\'), carry);
    let quotes = bits(block, |byte| byte == b'"') & !escaped;
    if quotes != 0 || any(block, |byte| byte < b' ') {
        return None;
    }
    let simple =
        bits(block, |byte| matches!(byte, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't'));
    let mut others = escaped & !simple;
    while others != 0 {
        let place = at + others.trailing_zeros() as usize;
        if !is_unicode_escape(&bytes[place..]) {
            return None;
        }
        others &= others - 1;
    }
    Some(carry)
}

/// What follows the backslash.
pub(crate) fn is_unicode_escape(bytes: &[u8]) -> bool {
    bytes.first() == Some(&b'u')
        && bytes.get(1..5).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit))
}

/// The bytes that stand after an odd number of backslashes, and whether the one after the last does.
fn escaped(backslashes: u64, carry: bool) -> (u64, bool) {
    const EVEN: u64 = u64::MAX / 3;
    // A backslash that is escaped begins nothing.
    let backslashes = backslashes & !u64::from(carry);
    let after = backslashes << 1 | u64::from(carry);
    // Adding a run's start to the run carries to its end; which of the two is even tells if the run is odd.
    let odd_starts = backslashes & !EVEN & !after;
    let (ends, overflow) = odd_starts.overflowing_add(backslashes);
    ((EVEN ^ (ends << 1)) & after, overflow)
}

fn any(block: &[u8; BLOCK], is: impl Fn(u8) -> bool) -> bool {
    block.iter().fold(false, |found, byte| found | is(*byte))
}

/// One bit a byte, the first lowest. The product gathers the lowest bit of each of eight bytes in the highest.
fn bits(block: &[u8; BLOCK], is: impl Fn(u8) -> bool) -> u64 {
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let flags = block.map(|byte| u8::from(is(byte)));
    let (eights, _) = flags.as_chunks();
    let gathered = eights.iter().map(|eight| u64::from_le_bytes(*eight).wrapping_mul(GATHER) >> 56);
    gathered.rev().fold(0, |bits, eight| bits << 8 | eight)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As far as a string goes without anything wrong, told the slow way; and where an escape begins.
    fn slowly(bytes: &[u8]) -> (usize, Vec<usize>) {
        let (mut at, mut escapes) = (0, Vec::new());
        while let Some(byte) = bytes.get(at) {
            let length = match byte {
                b'"' | 0..=0x1f => break,
                b'\\' => match bytes.get(at + 1) {
                    Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 2,
                    Some(_) if is_unicode_escape(&bytes[at + 1..]) => 6,
                    _ => break,
                },
                _ => 1,
            };
            if length > 1 {
                escapes.push(at);
            }
            at += length;
        }
        (at, escapes)
    }

    fn check(bytes: &[u8]) -> Result<(), TestCaseError> {
        let passed = pass(bytes, 0);
        let (end, escapes) = slowly(bytes);
        prop_assert!(passed <= end, "{passed} is beyond {end}");
        prop_assert!(end - passed <= BLOCK + 6, "{passed} is far from {end}");
        // Only hex digits of an escape may be what remains begins with: they are plain bytes by themselves.
        prop_assert!(!escapes.iter().any(|escape| passed == escape + 1), "inside an escape");
        Ok(())
    }

    proptest! {
        #[test]
        fn what_is_passed_is_fine_and_what_is_fine_is_passed(
            pieces in prop::collection::vec(prop::sample::select(vec![
                "a", "plain text of some length, ", "é", "\\\\", "\\\"", "\\n", "\\u00e9", "\\\\\\\\", "{}",
            ]), 0..80),
            end in prop::sample::select(vec!["\"", "\n", "\\x", "\\u00g0", "\\", "", "\\u00"]),
            rest in prop::collection::vec(prop::sample::select(b"a\\\"\nu0".to_vec()), 0..90),
        ) {
            check(&[pieces.concat().as_bytes(), end.as_bytes(), &rest].concat())?;
        }

        #[test]
        fn backslashes_of_any_number_at_any_place(before in 0_usize..130, count in 0_usize..140) {
            let text = ["a".repeat(before), "\\".repeat(count), "\"".to_owned(), "a".repeat(200)].concat();
            check(text.as_bytes())?;
        }
    }
}
