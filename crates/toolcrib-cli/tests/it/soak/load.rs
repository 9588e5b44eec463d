//! The clients of a soak: who calls what, how often, and what came back.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::timeout;

use super::scene::IDLE;
use super::web::Connection;
use crate::serving::within;

/// Calls at a time to servers of each kind.
const IN_FLIGHT: usize = 64;

/// Calls at a time to servers that are killed.
const AT_RISK: usize = 16;

/// A call that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(45);

/// So many of the clients listen for what the gateway tells by itself.
const LISTENING: usize = 250;

/// Sessions with the gateway.
pub(super) struct Clients {
    address: String,
    sessions: Vec<String>,
}

/// What came back.
#[derive(Default)]
pub(super) struct Tally {
    is_over: AtomicBool,
    shared: Count,
    far: Count,
    stateful: Count,
    at_risk: Count,
    /// Calls of servers that were killed just then.
    failed_at_risk: AtomicU64,
    told: AtomicU64,
    failures: Mutex<Vec<String>>,
}

/// How often something was done, and the longest that it took.
#[derive(Default)]
struct Count {
    times: AtomicU64,
    longest: AtomicU64,
}

/// Everybody who is at work.
pub(super) struct Load {
    callers: JoinSet<()>,
    listeners: JoinSet<()>,
}

/// What a caller does with its clients, one after the other.
#[derive(Clone, Copy)]
enum Work {
    /// Echoes of servers that everybody shares.
    Shared(&'static [&'static str]),
    /// Echoes of a server over HTTP.
    Far(&'static [&'static str]),
    /// Counts, which goes wrong where a session is mixed up with another.
    Count,
    /// Echoes that may fail, but must be answered.
    AtRisk(&'static [&'static str]),
}

