//! The scripted server on its standard streams.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use toolcrib_wire::{Decoder, Framing, Limits};

use super::{Out, Script, Server};

/// Speaks until the input ends; `args` are the script and anything else.
pub fn run(args: &[String]) -> io::Result<()> {
    let script: Script = match args.first() {
        Some(text) => serde_json::from_str(text)?,
        None => Script::default(),
    };
    if script.ignore_sigterm {
        deafen(&script, args)?;
    }
    let stdout = Stdout {
        framing: if script.content_length { Framing::ContentLength } else { Framing::Newline },
        latin1: script.latin1,
        stdout: Mutex::new(io::stdout()),
    };
    let server = Server::new(script.clone(), stdout);
    server.start()?;
    read(&script, &server)?;
    if script.ignore_end {
        loop {
            std::thread::park();
        }
    }
    Ok(())
}

fn read(script: &Script, server: &Server) -> io::Result<()> {
    let mut decoder = Decoder::new(&Limits::default());
    let mut stdin = io::stdin().lock();
    let mut chunk = vec![0; 64 * 1024];
    loop {
        let count = stdin.read(&mut chunk)?;
        if count == 0 {
            return Ok(());
        }
        decoder.push(&chunk[..count]);
        while let Some(found) = decoder.next() {
            let understood = |framing| !script.content_length || framing == Framing::ContentLength;
            let Some(frame) = found.ok().filter(|frame| understood(frame.framing)) else {
                continue;
            };
            let bytes = if script.latin1 { from_latin1(&frame.bytes) } else { frame.bytes };
            server.take(bytes)?;
        }
    }
}

/// An ignored signal stays ignored over exec, so a shell can set that up and no signal handler is needed.
fn deafen(script: &Script, args: &[String]) -> io::Result<()> {
    let quiet = Script { ignore_sigterm: false, ..script.clone() };
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "trap '' TERM HUP; exec \"$0\" \"$@\""]);
    shell.arg(std::env::current_exe()?).arg(quiet.to_json());
    shell.args(args.iter().skip(1));
    Err(shell.exec())
}

struct Stdout {
    framing: Framing,
    latin1: bool,
    stdout: Mutex<io::Stdout>,
}

impl Out for Stdout {
    fn message(&self, text: &str) -> io::Result<()> {
        let bytes = if self.latin1 { to_latin1(text) } else { text.as_bytes().to_vec() };
        let mut framed = Vec::with_capacity(bytes.len() + 32);
        self.framing.write(&bytes, &mut framed);
        self.raw(&framed)
    }

    fn raw(&self, bytes: &[u8]) -> io::Result<()> {
        let mut stdout = self.stdout.lock().unwrap_or_else(PoisonError::into_inner);
        stdout.write_all(bytes)?;
        stdout.flush()
    }

    /// The pipe is closed; what is read then is the end.
    fn close_input(&self) -> io::Result<()> {
        Ok(rustix::stdio::dup2_stdin(File::open("/dev/null")?)?)
    }
}

/// What Latin-1 lacks becomes a question mark, as careless programs do.
fn to_latin1(text: &str) -> Vec<u8> {
    text.chars().map(|character| u8::try_from(character).unwrap_or(b'?')).collect()
}

fn from_latin1(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|byte| char::from(*byte)).collect::<String>().into_bytes()
}
