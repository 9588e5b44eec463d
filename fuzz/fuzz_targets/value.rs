//! Fuzzes native values: both written forms parse to the same value, and literals are masked.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolcrib_config::{MASK, Value};
use toolcrib_fuzz::survive_stack_overflow;

fuzz_target!(init: survive_stack_overflow(), |text: &str| {
    let Ok(value) = Value::parse_native(text) else {
        return;
    };
    let written = serde_json::to_string(&value).expect("a value is JSON");
    let parsed: Value = serde_json::from_str(&written).expect("the written value parses");
    assert_eq!(parsed, value, "{written}");
    let resolved = value.resolve(&|_| Some("x".to_string()));
    assert!(resolved.is_ok());
    if let Some(literal) = value.as_literal() {
        let shown = if literal.is_empty() { "" } else { MASK };
        assert_eq!(value.to_string(), shown);
    }
});
