//! Host for the torture test: connects to every server of a folder and calls them without pause until it is
//! killed.
//!
//! `torture_host ROOT STATE` prints a line when all servers are up.
#![allow(clippy::disallowed_methods, reason = "a program of its own asks its own process")]
#![allow(clippy::print_stdout, reason = "a program of its own tells when it is ready")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use toolcrib_config::model::units::Period;
use toolcrib_config::{FileLookup, Lookup, Workspace, compile};
use toolcrib_upstream::auth::Accounts;
use toolcrib_upstream::conn::peer::{CallOptions, CallTimeouts, RefuseRequests};
use toolcrib_upstream::conn::{
    ConnContext, ConnUpdate, Demand, ServerLimit, SessionClient, SharedHttpMode, TraitCache,
};
use toolcrib_upstream::process::{Containment, GracePeriods, Instance};
use toolcrib_upstream::secrets::{CredentialStore, SecretSources, StorageMode, StoreContext};
use toolcrib_upstream::supervise::{
    ConnRole, DedicatedOptions, Server, ServerOptions, Supervisor, SupervisorListener, reap_orphans,
};
use toolcrib_upstream::transport::{Permissions, Tls};
use toolcrib_wire::handshake::Implementation;
use toolcrib_wire::view::ClientCapabilities;
use toolcrib_wire::{ObjectWriter, method};

type BoxError = Box<dyn std::error::Error>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let mut args = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(root), Some(state)) = (args.next(), args.next()) else {
        return Err("usage: torture_host ROOT STATE".into());
    };
    reap_orphans(&state, &Containment::default(), Duration::from_secs(20)).await?;
    let supervisor = Supervisor::new(Arc::new(conn_context(&state)?), Arc::new(IgnoreUpdates));
    let workspace = Workspace { root: root.clone(), home: None, config_file: None };
    let config = compile(&workspace, &DiskLookup);
    let mut servers = Vec::new();
    for spec in config.servers {
        let terms = ServerOptions {
            cwd: root.clone(),
            drain_kill: Some(Period::secs(5)),
            client: caller_without_handler(),
        };
        servers.push(supervisor.add_server(Arc::new(spec), terms).await);
    }
    for server in &servers {
        server.main().acquire_session(Demand::Call).await.map_err(|failure| failure.message)?;
    }
    println!("ready");
    loop {
        futures_util::future::join_all(servers.iter().map(call_server)).await;
    }
}

/// Makes one call on the server's main session and one on a dedicated session.
async fn call_server(server: &Arc<Server>) {
    let spare =
        server.lend_main().unwrap_or_else(|| server.open_dedicated(DedicatedOptions::default()));
    for conn in [server.main(), spare.conn()] {
        if let Ok(permit) = conn.acquire_session(Demand::Call).await {
            let params = ObjectWriter::new().string("name", "echo").finish();
            let timeouts = CallTimeouts { request: Some(Duration::from_secs(10)), max: None };
            let options = CallOptions { timeouts, ..CallOptions::default() };
            // A server that is killed during the call returns an error.
            let _ = permit.session.call(method::TOOLS_CALL, params, options, None).await;
        }
    }
    spare.close().await;
}

fn caller_without_handler() -> SessionClient {
    SessionClient { capabilities: ClientCapabilities::default(), handler: Arc::new(RefuseRequests) }
}

fn conn_context(state: &Path) -> Result<ConnContext, BoxError> {
    let env: Vec<(String, String)> = std::env::vars().collect();
    let instance = Instance::open(state)?;
    let store_context = StoreContext {
        instance: instance.clone(),
        env: env.clone(),
        cwd: state.to_owned(),
        tls: Tls::default(),
    };
    let store = CredentialStore::open(state.join("credentials"), StorageMode::File);
    let quick = Duration::from_millis(200);
    Ok(ConnContext {
        instance,
        env,
        accounts: Accounts::new(store.clone(), Tls::default()),
        sources: SecretSources::new(store, store_context),
        tls: Tls::default(),
        permissions: Permissions { spawn: true, network: true, docker: true }.into(),
        http_mode: SharedHttpMode::default(),
        graces: GracePeriods { close: quick, terminate: quick, kill: Duration::from_secs(5) },
        traits: TraitCache::default(),
        server_limit: ServerLimit::default(),
        client_info: Implementation::new("torture", "0"),
    })
}

struct IgnoreUpdates;

impl SupervisorListener for IgnoreUpdates {
    fn on_update(&self, _: u64, _: &ConnRole, _: ConnUpdate) {}
}

struct DiskLookup;

impl Lookup for DiskLookup {
    fn env(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn file(&self, path: &Path) -> FileLookup {
        std::fs::read(path).map_or(FileLookup::Missing, FileLookup::Content)
    }

    fn is_dir(&self, path: &Path) -> bool {
        path.is_dir()
    }
}
