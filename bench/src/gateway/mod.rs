//! Compares the gateway with a plain reverse proxy and other gateways: latency, throughput and resource use.

mod cpu_affinity;
mod gateway_kind;
mod http_client;
mod load;
mod process;

use std::time::{Duration, Instant};

use cpu_affinity::{CorePlacement, PinTarget};
use gateway_kind::{GatewayKind, UpstreamTarget};
use http_client::{Connection, initialize};
use load::LoadResult;
use process::{Gateway, contains, start_toolcrib};

use crate::BenchResult;
use crate::upstream::{ResponseSize, Upstream, UpstreamTransport};

/// Number of rounds. Comparisons use the median round, other measurements the best.
const ROUNDS: usize = 5;

/// Number of open client sessions for the memory measurement.
const SESSIONS: u32 = 500;

pub fn report(words: &[String]) -> BenchResult {
    let parts = ["http", "stdio", "start", "memory", "list"];
    let all_parts = !words.iter().any(|it| parts.contains(&it.as_str()));
    let is_selected = |word: &str| all_parts || words.iter().any(|it| it == word);
    // Any other word selects gateways; without one all are measured.
    let select_gateways = |all: &[GatewayKind]| -> Vec<GatewayKind> {
        let is_named =
            |kind: &&GatewayKind| words.iter().any(|it| kind.to_string().starts_with(it.as_str()));
        let selected: Vec<GatewayKind> = all.iter().filter(is_named).copied().collect();
        if selected.is_empty() { all.to_vec() } else { selected }
    };
    // A number selects loads by their calls in flight.
    let numbers: Vec<usize> = words.iter().filter_map(|it| it.parse().ok()).collect();
    let is_wanted = |in_flight: usize| numbers.is_empty() || numbers.contains(&in_flight);
    if is_selected("http") {
        let upstream = Upstream::start(UpstreamTransport::Http)?;
        let Upstream::Address { url, server } = &upstream else { return Err("no address".into()) };
        let loads = [
            (ResponseSize::Small, 1, 3_000, CorePlacement::SeparateCores),
            (ResponseSize::Small, 1, 3_000, CorePlacement::Unpinned),
            (ResponseSize::Small, 16, 12_800, CorePlacement::Unpinned),
            (ResponseSize::Small, 64, 25_600, CorePlacement::Unpinned),
            (ResponseSize::Large, 1, 100, CorePlacement::Unpinned),
            (ResponseSize::Large, 16, 320, CorePlacement::Unpinned),
        ];
        for (size, in_flight, calls, placement) in loads.into_iter().filter(|it| is_wanted(it.1)) {
            // Pinned before the first connection, because the server has a thread for each connection.
            let _affinity = placement.pin(PinTarget::Server(server.pid()))?;
            let load = LoadSpec { size, in_flight, calls, placement };
            print_load_table(
                "HTTP",
                load,
                &select_gateways(&GatewayKind::OVER_HTTP),
                UpstreamTarget::Http(url),
            )?;
        }
    }
    if is_selected("stdio") {
        let loads = [(1, 1_000), (16, 6_400), (64, 12_800)];
        for (in_flight, calls) in loads.into_iter().filter(|it| is_wanted(it.0)) {
            let load = LoadSpec {
                size: ResponseSize::Small,
                in_flight,
                calls,
                placement: CorePlacement::Unpinned,
            };
            print_load_table(
                "stdio",
                load,
                &select_gateways(&GatewayKind::OVER_STDIO),
                UpstreamTarget::Stdio,
            )?;
        }
    }
    if is_selected("start") {
        measure_start()?;
    }
    if is_selected("memory") {
        measure_memory()?;
    }
    if is_selected("list") {
        measure_lists()?;
    }
    Ok(())
}

/// The load for each gateway.
#[derive(Clone, Copy)]
struct LoadSpec {
    size: ResponseSize,
    in_flight: usize,
    calls: usize,
    placement: CorePlacement,
}

fn print_load_table(
    name: &str,
    load: LoadSpec,
    gateways: &[GatewayKind],
    upstream: UpstreamTarget<'_>,
) -> BenchResult {
    let placement_note = match load.placement {
        CorePlacement::Unpinned => "",
        CorePlacement::SeparateCores => ", client and server on separate cores",
    };
    println!(
        "\n### {name} upstream, {}, {} in flight{placement_note}\n",
        load.size.tool(),
        load.in_flight
    );
    println!(
        "| gateway | calls/s | relative to the first | p50 | CPU per call |\n|---|---|---|---|---|"
    );
    let before = process::read_cpu_times();
    let mut runs: Vec<GatewayRun> =
        gateways.iter().map(|kind| GatewayRun::start(*kind, upstream)).collect();
    for round in 0..=ROUNDS {
        for run in &mut runs {
            run.run(load, round == 0);
        }
    }
    let [first, ..] = runs.as_slice() else { return Ok(()) };
    runs.iter().for_each(|run| run.print(first));
    if let Some((before, after)) = before.zip(process::read_cpu_times()) {
        println!(
            "\nOther virtual machines used {:.1} % of the CPU time.",
            after.stolen_since(before) * 100.0
        );
    }
    Ok(())
}

/// One gateway and its result of each round. Every round measures all gateways, so that a temporarily slow
/// machine affects all of them.
struct GatewayRun {
    kind: GatewayKind,
    gateway: Result<Gateway, String>,
    loads: Vec<LoadResult>,
}

