//! The `toolcrib` command: parses arguments into settings and runs one command.

mod api_client;
mod args;
mod atomic_file;
mod browser;
mod callback;
mod client_entries;
mod cmd;
mod demo;
mod environment;
mod host_access;
mod host_pipe;
mod input_prompts;
mod logging;
mod output;
mod problem_report;
#[cfg(test)]
mod reference;
mod relay;
mod replaced_entries;
mod root_lock;
mod running_host;
mod server_account;
mod settings;
mod terminal_text;
mod trust_prompt;

use std::process::ExitCode;

use clap::Parser;
use tracing::Level;

use args::{Args, Command};
use output::Output;
use settings::Settings;

/// A gateway call makes many small allocations, which cost half as much with mimalloc as with the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Done = 0,
    Failed = 1,
    Usage = 2,
    /// No server could be reached.
    Unreached = 3,
    Interrupted = 130,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let out = Output::new(args.common.quiet);
    let settings = match Settings::new(&args.common, environment::ProcessEnvironment::current()) {
        Ok(settings) => settings,
        Err(error) => {
            out.print_error(&error);
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
        Command::Server(command) => cmd::server::run(&settings, &out, &command),
        Command::Reload => cmd::reload::run(&settings, &out),
        Command::Status => cmd::status::run(&settings, &out),
        Command::Problems(args) => cmd::problems::run(&settings, &out, &args),
        Command::Explain(args) => cmd::explain::run(&settings, &out, &args),
        Command::Trust(args) => cmd::trust::run(&settings, &out, &args),
        Command::Accept(args) => cmd::accept::run(&settings, &out, &args),
        Command::Token(command) => cmd::token::run(&settings, &out, &command),
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

/// Returns the log level. Without `-v` only a serving host logs; other commands print their errors themselves.
fn log_level(args: &Args) -> Option<Level> {
    match (&args.command, args.common.verbose, args.common.quiet) {
        (_, true, _) => Some(Level::DEBUG),
        (Command::Serve(_), false, true) => Some(Level::ERROR),
        (Command::Serve(_), false, false) => Some(Level::WARN),
        _ => None,
    }
}
