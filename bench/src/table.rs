//! Prints the result table: one case per line with toolcrib, the Rust SDK, the target and the fetch-only
//! cost.

use crate::case::{Case, CaseResult};
use crate::measure::Sample;
use crate::upstream::ResponseSize;

/// Target: CPU of a call through toolcrib relative to the SDK.
const TARGET_SMALL: f64 = 0.5;
const TARGET_LARGE: f64 = 1.0 / 3.0;

/// Result table, printed line by line because a run takes minutes.
#[derive(Default)]
pub struct Table {
    lines: usize,
    missed: Vec<String>,
}

impl Table {
    pub fn add(&mut self, case: &Case, outcome: &CaseResult) {
        if self.lines == 0 {
            println!(
                "{:16} {:^41}  {:^27}  {:^25}",
                "", "CPU, µs a call", "p50, µs", "calls a second"
            );
            println!(
                "{:16} {:>7} {:>9} {:>9} {:>7} {:>5}  {:>9} {:>9} {:>7}  {:>8} {:>8} {:>7}",
                "",
                "floor",
                "ours",
                "rmcp",
                "ratio",
                "target",
                "ours",
                "rmcp",
                "ratio",
                "ours",
                "rmcp",
                "ratio"
            );
        }
        self.lines += 1;
        let CaseResult { ours, rmcp, floor } = outcome;
        let floor = floor.map_or_else(String::new, |floor| format!("{:.1}", micros(floor.cpu)));
        let aim = match case.size {
            ResponseSize::Small => TARGET_SMALL,
            ResponseSize::Large => TARGET_LARGE,
        };
        let [cpu, latency, rate] = ratios(ours, rmcp);
        println!(
            "{:16} {floor:>7} {:>9.1} {:>9.1} {cpu:>7.2} {aim:>5.2}  {:>9.1} {:>9.1} {latency:>7.2}  {:>8.0} {:>8.0} {rate:>7.2}",
            case.to_string(),
            micros(ours.cpu),
            micros(rmcp.cpu),
            micros(ours.latency),
            micros(rmcp.latency),
            ours.per_second,
            rmcp.per_second,
        );
        if cpu > aim {
            self.missed.push(format!("{case}: {cpu:.2} of the SDK's CPU, target {aim:.2}"));
        }
    }

    pub fn print_missed(&self) {
        for missed in &self.missed {
            println!("missed: {missed}");
        }
    }
}

fn ratios(ours: &Sample, rmcp: &Sample) -> [f64; 3] {
    [
        ours.cpu.as_secs_f64() / rmcp.cpu.as_secs_f64(),
        ours.latency.as_secs_f64() / rmcp.latency.as_secs_f64(),
        ours.per_second / rmcp.per_second,
    ]
}

fn micros(time: std::time::Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
