//! Fuzzes the licence parser: no panics, and parentheses do not change the result.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolcrib_fuzz::survive_stack_overflow;
use toolcrib_testkit::licence::{ALLOWED, accepts};

fuzz_target!(init: survive_stack_overflow(), |expression: &str| {
    let Ok(verdict) = accepts(expression, ALLOWED) else {
        return;
    };
    // The additional level may exceed the depth limit, but it never turns acceptance into rejection.
    if let Ok(grouped) = accepts(&format!("({expression})"), ALLOWED) {
        assert_eq!(grouped, verdict);
    }
    assert_eq!(accepts(&format!("{expression} OR MIT"), ALLOWED), Ok(true));
});
