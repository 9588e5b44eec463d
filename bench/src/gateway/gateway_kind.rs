//! The compared gateways and how to start them.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::process::{self, Gateway, free_port};
use crate::BenchResult;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum GatewayKind {
    Direct,
    Nginx,
    Toolcrib,
    FastMcp,
    PypiProxy,
    NpmProxy,
    Supergateway,
}

/// The upstream server behind a gateway.
#[derive(Clone, Copy)]
pub enum UpstreamTarget<'a> {
    Http(&'a str),
    /// The benchmark program itself, as a stdio server.
    Stdio,
}

impl GatewayKind {
    pub const OVER_HTTP: [GatewayKind; 4] =
        [GatewayKind::Direct, GatewayKind::Nginx, GatewayKind::Toolcrib, GatewayKind::FastMcp];
    pub const OVER_STDIO: [GatewayKind; 5] = [
        GatewayKind::Toolcrib,
        GatewayKind::NpmProxy,
        GatewayKind::Supergateway,
        GatewayKind::PypiProxy,
        GatewayKind::FastMcp,
    ];

    /// Returns an error text if the gateway is not installed.
    pub fn missing_program(self) -> Option<String> {
        let needed = match self {
            GatewayKind::Direct => return None,
            GatewayKind::Nginx => PathBuf::from("/usr/sbin/nginx"),
            GatewayKind::Toolcrib => process::toolcrib_binary(),
            GatewayKind::FastMcp => peers_folder().join("fastmcp/bin/python"),
            GatewayKind::PypiProxy => peers_folder().join("mcp-proxy/bin/mcp-proxy"),
            GatewayKind::NpmProxy | GatewayKind::Supergateway => {
                peers_folder().join("node_modules/.bin").join(self.program())
            }
        };
        let is_there = needed.exists();
        (!is_there).then(|| format!("{self} is not installed: run `scripts/setup bench`"))
    }

    fn program(self) -> &'static str {
        match self {
            GatewayKind::Supergateway => "supergateway",
            _ => "mcp-proxy",
        }
    }

    pub fn start(self, upstream: UpstreamTarget<'_>) -> BenchResult<Gateway> {
        let port = free_port()?;
        let own = std::env::current_exe()?.to_string_lossy().into_owned();
        let stdio = format!("{own} upstream stdio");
        match (self, upstream) {
            (GatewayKind::Direct, UpstreamTarget::Http(url)) => Gateway::direct(url),
            (GatewayKind::Nginx, UpstreamTarget::Http(url)) => start_nginx(url, port),
            (GatewayKind::Toolcrib, upstream) => {
                let entry = match upstream {
                    UpstreamTarget::Http(url) => format!("url: {url}"),
                    UpstreamTarget::Stdio => format!(
                        "command: {own}\n    args: [upstream, stdio]\n    session: {{ scope: shared }}"
                    ),
                };
                let (gateway, _) = process::start_toolcrib(&format!(
                    "  it:\n    {entry}\n    naming: {{ template: \"{{tool}}\" }}\n"
                ))?;
                Ok(gateway)
            }
            (GatewayKind::NpmProxy, _) => {
                let mut command = node_program("mcp-proxy");
                command.args(["--port", &port.to_string(), "--host", "127.0.0.1", "--"]);
                Gateway::start(command.args([&own, "upstream", "stdio"]), port, "/mcp", None)
            }
            (GatewayKind::Supergateway, _) => {
                let mut command = node_program("supergateway");
                command.args(["--stdio", &stdio, "--outputTransport", "streamableHttp"]);
                command.args(["--stateful", "--port", &port.to_string(), "--logLevel", "none"]);
                Gateway::start(&mut command, port, "/mcp", None)
            }
            (GatewayKind::PypiProxy, _) => {
                let mut command = Command::new(peers_folder().join("mcp-proxy/bin/mcp-proxy"));
                command.args(["--port", &port.to_string(), "--", &own, "upstream", "stdio"]);
                Gateway::start(&mut command, port, "/mcp", None)
            }
            (GatewayKind::FastMcp, upstream) => start_fastmcp(upstream, &own, port),
            (GatewayKind::Direct | GatewayKind::Nginx, UpstreamTarget::Stdio) => {
                Err(format!("{self} does not support stdio upstreams").into())
            }
        }
    }
}

fn peers_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../.cache/bench")
}

fn node_program(program: &str) -> Command {
    let mut command = Command::new("node");
    command.arg(
        fs::canonicalize(peers_folder().join("node_modules/.bin").join(program))
            .unwrap_or_default(),
    );
    command
}

fn start_nginx(url: &str, port: u16) -> BenchResult<Gateway> {
    let folder = tempfile::tempdir()?;
    let (address, _) = process::parse_url(url)?;
    let home = folder.path().display();
    let text = format!(
        "daemon off; worker_processes auto; pid {home}/pid; error_log {home}/error;\n\
         events {{ worker_connections 1024; }}\n\
         http {{ access_log off; client_body_temp_path {home}/body; proxy_temp_path {home}/proxy;\n\
         fastcgi_temp_path {home}/f; uwsgi_temp_path {home}/u; scgi_temp_path {home}/s;\n\
         keepalive_requests 1000000; upstream it {{ server {address}; keepalive 128; keepalive_requests 1000000; }}\n\
         server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://it; proxy_http_version 1.1;\n\
         proxy_set_header Connection \"\"; proxy_buffering on; proxy_buffers 16 128k; proxy_buffer_size 128k; proxy_busy_buffers_size 256k; }} }} }}\n"
    );
    let file = folder.path().join("nginx.conf");
    fs::write(&file, text)?;
    let mut command = Command::new("/usr/sbin/nginx");
    command.arg("-c").arg(&file).arg("-p").arg(folder.path());
    Gateway::start(&mut command, port, "/mcp", Some(folder))
}

fn start_fastmcp(upstream: UpstreamTarget<'_>, own: &str, port: u16) -> BenchResult<Gateway> {
    let folder = tempfile::tempdir()?;
    let target = match upstream {
        UpstreamTarget::Http(url) => format!("{url:?}"),
        UpstreamTarget::Stdio => format!("StdioTransport({own:?}, ['upstream', 'stdio'])"),
    };
    let script = format!(
        "from fastmcp.server import create_proxy\nfrom fastmcp.client.transports import StdioTransport\n\
         create_proxy({target}).run(transport='http', host='127.0.0.1', port={port}, show_banner=False, log_level='error')\n"
    );
    let file = folder.path().join("proxy.py");
    fs::write(&file, script)?;
    let mut command = Command::new(peers_folder().join("fastmcp/bin/python"));
    Gateway::start(command.arg(&file), port, "/mcp", Some(folder))
}

impl fmt::Display for GatewayKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GatewayKind::Direct => "direct",
            GatewayKind::Nginx => "nginx",
            GatewayKind::Toolcrib => "toolcrib",
            GatewayKind::FastMcp => "FastMCP proxy",
            GatewayKind::PypiProxy => "mcp-proxy (PyPI)",
            GatewayKind::NpmProxy => "mcp-proxy (npm)",
            GatewayKind::Supergateway => "supergateway",
        })
    }
}
