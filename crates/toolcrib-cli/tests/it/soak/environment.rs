//! Servers behind the gateway of the soak test, and their disturbances.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use toolcrib_testkit::processes;

use super::CLIENTS;
use crate::PROGRAM;
use crate::test_gateway::with_time_limit;

/// Most sessions of a stateful server.
const INSTANCES: u32 = 32;

/// Idle time after which a session is released.
pub(super) const IDLE: Duration = Duration::from_secs(5);

/// The tag is in a variable of all started processes. Victims have it in another variable, too.
pub(super) struct SoakEnvironment {
    tag: String,
    file: PathBuf,
    far: HttpDemoServer,
    mortal_far: HttpDemoServer,
    pub(super) killed: KillCounts,
}

/// Number of killed servers by transport.
#[derive(Debug, Default)]
pub(super) struct KillCounts {
    pub(super) stdio: usize,
    pub(super) http: usize,
}

/// A demo server over HTTP on a fixed port.
struct HttpDemoServer {
    child: Child,
    url: String,
    tag: String,
}

impl SoakEnvironment {
    pub(super) async fn new(root: PathBuf) -> Self {
        let tag = format!("soak-{}", std::process::id());
        let (far, mortal_far) =
            (HttpDemoServer::start("0", &tag).await, HttpDemoServer::start("0", &tag).await);
        let environment = Self {
            tag,
            file: root.join("toolcrib.yaml"),
            far,
            mortal_far,
            killed: KillCounts::default(),
        };
        environment.write(0);
        environment
    }

    /// Writes a new configuration: one server changes, and another one appears or disappears.
    pub(super) fn write(&self, version: u64) {
        let shared = json!({"scope": "shared"});
        let lease = json!({"scope": "per_conversation", "max_instances": INSTANCES, "queue": 1024,
            "idle": format!("{}s", IDLE.as_secs())});
        // All clients are one principal, and each keeps a session with the HTTP servers.
        let each = json!({"max_instances": 2 * CLIENTS, "max_per_principal": 2 * CLIENTS});
        let mut servers = json!({
            "steady": self.stdio_server(shared.clone(), &json!({})),
            "changing": self.stdio_server(shared.clone(), &json!({"VERSION": version.to_string()})),
            "far": {"url": self.far.url, "session": each},
            "stateful": self.stdio_server(lease.clone(), &json!({})),
            "mortal": self.stdio_server(shared.clone(), &json!({"SOAK_VICTIM": self.tag})),
            "mortal_stateful": self.stdio_server(lease, &json!({"SOAK_VICTIM": self.tag})),
            "mortal_far": {"url": self.mortal_far.url, "session": each},
        });
        if version % 2 == 1 {
            servers["guest"] = self.stdio_server(shared, &json!({}));
        }
        for (_, server) in servers.as_object_mut().unwrap() {
            server["lifecycle"] = json!({"connect": "eager",
                "reconnect": {"initial": "50ms", "max_delay": "200ms", "max": 1_000_000}});
        }
        // Replaces the file atomically, as editors do.
        let new = self.file.with_extension("new");
        std::fs::write(&new, json!({"version": 1, "servers": servers}).to_string()).unwrap();
        std::fs::rename(new, &self.file).unwrap();
    }

    fn stdio_server(&self, session: Value, more: &Value) -> Value {
        let mut env = json!({"SOAK": self.tag});
        env.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"command": PROGRAM, "args": ["demo-server"], "env": env, "session": session})
    }

    /// Kills a pseudo-randomly chosen victim.
    pub(super) async fn kill(&mut self, chance: u64) {
        let victims = processes::find_by_environment(&format!("SOAK_VICTIM={}", self.tag));
        let chosen = usize::try_from(chance).unwrap() % (victims.len() + 1);
        let Some(pid) = victims.get(chosen) else {
            self.mortal_far.restart().await;
            self.killed.http += 1;
            return;
        };
        let pid = Pid::from_raw((*pid).try_into().unwrap()).unwrap();
        // The process may have ended by itself.
        if kill_process(pid, Signal::KILL).is_ok() {
            self.killed.stdio += 1;
        }
    }

    /// The remaining processes.
    pub(super) fn orphans(&self) -> Vec<u32> {
        processes::find_by_environment(&format!("SOAK={}", self.tag))
    }
}

impl HttpDemoServer {
    async fn start(port: &str, tag: &str) -> Self {
        let mut child = Command::new(PROGRAM)
            .args(["demo-server", "--http", port])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = with_time_limit(lines.next_line()).await.unwrap().unwrap();
        Self { child, url, tag: tag.to_owned() }
    }

    async fn restart(&mut self) {
        self.child.kill().await.unwrap();
        // Long enough for the gateway to notice.
        tokio::time::sleep(Duration::from_millis(100)).await;
        let port = self.url.rsplit(':').next().and_then(|rest| rest.split('/').next()).unwrap();
        *self = Self::start(port, &self.tag.clone()).await;
    }
}
