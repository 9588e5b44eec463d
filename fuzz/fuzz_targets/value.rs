//! Arbitrary text as a native value: it reads back from both of its written forms, and never shows.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolcrib_config::{MASK, Value};
use toolcrib_fuzz::survive_stack_overflow;

fuzz_target!(init: survive_stack_overflow(), |text: &str| {
    let Ok(value) = Value::native(text) else {
        return;
    };
    let written = serde_json::to_string(&value).expect("a value is JSON");
    let back: Value = serde_json::from_str(&written).expect("what was written reads back");
    assert_eq!(back, value, "{written}");
    let resolved = value.resolve(&|_| Some("x".to_string()));
    assert!(resolved.is_ok());
    if let Some(literal) = value.as_literal() {
        let shown = if literal.is_empty() { "" } else { MASK };
        assert_eq!(value.to_string(), shown);
    }
});
