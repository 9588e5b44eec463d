//! The one pass over JSON text that checks grammar and depth and says where things stand.

use std::ops::Range;

use crate::long_string;
use crate::malformed::Fault;

/// Where a value or a key stands in the text it was found in.
pub(crate) type Span = Range<usize>;

/// Most keys and words are no longer; whole blocks of them would be looked at in vain.
const SHORT: usize = 96;

/// A cursor over JSON text. It never recurses: open brackets live in a vector, so a hostile message
/// costs one byte of memory a level until the depth limit ends it.
pub(crate) struct Scanner<'a> {
    text: &'a str,
    at: usize,
    entered: usize,
    open: Vec<u8>,
    depth_limit: usize,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a str, depth_limit: usize) -> Self {
        Scanner { text, at: 0, entered: 0, open: Vec::new(), depth_limit }
    }

    pub(crate) fn text(&self) -> &'a str {
        self.text
    }

    /// How far the cursor has come.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// The next byte that is not white space, without taking it.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while let Some(byte) = bytes.get(self.at) {
            match byte {
                b' ' | b'\n' | b'\r' | b'\t' => self.at += 1,
                byte => return Some(*byte),
            }
        }
        None
    }

    /// Steps into the object or array that comes next.
    pub(crate) fn enter(&mut self, bracket: u8) -> Result<(), Fault> {
        self.expect(bracket, "expected an opening bracket")?;
        self.entered += 1;
        self.check_depth()
    }

    /// The next key of the object entered last, quotes included, or its end. The value comes next.
    pub(crate) fn next_key(&mut self, first: &mut bool) -> Result<Option<Span>, Fault> {
        if !self.next_entry(b'}', first)? {
            return Ok(None);
        }
        let key = self.key()?;
        Ok(Some(key))
    }

    /// Whether the array entered last has another item. The item comes next.
    pub(crate) fn next_item(&mut self, first: &mut bool) -> Result<bool, Fault> {
        self.next_entry(b']', first)
    }

    /// Takes the whole next value, however large, and says where it stands.
    pub(crate) fn value(&mut self) -> Result<Span, Fault> {
        self.peek();
        let start = self.at;
        let floor = self.open.len();
        loop {
            let opened = self.token()?;
            if !opened && self.close(floor)? {
                return Ok(start..self.at);
            }
        }
    }

    /// The same for text that a scanner has been over.
    pub(crate) fn known_value(&mut self) -> Span {
        self.peek();
        let start = self.at;
        self.at = end_of_value(self.text.as_bytes(), start);
        start..self.at
    }

    /// Takes the whole next value and forgets it.
    pub(crate) fn skip(&mut self) -> Result<(), Fault> {
        self.value().map(|_| ())
    }

    /// Nothing but white space may follow.
    pub(crate) fn end(&mut self) -> Result<(), Fault> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.wrong("text after the end of the value")),
        }
    }

    /// One scalar, or the opening of a container up to its first value: then true.
    fn token(&mut self) -> Result<bool, Fault> {
        match self.peek() {
            Some(bracket @ (b'{' | b'[')) => {
                self.at += 1;
                self.open.push(bracket);
                self.check_depth()?;
                self.first_value(bracket)
            }
            Some(b'"') => self.string().map(|_| false),
            Some(b'-' | b'0'..=b'9') => self.number().map(|()| false),
            Some(b't') => self.word("true").map(|()| false),
            Some(b'f') => self.word("false").map(|()| false),
            Some(b'n') => self.word("null").map(|()| false),
            Some(_) => Err(self.wrong("expected a value")),
            None => Err(self.wrong("the text ends too early")),
        }
    }

    /// After an opening bracket: true if a value follows, false if the container is empty. The
    /// closing bracket of an empty one is left to [`Scanner::close`].
    fn first_value(&mut self, bracket: u8) -> Result<bool, Fault> {
        match (bracket, self.peek()) {
            (b'{', Some(b'}')) | (b'[', Some(b']')) => Ok(false),
            (b'{', _) => self.key().map(|_| true),
            _ => Ok(true),
        }
    }

    /// After a value: takes closing brackets down to `floor` (then true) or a comma (then false).
    fn close(&mut self, floor: usize) -> Result<bool, Fault> {
        while self.open.len() > floor {
            let bracket = self.open.last().copied().unwrap_or_default();
            match (bracket, self.peek()) {
                (b'{', Some(b'}')) | (b'[', Some(b']')) => {
                    self.at += 1;
                    self.open.pop();
                }
                (b'{', Some(b',')) => {
                    self.at += 1;
                    self.key()?;
                    return Ok(false);
                }
                (b'[', Some(b',')) => {
                    self.at += 1;
                    return Ok(false);
                }
                (_, Some(_)) => return Err(self.wrong("expected a comma or a closing bracket")),
                (_, None) => return Err(self.wrong("the text ends too early")),
            }
        }
        Ok(true)
    }

    fn next_entry(&mut self, end: u8, first: &mut bool) -> Result<bool, Fault> {
        let was_first = std::mem::replace(first, false);
        if self.peek() == Some(end) {
            self.at += 1;
            self.entered -= 1;
            return Ok(false);
        }
        if !was_first {
            self.expect(b',', "expected a comma or a closing bracket")?;
        }
        Ok(true)
    }

    fn key(&mut self) -> Result<Span, Fault> {
        if self.peek() != Some(b'"') {
            return Err(self.wrong("expected a key"));
        }
        let key = self.string()?;
        self.expect(b':', "expected a colon")?;
        Ok(key)
    }

    fn string(&mut self) -> Result<Span, Fault> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        // Not `self.at`: going through memory at each escape takes twice as long.
        let mut at = start + 1;
        let mut is_long = false;
        let wrong = loop {
            at = plain_run(bytes, at);
            if !is_long && at - start > SHORT {
                is_long = true;
                at = long_string::pass(bytes, at);
                continue;
            }
            at += match bytes.get(at) {
                Some(b'"') => {
                    self.at = at + 1;
                    return Ok(start..self.at);
                }
                Some(b'\\') => match escape_length(&bytes[at..]) {
                    Some(length) => length,
                    None => break "an unknown escape in a string",
                },
                Some(_) => break "a control character in a string",
                None => break "the text ends too early",
            };
        };
        self.at = at;
        Err(self.wrong(wrong))
    }

    fn number(&mut self) -> Result<(), Fault> {
        if self.byte() == Some(b'-') {
            self.at += 1;
        }
        match self.byte() {
            Some(b'0') => self.at += 1,
            _ => self.digits()?,
        }
        if self.byte() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.byte() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.byte() {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), Fault> {
        let rest = &self.text.as_bytes()[self.at..];
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        if count == 0 { Err(self.wrong("expected a digit")) } else { Ok(()) }
    }

    fn word(&mut self, word: &str) -> Result<(), Fault> {
        if !self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            return Err(self.wrong("expected a value"));
        }
        self.at += word.len();
        Ok(())
    }

    fn expect(&mut self, byte: u8, otherwise: &'static str) -> Result<(), Fault> {
        match self.peek() {
            Some(found) if found == byte => {
                self.at += 1;
                Ok(())
            }
            Some(_) => Err(self.wrong(otherwise)),
            None => Err(self.wrong("the text ends too early")),
        }
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn check_depth(&self) -> Result<(), Fault> {
        if self.entered + self.open.len() > self.depth_limit {
            return Err(Fault::TooDeep { limit: self.depth_limit });
        }
        Ok(())
    }

    fn wrong(&self, what: &'static str) -> Fault {
        Fault::Syntax { at: self.at, what }
    }
}

