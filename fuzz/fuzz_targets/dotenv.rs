//! Fuzzes the `.env` parser: parsed values can be written and parsed again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolcrib_config::dotenv::parse;
use toolcrib_fuzz::survive_stack_overflow;

fuzz_target!(init: survive_stack_overflow(), |text: &str| {
    let (values, bad) = parse(text);
    let lines = text.split('\n').count() as u32;
    assert!(bad.iter().all(|line| (1..=lines).contains(line)));
    assert!(bad.is_sorted());
    let written: String = values
        .iter()
        .map(|(name, value)| format!("{name}=\"{}\"\n", escaped(value)))
        .collect();
    assert_eq!(parse(&written), (values, Vec::new()));
});

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\r', "\\r")
}
