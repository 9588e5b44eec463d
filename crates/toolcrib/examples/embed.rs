//! A program without an agent: loads a folder, lists its tools, calls one, and applies a changed file.
//!
//! `cargo run -p toolcrib --example embed -- FOLDER TOOL '{"text":"hello"}'`
#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a program of its own")]

use std::error::Error;

use toolcrib::{CallRequest, DialogRequest, Host, HostEvent};
use toolcrib_wire::{MessageLimits, RawJson};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let folder = args.next().ok_or("usage: embed FOLDER [TOOL [ARGUMENTS]]")?;
    let state = std::env::temp_dir().join("toolcrib-embed");
    let host = Host::builder(folder, state).env(std::env::vars()).start().await?;
    host.wait_until_settled().await;
    for problem in host.problems() {
        println!("{}: {}", problem.severity, problem.text);
    }
    for server in host.servers() {
        println!("{} is {}", server.spec.id, server.state.as_str());
    }

    let dialog = host.open_dialog(DialogRequest::default()).await?;
    for tool in dialog.turn().await.tools() {
        println!("  {}: {}", tool.name(), tool.description().unwrap_or_default());
    }
    if let Some(tool) = args.next() {
        let arguments = args.next().unwrap_or_else(|| "{}".to_owned());
        let arguments = RawJson::parse(arguments, &MessageLimits::default())?;
        let called = dialog.call(CallRequest::new(tool, arguments)).await?;
        println!("{} after {:?}", called.result.raw().text(), called.facts.duration);
    }

    // Files are watched anyway. This shows an explicit reload and its event.
    let mut events = host.subscribe();
    let reload = host.reload().await.ok_or("the host is ending")?;
    println!("read again: {} servers, nothing to do: {}", reload.steps.len(), reload.is_empty());
    while let Some(event) = events.next().await {
        if matches!(*event, HostEvent::Reloaded(_)) {
            break;
        }
    }
    host.close().await;
    Ok(())
}
