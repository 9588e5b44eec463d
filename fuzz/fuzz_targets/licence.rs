//! Arbitrary text as a licence expression: no panic, and the same answer with parentheses around it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolcrib_fuzz::survive_stack_overflow;
use toolcrib_testkit::licence::{ALLOWED, accepts};

fuzz_target!(init: survive_stack_overflow(), |expression: &str| {
    let Ok(verdict) = accepts(expression, ALLOWED) else {
        return;
    };
    // One level more may be one too many, but it never turns a yes into a no.
    if let Ok(grouped) = accepts(&format!("({expression})"), ALLOWED) {
        assert_eq!(grouped, verdict);
    }
    assert_eq!(accepts(&format!("{expression} OR MIT"), ALLOWED), Ok(true));
});
