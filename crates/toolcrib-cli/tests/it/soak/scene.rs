//! What stands behind the gateway of a soak, what becomes of it, and who does that.

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
use crate::serving::within;

/// How many sessions a stateful server may have.
const INSTANCES: u32 = 32;

/// Whoever does nothing for so long gives its session to the next.
pub(super) const IDLE: Duration = Duration::from_secs(5);

/// All that was started carries this variable, and what may be killed another one.
pub(super) struct Scene {
    tag: String,
    file: PathBuf,
    far: Demo,
    mortal_far: Demo,
    pub(super) killed: Killed,
}

/// How many servers were really killed, by how they are reached.
#[derive(Debug, Default)]
pub(super) struct Killed {
    pub(super) near: usize,
    pub(super) far: usize,
}

/// A demo server over HTTP, always at the same port.
struct Demo {
    child: Child,
    url: String,
    tag: String,
}

impl Scene {
    pub(super) async fn new(root: PathBuf) -> Self {
        let tag = format!("soak-{}", std::process::id());
        let (far, mortal_far) = (Demo::start("0", &tag).await, Demo::start("0", &tag).await);
        let scene = Self {
            tag,
            file: root.join("toolcrib.yaml"),
            far,
            mortal_far,
            killed: Killed::default(),
        };
        scene.write(0);
        scene
    }

    /// Another configuration each time: one server differs, and another one comes and goes.
    pub(super) fn write(&self, version: u64) {
        let shared = json!({"scope": "shared"});
        let lease = json!({"scope": "per_conversation", "max_instances": INSTANCES, "queue": 1024,
            "idle": format!("{}s", IDLE.as_secs())});
        // All clients are one principal, and each keeps a session with the servers over HTTP.
        let each = json!({"max_instances": 2 * CLIENTS, "max_per_principal": 2 * CLIENTS});
        let mut servers = json!({
            "steady": self.near(shared.clone(), &json!({})),
            "changing": self.near(shared.clone(), &json!({"VERSION": version.to_string()})),
            "far": {"url": self.far.url, "session": each},
            "stateful": self.near(lease.clone(), &json!({})),
            "mortal": self.near(shared.clone(), &json!({"SOAK_VICTIM": self.tag})),
            "mortal_stateful": self.near(lease, &json!({"SOAK_VICTIM": self.tag})),
            "mortal_far": {"url": self.mortal_far.url, "session": each},
        });
        if version % 2 == 1 {
            servers["guest"] = self.near(shared, &json!({}));
        }
        for (_, server) in servers.as_object_mut().unwrap() {
            server["lifecycle"] = json!({"connect": "eager",
                "reconnect": {"initial": "50ms", "max_delay": "200ms", "max": 1_000_000}});
        }
        // Written whole, as editors do it.
        let new = self.file.with_extension("new");
        std::fs::write(&new, json!({"version": 1, "servers": servers}).to_string()).unwrap();
        std::fs::rename(new, &self.file).unwrap();
    }

    fn near(&self, session: Value, more: &Value) -> Value {
        let mut env = json!({"SOAK": self.tag});
        env.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"command": PROGRAM, "args": ["demo-server"], "env": env, "session": session})
    }

    /// Kills one of those that may be killed; which one is left to chance.
    pub(super) async fn kill(&mut self, chance: u64) {
        let victims = processes::marked(&format!("SOAK_VICTIM={}", self.tag));
        let chosen = usize::try_from(chance).unwrap() % (victims.len() + 1);
        let Some(pid) = victims.get(chosen) else {
            self.mortal_far.restart().await;
            self.killed.far += 1;
            return;
        };
        let pid = Pid::from_raw((*pid).try_into().unwrap()).unwrap();
        // It may have ended by itself in between.
        if kill_process(pid, Signal::KILL).is_ok() {
            self.killed.near += 1;
        }
    }

    /// What is left of it.
    pub(super) fn orphans(&self) -> Vec<u32> {
        processes::marked(&format!("SOAK={}", self.tag))
    }
}

impl Demo {
    async fn start(port: &str, tag: &str) -> Self {
        let mut child = Command::new(PROGRAM)
            .args(["demo-server", "--http", port])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = within(lines.next_line()).await.unwrap().unwrap();
        Self { child, url, tag: tag.to_owned() }
    }

    async fn restart(&mut self) {
        self.child.kill().await.unwrap();
        // Long enough that somebody notices.
        tokio::time::sleep(Duration::from_millis(100)).await;
        let port = self.url.rsplit(':').next().and_then(|rest| rest.split('/').next()).unwrap();
        *self = Self::start(port, &self.tag.clone()).await;
    }
}
