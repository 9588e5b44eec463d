//! The clients behind one face: ours, the one of the Rust SDK, and one that only fetches.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::CallToolRequestParams;
use rmcp::service::RunningService;
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{RoleClient, ServiceExt};
use serde_json::json;
use tempfile::TempDir;
use tokio::process::Command;
use toolcrib_upstream::conn::peer::{CallOptions, NoRequests, Patience, Peer, PeerSettings};
use toolcrib_upstream::process::{Graces, Instance};
use toolcrib_upstream::signals::SecretMask;
use toolcrib_upstream::transport::{Credentials, Opening, Permissions, Tls, open};
use toolcrib_config::model::choice::{AnyOf, Inherit};
use toolcrib_config::model::transport::{
    Env, Framing, Plain, Remote, Stdio, StreamableHttp, Transport, UrlPolicy,
};
use toolcrib_wire::{Limits, ObjectWriter, Raw, Version};

use crate::Fallible;
use crate::upstream::{Size, Upstream};

#[derive(Clone, Copy)]
pub enum Which {
    Ours,
    Rmcp,
    /// What any client pays that is built on the same HTTP library: it asks, and drops each piece of the answer.
    Floor,
}

/// A client that is connected.
pub enum Client {
    Ours { peer: Peer, _host: Host },
    Rmcp(RunningService<RoleClient, ()>),
    Floor { http: reqwest::Client, url: String },
}

/// Calls tools, up to the result as each client hands it on: ours as text that has been checked, which is what a
/// host passes on, the SDK's as the types that it decodes into.
pub enum Caller {
    Ours { peer: Peer, arguments: Raw },
    Rmcp { peer: rmcp::Peer<RoleClient>, arguments: rmcp::model::JsonObject },
    Floor { http: reqwest::Client, url: String, arguments: Raw },
}

impl Client {
    pub async fn connect(which: Which, upstream: &Upstream) -> Fallible<Self> {
        match which {
            Which::Ours => {
                let host = Host::new()?;
                let peer = host.session(upstream).await?;
                Ok(Self::Ours { peer, _host: host })
            }
            Which::Rmcp => theirs(upstream).await.map(Self::Rmcp),
            Which::Floor => {
                let Upstream::Address { url, .. } = upstream else {
                    return Err("no address".into());
                };
                let http = reqwest::Client::builder().tcp_nodelay(true).no_proxy().build()?;
                Ok(Self::Floor { http, url: url.clone() })
            }
        }
    }

    pub fn caller(&self) -> Caller {
        let arguments = json!({"path": "src/main.rs", "lines": 40});
        match self {
            Self::Ours { peer, .. } => {
                Caller::Ours { peer: peer.clone(), arguments: raw(&arguments) }
            }
            Self::Rmcp(service) => Caller::Rmcp {
                peer: service.peer().clone(),
                arguments: arguments.as_object().cloned().unwrap_or_default(),
            },
            Self::Floor { http, url } => {
                Caller::Floor { http: http.clone(), url: url.clone(), arguments: raw(&arguments) }
            }
        }
    }

    pub async fn close(self) -> Fallible {
        match self {
            Self::Ours { peer, .. } => peer.close(Duration::from_secs(1)).await,
            Self::Rmcp(service) => drop(service.cancel().await?),
            Self::Floor { .. } => {}
        }
        Ok(())
    }
}

impl Caller {
    pub async fn call(&self, size: Size) -> Result<(), String> {
        let has_failed = match self {
            Self::Ours { peer, arguments } => {
                let params = ObjectWriter::new().string("name", size.tool());
                let params = params.json("arguments", arguments.json()).finish();
                let patience = Patience { request: Some(Duration::from_secs(60)), max: None };
                let options = CallOptions { patience, ..CallOptions::default() };
                let body = peer.call("tools/call", params, options).await;
                body.map_err(|error| error.to_string())?.raw().is_none()
            }
            Self::Rmcp { peer, arguments } => {
                let params = CallToolRequestParams::new(size.tool());
                let called = peer.call_tool(params.with_arguments(arguments.clone())).await;
                called.map_err(|error| error.to_string())?.is_error == Some(true)
            }
            Self::Floor { http, url, arguments } => {
                let fetched = fetch(http.post(url), size, arguments).await;
                fetched.map_err(|error| error.to_string())? == 0
            }
        };
        if has_failed { Err("the tool failed".to_owned()) } else { Ok(()) }
    }
}

