//! The ways to a server that are held against each other.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::process::{self, Gateway, free_port};
use crate::Fallible;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Direct,
    Nginx,
    Toolcrib,
    FastMcp,
    PypiProxy,
    NpmProxy,
    Supergateway,
}

/// What stands behind.
#[derive(Clone, Copy)]
pub enum Behind<'a> {
    Http(&'a str),
    /// The bench itself, as a server on its standard streams.
    Stdio,
}

impl Way {
    pub const OVER_HTTP: [Way; 4] = [Way::Direct, Way::Nginx, Way::Toolcrib, Way::FastMcp];
    pub const OVER_STDIO: [Way; 5] =
        [Way::Toolcrib, Way::NpmProxy, Way::Supergateway, Way::PypiProxy, Way::FastMcp];

    /// Why it cannot be measured here, if so.
    pub fn missing(self) -> Option<String> {
        let needed = match self {
            Way::Direct => return None,
            Way::Nginx => PathBuf::from("/usr/sbin/nginx"),
            Way::Toolcrib => process::toolcrib(),
            Way::FastMcp => peers().join("fastmcp/bin/python"),
            Way::PypiProxy => peers().join("mcp-proxy/bin/mcp-proxy"),
            Way::NpmProxy | Way::Supergateway => {
                peers().join("node_modules/.bin").join(self.program())
            }
        };
        let is_there = needed.exists();
        (!is_there).then(|| format!("{self} is not installed (scripts/setup bench)"))
    }

    fn program(self) -> &'static str {
        match self {
            Way::Supergateway => "supergateway",
            _ => "mcp-proxy",
        }
    }

    pub fn start(self, behind: Behind<'_>) -> Fallible<Gateway> {
        let port = free_port()?;
        let own = std::env::current_exe()?.to_string_lossy().into_owned();
        let stdio = format!("{own} upstream stdio");
        match (self, behind) {
            (Way::Direct, Behind::Http(url)) => Gateway::direct(url),
            (Way::Nginx, Behind::Http(url)) => nginx(url, port),
            (Way::Toolcrib, behind) => {
                let entry = match behind {
                    Behind::Http(url) => format!("url: {url}"),
                    Behind::Stdio => format!(
                        "command: {own}\n    args: [upstream, stdio]\n    session: {{ scope: shared }}"
                    ),
                };
                let (gateway, _) = process::serve(&format!(
                    "  it:\n    {entry}\n    naming: {{ template: \"{{tool}}\" }}\n"
                ))?;
                Ok(gateway)
            }
            (Way::NpmProxy, _) => {
                let mut command = node("mcp-proxy");
                command.args(["--port", &port.to_string(), "--host", "127.0.0.1", "--"]);
                Gateway::start(command.args([&own, "upstream", "stdio"]), port, "/mcp", None)
            }
            (Way::Supergateway, _) => {
                let mut command = node("supergateway");
                command.args(["--stdio", &stdio, "--outputTransport", "streamableHttp"]);
                command.args(["--stateful", "--port", &port.to_string(), "--logLevel", "none"]);
                Gateway::start(&mut command, port, "/mcp", None)
            }
            (Way::PypiProxy, _) => {
                let mut command = Command::new(peers().join("mcp-proxy/bin/mcp-proxy"));
                command.args(["--port", &port.to_string(), "--", &own, "upstream", "stdio"]);
                Gateway::start(&mut command, port, "/mcp", None)
            }
            (Way::FastMcp, behind) => fastmcp(behind, &own, port),
            (Way::Direct | Way::Nginx, Behind::Stdio) => Err(format!("{self} has no stdio").into()),
        }
    }
}

fn peers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../.cache/bench")
}

fn node(program: &str) -> Command {
    let mut command = Command::new("node");
    command
        .arg(fs::canonicalize(peers().join("node_modules/.bin").join(program)).unwrap_or_default());
    command
}

fn nginx(url: &str, port: u16) -> Fallible<Gateway> {
    let folder = tempfile::tempdir()?;
    let (address, _) = process::parts(url)?;
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

fn fastmcp(behind: Behind<'_>, own: &str, port: u16) -> Fallible<Gateway> {
    let folder = tempfile::tempdir()?;
    let target = match behind {
        Behind::Http(url) => format!("{url:?}"),
        Behind::Stdio => format!("StdioTransport({own:?}, ['upstream', 'stdio'])"),
    };
    let script = format!(
        "from fastmcp.server import create_proxy\nfrom fastmcp.client.transports import StdioTransport\n\
         create_proxy({target}).run(transport='http', host='127.0.0.1', port={port}, show_banner=False, log_level='error')\n"
    );
    let file = folder.path().join("proxy.py");
    fs::write(&file, script)?;
    let mut command = Command::new(peers().join("fastmcp/bin/python"));
    Gateway::start(command.arg(&file), port, "/mcp", Some(folder))
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Way::Direct => "direct",
            Way::Nginx => "nginx",
            Way::Toolcrib => "toolcrib",
            Way::FastMcp => "FastMCP proxy",
            Way::PypiProxy => "mcp-proxy (PyPI)",
            Way::NpmProxy => "mcp-proxy (npm)",
            Way::Supergateway => "supergateway",
        })
    }
}
