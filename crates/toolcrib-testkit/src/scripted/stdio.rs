//! Runs the scripted server on its standard streams.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use toolcrib_wire::{FrameDecoder, Framing, MessageLimits};

use super::{MessageSink, Script, ScriptedServer};

/// Serves until the input ends. `args` are the script and optional further arguments.
pub fn run(args: &[String]) -> io::Result<()> {
    let script: Script = match args.first() {
        Some(text) => serde_json::from_str(text)?,
        None => Script::default(),
    };
    if script.ignore_sigterm {
        reexec_ignoring_sigterm(&script, args)?;
    }
    let stdout = Stdout {
        framing: if script.content_length { Framing::ContentLength } else { Framing::Newline },
        latin1: script.latin1,
        stdout: Mutex::new(io::stdout()),
    };
    let server = ScriptedServer::new(script.clone(), stdout);
    server.start()?;
    read_frames(&script, &server)?;
    if script.ignore_end {
        loop {
            std::thread::park();
        }
    }
    Ok(())
}

fn read_frames(script: &Script, server: &ScriptedServer) -> io::Result<()> {
    let mut decoder = FrameDecoder::new(&MessageLimits::default());
    let mut stdin = io::stdin().lock();
    let mut chunk = vec![0; 64 * 1024];
    loop {
        let count = stdin.read(&mut chunk)?;
        if count == 0 {
            return Ok(());
        }
        decoder.push(&chunk[..count]);
        while let Some(found) = decoder.next() {
            let is_understood =
                |framing| !script.content_length || framing == Framing::ContentLength;
            let Some(frame) = found.ok().filter(|frame| is_understood(frame.framing)) else {
                continue;
            };
            let bytes = if script.latin1 { from_latin1(&frame.bytes) } else { frame.bytes };
            server.handle_frame(bytes)?;
        }
    }
}

/// Restarts the program with SIGTERM ignored. Ignored signals stay ignored across exec, so a shell can set
/// this up without a signal handler.
fn reexec_ignoring_sigterm(script: &Script, args: &[String]) -> io::Result<()> {
    let without_sigterm = Script { ignore_sigterm: false, ..script.clone() };
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "trap '' TERM HUP; exec \"$0\" \"$@\""]);
    shell.arg(std::env::current_exe()?).arg(without_sigterm.to_json());
    shell.args(args.iter().skip(1));
    Err(shell.exec())
}

struct Stdout {
    framing: Framing,
    latin1: bool,
    stdout: Mutex<io::Stdout>,
}

impl MessageSink for Stdout {
    fn send_message(&self, text: &str) -> io::Result<()> {
        let bytes = if self.latin1 { to_latin1(text) } else { text.as_bytes().to_vec() };
        let mut framed = Vec::with_capacity(bytes.len() + 32);
        self.framing.write(&bytes, &mut framed);
        self.send_raw(&framed)
    }

    fn send_raw(&self, bytes: &[u8]) -> io::Result<()> {
        let mut stdout = self.stdout.lock().unwrap_or_else(PoisonError::into_inner);
        stdout.write_all(bytes)?;
        stdout.flush()
    }

    /// Closes the pipe; later reads return end of file.
    fn close_input(&self) -> io::Result<()> {
        Ok(rustix::stdio::dup2_stdin(File::open("/dev/null")?)?)
    }
}

/// Replaces characters outside of Latin-1 by a question mark, as careless programs do.
fn to_latin1(text: &str) -> Vec<u8> {
    text.chars().map(|character| u8::try_from(character).unwrap_or(b'?')).collect()
}

fn from_latin1(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|byte| char::from(*byte)).collect::<String>().into_bytes()
}
