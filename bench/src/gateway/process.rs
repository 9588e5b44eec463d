//! Runs a gateway as a process that ends with its owner, and measures its resources.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::BenchResult;

/// Limit for a gateway to start listening.
const START_LIMIT: Duration = Duration::from_secs(60);

/// Kernel clock ticks per second.
const TICKS_PER_SECOND: u32 = 100;

/// A running gateway.
pub struct Gateway {
    pub address: SocketAddr,
    pub path: String,
    /// Prefix of tool names.
    pub prefix: &'static str,
    /// `None` for the upstream itself.
    process: Option<ProcessGroup>,
    _folder: Option<tempfile::TempDir>,
}

/// A process and all of its descendants.
struct ProcessGroup(Child);

impl Gateway {
    pub fn direct(url: &str) -> BenchResult<Self> {
        let (address, path) = parse_url(url)?;
        Ok(Self { address, path, prefix: "", process: None, _folder: None })
    }

    /// Starts a program that listens on the given port.
    pub fn start(
        command: &mut Command,
        port: u16,
        path: &str,
        folder: Option<tempfile::TempDir>,
    ) -> BenchResult<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let process = Some(ProcessGroup(command.spawn()?));
        let address: SocketAddr = ([127, 0, 0, 1], port).into();
        let started = Instant::now();
        while TcpStream::connect(address).is_err() {
            if started.elapsed() > START_LIMIT {
                return Err(format!("{command:?} does not listen within the limit").into());
            }
            sleep(Duration::from_millis(1));
        }
        Ok(Self { address, path: path.to_owned(), prefix: "", process, _folder: folder })
    }

    /// Returns the CPU time of the gateway and its descendants, without upstreams.
    pub fn cpu(&self) -> Option<Duration> {
        let ticks = |pid: u32| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
            let number = |at: usize| fields.get(at)?.parse::<u32>().ok();
            Some(number(11)? + number(12)?)
        };
        let own = self.process.as_ref()?;
        let all: u32 = own.members().into_iter().filter_map(ticks).sum();
        Some(Duration::from_secs(1) * all / TICKS_PER_SECOND)
    }

    /// Returns the resident memory in kilobytes.
    pub fn memory(&self) -> Option<u64> {
        let resident = |pid: u32| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.trim();
            line.split(' ').next()?.parse::<u64>().ok()
        };
        Some(self.process.as_ref()?.members().into_iter().filter_map(resident).sum())
    }
}

impl ProcessGroup {
    /// Returns the processes of the group without upstreams.
    fn members(&self) -> Vec<u32> {
        let group = self.0.id();
        let is_member = |pid: &u32| {
            let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
            let of = stat.rsplit(')').next().and_then(|it| it.split_whitespace().nth(2));
            let is_of = of.and_then(|it| it.parse().ok()) == Some(group);
            // Upstreams run this program; other processes may name it in their arguments.
            let program = fs::read_link(format!("/proc/{pid}/exe")).ok();
            is_of && program != std::env::current_exe().ok()
        };
        let all = fs::read_dir("/proc").into_iter().flatten().flatten();
        all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_member).collect()
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        // The group id is the id of the first process. Only processes started here are stopped.
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

/// CPU time of the machine since boot.
#[derive(Clone, Copy)]
pub struct CpuTimes {
    stolen: f64,
    all: f64,
}

impl CpuTimes {
    /// Returns the share of the time that other virtual machines used since `before`.
    pub fn stolen_since(self, before: CpuTimes) -> f64 {
        (self.stolen - before.stolen) / (self.all - before.all)
    }
}

/// Reads the CPU times, if the kernel provides them.
pub fn read_cpu_times() -> Option<CpuTimes> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let line = stat.lines().next()?.split_whitespace().skip(1);
    let times: Vec<f64> = line.map_while(|it| it.parse().ok()).collect();
    // Guest time follows and is already part of user time.
    Some(CpuTimes { stolen: *times.get(7)?, all: times.iter().take(8).sum() })
}

/// Returns an unused port.
pub fn free_port() -> BenchResult<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

pub fn parse_url(url: &str) -> BenchResult<(SocketAddr, String)> {
    let rest = url.strip_prefix("http://").ok_or("no address")?;
    let (address, path) = rest.split_once('/').ok_or("no path")?;
    Ok((address.parse()?, format!("/{path}")))
}

pub fn contains(bytes: &[u8], word: &[u8]) -> bool {
    bytes.windows(word.len()).any(|window| window == word)
}

/// Path of the product as `make bench` builds it.
pub fn toolcrib_binary() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/dist/toolcrib")
}

/// Starts the product on a workspace with these servers. Returns the gateway and its start time.
pub fn start_toolcrib(servers: &str) -> BenchResult<(Gateway, Instant)> {
    let folder = tempfile::tempdir()?;
    let root = folder.path().join("root");
    fs::create_dir(&root)?;
    fs::write(root.join("toolcrib.yaml"), format!("version: 1\nservers:\n{servers}"))?;
    let started = Instant::now();
    let mut command = Command::new(toolcrib_binary());
    command.args(["serve", "--listen", "127.0.0.1:0", "--root"]).arg(&root);
    command.env("TOOLCRIB_STATE_DIR", folder.path().join("state"));
    command.env("TOOLCRIB_CONFIG_HOME", folder.path().join("home"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    let mut process = ProcessGroup(command.spawn()?);
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
    Ok((gateway, started))
}
