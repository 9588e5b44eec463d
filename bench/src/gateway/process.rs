//! What stands between: each gateway as a process that ends with its owner, and what it uses.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::Fallible;

/// How long a gateway may take to listen.
const START: Duration = Duration::from_secs(60);

/// The kernel's clock ticks in a second.
const TICKS: u32 = 100;

/// Somebody who answers at an address.
pub struct Gateway {
    pub address: SocketAddr,
    pub path: String,
    /// What tools are called besides.
    pub prefix: &'static str,
    /// None where it is the upstream itself.
    process: Option<Group>,
    _folder: Option<tempfile::TempDir>,
}

/// A process and all that it started.
struct Group(Child);

impl Gateway {
    pub fn direct(url: &str) -> Fallible<Self> {
        let (address, path) = parts(url)?;
        Ok(Self { address, path, prefix: "", process: None, _folder: None })
    }

    /// A program that listens on the port that it is told.
    pub fn start(
        command: &mut Command,
        port: u16,
        path: &str,
        folder: Option<tempfile::TempDir>,
    ) -> Fallible<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let process = Some(Group(command.spawn()?));
        let address: SocketAddr = ([127, 0, 0, 1], port).into();
        let begun = Instant::now();
        while TcpStream::connect(address).is_err() {
            if begun.elapsed() > START {
                return Err(format!("{command:?} does not listen").into());
            }
            sleep(Duration::from_millis(1));
        }
        Ok(Self { address, path: path.to_owned(), prefix: "", process, _folder: folder })
    }

    /// Time of the processor that it has used, with what it started but for upstreams.
    pub fn cpu(&self) -> Option<Duration> {
        let ticks = |pid: u32| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
            let number = |at: usize| fields.get(at)?.parse::<u32>().ok();
            Some(number(11)? + number(12)?)
        };
        let own = self.process.as_ref()?;
        let all: u32 = own.members().into_iter().filter_map(ticks).sum();
        Some(Duration::from_secs(1) * all / TICKS)
    }

    /// Memory that is its own, in kilobytes.
    pub fn memory(&self) -> Option<u64> {
        let resident = |pid: u32| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.trim();
            line.split(' ').next()?.parse::<u64>().ok()
        };
        Some(self.process.as_ref()?.members().into_iter().filter_map(resident).sum())
    }
}

impl Group {
    /// Its processes, but for upstreams.
    fn members(&self) -> Vec<u32> {
        let group = self.0.id();
        let is_member = |pid: &u32| {
            let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
            let of = stat.rsplit(')').next().and_then(|it| it.split_whitespace().nth(2));
            let is_of = of.and_then(|it| it.parse().ok()) == Some(group);
            // Upstreams are this program; others may name it among their arguments.
            let program = fs::read_link(format!("/proc/{pid}/exe")).ok();
            is_of && program != std::env::current_exe().ok()
        };
        let all = fs::read_dir("/proc").into_iter().flatten().flatten();
        all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_member).collect()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its group has the number of its first process; only what was started here is ended.
        let group = self.0.id().to_string();
        let _ = Command::new("kill").args(["-TERM", "--", &format!("-{group}")]).status();
        for _ in 0..100 {
            if matches!(self.0.try_wait(), Ok(Some(_))) {
                return;
            }
            sleep(Duration::from_millis(20));
        }
        let _ = Command::new("kill").args(["-KILL", "--", &format!("-{group}")]).status();
        let _ = self.0.wait();
    }
}

/// Time of the processors since the machine was started.
#[derive(Clone, Copy)]
pub struct Spent {
    stolen: f64,
    all: f64,
}

impl Spent {
    /// The part of the time since then that other machines on the same hardware had.
    pub fn stolen_since(self, before: Spent) -> f64 {
        (self.stolen - before.stolen) / (self.all - before.all)
    }
}

/// Where the kernel tells.
pub fn spent() -> Option<Spent> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let line = stat.lines().next()?.split_whitespace().skip(1);
    let times: Vec<f64> = line.map_while(|it| it.parse().ok()).collect();
    // What guests had comes after this, and is in what users had.
    Some(Spent { stolen: *times.get(7)?, all: times.iter().take(8).sum() })
}

/// A port that nobody has.
pub fn free_port() -> Fallible<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

pub fn parts(url: &str) -> Fallible<(SocketAddr, String)> {
    let rest = url.strip_prefix("http://").ok_or("no address")?;
    let (address, path) = rest.split_once('/').ok_or("no path")?;
    Ok((address.parse()?, format!("/{path}")))
}

pub fn find(bytes: &[u8], word: &[u8]) -> bool {
    bytes.windows(word.len()).any(|window| window == word)
}

/// The product, as `make bench` builds it.
pub fn toolcrib() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/dist/toolcrib")
}

/// Starts the product on a workspace with these servers; the gateway, and when it was started.
pub fn serve(servers: &str) -> Fallible<(Gateway, Instant)> {
    let folder = tempfile::tempdir()?;
    let root = folder.path().join("root");
    fs::create_dir(&root)?;
    fs::write(root.join("toolcrib.yaml"), format!("version: 1\nservers:\n{servers}"))?;
    let begun = Instant::now();
    let mut command = Command::new(toolcrib());
    command.args(["serve", "--listen", "127.0.0.1:0", "--root"]).arg(&root);
    command.env("TOOLCRIB_STATE_DIR", folder.path().join("state"));
    command.env("TOOLCRIB_CONFIG_HOME", folder.path().join("home"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    let mut process = Group(command.spawn()?);
    let mut line = String::new();
    BufReader::new(process.0.stdout.take().ok_or("no stdout")?).read_line(&mut line)?;
    let start = line.find("http://").ok_or("no address in the ready line")?;
    let end = line[start + 7..].find(|it: char| !it.is_ascii_digit() && it != '.' && it != ':');
    let address = line[start + 7..][..end.unwrap_or(line.len() - start - 7)].parse()?;
    let gateway = Gateway {
        address,
        path: "/mcp".to_owned(),
        prefix: "",
        process: Some(process),
        _folder: Some(folder),
    };
    Ok((gateway, begun))
}
