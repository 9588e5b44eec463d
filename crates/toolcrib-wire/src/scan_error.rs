//! Errors of the JSON scanner. One byte, so the many steps without an error return it in a register.

use crate::parse_error::ParseError;

/// The error at the scanner's position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScanError {
    UnexpectedEnd,
    ExpectedValue,
    ExpectedOpeningBracket,
    ExpectedCommaOrClosing,
    ExpectedKey,
    ExpectedColon,
    ExpectedDigit,
    UnknownEscape,
    ControlCharacter,
    TrailingText,
    TooDeep,
}

impl ScanError {
    #[cold]
    pub(crate) fn into_parse_error(self, at: usize, limit: usize) -> ParseError {
        let problem = match self {
            ScanError::UnexpectedEnd => "the text ends too early",
            ScanError::ExpectedValue => "expected a value",
            ScanError::ExpectedOpeningBracket => "expected an opening bracket",
            ScanError::ExpectedCommaOrClosing => "expected a comma or a closing bracket",
            ScanError::ExpectedKey => "expected a key",
            ScanError::ExpectedColon => "expected a colon",
            ScanError::ExpectedDigit => "expected a digit",
            ScanError::UnknownEscape => "an unknown escape in a string",
            ScanError::ControlCharacter => "a control character in a string",
            ScanError::TrailingText => "text after the end of the value",
            ScanError::TooDeep => return ParseError::TooDeep { limit },
        };
        ParseError::Syntax { at, problem }
    }
}
