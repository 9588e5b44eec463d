//! Scans JSON text in one pass, checks grammar and depth, and returns positions.

use std::ops::Range;

use crate::bracket_stack::BracketStack;
use crate::key::Key;
use crate::long_string;
use crate::parse_error::ParseError;
use crate::plain_bytes;
use crate::scan_error::ScanError;
use crate::skip_value;

/// Range of a value or key in its text.
pub(crate) type Span = Range<usize>;

/// A cursor over JSON text. It does not recurse: open brackets are bits, so a hostile message costs little memory
/// until the depth limit stops it. After an error the cursor stays at the error.
///
/// The steps of every message are always inlined: most are shorter than a call, and their results stay in registers.
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

    /// Position of the cursor.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// The bytes after the cursor.
    #[inline]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    /// Skips bytes that the caller has checked.
    #[inline]
    pub(crate) fn advance(&mut self, length: usize) {
        self.at += length;
    }

    /// Converts an error that was found just now, with its position.
    #[cold]
    pub(crate) fn parse_error(&self, error: ScanError) -> ParseError {
        error.into_parse_error(self.at, self.depth_limit)
    }

    /// Returns the next byte that is not white space, without consuming it.
    #[inline(always)]
    pub(crate) fn peek(&mut self) -> Option<u8> {
        match self.current_byte() {
            Some(byte) if byte > b' ' => Some(byte),
            _ => {
                self.at = end_of_space(self.text.as_bytes(), self.at);
                self.current_byte()
            }
        }
    }

    /// Enters the next object or array.
    #[inline]
    pub(crate) fn enter_container(&mut self, bracket: u8) -> Result<(), ScanError> {
        self.expect(bracket, ScanError::ExpectedOpeningBracket)?;
        self.entered += 1;
        self.check_depth(0)
    }

    /// Returns the next key of the innermost entered object, or its end. The value follows.
    #[inline(always)]
    pub(crate) fn next_key(&mut self, first: &mut bool) -> Result<Option<Key>, ScanError> {
        if !self.next_entry(b'}', first)? {
            return Ok(None);
        }
        self.read_key().map(Some)
    }

    /// Returns whether the innermost entered array has another item. The item follows.
    pub(crate) fn next_item(&mut self, first: &mut bool) -> Result<bool, ScanError> {
        self.next_entry(b']', first)
    }

    /// Skips the next value of any size and returns its range.
    #[inline(always)]
    pub(crate) fn skip_value(&mut self) -> Result<Span, ScanError> {
        let first = self.peek();
        let start = self.at;
        match first {
            Some(b'{') if self.rest().starts_with(b"{}") => {
                self.at += 2;
                self.check_depth(1)?;
            }
            Some(b'{' | b'[') => self.skip_container()?,
            first => self.skip_scalar(first)?,
        }
        Ok(start..self.at)
    }

    /// Like [`Scanner::skip_value`], for text that a scanner has already checked.
    pub(crate) fn skip_trusted_value(&mut self) -> Span {
        self.peek();
        let start = self.at;
        self.at = skip_value::end_of_value(self.text.as_bytes(), start);
        start..self.at
    }

    /// Checks that only white space follows.
    #[inline]
    pub(crate) fn expect_end(&mut self) -> Result<(), ScanError> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(ScanError::TrailingText),
        }
    }

    #[inline(never)]
    fn skip_container(&mut self) -> Result<(), ScanError> {
        // A local copy without other references stays in registers.
        let mut inner = Scanner { ..*self };
        let result = inner.skip_nested();
        self.at = inner.at;
        result
    }

    #[inline(always)]
    fn skip_nested(&mut self) -> Result<(), ScanError> {
        let mut stack = BracketStack::default();
        loop {
            if stack.is_object() {
                self.read_key()?;
            }
            let opened = match self.peek() {
                Some(bracket @ (b'{' | b'[')) => self.open(bracket, &mut stack)?,
                first => self.skip_scalar(first).map(|()| false)?,
            };
            if !opened && self.close(&mut stack)? {
                return Ok(());
            }
        }
    }

    /// Consumes an opening bracket. Returns whether the container has content. [`Scanner::close`] consumes the
    /// closing bracket of an empty container.
    #[inline]
    fn open(&mut self, bracket: u8, stack: &mut BracketStack) -> Result<bool, ScanError> {
        self.at += 1;
        stack.open(bracket == b'{');
        self.check_depth(stack.depth())?;
        Ok(!matches!((bracket, self.peek()), (b'{', Some(b'}')) | (b'[', Some(b']'))))
    }

    /// Consumes closing brackets after a value up to the last one (returns true) or a comma (returns false).
    #[inline]
    fn close(&mut self, stack: &mut BracketStack) -> Result<bool, ScanError> {
        while stack.depth() > 0 {
            match (stack.is_object(), self.peek()) {
                (_, Some(b',')) => {
                    self.at += 1;
                    return Ok(false);
                }
                (true, Some(b'}')) | (false, Some(b']')) => {
                    self.at += 1;
                    stack.close();
                }
                (_, Some(_)) => return Err(ScanError::ExpectedCommaOrClosing),
                (_, None) => return Err(ScanError::UnexpectedEnd),
            }
        }
        Ok(true)
    }

    /// Skips a value without brackets. `first` is its first byte.
    #[inline(always)]
    fn skip_scalar(&mut self, first: Option<u8>) -> Result<(), ScanError> {
        match first {
            Some(b'"') => self.skip_string().map(|_| ()),
            Some(b'-' | b'0'..=b'9') => self.skip_number(),
            Some(b't') => self.skip_literal("true"),
            Some(b'f') => self.skip_literal("false"),
            Some(b'n') => self.skip_literal("null"),
            Some(_) => Err(ScanError::ExpectedValue),
            None => Err(ScanError::UnexpectedEnd),
        }
    }

    #[inline(always)]
    pub(crate) fn next_entry(&mut self, end: u8, first: &mut bool) -> Result<bool, ScanError> {
        let was_first = std::mem::replace(first, false);
        match self.peek() {
            Some(byte) if byte == end => {
                self.at += 1;
                self.entered -= 1;
                return Ok(false);
            }
            _ if was_first => {}
            Some(b',') => self.at += 1,
            Some(_) => return Err(ScanError::ExpectedCommaOrClosing),
            None => return Err(ScanError::UnexpectedEnd),
        }
        Ok(true)
    }

    #[inline(always)]
    pub(crate) fn read_key(&mut self) -> Result<Key, ScanError> {
        if self.peek() != Some(b'"') {
            return Err(ScanError::ExpectedKey);
        }
        let start = self.at;
        let is_plain = self.skip_string()?;
        let span = start..self.at;
        self.expect(b':', ScanError::ExpectedColon)?;
        Ok(Key::new(span, is_plain))
    }

    /// Skips a string. Returns whether it has no escapes.
    #[inline(always)]
    fn skip_string(&mut self) -> Result<bool, ScanError> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        self.at = plain_bytes::end_of_run(bytes, start + 1);
        if self.current_byte() == Some(b'"') {
            self.at += 1;
            return Ok(true);
        }
        let (end, error) = long_string::find_string_end(bytes, start, self.at);
        self.at = end;
        error.map_or(Ok(false), Err)
    }

    #[inline]
    fn skip_number(&mut self) -> Result<(), ScanError> {
        if self.current_byte() == Some(b'-') {
            self.at += 1;
        }
        match self.current_byte() {
            Some(b'0') => self.at += 1,
            _ => self.skip_digits()?,
        }
        if self.current_byte() == Some(b'.') {
            self.at += 1;
            self.skip_digits()?;
        }
        if let Some(b'e' | b'E') = self.current_byte() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.current_byte() {
                self.at += 1;
            }
            self.skip_digits()?;
        }
        Ok(())
    }

    #[inline]
    fn skip_digits(&mut self) -> Result<(), ScanError> {
        let start = self.at;
        while self.current_byte().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == start { Err(ScanError::ExpectedDigit) } else { Ok(()) }
    }

    #[inline]
    fn skip_literal(&mut self, literal: &str) -> Result<(), ScanError> {
        if !self.text.as_bytes()[self.at..].starts_with(literal.as_bytes()) {
            return Err(ScanError::ExpectedValue);
        }
        self.at += literal.len();
        Ok(())
    }

    #[inline(always)]
    fn expect(&mut self, byte: u8, error: ScanError) -> Result<(), ScanError> {
        match self.peek() {
            Some(found) if found == byte => {
                self.at += 1;
                Ok(())
            }
            Some(_) => Err(error),
            None => Err(ScanError::UnexpectedEnd),
        }
    }

    #[inline]
    fn current_byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// `open` counts the brackets that were not entered.
    #[inline]
    fn check_depth(&self, open: usize) -> Result<(), ScanError> {
        if self.entered + open > self.depth_limit { Err(ScanError::TooDeep) } else { Ok(()) }
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
#[path = "scanner_tests.rs"]
mod tests;