impl GatewayRun {
    fn start(kind: GatewayKind, upstream: UpstreamTarget<'_>) -> Self {
        let gateway = match kind.missing_program() {
            Some(missing) => Err(missing),
            None => kind.start(upstream).map_err(|error| format!("failed: {error}")),
        };
        GatewayRun { kind, gateway, loads: Vec::new() }
    }

    /// The first round only warms up.
    fn run(&mut self, spec: LoadSpec, is_first: bool) {
        let Ok(gateway) = &self.gateway else { return };
        // Much slower gateways need fewer calls.
        let is_slow =
            !matches!(self.kind, GatewayKind::Direct | GatewayKind::Nginx | GatewayKind::Toolcrib);
        let divisor = if is_slow { 20 } else { 1 } * if is_first { 10 } else { 1 };
        let LoadSpec { size, in_flight, calls, placement } = spec;
        match load::run(gateway, size, in_flight, (calls / divisor).max(in_flight), placement) {
            Ok(_) if is_first => {}
            Ok(load) => self.loads.push(load),
            Err(error) => self.gateway = Err(format!("failed: {error}")),
        }
    }

    fn print(&self, first: &GatewayRun) {
        let kind = self.kind;
        if let Err(error) = &self.gateway {
            return println!("| {kind} | {error} | | | |");
        }
        let of = |one: fn(&LoadResult) -> f64| median(self.loads.iter().map(one).collect());
        let pairs = self.loads.iter().zip(&first.loads);
        let ratio = median(pairs.map(|(own, first)| own.per_second / first.per_second).collect());
        let (rate, p50) = (of(|it| it.per_second), of(|it| it.p50.as_secs_f64()) * 1e6);
        let cpu = of(|it| it.cpu.unwrap_or_default().as_secs_f64()) * 1e6;
        let cpu = if cpu > 0.0 { format!("{cpu:.0} µs") } else { String::new() };
        println!("| {kind} | {rate:.0} | {ratio:.3} | {p50:.0} µs | {cpu} |");
    }
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Measures the time from process start to a complete first list without cached lists.
fn measure_start() -> BenchResult {
    println!(
        "\n### From start to a complete first list\n\n| upstreams | best of {ROUNDS} |\n|---|---|"
    );
    for count in [1, 50] {
        let mut best = Duration::MAX;
        for _ in 0..ROUNDS {
            let (gateway, started) = start_toolcrib(&stdio_servers(count)?)?;
            let tools = fetch_list(&gateway)?.1;
            if tools != 2 * count {
                return Err(format!(
                    "expected 2 tools of each of {count} upstreams, found {tools}"
                )
                .into());
            }
            best = best.min(started.elapsed());
        }
        println!("| {count} | {:.1} ms |", best.as_secs_f64() * 1e3);
    }
    Ok(())
}

fn measure_memory() -> BenchResult {
    println!("\n### Resident memory, idle\n\n| | |\n|---|---|");
    for count in [1, 50] {
        let (gateway, _) = start_toolcrib(&stdio_servers(count)?)?;
        fetch_list(&gateway)?;
        std::thread::sleep(Duration::from_secs(2));
        println!("| {count} stdio upstreams | {:.1} MB |", megabytes(&gateway));
        if count == 1 {
            // The code that sessions need is now in memory.
            open_sessions(&gateway, SESSIONS / 10)?;
            let before = megabytes(&gateway);
            open_sessions(&gateway, SESSIONS)?;
            let each = (megabytes(&gateway) - before) * 1024.0 / f64::from(SESSIONS);
            println!("| a client session without a stream ({SESSIONS} of them) | {each:.1} KB |");
        }
    }
    Ok(())
}

/// Opens sessions and leaves them open.
fn open_sessions(gateway: &Gateway, count: u32) -> BenchResult {
    for _ in 0..count {
        let session = initialize(gateway.address, &gateway.path)?;
        let mut connection = Connection::open(gateway.address, &gateway.path, session.as_deref())?;
        connection.post(LIST)?;
    }
    std::thread::sleep(Duration::from_secs(1));
    Ok(())
}

fn measure_lists() -> BenchResult {
    println!("\n### A list of 5,000 tools\n\n| gateway | best of 20 |\n|---|---|");
    // The upstream serves 5,000 tools.
    let upstream = Upstream::start_with(UpstreamTransport::Http, 5_000)?;
    let Upstream::Address { url, .. } = &upstream else { return Err("no address".into()) };
    for kind in [GatewayKind::Direct, GatewayKind::Nginx, GatewayKind::Toolcrib] {
        let gateway = kind.start(UpstreamTarget::Http(url))?;
        let mut best = Duration::MAX;
        for _ in 0..20 {
            let (took, tools) = fetch_list(&gateway)?;
            if tools < 5_000 {
                return Err(format!("{kind}: {tools} tools").into());
            }
            best = best.min(took);
        }
        println!("| {kind} | {:.2} ms |", best.as_secs_f64() * 1e3);
    }
    Ok(())
}

const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;

/// Returns the time of a list request and the number of tools.
fn fetch_list(gateway: &Gateway) -> BenchResult<(Duration, usize)> {
    let session = initialize(gateway.address, &gateway.path)?;
    let mut connection = Connection::open(gateway.address, &gateway.path, session.as_deref())?;
    let started = Instant::now();
    connection.post(LIST)?;
    let took = started.elapsed();
    let word = b"\"inputSchema\"";
    if !contains(&connection.body, b"\"result\"") {
        return Err(String::from_utf8_lossy(&connection.body).into_owned().into());
    }
    let count = connection.body.windows(word.len()).filter(|window| window == word).count();
    Ok((took, count))
}

fn stdio_servers(count: usize) -> BenchResult<String> {
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