impl Clients {
    pub(super) async fn connect(url: &str, count: usize) -> Self {
        let address = url.strip_prefix("http://").unwrap().to_owned();
        let mut connection = within(Connection::open(&address)).await.unwrap();
        let mut sessions = Vec::new();
        for number in 0..count {
            let hello = format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":"2025-11-25","capabilities":{{}},"clientInfo":{{"name":"soak-{number}","version":"0"}}}}}}"#
            );
            let answer = within(connection.post(None, &hello)).await.unwrap();
            let session = answer.session.unwrap_or_else(|| panic!("{}", answer.body));
            let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
            within(connection.post(Some(&session), ready)).await.unwrap();
            sessions.push(session);
        }
        Self { address, sessions }
    }

    /// Every client has the sessions with servers over HTTP that it will keep: what comes later is no growth by itself.
    pub(super) async fn settle(self: &Arc<Self>, tally: &Arc<Tally>) {
        let mut callers = JoinSet::new();
        for first in 0..IN_FLIGHT {
            let (clients, tally) = (Arc::clone(self), Arc::clone(tally));
            callers.spawn(async move {
                let mut connection = within(Connection::open(&clients.address)).await.unwrap();
                for session in clients.sessions.iter().skip(first).step_by(IN_FLIGHT) {
                    for tool in ["far__echo", "mortal_far__echo"] {
                        let told = echo(&mut connection, session, tool, "settled");
                        let told = timeout(LIMIT, told).await.unwrap_or(Err(Failure::Hang));
                        tally.note(Work::Far(&[]), told);
                    }
                }
            });
        }
        while let Some(settled) = callers.join_next().await {
            settled.unwrap();
        }
    }

    pub(super) fn start(self: &Arc<Self>, tally: &Arc<Tally>) -> Load {
        let (mut callers, mut listeners) = (JoinSet::new(), JoinSet::new());
        for (count, work) in [
            (IN_FLIGHT, Work::Shared(&["steady__echo", "changing__echo"])),
            (IN_FLIGHT, Work::Far(&["far__echo"])),
            (IN_FLIGHT, Work::Count),
            (AT_RISK, Work::AtRisk(&["mortal__echo", "mortal_far__echo", "mortal_stateful__echo"])),
        ] {
            for first in 0..count {
                let (clients, tally) = (Arc::clone(self), Arc::clone(tally));
                callers.spawn(async move { clients.call_on(work, first, count, &tally).await });
            }
        }
        for session in self.sessions.iter().take(LISTENING) {
            let listen = listen(self.address.clone(), session.clone(), Arc::clone(tally));
            listeners.spawn(listen);
        }
        Load { callers, listeners }
    }

    /// What the gateway says of itself.
    pub(super) async fn figure(&self, name: &str) -> f64 {
        let mut connection = within(Connection::open(&self.address)).await.unwrap();
        within(connection.figure(name)).await.unwrap()
    }

    /// No session is lost.
    pub(super) async fn are_all_there(&self) {
        let mut connection = within(Connection::open(&self.address)).await.unwrap();
        for session in &self.sessions {
            let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
            let answer = within(connection.post(Some(session), ping)).await.unwrap();
            assert!(answer.status == 200 && answer.body.contains("result"), "{}", answer.body);
        }
    }

    /// A tool answers, sooner or later.
    pub(super) async fn reach(&self, tool: &str) {
        let mut connection = within(Connection::open(&self.address)).await.unwrap();
        let reached = async {
            while let Err(_why) = echo(&mut connection, &self.sessions[0], tool, "again").await {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        assert!(timeout(LIMIT, reached).await.is_ok(), "{tool} does not come back");
    }

    /// Its own share of the clients: nobody else counts in their names.
    async fn call_on(&self, work: Work, first: usize, of: usize, tally: &Tally) {
        let mut connection = Connection::open(&self.address).await.ok();
        let mut round = 0_usize;
        while !tally.is_over() {
            let Some(open) = &mut connection else {
                connection = Connection::open(&self.address).await.ok();
                tally.failed("the gateway", "hung up");
                continue;
            };
            let session = &self.sessions[(first + round * of) % self.sessions.len()];
            let text = format!("{first} {round} {}", &session[..8]);
            round += 1;
            let begun = Instant::now();
            let worked = timeout(LIMIT, work.once(open, session, round, &text)).await;
            tally.count(work).note(begun.elapsed());
            let is_broken = tally.note(work, worked.unwrap_or(Err(Failure::Hang)));
            if is_broken {
                connection = None;
            }
        }
    }
}

/// Why a call has no result.
enum Failure {
    /// The tool, the server or the gateway says so.
    Told(String),
    /// There was no answer of MCP at all.
    Broken(String),
    Hang,
}

impl Work {
    async fn once(
        self,
        connection: &mut Connection,
        session: &str,
        round: usize,
        text: &str,
    ) -> Result<(), Failure> {
        match self {
            Work::Shared(tools) | Work::Far(tools) | Work::AtRisk(tools) => {
                echo(connection, session, tools[round % tools.len()], text).await
            }
            Work::Count => {
                let (mut value, mut since) = (count(connection, session).await?, Instant::now());
                for _ in 0..3 {
                    let next = count(connection, session).await?;
                    // On a busy machine a lease may have ended in between.
                    let is_new = next == 1 && since.elapsed() > IDLE;
                    if next != value + 1 && !is_new {
                        return Err(Failure::Told(format!(
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
    let said = call(connection, session, tool, &format!(r#"{{"text":"{text}"}}"#)).await?;
    match said.contains(&format!("\"{text}\"")) {
        true => Ok(()),
        false => Err(Failure::Told(format!("{tool}: {said}"))),
    }
}

async fn count(connection: &mut Connection, session: &str) -> Result<u64, Failure> {
    let said = call(connection, session, "stateful__counter", "{}").await?;
    let value = said.split("\"value\":").nth(1).and_then(|rest| rest.split('}').next());
    value
        .and_then(|value| value.parse().ok())
        .ok_or_else(|| Failure::Told(format!("count: {said}")))
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

async fn listen(address: String, session: String, tally: Arc<Tally>) {
    let heard: std::io::Result<()> = async {
        let mut connection = Connection::open(&address).await?;
        let status = connection.listen(&session).await?;
        if status != 200 {
            return Err(std::io::Error::other(format!("status {status}")));
        }
        while let Some(chunk) = connection.chunk().await? {
            if String::from_utf8_lossy(&chunk).contains("notifications/tools/list_changed") {
                tally.told.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }
    .await;
    tally.failed("a stream", &format!("ended: {heard:?}"));
}

impl Tally {
    pub(super) fn stop(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    pub(super) fn failures(&self) -> Vec<String> {
        let mut failures = self.failures.lock().unwrap().clone();
        if self.told.load(Ordering::Relaxed) == 0 {
            failures.push("nobody was told of a change".to_owned());
        }
        failures
    }

    fn count(&self, work: Work) -> &Count {
        match work {
            Work::Shared(_) => &self.shared,
            Work::Far(_) => &self.far,
            Work::Count => &self.stateful,
            Work::AtRisk(_) => &self.at_risk,
        }
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Whether the connection is of no use any more.
    fn note(&self, work: Work, worked: Result<(), Failure>) -> bool {
        match (work, worked) {
            (Work::AtRisk(_), Err(Failure::Told(_))) => {
                self.failed_at_risk.fetch_add(1, Ordering::Relaxed);
            }
            (_, Ok(())) => {}
            (_, Err(Failure::Told(why))) => self.failed("a call", &why),
            (_, Err(Failure::Broken(why))) => {
                self.failed("a call", &why);
                return true;
            }
            (_, Err(Failure::Hang)) => {
                self.failed("a call", "hangs");
                return true;
            }
        }
        false
    }

    /// The first few are enough to see what is wrong.
    fn failed(&self, what: &str, why: &str) {
        let mut failures = self.failures.lock().unwrap();
        if failures.len() < 20 {
            failures.push(format!("{what}: {}", why.chars().take(400).collect::<String>()));
        }
    }
}

impl Count {
    fn note(&self, took: Duration) {
        self.times.fetch_add(1, Ordering::Relaxed);
        let took = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        self.longest.fetch_max(took, Ordering::Relaxed);
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [times, longest] = [&self.times, &self.longest].map(|it| it.load(Ordering::Relaxed));
        write!(f, "{times} (at most {longest} ms)")
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { shared, far, stateful, at_risk, failed_at_risk, told, .. } = self;
        let (failed, told) = (failed_at_risk.load(Ordering::Relaxed), told.load(Ordering::Relaxed));
        write!(
            f,
            "shared {shared}, far {far}, stateful {stateful}, at risk {at_risk}, of which {failed} failed; "
        )?;
        write!(f, "{told} words of changes")
    }
}

impl Load {
    /// Callers end by themselves; whoever listens is let go.
    pub(super) async fn ended(mut self) {
        let all = async { while self.callers.join_next().await.is_some() {} };
        assert!(timeout(2 * LIMIT, all).await.is_ok(), "a caller does not end");
        self.listeners.shutdown().await;
    }
}
