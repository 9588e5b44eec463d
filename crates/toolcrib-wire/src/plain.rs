//! Runs of plain string bytes: no quote, no backslash, no control character. Most of any message is in one.

use wide::u8x16;

const BLOCK: usize = 16;

/// Where the run of plain bytes that starts at `at` ends: at a byte that is not plain, or at the end.
#[inline]
pub(crate) fn run(bytes: &[u8], mut at: usize) -> usize {
    let (blocks, _) = bytes.get(at..).unwrap_or_default().as_chunks();
    for block in blocks {
        let special = special_bits(block);
        if special != 0 {
            return at + special.trailing_zeros() as usize;
        }
        at += BLOCK;
    }
    last_run(bytes, at)
}

/// The same where less than a block is left.
fn last_run(bytes: &[u8], at: usize) -> usize {
    let Some(block) = bytes.last_chunk() else {
        let length = bytes.get(at..).into_iter().flatten().take_while(|byte| is_plain(**byte));
        return at + length.count();
    };
    // The last block begins before `at`; what it has there does not count.
    let before = (at + BLOCK).saturating_sub(bytes.len());
    match special_bits(block).checked_shr(before as u32) {
        None | Some(0) => bytes.len(),
        Some(special) => at + special.trailing_zeros() as usize,
    }
}

/// Whether nothing in a text has to be escaped.
#[inline]
pub(crate) fn is_all(bytes: &[u8]) -> bool {
    match bytes.len() {
        BLOCK.. => run(bytes, 0) == bytes.len(),
        8.. => is_all_of_word(bytes.first_chunk()) && is_all_of_word(bytes.last_chunk()),
        4.. => is_all_of_word(outer_bytes(bytes).as_ref()),
        _ => bytes.iter().all(|byte| is_plain(*byte)),
    }
}

/// The first four and the last four, which may overlap.
#[inline]
fn outer_bytes(bytes: &[u8]) -> Option<[u8; 8]> {
    let [a, b, c, d] = *bytes.first_chunk()?;
    let [e, f, g, h] = *bytes.last_chunk()?;
    Some([a, b, c, d, e, f, g, h])
}

#[inline]
fn is_all_of_word(word: Option<&[u8; 8]>) -> bool {
    word.is_some_and(|word| special_bytes(*word) == 0)
}

pub(crate) fn is_plain(byte: u8) -> bool {
    (byte >= 0x20) & (byte != b'"') & (byte != b'\\')
}

/// One bit for each byte that is not plain, the first lowest.
#[inline]
fn special_bits(block: &[u8; BLOCK]) -> u32 {
    let block = u8x16::new(*block);
    let control = block.min(u8x16::splat(b' ' - 1)).simd_eq(block);
    let quote = block.simd_eq(u8x16::splat(b'"'));
    let backslash = block.simd_eq(u8x16::splat(b'\\'));
    (control | quote | backslash).to_bitmask()
}

/// Not zero if one of the bytes is not plain. (Mycroft's test for a byte below n.)
#[inline]
fn special_bytes(word: [u8; 8]) -> u64 {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES << 7;
    let word = u64::from_le_bytes(word);
    let quote = word ^ (ONES * b'"' as u64);
    let backslash = word ^ (ONES * b'\\' as u64);
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    let quote = quote.wrapping_sub(ONES) & !quote;
    let backslash = backslash.wrapping_sub(ONES) & !backslash;
    (control | quote | backslash) & HIGH
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: [u8; 8] = [0x20, 0x21, 0x23, 0x5b, 0x5d, 0x7f, 0x80, 0xff];

    fn slowly(bytes: &[u8], at: usize) -> usize {
        bytes.iter().skip(at).position(|byte| !is_plain(*byte)).map_or(bytes.len(), |run| at + run)
    }

    #[test]
    fn each_special_byte_ends_a_run_at_each_place_of_a_text_of_any_length() {
        for (special, plain) in [b'"', b'\\', 0, 0x1f, b'\n'].into_iter().zip(PLAIN) {
            for length in 0..70 {
                for place in 0..length {
                    let mut bytes = vec![plain; length];
                    bytes[place] = special;
                    assert!(!is_all(&bytes), "{special} at {place} of {length}");
                    for at in 0..=length {
                        assert_eq!(run(&bytes, at), slowly(&bytes, at), "{bytes:?} from {at}");
                    }
                }
            }
        }
    }

    #[test]
    fn whatever_is_plain_ends_no_run() {
        for plain in PLAIN {
            for length in 0..70 {
                let bytes = vec![plain; length];
                assert!(is_all(&bytes), "{plain} {length} times");
                for at in 0..=length {
                    assert_eq!(run(&bytes, at), length, "{plain} {length} times from {at}");
                }
            }
        }
    }

    #[test]
    fn of_two_special_bytes_the_first_counts() {
        for (first, second) in (0..40).flat_map(|first| (first + 1..40).map(move |n| (first, n))) {
            let mut bytes = vec![b'!'; 40];
            bytes[first] = b'\\';
            bytes[second] = b'"';
            assert_eq!(run(&bytes, 0), first);
            assert_eq!(run(&bytes, first + 1), second);
        }
    }
}
