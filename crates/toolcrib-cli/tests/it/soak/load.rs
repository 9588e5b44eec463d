//! Clients of the soak test: call load and statistics.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::timeout;

use super::environment::IDLE;
use super::http_client::Connection;
use crate::test_gateway::with_time_limit;

/// Concurrent calls per kind of server.
const IN_FLIGHT: usize = 64;

/// Concurrent calls to servers that are killed.
const AT_RISK: usize = 16;

/// A longer call counts as hanging.
const LIMIT: Duration = Duration::from_secs(45);

/// Number of clients with a listen stream.
const LISTENING: usize = 250;

/// Sessions with the gateway.
pub(super) struct Clients {
    address: String,
    sessions: Vec<String>,
}

/// Statistics of all calls.
#[derive(Default)]
pub(super) struct LoadStats {
    is_over: AtomicBool,
    shared: Count,
    far: Count,
    stateful: Count,
    at_risk: Count,
    /// Failed calls of killed servers.
    failed_at_risk: AtomicU64,
    list_changes: AtomicU64,
    failures: Mutex<Vec<String>>,
}

/// Number of operations and the longest duration.
#[derive(Default)]
struct Count {
    times: AtomicU64,
    longest: AtomicU64,
}

/// The running tasks.
pub(super) struct Load {
    callers: JoinSet<()>,
    listeners: JoinSet<()>,
}

/// Kind of calls that a caller makes.
#[derive(Clone, Copy)]
enum Workload {
    /// Echo calls to shared servers.
    Shared(&'static [&'static str]),
    /// Echo calls to an HTTP server.
    Far(&'static [&'static str]),
    /// Counter calls, which detect mixed-up sessions.
    Count,
    /// Echo calls that may fail, but must be answered.
    AtRisk(&'static [&'static str]),
}

