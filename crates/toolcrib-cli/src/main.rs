//! The `toolcrib` command: arguments become settings, settings become one command's work.

mod account;
mod api;
mod args;
mod browser;
mod callback;
mod clients;
mod cmd;
mod demo;
mod file;
mod hosted;
mod inputs;
mod logging;
mod out;
mod pipe;
mod relay;
mod replaced;
mod report;
mod root_lock;
mod running;
mod settings;
mod shown;
mod trust;
mod world;

use std::process::ExitCode;

use clap::Parser;
use tracing::Level;

use args::{Args, Command};
use out::Out;
use settings::Settings;

/// A call through the gateway is many small allocations, which cost it half as much here as with the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How a command ends, as scripts see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Done = 0,
    Failed = 1,
    Usage = 2,
    /// Nothing could be reached.
    Unreached = 3,
    Interrupted = 130,
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
    if let Some(level) = log_level(&args) {
        logging::start(level);
    }
    let exit = match args.command {
        Command::Check => cmd::check::run(&settings, &out),
        Command::Servers => cmd::servers::run(&settings, &out),
        Command::Tools(args) => cmd::tools::run(&settings, &out, &args),
        Command::Why(args) => cmd::why::run(&settings, &out, &args),
        Command::Call(args) => cmd::call::run(&settings, &out, &args),
        Command::Resources(args) => cmd::resources::run(&settings, &out, &args),
        Command::Read(args) => cmd::read::run(&settings, &out, &args),
        Command::Prompts(args) => cmd::prompts::run(&settings, &out, &args),
        Command::Prompt(args) => cmd::prompt::run(&settings, &out, &args),
        Command::Server(what) => cmd::server::run(&settings, &out, &what),
        Command::Reload => cmd::reload::run(&settings, &out),
        Command::Status => cmd::status::run(&settings, &out),
        Command::Explain(args) => cmd::explain::run(&settings, &out, &args),
        Command::Trust(args) => cmd::trust::run(&settings, &out, &args),
        Command::Accept(args) => cmd::accept::run(&settings, &out, &args),
        Command::Token(what) => cmd::token::run(&settings, &out, &what),
        Command::Login(args) => cmd::login::run(&settings, &out, &args),
        Command::Logout(args) => cmd::logout::run(&settings, &out, &args),
        Command::Connect(args) => cmd::connect::run(&settings, &out, &args),
        Command::Import(args) => cmd::import::run(&settings, &out, &args),
        Command::Serve(args) => cmd::serve::run(&settings, &out, &args),
        Command::Doctor(args) => cmd::doctor::run(&settings, &out, &args),
        Command::DemoServer(args) => cmd::demo_server::run(&settings, &out, &args),
    };
    logging::flush();
    ExitCode::from(exit as u8)
}

/// The least severe events that are logged. Only a host that serves logs without `-v`: other commands print what is wrong
/// themselves.
fn log_level(args: &Args) -> Option<Level> {
    match (&args.command, args.common.verbose, args.common.quiet) {
        (_, true, _) => Some(Level::DEBUG),
        (Command::Serve(_), false, true) => Some(Level::ERROR),
        (Command::Serve(_), false, false) => Some(Level::WARN),
        _ => None,
    }
}
