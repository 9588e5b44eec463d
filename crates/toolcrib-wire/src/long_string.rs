//! Strings that are not just plain; long ones sixty-four bytes at a time: most of a large message is one, and full of
//! escapes.
//!
//! The idea is simdjson's: facts about a block are numbers with one bit a byte, and what is escaped follows
//! from them without a branch for each backslash.

use wide::u8x16;

use crate::plain;
use crate::wrong::Wrong;

const BLOCK: usize = 64;

/// Most keys and words are no longer; whole blocks of them would be looked at in vain.
const SHORT: usize = 96;

/// Where a string ends, from its first byte that is not plain, or where something is wrong with it.
#[inline(never)]
pub(crate) fn end(bytes: &[u8], start: usize, mut at: usize) -> (usize, Option<Wrong>) {
    let mut is_long = false;
    loop {
        if !is_long && at - start > SHORT {
            is_long = true;
            at = plain::run(bytes, pass(bytes, at));
        }
        let length = match bytes.get(at) {
            Some(b'"') => return (at + 1, None),
            Some(b'\\') => match escape_length(&bytes[at..]) {
                Some(length) => length,
                None => return (at, Some(Wrong::UnknownEscape)),
            },
            Some(_) => return (at, Some(Wrong::ControlCharacter)),
            None => return (at, Some(Wrong::EndsTooEarly)),
        };
        at = plain::run(bytes, at + length);
    }
}

/// Of the escape that the bytes begin with, if there is one.
fn escape_length(bytes: &[u8]) -> Option<usize> {
    match bytes.get(1)? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(2),
        b'u' if is_unicode_escape(&bytes[1..]) => Some(6),
        _ => None,
    }
}

/// Passes over the blocks from `at`, inside a string and not inside an escape, that hold neither its end nor
/// anything wrong. What remains begins there, and is at most a block and an escape longer than it has to be.
fn pass(bytes: &[u8], mut at: usize) -> usize {
    let mut carry = false;
    while let Some(block) = bytes[at..].first_chunk() {
        let Some(next) = is_inside(bytes, at, &Block::of(block), carry) else { break };
        carry = next;
        at += BLOCK;
    }
    at - usize::from(carry)
}

/// Whether the byte after the block is escaped; none if the string ends here or something is wrong. `carry`
/// tells whether the first byte is escaped.
#[inline]
fn is_inside(bytes: &[u8], at: usize, block: &Block, carry: bool) -> Option<bool> {
    let backslashes = block.bits(|part| equal(part, b'\\'));
    let quotes = block.bits(|part| equal(part, b'"'));
    if block.has_control() {
        return None;
    }
    if !carry && backslashes | quotes == 0 {
        return Some(false);
    }
    let (escaped, carry) = escaped(backslashes, carry);
    if quotes & !escaped != 0 {
        return None;
    }
    let mut others = escaped & !(quotes | backslashes | block.bits(is_escape_letter));
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
#[inline]
fn is_unicode_escape(bytes: &[u8]) -> bool {
    let Some([b'u', hex @ ..]) = bytes.first_chunk::<5>() else { return false };
    // All four without a branch: they nearly always are.
    hex.iter().fold(true, |all, byte| all & byte.is_ascii_hexdigit())
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

/// Sixty-four bytes as the processor compares them.
struct Block([u8x16; 4]);

impl Block {
    #[inline]
    fn of(bytes: &[u8; BLOCK]) -> Self {
        let (parts, _) = bytes.as_chunks();
        Block(std::array::from_fn(|part| u8x16::new(parts[part])))
    }

    /// One bit a byte, the first lowest.
    #[inline]
    fn bits(&self, is: impl Fn(u8x16) -> u8x16) -> u64 {
        let [first, second, third, fourth] = self.0;
        let bits = |part| u64::from(is(part).to_bitmask());
        bits(first) | bits(second) << 16 | bits(third) << 32 | bits(fourth) << 48
    }

    #[inline]
    fn has_control(&self) -> bool {
        let [first, second, third, fourth] = self.0;
        let least = first.min(second).min(third.min(fourth));
        let last_control = u8x16::splat(b' ' - 1);
        least.min(last_control).simd_eq(least).any()
    }
}

#[inline]
fn equal(part: u8x16, byte: u8) -> u8x16 {
    part.simd_eq(u8x16::splat(byte))
}

/// One of `/bfnrt`.
#[inline]
fn is_escape_letter(part: u8x16) -> u8x16 {
    // They differ in one bit.
    let b_or_f = equal(part & u8x16::splat(!(b'b' ^ b'f')), b'b');
    equal(part, b'/') | b_or_f | equal(part, b'n') | equal(part, b'r') | equal(part, b't')
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
