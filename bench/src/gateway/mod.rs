//! The gateway beside a plain reverse proxy and other gateways, in one run: what it adds to a call, how many calls it
//! carries, and what it needs for itself.

mod cores;
mod load;
mod process;
mod way;
mod web;

use std::time::{Duration, Instant};

use cores::{Placing, Who};
use load::Load;
use process::{Gateway, find, serve};
use way::{Behind, Way};
use web::{Connection, initialize};

use crate::Fallible;
use crate::upstream::{Over, Size, Upstream};

/// Each has so many turns; the middle one counts where ways are held against each other, else the best.
const ROUNDS: usize = 5;

/// Client sessions that are open at once where their memory is measured.
const SESSIONS: u32 = 500;

pub fn report(words: &[String]) -> Fallible {
    let parts = ["http", "stdio", "start", "memory", "list"];
    let is_whole = !words.iter().any(|it| parts.contains(&it.as_str()));
    let wants = |word: &str| is_whole || words.iter().any(|it| it == word);
    // Any other word is a way, and then only those that are named are measured.
    let ways = |all: &[Way]| -> Vec<Way> {
        let named = |way: &&Way| words.iter().any(|it| way.to_string().starts_with(it.as_str()));
        let some: Vec<Way> = all.iter().filter(named).copied().collect();
        if some.is_empty() { all.to_vec() } else { some }
    };
    // A number is how many calls are in flight, and then only those loads are measured.
    let numbers: Vec<usize> = words.iter().filter_map(|it| it.parse().ok()).collect();
    let is_wanted = |in_flight: usize| numbers.is_empty() || numbers.contains(&in_flight);
    if wants("http") {
        let upstream = Upstream::start(Over::Http)?;
        let Upstream::Address { url, server } = &upstream else { return Err("no address".into()) };
        let loads = [
            (Size::Small, 1, 3_000, Placing::Apart),
            (Size::Small, 1, 3_000, Placing::Free),
            (Size::Small, 16, 12_800, Placing::Free),
            (Size::Small, 64, 25_600, Placing::Free),
            (Size::Large, 1, 100, Placing::Free),
            (Size::Large, 16, 320, Placing::Free),
        ];
        for (size, in_flight, calls, placing) in loads.into_iter().filter(|it| is_wanted(it.1)) {
            // Before anybody is connected: the server has a thread for each connection.
            let _kept = placing.keep(Who::Server(server.pid()))?;
            let load = Wanted { size, in_flight, calls, placing };
            table("HTTP", load, &ways(&Way::OVER_HTTP), Behind::Http(url))?;
        }
    }
    if wants("stdio") {
        let loads = [(1, 1_000), (16, 6_400), (64, 12_800)];
        for (in_flight, calls) in loads.into_iter().filter(|it| is_wanted(it.0)) {
            let load = Wanted { size: Size::Small, in_flight, calls, placing: Placing::Free };
            table("stdio", load, &ways(&Way::OVER_STDIO), Behind::Stdio)?;
        }
    }
    if wants("start") {
        starts()?;
    }
    if wants("memory") {
        memory()?;
    }
    if wants("list") {
        lists()?;
    }
    Ok(())
}

/// What each way is given to do.
#[derive(Clone, Copy)]
struct Wanted {
    size: Size,
    in_flight: usize,
    calls: usize,
    placing: Placing,
}

fn table(name: &str, load: Wanted, ways: &[Way], behind: Behind<'_>) -> Fallible {
    let apart = match load.placing {
        Placing::Free => "",
        Placing::Apart => ", client and server on a core each",
    };
    println!("\n### {name} upstream, {}, {} in flight{apart}\n", load.size.tool(), load.in_flight);
    println!("| way | calls/s | of the first | p50 | CPU of it a call |\n|---|---|---|---|---|");
    let before = process::spent();
    let mut racers: Vec<Racer> = ways.iter().map(|way| Racer::start(*way, behind)).collect();
    for round in 0..=ROUNDS {
        for racer in &mut racers {
            racer.run(load, round == 0);
        }
    }
    let [first, ..] = racers.as_slice() else { return Ok(()) };
    racers.iter().for_each(|racer| racer.print(first));
    if let Some((before, after)) = before.zip(process::spent()) {
        println!("\nOther machines had {:.1} % of the time.", after.stolen_since(before) * 100.0);
    }
    Ok(())
}

/// One way, and what it took in each round. Each round has all ways in it, so that a machine that is slower for a
/// while is slower for all of them.
struct Racer {
    way: Way,
    gateway: Result<Gateway, String>,
    loads: Vec<Load>,
}

impl Racer {
    fn start(way: Way, behind: Behind<'_>) -> Self {
        let gateway = match way.missing() {
            Some(missing) => Err(missing),
            None => way.start(behind).map_err(|error| format!("failed: {error}")),
        };
        Racer { way, gateway, loads: Vec::new() }
    }

