//! The one pass over JSON text that checks grammar and depth and says where things stand.

use std::ops::Range;

use crate::key::Key;
use crate::known;
use crate::long_string;
use crate::malformed::Fault;
use crate::nest::Nest;
use crate::plain;
use crate::wrong::Wrong;

/// Where a value or a key stands in the text it was found in.
pub(crate) type Span = Range<usize>;

/// A cursor over JSON text. It never recurses: open brackets are bits, so a hostile message costs next to
/// no memory until the depth limit ends it. It stays where it found something wrong.
///
/// The steps that every message takes are always inlined: most are shorter than a call, and what they return
/// need not go through memory.
pub(crate) struct Scanner<'a> {
    text: &'a str,
    at: usize,
    entered: usize,
    depth_limit: usize,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a str, depth_limit: usize) -> Self {
        Scanner { text, at: 0, entered: 0, depth_limit }
    }

    pub(crate) fn text(&self) -> &'a str {
        self.text
    }

    /// How far the cursor has come.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// What comes next.
    #[inline]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    /// Takes bytes that the caller has looked at.
    #[inline]
    pub(crate) fn advance(&mut self, length: usize) {
        self.at += length;
    }

    /// What is wrong, and where: it was found just now.
    #[cold]
    pub(crate) fn fault(&self, wrong: Wrong) -> Fault {
        wrong.fault(self.at, self.depth_limit)
    }

    /// The next byte that is not white space, without taking it.
    #[inline(always)]
    pub(crate) fn peek(&mut self) -> Option<u8> {
        match self.byte() {
            Some(byte) if byte > b' ' => Some(byte),
            _ => {
                self.at = end_of_space(self.text.as_bytes(), self.at);
                self.byte()
            }
        }
    }

    /// Steps into the object or array that comes next.
    #[inline]
    pub(crate) fn enter(&mut self, bracket: u8) -> Result<(), Wrong> {
        self.expect(bracket, Wrong::NoOpening)?;
        self.entered += 1;
        self.check_depth(0)
    }

    /// The next key of the object entered last, or its end. The value comes next.
    #[inline(always)]
    pub(crate) fn next_key(&mut self, first: &mut bool) -> Result<Option<Key>, Wrong> {
        if !self.next_entry(b'}', first)? {
            return Ok(None);
        }
        self.key().map(Some)
    }

    /// Whether the array entered last has another item. The item comes next.
    pub(crate) fn next_item(&mut self, first: &mut bool) -> Result<bool, Wrong> {
        self.next_entry(b']', first)
    }

    /// Takes the whole next value, however large, and says where it stands.
    #[inline(always)]
    pub(crate) fn value(&mut self) -> Result<Span, Wrong> {
        let first = self.peek();
        let start = self.at;
        match first {
            Some(b'{') if self.rest().starts_with(b"{}") => {
                self.at += 2;
                self.check_depth(1)?;
            }
            Some(b'{' | b'[') => self.container()?,
            first => self.scalar(first)?,
        }
        Ok(start..self.at)
    }

    /// The same for text that a scanner has been over.
    pub(crate) fn known_value(&mut self) -> Span {
        self.peek();
        let start = self.at;
        self.at = known::end_of_value(self.text.as_bytes(), start);
        start..self.at
    }

    /// Nothing but white space may follow.
    #[inline]
    pub(crate) fn end(&mut self) -> Result<(), Wrong> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(Wrong::TextAfterEnd),
        }
    }

    #[inline(never)]
    fn container(&mut self) -> Result<(), Wrong> {
        // One of its own, to which nothing else points, is kept in registers.
        let mut inner = Scanner { ..*self };
        let walked = inner.walk();
        self.at = inner.at;
        walked
    }

    #[inline(always)]
    fn walk(&mut self) -> Result<(), Wrong> {
        let mut nest = Nest::default();
        loop {
            if nest.is_object() {
                self.key()?;
            }
            let opened = match self.peek() {
                Some(bracket @ (b'{' | b'[')) => self.open(bracket, &mut nest)?,
                first => self.scalar(first).map(|()| false)?,
            };
            if !opened && self.close(&mut nest)? {
                return Ok(());
            }
        }
    }

    /// Takes an opening bracket: true if anything is inside. The closing bracket of an empty container is
    /// left to [`Scanner::close`].
    #[inline]
    fn open(&mut self, bracket: u8, nest: &mut Nest) -> Result<bool, Wrong> {
        self.at += 1;
        nest.open(bracket == b'{');
        self.check_depth(nest.depth())?;
        Ok(!matches!((bracket, self.peek()), (b'{', Some(b'}')) | (b'[', Some(b']'))))
    }

    /// After a value: takes closing brackets up to the last one (then true) or a comma (then false).
    #[inline]
    fn close(&mut self, nest: &mut Nest) -> Result<bool, Wrong> {
        while nest.depth() > 0 {
            match (nest.is_object(), self.peek()) {
                (_, Some(b',')) => {
                    self.at += 1;
                    return Ok(false);
                }
                (true, Some(b'}')) | (false, Some(b']')) => {
                    self.at += 1;
                    nest.close();
                }
                (_, Some(_)) => return Err(Wrong::NoCommaOrClosing),
                (_, None) => return Err(Wrong::EndsTooEarly),
            }
        }
        Ok(true)
    }

    /// A value without brackets that begins with the byte that was peeked at.
    #[inline(always)]
    fn scalar(&mut self, first: Option<u8>) -> Result<(), Wrong> {
        match first {
            Some(b'"') => self.string().map(|_| ()),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true"),
            Some(b'f') => self.word("false"),
            Some(b'n') => self.word("null"),
            Some(_) => Err(Wrong::NoValue),
            None => Err(Wrong::EndsTooEarly),
        }
    }

    #[inline(always)]
    pub(crate) fn next_entry(&mut self, end: u8, first: &mut bool) -> Result<bool, Wrong> {
        let was_first = std::mem::replace(first, false);
        match self.peek() {
            Some(byte) if byte == end => {
                self.at += 1;
                self.entered -= 1;
                return Ok(false);
            }
            _ if was_first => {}
            Some(b',') => self.at += 1,
            Some(_) => return Err(Wrong::NoCommaOrClosing),
            None => return Err(Wrong::EndsTooEarly),
        }
        Ok(true)
    }

    #[inline(always)]
    pub(crate) fn key(&mut self) -> Result<Key, Wrong> {
        if self.peek() != Some(b'"') {
            return Err(Wrong::NoKey);
        }
        let start = self.at;
        let is_plain = self.string()?;
        let span = start..self.at;
        self.expect(b':', Wrong::NoColon)?;
        Ok(Key::new(span, is_plain))
    }

    /// Takes a string and says whether it is free of escapes.
    #[inline(always)]
    fn string(&mut self) -> Result<bool, Wrong> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        self.at = plain::run(bytes, start + 1);
        if self.byte() == Some(b'"') {
            self.at += 1;
            return Ok(true);
        }
        let (end, wrong) = long_string::end(bytes, start, self.at);
        self.at = end;
        wrong.map_or(Ok(false), Err)
    }

    #[inline]
    fn number(&mut self) -> Result<(), Wrong> {
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

    #[inline]
    fn digits(&mut self) -> Result<(), Wrong> {
        let start = self.at;
        while self.byte().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == start { Err(Wrong::NoDigit) } else { Ok(()) }
    }

    #[inline]
    fn word(&mut self, word: &str) -> Result<(), Wrong> {
        if !self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            return Err(Wrong::NoValue);
        }
        self.at += word.len();
        Ok(())
    }

    #[inline(always)]
    fn expect(&mut self, byte: u8, otherwise: Wrong) -> Result<(), Wrong> {
        match self.peek() {
            Some(found) if found == byte => {
                self.at += 1;
                Ok(())
            }
            Some(_) => Err(otherwise),
            None => Err(Wrong::EndsTooEarly),
        }
    }

    #[inline]
    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// `open` are those that were not entered.
    #[inline]
    fn check_depth(&self, open: usize) -> Result<(), Wrong> {
        if self.entered + open > self.depth_limit { Err(Wrong::TooDeep) } else { Ok(()) }
    }
}

#[inline(never)]
fn end_of_space(bytes: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\r' | b'\t') = bytes.get(at) {
        at += 1;
    }
    at
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
