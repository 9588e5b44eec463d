//! Compares the cost of a call through toolcrib's clients and through the Rust SDK's in one run.
//!
//! `toolcrib-bench` runs all cases; `toolcrib-bench WORD…` runs the cases whose name has all the words, as in
//! `toolcrib-bench stdio 100B`. `toolcrib-bench upstream stdio|http` is the server for both clients.
//! `toolcrib-bench gateway [http|stdio|start|memory|list|GATEWAY…]` compares `toolcrib serve` with other gateways.

mod case;
mod client;
mod gateway;
mod idle_memory;
mod measure;
mod table;
mod upstream;

use std::env;
use std::error::Error;

use case::Case;
use table::Table;

type BenchResult<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> BenchResult {
    let words: Vec<String> = env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    match words.as_slice() {
        [first, transport, rest @ ..] if first == "upstream" => {
            let tools = rest.first().map_or(Ok(2), |tools| tools.parse())?;
            return Ok(upstream::serve(transport, tools)?);
        }
        [first, rest @ ..] if first == "gateway" => return gateway::report(rest),
        _ => {}
    }
    // The SDK's client uses the process-wide provider; a second installation fails harmlessly.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(run_cases(&words))
}

async fn run_cases(words: &[String]) -> BenchResult {
    let mut table = Table::default();
    for case in Case::all().filter(|case| case.matches(words)) {
        table.add(&case, &case.run().await?);
    }
    table.print_missed();
    if words.iter().all(|word| word == "idle") {
        idle_memory::report().await?;
    }
    Ok(())
}