    /// The first time only warms up.
    fn run(&mut self, wanted: Wanted, is_first: bool) {
        let Ok(gateway) = &self.gateway else { return };
        // What is many times slower need not be asked as often.
        let is_slow = !matches!(self.way, Way::Direct | Way::Nginx | Way::Toolcrib);
        let divisor = if is_slow { 20 } else { 1 } * if is_first { 10 } else { 1 };
        let Wanted { size, in_flight, calls, placing } = wanted;
        match load::run(gateway, size, in_flight, (calls / divisor).max(in_flight), placing) {
            Ok(_) if is_first => {}
            Ok(load) => self.loads.push(load),
            Err(error) => self.gateway = Err(format!("failed: {error}")),
        }
    }

    fn print(&self, first: &Racer) {
        let way = self.way;
        if let Err(error) = &self.gateway {
            return println!("| {way} | {error} | | | |");
        }
        let of = |one: fn(&Load) -> f64| median(self.loads.iter().map(one).collect());
        let pairs = self.loads.iter().zip(&first.loads);
        let ratio = median(pairs.map(|(own, first)| own.per_second / first.per_second).collect());
        let (rate, p50) = (of(|it| it.per_second), of(|it| it.p50.as_secs_f64()) * 1e6);
        let cpu = of(|it| it.cpu.unwrap_or_default().as_secs_f64()) * 1e6;
        let cpu = if cpu > 0.0 { format!("{cpu:.0} µs") } else { String::new() };
        println!("| {way} | {rate:.0} | {ratio:.3} | {p50:.0} µs | {cpu} |");
    }
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
}

/// From the start of the process to a complete first list, with nothing remembered.
fn starts() -> Fallible {
    println!(
        "\n### From start to a complete first list\n\n| upstreams | best of {ROUNDS} |\n|---|---|"
    );
    for count in [1, 50] {
        let mut best = Duration::MAX;
        for _ in 0..ROUNDS {
            let (gateway, begun) = serve(&stdio_servers(count)?)?;
            let tools = list(&gateway)?.1;
            if tools != 2 * count {
                return Err(format!("{tools} tools of {count} upstreams").into());
            }
            best = best.min(begun.elapsed());
        }
        println!("| {count} | {:.1} ms |", best.as_secs_f64() * 1e3);
    }
    Ok(())
}

fn memory() -> Fallible {
    println!("\n### Resident memory, idle\n\n| | |\n|---|---|");
    for count in [1, 50] {
        let (gateway, _) = serve(&stdio_servers(count)?)?;
        list(&gateway)?;
        std::thread::sleep(Duration::from_secs(2));
        println!("| {count} stdio upstreams | {:.1} MB |", megabytes(&gateway));
        if count == 1 {
            // The code that sessions need is in memory then.
            sessions(&gateway, SESSIONS / 10)?;
            let before = megabytes(&gateway);
            sessions(&gateway, SESSIONS)?;
            let each = (megabytes(&gateway) - before) * 1024.0 / f64::from(SESSIONS);
            println!("| a client session without a stream ({SESSIONS} of them) | {each:.1} KB |");
        }
    }
    Ok(())
}

/// Opens sessions and leaves them.
fn sessions(gateway: &Gateway, count: u32) -> Fallible {
    for _ in 0..count {
        let session = initialize(gateway.address, &gateway.path)?;
        let mut connection = Connection::open(gateway.address, &gateway.path, session.as_deref())?;
        connection.post(LIST)?;
    }
    std::thread::sleep(Duration::from_secs(1));
    Ok(())
}

fn lists() -> Fallible {
    println!("\n### A list of 5,000 tools\n\n| way | best of 20 |\n|---|---|");
    // The upstream looks at this.
    let upstream = Upstream::start_with(Over::Http, 5_000)?;
    let Upstream::Address { url, .. } = &upstream else { return Err("no address".into()) };
    for way in [Way::Direct, Way::Nginx, Way::Toolcrib] {
        let gateway = way.start(Behind::Http(url))?;
        let mut best = Duration::MAX;
        for _ in 0..20 {
            let (took, tools) = list(&gateway)?;
            if tools < 5_000 {
                return Err(format!("{way}: {tools} tools").into());
            }
            best = best.min(took);
        }
        println!("| {way} | {:.2} ms |", best.as_secs_f64() * 1e3);
    }
    Ok(())
}

const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;

/// How long a list took, and how many tools it has.
fn list(gateway: &Gateway) -> Fallible<(Duration, usize)> {
    let session = initialize(gateway.address, &gateway.path)?;
    let mut connection = Connection::open(gateway.address, &gateway.path, session.as_deref())?;
    let begun = Instant::now();
    connection.post(LIST)?;
    let took = begun.elapsed();
    let word = b"\"inputSchema\"";
    if !find(&connection.body, b"\"result\"") {
        return Err(String::from_utf8_lossy(&connection.body).into_owned().into());
    }
    let count = connection.body.windows(word.len()).filter(|window| window == word).count();
    Ok((took, count))
}

fn stdio_servers(count: usize) -> Fallible<String> {
    let own = std::env::current_exe()?.to_string_lossy().into_owned();
    let entry = |number| {
        format!(
            "  s{number}:\n    command: {own}\n    args: [upstream, stdio]\n    session: {{ scope: shared }}\n"
        )
    };
    Ok((0..count).map(entry).collect())
}

fn megabytes(gateway: &Gateway) -> f64 {
    gateway.memory().unwrap_or_default() as f64 / 1024.0
}
