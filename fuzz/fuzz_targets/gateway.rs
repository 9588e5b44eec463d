//! Fuzzes the gateway with arbitrary client bytes: HTTP heads, bodies, JSON and JSON-RPC.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolcrib_fuzz::{gateway, survive_broken_pipes, survive_stack_overflow};

fuzz_target!(init: start(), |bytes: &[u8]| {
    gateway::check(bytes);
});

fn start() {
    survive_stack_overflow();
    survive_broken_pipes();
}
