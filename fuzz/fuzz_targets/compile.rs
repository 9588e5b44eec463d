//! Fuzzes the compiler with arbitrary bytes; the first byte selects the dialect.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolcrib_config::Dialect;
use toolcrib_fuzz::{config, survive_stack_overflow};

fuzz_target!(init: survive_stack_overflow(), |bytes: &[u8]| {
    let Some((first, text)) = bytes.split_first() else {
        return;
    };
    let words = Dialect::WORDS;
    let word = words[usize::from(*first) % words.len()];
    let dialect = Dialect::from_word(word).expect("every dialect word is known");
    config::check(dialect, text);
});
