//! What a scanner can find wrong. It is one byte, so that the many steps that find nothing say so in a register.

use crate::malformed::Fault;

/// What is wrong where the scanner stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wrong {
    EndsTooEarly,
    NoValue,
    NoOpening,
    NoCommaOrClosing,
    NoKey,
    NoColon,
    NoDigit,
    UnknownEscape,
    ControlCharacter,
    TextAfterEnd,
    TooDeep,
}

impl Wrong {
    #[cold]
    pub(crate) fn fault(self, at: usize, limit: usize) -> Fault {
        let what = match self {
            Wrong::EndsTooEarly => "the text ends too early",
            Wrong::NoValue => "expected a value",
            Wrong::NoOpening => "expected an opening bracket",
            Wrong::NoCommaOrClosing => "expected a comma or a closing bracket",
            Wrong::NoKey => "expected a key",
            Wrong::NoColon => "expected a colon",
            Wrong::NoDigit => "expected a digit",
            Wrong::UnknownEscape => "an unknown escape in a string",
            Wrong::ControlCharacter => "a control character in a string",
            Wrong::TextAfterEnd => "text after the end of the value",
            Wrong::TooDeep => return Fault::TooDeep { limit },
        };
        Fault::Syntax { at, what }
    }
}
