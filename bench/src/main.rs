//! What a call costs through our clients and through the Rust SDK's, beside each other in one run.
//!
//! `toolcrib-bench` measures everything; `toolcrib-bench WORD…` only the cases whose name has all the words, as in
//! `toolcrib-bench stdio 100B`. `toolcrib-bench upstream stdio|http` is the server that both talk to.
//! `toolcrib-bench gateway [http|stdio|start|memory|list|WAY…]` holds `toolcrib serve` against other gateways.

mod case;
mod client;
mod gateway;
mod idle;
mod measure;
mod table;
mod upstream;

use std::env;
use std::error::Error;

use case::Case;
use table::Table;

type Fallible<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> Fallible {
    let words: Vec<String> = env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    match words.as_slice() {
        [first, over, rest @ ..] if first == "upstream" => {
            let tools = rest.first().map_or(Ok(2), |tools| tools.parse())?;
            return Ok(upstream::serve(over, tools)?);
        }
        [first, rest @ ..] if first == "gateway" => return gateway::report(rest),
        _ => {}
    }
    // The SDK's client takes the process-wide one; a second call would only repeat it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(all(&words))
}

async fn all(words: &[String]) -> Fallible {
    let mut table = Table::default();
    for case in Case::all().filter(|case| case.is_meant(words)) {
        table.add(&case, &case.run().await?);
    }
    table.finish();
    if words.iter().all(|word| word == "idle") {
        idle::report().await?;
    }
    Ok(())
}
