//! Arbitrary bytes as a JSON configuration: every problem has its place, every server can be written down.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolcrib_config::Dialect;
use toolcrib_fuzz::{config, survive_stack_overflow};

fuzz_target!(init: survive_stack_overflow(), |bytes: &[u8]| {
    config::check(Dialect::Claude, bytes);
});
