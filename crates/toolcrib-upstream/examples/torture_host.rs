//! A host to be killed: it takes in every server of a folder, calls them without a pause, and never ends by itself.
//!
//! `torture_host ROOT STATE` writes a line when all servers are up.
#![allow(clippy::disallowed_methods, reason = "a program of its own asks its own process")]
#![allow(clippy::print_stdout, reason = "a program of its own tells when it is ready")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use toolcrib_config::model::units::Period;
use toolcrib_config::{File, Lookup, Workspace, compile};
use toolcrib_upstream::auth::Accounts;
use toolcrib_upstream::conn::peer::{CallOptions, NoRequests, Patience};
use toolcrib_upstream::conn::{Caller, Memory, News, ServerLimit, Want, World};
use toolcrib_upstream::process::{Containment, Graces, Instance};
use toolcrib_upstream::secrets::{Keep, Means, Sources, Storage};
use toolcrib_upstream::supervise::{Other, Server, Supervisor, Terms, Watcher, Whose, clear};
use toolcrib_upstream::transport::{Permissions, Tls};
use toolcrib_wire::handshake::Implementation;
use toolcrib_wire::view::ClientCapabilities;
use toolcrib_wire::{ObjectWriter, method};

type Failed = Box<dyn std::error::Error>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failed> {
    let mut args = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(root), Some(state)) = (args.next(), args.next()) else {
        return Err("usage: torture_host ROOT STATE".into());
    };
    clear(&state, &Containment::default(), Duration::from_secs(20)).await?;
    let supervisor = Supervisor::new(Arc::new(world(&state)?), Arc::new(Deaf));
    let workspace = Workspace { root: root.clone(), home: None, named: None };
    let config = compile(&workspace, &Disk);
    let mut servers = Vec::new();
    for spec in config.servers {
        let terms =
            Terms { cwd: root.clone(), drain_kill: Some(Period::secs(5)), caller: nobody() };
        servers.push(supervisor.take(Arc::new(spec), terms).await);
    }
    for server in &servers {
        server.main().ready(Want::Call).await.map_err(|failure| failure.message)?;
    }
    println!("ready");
    loop {
        futures_util::future::join_all(servers.iter().map(use_it)).await;
    }
}

/// A call on the server's own session, and one on a session for that call alone.
async fn use_it(server: &Arc<Server>) {
    let spare = server.lend().unwrap_or_else(|| server.spare(Other::default()));
    for conn in [server.main(), spare.conn()] {
        if let Ok(ticket) = conn.ready(Want::Call).await {
            let params = ObjectWriter::new().string("name", "echo").finish();
            let patience = Patience { request: Some(Duration::from_secs(10)), max: None };
            let options = CallOptions { patience, ..CallOptions::default() };
            // Whoever is killed while it is called has nothing to answer.
            let _ = ticket.session.call(method::TOOLS_CALL, params, options, None).await;
        }
    }
    spare.end().await;
}

fn nobody() -> Caller {
    Caller { capabilities: ClientCapabilities::default(), handler: Arc::new(NoRequests) }
}

fn world(state: &Path) -> Result<World, Failed> {
    let env: Vec<(String, String)> = std::env::vars().collect();
    let instance = Instance::open(state)?;
    let means = Means {
        instance: instance.clone(),
        env: env.clone(),
        cwd: state.to_owned(),
        tls: Tls::default(),
    };
    let keep = Keep::open(state.join("credentials"), Storage::File);
    let quick = Duration::from_millis(200);
    Ok(World {
        instance,
        env,
        accounts: Accounts::new(keep.clone(), Tls::default()),
        sources: Sources::new(keep, means),
        tls: Tls::default(),
        permissions: Permissions { spawn: true, network: true, docker: true }.into(),
        graces: Graces { close: quick, terminate: quick, kill: Duration::from_secs(5) },
        memory: Memory::default(),
        connections: ServerLimit::default(),
        client: Implementation::new("torture", "0"),
    })
}

struct Deaf;

impl Watcher for Deaf {
    fn hear(&self, _: u64, _: &Whose, _: News) {}
}

struct Disk;

impl Lookup for Disk {
    fn env(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn file(&self, path: &Path) -> File {
        std::fs::read(path).map_or(File::Missing, File::Content)
    }

    fn is_dir(&self, path: &Path) -> bool {
        path.is_dir()
    }
}