impl Clients {
    pub(super) async fn connect(url: &str, count: usize) -> Self {
        let address = url.strip_prefix("http://").unwrap().to_owned();
        let mut connection = with_time_limit(Connection::open(&address)).await.unwrap();
        let mut sessions = Vec::new();
        for number in 0..count {
            let hello = format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":"2025-11-25","capabilities":{{}},"clientInfo":{{"name":"soak-{number}","version":"0"}}}}}}"#
            );
            let answer = with_time_limit(connection.post(None, &hello)).await.unwrap();
            let session = answer.session.unwrap_or_else(|| panic!("{}", answer.body));
            let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
            with_time_limit(connection.post(Some(&session), ready)).await.unwrap();
            sessions.push(session);
        }
        Self { address, sessions }
    }

    /// Opens all sessions with HTTP servers first, so that later memory growth is unexpected.
    pub(super) async fn open_server_sessions(self: &Arc<Self>, stats: &Arc<LoadStats>) {
        let mut callers = JoinSet::new();
        for first in 0..IN_FLIGHT {
            let (clients, stats) = (Arc::clone(self), Arc::clone(stats));
            callers.spawn(async move {
                let mut connection =
                    with_time_limit(Connection::open(&clients.address)).await.unwrap();
                for session in clients.sessions.iter().skip(first).step_by(IN_FLIGHT) {
                    for tool in ["far__echo", "mortal_far__echo"] {
                        let report = echo(&mut connection, session, tool, "settled");
                        let report = timeout(LIMIT, report).await.unwrap_or(Err(Failure::Hang));
                        stats.record(Workload::Far(&[]), report);
                    }
                }
            });
        }
        while let Some(settled) = callers.join_next().await {
            settled.unwrap();
        }
    }

    pub(super) fn start(self: &Arc<Self>, stats: &Arc<LoadStats>) -> Load {
        let (mut callers, mut listeners) = (JoinSet::new(), JoinSet::new());
        for (count, workload) in [
            (IN_FLIGHT, Workload::Shared(&["steady__echo", "changing__echo"])),
            (IN_FLIGHT, Workload::Far(&["far__echo"])),
            (IN_FLIGHT, Workload::Count),
            (
                AT_RISK,
                Workload::AtRisk(&["mortal__echo", "mortal_far__echo", "mortal_stateful__echo"]),
            ),
        ] {
            for first in 0..count {
                let (clients, stats) = (Arc::clone(self), Arc::clone(stats));
                callers
                    .spawn(async move { clients.run_caller(workload, first, count, &stats).await });
            }
        }
        for session in self.sessions.iter().take(LISTENING) {
            let listen = listen(self.address.clone(), session.clone(), Arc::clone(stats));
            listeners.spawn(listen);
        }
        Load { callers, listeners }
    }

    /// A metric of the gateway.
    pub(super) async fn metric(&self, name: &str) -> f64 {
        let mut connection = with_time_limit(Connection::open(&self.address)).await.unwrap();
        with_time_limit(connection.metric(name)).await.unwrap()
    }

    /// Checks that no session is lost.
    pub(super) async fn check_all_sessions(&self) {
        let mut connection = with_time_limit(Connection::open(&self.address)).await.unwrap();
        for session in &self.sessions {
            let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
            let answer = with_time_limit(connection.post(Some(session), ping)).await.unwrap();
            assert!(answer.status == 200 && answer.body.contains("result"), "{}", answer.body);
        }
    }

    /// Waits until a tool answers.
    pub(super) async fn wait_for_tool(&self, tool: &str) {
        let mut connection = with_time_limit(Connection::open(&self.address)).await.unwrap();
        let reached = async {
            while let Err(_failure) = echo(&mut connection, &self.sessions[0], tool, "again").await
            {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        assert!(timeout(LIMIT, reached).await.is_ok(), "{tool} does not recover");
    }

    /// Runs one caller with its own share of the clients.
    async fn run_caller(&self, workload: Workload, first: usize, of: usize, stats: &LoadStats) {
        let mut connection = Connection::open(&self.address).await.ok();
        let mut round = 0_usize;
        while !stats.is_over() {
            let Some(open) = &mut connection else {
                connection = Connection::open(&self.address).await.ok();
                stats.record_failure("the gateway", "hung up");
                continue;
            };
            let session = own_session(&self.sessions, first, of, round);
            let text = format!("{first} {round} {}", &session[..8]);
            round += 1;
            let started_at = Instant::now();
            let result = timeout(LIMIT, workload.run_once(open, session, round, &text)).await;
            stats.count(workload).record(started_at.elapsed());
            let is_broken = stats.record(workload, result.unwrap_or(Err(Failure::Hang)));
            if is_broken {
                connection = None;
            }
        }
    }
}

/// The session of one round of a caller: every `of`th one, beginning with `first`. No two of the `of` callers share one.
fn own_session(sessions: &[String], first: usize, of: usize, round: usize) -> &String {
    let own = (sessions.len() - first).div_ceil(of);
    &sessions[first + (round % own) * of]
}

#[test]
fn callers_never_share_a_session() {
    let sessions: Vec<String> = (0..500).map(|number| number.to_string()).collect();
    let used_by = |first: usize| (0..1000).map(move |round| (first, round));
    let mut owners = std::collections::HashMap::new();
    for (first, round) in (0..IN_FLIGHT).flat_map(used_by) {
        let session = own_session(&sessions, first, IN_FLIGHT, round);
        assert_eq!(*owners.entry(session).or_insert(first), first, "session {session}");
    }
    assert_eq!(owners.len(), sessions.len());
}

/// Reason of a failed call.
enum Failure {
    /// Reported by the tool, the server or the gateway.
    Reported(String),
    /// The response was no MCP response.
    Broken(String),
    Hang,
}

impl Workload {
    async fn run_once(
        self,
        connection: &mut Connection,
        session: &str,
        round: usize,
        text: &str,
    ) -> Result<(), Failure> {
        match self {
            Workload::Shared(tools) | Workload::Far(tools) | Workload::AtRisk(tools) => {
                echo(connection, session, tools[round % tools.len()], text).await
            }
            Workload::Count => {
                let (mut value, mut since) = (count(connection, session).await?, Instant::now());
                for _ in 0..3 {
                    let next = count(connection, session).await?;
                    // On a busy machine the lease may have expired in between.
                    let is_new = next == 1 && since.elapsed() > IDLE;
                    if next != value + 1 && !is_new {
                        return Err(Failure::Reported(format!(
                            "{next} comes after {value} in round {round} of {text}"
                        )));
                    }
                    (value, since) = (next, Instant::now());
                }
                Ok(())
            }
        }
    }
}

async fn echo(
    connection: &mut Connection,
    session: &str,
    tool: &str,
    text: &str,
) -> Result<(), Failure> {
    let output = call(connection, session, tool, &format!(r#"{{"text":"{text}"}}"#)).await?;
    match output.contains(&format!("\"{text}\"")) {
        true => Ok(()),
        false => Err(Failure::Reported(format!("{tool}: {output}"))),
    }
}

async fn count(connection: &mut Connection, session: &str) -> Result<u64, Failure> {
    let output = call(connection, session, "stateful__counter", "{}").await?;
    let value = output.split("\"value\":").nth(1).and_then(|rest| rest.split('}').next());
    value
        .and_then(|value| value.parse().ok())
        .ok_or_else(|| Failure::Reported(format!("count: {output}")))
}

async fn call(
    connection: &mut Connection,
    session: &str,
    tool: &str,
    arguments: &str,
) -> Result<String, Failure> {
    let message = format!(
        r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}"#
    );
    let answer = connection.post(Some(session), &message).await;
    let answer = answer.map_err(|error| Failure::Broken(format!("{tool}: {error}")))?;
    if answer.status != 200 {
        return Err(Failure::Broken(format!("{tool}: status {} {}", answer.status, answer.body)));
    }
    Ok(answer.body)
}

async fn listen(address: String, session: String, stats: Arc<LoadStats>) {
    let received: std::io::Result<()> = async {
        let mut connection = Connection::open(&address).await?;
        let status = connection.listen(&session).await?;
        if status != 200 {
            return Err(std::io::Error::other(format!("status {status}")));
        }
        while let Some(chunk) = connection.chunk().await? {
            if String::from_utf8_lossy(&chunk).contains("notifications/tools/list_changed") {
                stats.list_changes.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }
    .await;
    stats.record_failure("a stream", &format!("ended: {received:?}"));
}

impl LoadStats {
    pub(super) fn stop(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    pub(super) fn failures(&self) -> Vec<String> {
        let mut failures = self.failures.lock().unwrap().clone();
        if self.list_changes.load(Ordering::Relaxed) == 0 {
            failures.push("no list change was received".to_owned());
        }
        failures
    }

    fn count(&self, workload: Workload) -> &Count {
        match workload {
            Workload::Shared(_) => &self.shared,
            Workload::Far(_) => &self.far,
            Workload::Count => &self.stateful,
            Workload::AtRisk(_) => &self.at_risk,
        }
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Records a result. Returns whether the connection must be replaced.
    fn record(&self, workload: Workload, result: Result<(), Failure>) -> bool {
        match (workload, result) {
            (Workload::AtRisk(_), Err(Failure::Reported(_))) => {
                self.failed_at_risk.fetch_add(1, Ordering::Relaxed);
            }
            (_, Ok(())) => {}
            (_, Err(Failure::Reported(why))) => self.record_failure("a call", &why),
            (_, Err(Failure::Broken(why))) => {
                self.record_failure("a call", &why);
                return true;
            }
            (_, Err(Failure::Hang)) => {
                self.record_failure("a call", "hangs");
                return true;
            }
        }
        false
    }

    /// Keeps only the first failures.
    fn record_failure(&self, what: &str, why: &str) {
        let mut failures = self.failures.lock().unwrap();
        if failures.len() < 20 {
            failures.push(format!("{what}: {}", why.chars().take(400).collect::<String>()));
        }
    }
}

impl Count {
    fn record(&self, elapsed_time: Duration) {
        self.times.fetch_add(1, Ordering::Relaxed);
        let elapsed_time = u64::try_from(elapsed_time.as_millis()).unwrap_or(u64::MAX);
        self.longest.fetch_max(elapsed_time, Ordering::Relaxed);
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [times, longest] = [&self.times, &self.longest].map(|it| it.load(Ordering::Relaxed));
        write!(f, "{times} (at most {longest} ms)")
    }
}

impl fmt::Display for LoadStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { shared, far, stateful, at_risk, failed_at_risk, list_changes, .. } = self;
        let failed = failed_at_risk.load(Ordering::Relaxed);
        let list_changes = list_changes.load(Ordering::Relaxed);
        write!(
            f,
            "shared {shared}, far {far}, stateful {stateful}, at risk {at_risk}, of which {failed} failed; "
        )?;
        write!(f, "{list_changes} list changes")
    }
}

impl Load {
    /// Waits for the callers and aborts the listeners.
    pub(super) async fn finish(mut self) {
        let all = async { while self.callers.join_next().await.is_some() {} };
        assert!(timeout(2 * LIMIT, all).await.is_ok(), "a caller does not end");
        self.listeners.shutdown().await;
    }
}
