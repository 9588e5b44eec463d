//! Scans JSON strings that contain escapes; long strings in blocks of 64 bytes. Most of a large message is one long
//! string with many escapes.
//!
//! The method is simdjson's: each property of a block is a number with one bit per byte, and the escaped bytes follow
//! from these numbers without a branch per backslash.

use wide::u8x16;

use crate::plain_bytes;
use crate::scan_error::ScanError;

const BLOCK: usize = 64;

/// Most keys and words are shorter; blocks would not help them.
const SHORT_STRING: usize = 96;

/// Finds the end of a string, starting at its first byte that is not plain. Returns the position of an error if there
/// is one.
#[inline(never)]
pub(crate) fn find_string_end(
    bytes: &[u8],
    start: usize,
    mut at: usize,
) -> (usize, Option<ScanError>) {
    let mut is_long = false;
    loop {
        if !is_long && at - start > SHORT_STRING {
            is_long = true;
            at = plain_bytes::end_of_run(bytes, skip_clean_blocks(bytes, at));
        }
        let length = match bytes.get(at) {
            Some(b'"') => return (at + 1, None),
            Some(b'\\') => match escape_length(&bytes[at..]) {
                Some(length) => length,
                None => return (at, Some(ScanError::UnknownEscape)),
            },
            Some(_) => return (at, Some(ScanError::ControlCharacter)),
            None => return (at, Some(ScanError::UnexpectedEnd)),
        };
        at = plain_bytes::end_of_run(bytes, at + length);
    }
}

/// Length of the escape at the start of `bytes`, or `None` if it is not a valid escape.
fn escape_length(bytes: &[u8]) -> Option<usize> {
    match bytes.get(1)? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(2),
        b'u' if is_unicode_escape(&bytes[1..]) => Some(6),
        _ => None,
    }
}

/// Skips blocks of string content that contain neither the end of the string nor an error. `at` must not be inside an
/// escape. Stops at most one block and one escape too early.
fn skip_clean_blocks(bytes: &[u8], mut at: usize) -> usize {
    let mut carry = false;
    while let Some(block) = bytes[at..].first_chunk() {
        let Some(next) = scan_block(bytes, at, &Block::new(block), carry) else { break };
        carry = next;
        at += BLOCK;
    }
    at - usize::from(carry)
}

/// Checks one block. Returns whether the byte after the block is escaped, or `None` if the block holds the end of the
/// string or an error. `carry` says whether the first byte is escaped.
#[inline]
fn scan_block(bytes: &[u8], at: usize, block: &Block, carry: bool) -> Option<bool> {
    let backslashes = block.bits(|part| equal(part, b'\\'));
    let quotes = block.bits(|part| equal(part, b'"'));
    if block.has_control() {
        return None;
    }
    if !carry && backslashes | quotes == 0 {
        return Some(false);
    }
    let (escaped, carry) = escaped_bits(backslashes, carry);
    if quotes & !escaped != 0 {
        return None;
    }
    let mut others = escaped & !(quotes | backslashes | block.bits(is_escape_letter));
    while others != 0 {
        let position = at + others.trailing_zeros() as usize;
        if !is_unicode_escape(&bytes[position..]) {
            return None;
        }
        others &= others - 1;
    }
    Some(carry)
}

/// Checks the bytes after the backslash of a `\u` escape.
#[inline]
fn is_unicode_escape(bytes: &[u8]) -> bool {
    let Some([b'u', hex @ ..]) = bytes.first_chunk::<5>() else { return false };
    // Checks all four without a branch, because they are nearly always valid.
    hex.iter().fold(true, |all, byte| all & byte.is_ascii_hexdigit())
}

/// Returns the bytes after an odd number of backslashes, and whether the byte after the block is one.
fn escaped_bits(backslashes: u64, carry: bool) -> (u64, bool) {
    const EVEN: u64 = u64::MAX / 3;
    // An escaped backslash does not start an escape.
    let backslashes = backslashes & !u64::from(carry);
    let after = backslashes << 1 | u64::from(carry);
    // Adding the start of a run of backslashes to the run carries to its end. The parity of start and end says
    // whether the run is odd.
    let odd_starts = backslashes & !EVEN & !after;
    let (ends, overflow) = odd_starts.overflowing_add(backslashes);
    ((EVEN ^ (ends << 1)) & after, overflow)
}

/// 64 bytes in SIMD registers.
struct Block([u8x16; 4]);

impl Block {
    #[inline]
    fn new(bytes: &[u8; BLOCK]) -> Self {
        let (parts, _) = bytes.as_chunks();
        Block(std::array::from_fn(|part| u8x16::new(parts[part])))
    }

    /// Returns one bit per byte, the first byte lowest.
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

/// Returns the bytes that are one of `/bfnrt`.
#[inline]
fn is_escape_letter(part: u8x16) -> u8x16 {
    // `b` and `f` differ in one bit.
    let b_or_f = equal(part & u8x16::splat(!(b'b' ^ b'f')), b'b');
    equal(part, b'/') | b_or_f | equal(part, b'n') | equal(part, b'r') | equal(part, b't')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Scans a string byte by byte. Returns the position of its end or error, and the positions of its escapes.
    fn scan_bytewise(bytes: &[u8]) -> (usize, Vec<usize>) {
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
        let passed = skip_clean_blocks(bytes, 0);
        let (end, escapes) = scan_bytewise(bytes);
        prop_assert!(passed <= end, "{passed} is beyond {end}");
        prop_assert!(end - passed <= BLOCK + 6, "{passed} is far from {end}");
        // The rest may begin with hex digits of an escape, because those are plain bytes.
        prop_assert!(!escapes.iter().any(|escape| passed == escape + 1), "inside an escape");
        Ok(())
    }

    proptest! {
        #[test]
        fn clean_blocks_are_skipped_exactly_up_to_the_first_special_byte(
            pieces in prop::collection::vec(prop::sample::select(vec![
                "a", "plain text of some length, ", "é", "\\\\", "\\\"", "\\n", "\\u00e9", "\\\\\\\\", "{}",
            ]), 0..80),
            end in prop::sample::select(vec!["\"", "\n", "\\x", "\\u00g0", "\\", "", "\\u00"]),
            rest in prop::collection::vec(prop::sample::select(b"a\\\"\nu0".to_vec()), 0..90),
        ) {
            check(&[pieces.concat().as_bytes(), end.as_bytes(), &rest].concat())?;
        }

        #[test]
        fn backslash_runs_of_any_length_are_handled(before in 0_usize..130, count in 0_usize..140) {
            let text = ["a".repeat(before), "\\".repeat(count), "\"".to_owned(), "a".repeat(200)].concat();
            check(text.as_bytes())?;
        }
    }
}
