//! Fuzzes the compiler with arbitrary bytes as a TOML configuration: problems have locations, servers can be
//! written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolcrib_config::Dialect;
use toolcrib_fuzz::{config, survive_stack_overflow};

fuzz_target!(init: survive_stack_overflow(), |bytes: &[u8]| {
    config::check(Dialect::Codex, bytes);
});
