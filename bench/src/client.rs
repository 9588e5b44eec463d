//! The benchmarked clients: toolcrib's, the Rust SDK's, and one that only fetches the response.

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
use toolcrib_config::model::choice::{AllowList, InheritedEnv};
use toolcrib_config::model::host::HttpMode;
use toolcrib_config::model::transport::{
    DisplayValue, FramingMode, ProcessEnv, Remote, Stdio, StreamableHttp, Transport, UrlPolicy,
};
use toolcrib_upstream::conn::peer::{
    CallOptions, CallTimeouts, Peer, PeerSettings, RefuseRequests,
};
use toolcrib_upstream::process::{GracePeriods, Instance};
use toolcrib_upstream::signals::SecretMask;
use toolcrib_upstream::transport::{Credentials, OpenContext, Permissions, Tls, open};
use toolcrib_wire::{MessageLimits, ObjectWriter, RawJson, Version};

use crate::BenchResult;
use crate::upstream::{ResponseSize, Upstream};

#[derive(Clone, Copy)]
pub enum ClientKind {
    Ours,
    Rmcp,
    /// The minimum cost of any client on the same HTTP library: it sends the request and drops the response.
    Floor,
}

/// A connected client.
pub enum Client {
    Ours { peer: Peer, _host: ClientHost },
    Rmcp(RunningService<RoleClient, ()>),
    Floor { http: reqwest::Client, url: String },
}

/// Calls tools and produces the result in the client's usual form: checked text for toolcrib, as a host
/// forwards it, and decoded types for the SDK.
pub enum ToolCaller {
    Ours { peer: Peer, arguments: RawJson },
    Rmcp { peer: rmcp::Peer<RoleClient>, arguments: rmcp::model::JsonObject },
    Floor { http: reqwest::Client, url: String, arguments: RawJson },
}

impl Client {
    pub async fn connect(which: ClientKind, upstream: &Upstream) -> BenchResult<Self> {
        match which {
            ClientKind::Ours => {
                let host = ClientHost::new()?;
                let peer = host.open_session(upstream).await?;
                Ok(Self::Ours { peer, _host: host })
            }
            ClientKind::Rmcp => connect_rmcp(upstream).await.map(Self::Rmcp),
            ClientKind::Floor => {
                let Upstream::Address { url, .. } = upstream else {
                    return Err("no address".into());
                };
                let http = reqwest::Client::builder().tcp_nodelay(true).no_proxy().build()?;
                Ok(Self::Floor { http, url: url.clone() })
            }
        }
    }

    pub fn caller(&self) -> ToolCaller {
        let arguments = json!({"path": "src/main.rs", "lines": 40});
        match self {
            Self::Ours { peer, .. } => {
                ToolCaller::Ours { peer: peer.clone(), arguments: to_raw_json(&arguments) }
            }
            Self::Rmcp(service) => ToolCaller::Rmcp {
                peer: service.peer().clone(),
                arguments: arguments.as_object().cloned().unwrap_or_default(),
            },
            Self::Floor { http, url } => ToolCaller::Floor {
                http: http.clone(),
                url: url.clone(),
                arguments: to_raw_json(&arguments),
            },
        }
    }

    pub async fn close(self) -> BenchResult {
        match self {
            Self::Ours { peer, .. } => peer.close(Duration::from_secs(1)).await,
            Self::Rmcp(service) => drop(service.cancel().await?),
            Self::Floor { .. } => {}
        }
        Ok(())
    }
}

impl ToolCaller {
    pub async fn call(&self, size: ResponseSize) -> Result<(), String> {
        let has_failed = match self {
            Self::Ours { peer, arguments } => {
                let params = ObjectWriter::new().string("name", size.tool());
                let params = params.json("arguments", arguments.json()).finish();
                let timeouts = CallTimeouts { request: Some(Duration::from_secs(60)), max: None };
                let options = CallOptions { timeouts, ..CallOptions::default() };
                let body = peer.call("tools/call", params, options).await;
                body.map_err(|error| error.to_string())?.raw().is_none()
            }
            Self::Rmcp { peer, arguments } => {
                let params = CallToolRequestParams::new(size.tool());
                let result = peer.call_tool(params.with_arguments(arguments.clone())).await;
                result.map_err(|error| error.to_string())?.is_error == Some(true)
            }
            Self::Floor { http, url, arguments } => {
                let received = fetch_response(http.post(url), size, arguments).await;
                received.map_err(|error| error.to_string())? == 0
            }
        };
        if has_failed { Err("the tool failed".to_owned()) } else { Ok(()) }
    }
}

/// Returns the number of received bytes.
async fn fetch_response(
    request: reqwest::RequestBuilder,
    size: ResponseSize,
    arguments: &RawJson,
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

async fn connect_rmcp(upstream: &Upstream) -> BenchResult<RunningService<RoleClient, ()>> {
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

/// The parts of a host that sessions need.
pub struct ClientHost {
    instance: Instance,
    tls: Tls,
    state: TempDir,
}

impl ClientHost {
    pub fn new() -> BenchResult<Self> {
        let state = tempfile::tempdir()?;
        Ok(Self { instance: Instance::open(state.path())?, tls: Tls::default(), state })
    }

    /// Opens a connection and performs the handshake.
    pub async fn open_session(&self, upstream: &Upstream) -> BenchResult<Peer> {
        let limit = Duration::from_secs(60);
        let context = OpenContext {
            instance: &self.instance,
            host_env: &[],
            extra_env: &[],
            cwd: Path::to_owned(self.state.path()),
            lookup: &|_| None,
            limits: MessageLimits::default(),
            stderr_limit: 64 << 10,
            graces: GracePeriods::default(),
            connect_timeout: limit,
            sse_read_timeout: limit,
            credentials: Credentials::None,
            tls: &self.tls,
            permissions: Permissions { spawn: true, network: true, docker: true },
            http_mode: HttpMode::Auto,
            mask: SecretMask::default(),
        };
        let link = open(&transport(upstream), &context).await?;
        let settings = PeerSettings {
            server: "bench".to_owned(),
            handler: Arc::new(RefuseRequests),
            masks_results: false,
        };
        let (peer, _) = Peer::start(link, settings);
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "0"}});
        peer.call("initialize", to_raw_json(&params), CallOptions::default()).await?;
        peer.set_version(Version::V2025_11_25);
        peer.notify("notifications/initialized", None).await?;
        Ok(peer)
    }
}

fn transport(upstream: &Upstream) -> Transport {
    match upstream {
        Upstream::Program(program) => Transport::Stdio(Stdio {
            command: DisplayValue::literal(program),
            args: ["upstream", "stdio"].map(DisplayValue::literal).into(),
            cwd: None,
            encoding: "utf-8".to_owned(),
            framing: FramingMode::Auto,
            allow_commands: AllowList::Any,
            env: ProcessEnv {
                inherit: InheritedEnv::Minimal,
                file: None,
                unset: Vec::new(),
                set: BTreeMap::new(),
            },
        }),
        Upstream::Address { url, .. } => Transport::StreamableHttp(StreamableHttp {
            remote: Remote {
                url: DisplayValue::literal(url),
                headers: BTreeMap::new(),
                url_policy: UrlPolicy::HttpsOrLoopback,
            },
            session_id: None,
            terminate_on_close: false,
        }),
    }
}

/// Serialises a value; this cannot fail for `serde_json` values.
fn to_raw_json(value: &serde_json::Value) -> RawJson {
    RawJson::from_value(value).unwrap_or_else(|error| panic!("{error}"))
}
