//! The table: each case in a line, ours beside the Rust SDK's, with the aim, and what fetching alone costs.

use crate::case::{Case, Outcome};
use crate::measure::Sample;
use crate::upstream::Size;

/// What a call through us may cost of what it costs through the SDK.
const AIM_SMALL: f64 = 0.5;
const AIM_LARGE: f64 = 1.0 / 3.0;

/// Printed as it grows: a run takes minutes.
#[derive(Default)]
pub struct Table {
    lines: usize,
    missed: Vec<String>,
}

impl Table {
    pub fn add(&mut self, case: &Case, outcome: &Outcome) {
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
                "aim",
                "ours",
                "rmcp",
                "ratio",
                "ours",
                "rmcp",
                "ratio"
            );
        }
        self.lines += 1;
        let Outcome { ours, theirs, floor } = outcome;
        let floor = floor.map_or_else(String::new, |floor| format!("{:.1}", micros(floor.cpu)));
        let aim = match case.size {
            Size::Small => AIM_SMALL,
            Size::Large => AIM_LARGE,
        };
        let [cpu, latency, rate] = ratios(ours, theirs);
        println!(
            "{:16} {floor:>7} {:>9.1} {:>9.1} {cpu:>7.2} {aim:>5.2}  {:>9.1} {:>9.1} {latency:>7.2}  {:>8.0} {:>8.0} {rate:>7.2}",
            case.to_string(),
            micros(ours.cpu),
            micros(theirs.cpu),
            micros(ours.latency),
            micros(theirs.latency),
            ours.per_second,
            theirs.per_second,
        );
        if cpu > aim {
            self.missed.push(format!("{case}: {cpu:.2} of the SDK's CPU, the aim is {aim:.2}"));
        }
    }

    pub fn finish(&self) {
        for missed in &self.missed {
            println!("missed: {missed}");
        }
    }
}

fn ratios(ours: &Sample, theirs: &Sample) -> [f64; 3] {
    [
        ours.cpu.as_secs_f64() / theirs.cpu.as_secs_f64(),
        ours.latency.as_secs_f64() / theirs.latency.as_secs_f64(),
        ours.per_second / theirs.per_second,
    ]
}

fn micros(time: std::time::Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