/// Of the escape that the bytes begin with, if there is one.
fn escape_length(bytes: &[u8]) -> Option<usize> {
    match bytes.get(1)? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(2),
        b'u' if long_string::is_unicode_escape(&bytes[1..]) => Some(6),
        _ => None,
    }
}

/// Where the value that starts at `at` ends, in text that a scanner has been over: nothing is checked again,
/// which makes a second look at a large message much cheaper than the first.
fn end_of_value(bytes: &[u8], mut at: usize) -> usize {
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
            _ => at = end_of_word(bytes, at),
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// A quote ends a string unless an odd number of backslashes stands before it.
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

/// A number, `true`, `false` or `null`.
fn end_of_word(bytes: &[u8], at: usize) -> usize {
    let ends = |byte: &u8| matches!(byte, b',' | b']' | b'}' | b' ' | b'\n' | b'\r' | b'\t');
    bytes[at..].iter().position(ends).map_or(bytes.len(), |length| at + length)
}

/// Where the run of plain string bytes that starts at `at` ends: at a quote, a backslash, a control
/// character or the end. Eight bytes a step, since most of a large message is inside strings.
fn plain_run(bytes: &[u8], mut at: usize) -> usize {
    while let Some(word) = bytes.get(at..at + 8) {
        let mut eight = [0; 8];
        eight.copy_from_slice(word);
        let special = special_bytes(u64::from_le_bytes(eight));
        if special != 0 {
            return at + special.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while bytes.get(at).is_some_and(|&byte| byte >= 0x20 && byte != b'"' && byte != b'\\') {
        at += 1;
    }
    at
}

/// Sets the high bit of each byte that ends a plain run. Borrows can set it falsely only in bytes
/// after a true one, and only the first matters. (Mycroft's test for a byte below n.)
fn special_bytes(word: u64) -> u64 {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES << 7;
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

    fn scan(text: &str, depth: usize) -> Result<(), Fault> {
        let mut scanner = Scanner::new(text, depth);
        scanner.value()?;
        scanner.end()
    }

    #[test]
    fn what_is_json_is_decided_as_serde_json_decides() {
        let texts = [
            "{}",
            "[]",
            " [ ] ",
            "{\"a\":1}",
            "[1,2]",
            "[1,]",
            "[,1]",
            "{\"a\":}",
            "{\"a\" 1}",
            "{a:1}",
            "{\"a\":1,}",
            "\"x",
            "\"\\x\"",
            "\"\\u00zz\"",
            "\"\\u00e9\"",
            "\"\\u00e\"",
            "01",
            "-",
            "-0",
            "1.",
            "1.5",
            "1e",
            "1e+9",
            ".5",
            "+1",
            "tru",
            "true",
            "nul",
            "null",
            "falsey",
            "[true,false,null]",
            "{\"a\":[{\"b\":[]}]}",
            "\"tab\there\"",
            "\"\u{1}\"",
            "",
            " ",
            "}",
            "[}",
            "{]",
            "1 2",
            "[[[]]]",
            "\"0123456\\n89abcdef\\\"\"",
            "\"01234567\u{8}9\"",
            "\"ünïcödé — long enough for two words\"",
            "[\"a\":1]",
            "{\"a\",1}",
            "\"\\",
        ];
        for text in texts {
            let theirs = serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
            assert_eq!(scan(text, 128).is_ok(), theirs, "{text:?}");
        }
    }

    #[test]
    fn depth_is_limited_and_a_million_brackets_are_an_error_not_a_crash() {
        assert_eq!(scan("[[[]]]", 3), Ok(()));
        assert_eq!(scan("[[{\"a\":[]}]]", 3), Err(Fault::TooDeep { limit: 3 }));
        assert_eq!(scan(&"[".repeat(1_000_000), 128), Err(Fault::TooDeep { limit: 128 }));
        assert_eq!(scan(&"{\"a\":".repeat(1_000_000), 128), Err(Fault::TooDeep { limit: 128 }));
    }

    #[test]
    fn a_second_look_finds_the_same_end() {
        for text in [
            "{}",
            "[ ]",
            "\"a\"",
            "\"\"",
            r#""\\""#,
            r#""\"""#,
            r#""a\\\"b\\""#,
            "-1.5e+3",
            "true",
            r#"{ "a" : [ 1 , "]}\"" , { "b" : null } ] , "c" : "\\" }"#,
            "[[],[[]],{}]",
        ] {
            let first = Scanner::new(text, 9).value();
            for rest in ["", " ", ",1", "]", "}"] {
                let longer = format!(" {text}{rest}");
                let found = Scanner::new(&longer, 9).known_value();
                assert_eq!(first, Ok(found.start - 1..found.end - 1), "{longer}");
            }
        }
        // Text that nobody has been over gives nonsense, and no panic.
        for text in ["", "\"", "\"\\", "[", "]", "{\"a", ","] {
            assert!(Scanner::new(text, 9).known_value().end <= text.len(), "{text}");
        }
    }

    #[test]
    fn each_special_byte_ends_a_plain_run_at_each_place() {
        for special in [b'"', b'\\', 0, 0x1f, b'\n'] {
            for place in 0..20 {
                let mut bytes = vec![b' '; 24];
                bytes[place] = special;
                assert_eq!(plain_run(&bytes, 0), place);
            }
        }
        for plain in [0x20, 0x21, 0x23, 0x5b, 0x5d, 0x7f, 0x80, 0xff] {
            assert_eq!(plain_run(&[plain; 19], 0), 19);
        }
    }
}