/// How many bytes came.
async fn fetch(
    request: reqwest::RequestBuilder,
    size: Size,
    arguments: &Raw,
) -> Result<usize, reqwest::Error> {
    let tool = size.tool();
    let arguments = arguments.text();
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}"#
    );
    let mut response = request.header("content-type", "application/json").body(body).send().await?;
    let mut bytes = 0;
    while let Some(piece) = response.chunk().await? {
        bytes += piece.len();
    }
    Ok(bytes)
}

async fn theirs(upstream: &Upstream) -> Fallible<RunningService<RoleClient, ()>> {
    Ok(match upstream {
        Upstream::Program(program) => {
            let mut command = Command::new(program);
            command.args(["upstream", "stdio"]);
            ().serve(TokioChildProcess::new(command)?).await?
        }
        Upstream::Address { url, .. } => {
            ().serve(StreamableHttpClientTransport::from_uri(url.as_str())).await?
        }
    })
}

/// As much of a host as sessions need.
pub struct Host {
    instance: Instance,
    tls: Tls,
    state: TempDir,
}

impl Host {
    pub fn new() -> Fallible<Self> {
        let state = tempfile::tempdir()?;
        Ok(Self { instance: Instance::open(state.path())?, tls: Tls::default(), state })
    }

    /// Opens a link and shakes hands.
    pub async fn session(&self, upstream: &Upstream) -> Fallible<Peer> {
        let limit = Duration::from_secs(60);
        let opening = Opening {
            instance: &self.instance,
            host_env: &[],
            extra_env: &[],
            cwd: Path::to_owned(self.state.path()),
            find: &|_| None,
            limits: Limits::default(),
            stderr_limit: 64 << 10,
            graces: Graces::default(),
            connect_timeout: limit,
            sse_read_timeout: limit,
            credentials: Credentials::None,
            tls: &self.tls,
            permissions: Permissions { spawn: true, network: true, docker: true },
            mask: SecretMask::default(),
        };
        let link = open(&transport(upstream), &opening).await?;
        let settings = PeerSettings {
            server: "bench".to_owned(),
            handler: Arc::new(NoRequests),
            masks_results: false,
        };
        let (peer, _) = Peer::start(link, settings);
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "0"}});
        peer.call("initialize", raw(&hello), CallOptions::default()).await?;
        peer.speak(Version::V2025_11_25);
        peer.notify("notifications/initialized", None).await?;
        Ok(peer)
    }
}

fn transport(upstream: &Upstream) -> Transport {
    match upstream {
        Upstream::Program(program) => Transport::Stdio(Stdio {
            command: Plain::literal(program),
            args: ["upstream", "stdio"].map(Plain::literal).into(),
            cwd: None,
            encoding: "utf-8".to_owned(),
            framing: Framing::Auto,
            allow_commands: AnyOf::Any,
            env: Env {
                inherit: Inherit::Minimal,
                file: None,
                unset: Vec::new(),
                set: BTreeMap::new(),
            },
        }),
        Upstream::Address { url, .. } => Transport::StreamableHttp(StreamableHttp {
            remote: Remote {
                url: Plain::literal(url),
                headers: BTreeMap::new(),
                url_policy: UrlPolicy::HttpsOrLoopback,
            },
            session_id: None,
            terminate_on_close: false,
        }),
    }
}

/// Any value of `serde_json` is JSON.
fn raw(value: &serde_json::Value) -> Raw {
    Raw::of(value).unwrap_or_else(|error| panic!("{error}"))
}
