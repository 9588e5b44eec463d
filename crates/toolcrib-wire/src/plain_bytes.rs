//! Finds runs of plain string bytes: no quote, no backslash, no control character. Most bytes of a message are in
//! such runs.

use wide::u8x16;

const BLOCK: usize = 16;

/// Returns the end of the run of plain bytes that starts at `at`.
#[inline]
pub(crate) fn end_of_run(bytes: &[u8], mut at: usize) -> usize {
    let (blocks, _) = bytes.get(at..).unwrap_or_default().as_chunks();
    for block in blocks {
        let special = special_bits(block);
        if special != 0 {
            return at + special.trailing_zeros() as usize;
        }
        at += BLOCK;
    }
    end_of_last_run(bytes, at)
}

/// Like [`end_of_run`], for less than one block.
fn end_of_last_run(bytes: &[u8], at: usize) -> usize {
    let Some(block) = bytes.last_chunk() else {
        let length = bytes.get(at..).into_iter().flatten().take_while(|byte| is_plain(**byte));
        return at + length.count();
    };
    // The last block begins before `at`; its first bytes do not count.
    let before = (at + BLOCK).saturating_sub(bytes.len());
    match special_bits(block).checked_shr(before as u32) {
        None | Some(0) => bytes.len(),
        Some(special) => at + special.trailing_zeros() as usize,
    }
}

/// Returns whether no byte of a text needs an escape.
#[inline]
pub(crate) fn is_all_plain(bytes: &[u8]) -> bool {
    match bytes.len() {
        BLOCK.. => end_of_run(bytes, 0) == bytes.len(),
        8.. => is_word_plain(bytes.first_chunk()) && is_word_plain(bytes.last_chunk()),
        4.. => is_word_plain(outer_bytes(bytes).as_ref()),
        _ => bytes.iter().all(|byte| is_plain(*byte)),
    }
}

/// Returns the first four and the last four bytes, which may overlap.
#[inline]
fn outer_bytes(bytes: &[u8]) -> Option<[u8; 8]> {
    let [a, b, c, d] = *bytes.first_chunk()?;
    let [e, f, g, h] = *bytes.last_chunk()?;
    Some([a, b, c, d, e, f, g, h])
}

#[inline]
fn is_word_plain(word: Option<&[u8; 8]>) -> bool {
    word.is_some_and(|word| special_bytes(*word) == 0)
}

pub(crate) fn is_plain(byte: u8) -> bool {
    (byte >= 0x20) & (byte != b'"') & (byte != b'\\')
}

/// Returns one bit for each byte that is not plain, the first byte lowest.
#[inline]
fn special_bits(block: &[u8; BLOCK]) -> u32 {
    let block = u8x16::new(*block);
    let control = block.min(u8x16::splat(b' ' - 1)).simd_eq(block);
    let quote = block.simd_eq(u8x16::splat(b'"'));
    let backslash = block.simd_eq(u8x16::splat(b'\\'));
    (control | quote | backslash).to_bitmask()
}

/// Returns a value other than zero if a byte is not plain. (Mycroft's test for a byte below n.)
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

    fn end_of_run_bytewise(bytes: &[u8], at: usize) -> usize {
        bytes.iter().skip(at).position(|byte| !is_plain(*byte)).map_or(bytes.len(), |run| at + run)
    }

    #[test]
    fn special_byte_ends_a_run_at_every_position() {
        for (special, plain) in [b'"', b'\\', 0, 0x1f, b'\n'].into_iter().zip(PLAIN) {
            for length in 0..70 {
                for place in 0..length {
                    let mut bytes = vec![plain; length];
                    bytes[place] = special;
                    assert!(!is_all_plain(&bytes), "{special} at {place} of {length}");
                    for at in 0..=length {
                        assert_eq!(
                            end_of_run(&bytes, at),
                            end_of_run_bytewise(&bytes, at),
                            "{bytes:?} from {at}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn plain_bytes_never_end_a_run() {
        for plain in PLAIN {
            for length in 0..70 {
                let bytes = vec![plain; length];
                assert!(is_all_plain(&bytes), "{plain} {length} times");
                for at in 0..=length {
                    assert_eq!(end_of_run(&bytes, at), length, "{plain} {length} times from {at}");
                }
            }
        }
    }

    #[test]
    fn first_of_two_special_bytes_ends_the_run() {
        for (first, second) in (0..40).flat_map(|first| (first + 1..40).map(move |n| (first, n))) {
            let mut bytes = vec![b'!'; 40];
            bytes[first] = b'\\';
            bytes[second] = b'"';
            assert_eq!(end_of_run(&bytes, 0), first);
            assert_eq!(end_of_run(&bytes, first + 1), second);
        }
    }
}
