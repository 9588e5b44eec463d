//! The `toolcrib` command: arguments become settings, settings become one command's work.

mod args;
mod cmd;
mod demo;
mod file;
mod out;
mod report;
mod settings;
mod world;

use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};
use out::Out;
use settings::Settings;

/// How a command ends, as scripts see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Done = 0,
    Failed = 1,
    Usage = 2,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let out = Out::new(args.common.quiet);
    let settings = match Settings::new(&args.common, world::Real::of_process()) {
        Ok(settings) => settings,
        Err(error) => {
            out.error(&error);
            return ExitCode::from(Exit::Usage as u8);
        }
    };
    let exit = match args.command {
        Command::Check => cmd::check::run(&settings, &out),
        Command::Explain(args) => cmd::explain::run(&settings, &out, &args),
        Command::Import(args) => cmd::import::run(&settings, &out, &args),
        Command::Doctor(args) => cmd::doctor::run(&settings, &out, &args),
        Command::DemoServer(args) => cmd::demo_server::run(&settings, &out, &args),
    };
    ExitCode::from(exit as u8)
}
