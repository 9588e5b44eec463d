//! Finds the end of values in checked text without checking it again, which is much cheaper.

/// Returns the end of the value that starts at `at`.
pub(crate) fn end_of_value(bytes: &[u8], mut at: usize) -> usize {
    let mut depth = 0_usize;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => at = end_of_string(bytes, at),
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                at += 1;
            }
            b' ' | b'\n' | b'\r' | b'\t' | b',' | b':' => at += 1,
            _ => at = end_of_literal(bytes, at),
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// Returns the end of a string. A quote ends a string unless an odd number of backslashes precedes it.
fn end_of_string(bytes: &[u8], start: usize) -> usize {
    for quote in memchr::memchr_iter(b'"', &bytes[start + 1..]) {
        let end = start + 1 + quote;
        let backslashes = bytes[start + 1..end].iter().rev().take_while(|byte| **byte == b'\\');
        if backslashes.count() % 2 == 0 {
            return end + 1;
        }
    }
    bytes.len()
}

/// Returns the end of a number, `true`, `false` or `null`.
fn end_of_literal(bytes: &[u8], at: usize) -> usize {
    let ends = |byte: &u8| matches!(byte, b',' | b']' | b'}' | b' ' | b'\n' | b'\r' | b'\t');
    bytes[at..].iter().position(ends).map_or(bytes.len(), |length| at + length)
}
