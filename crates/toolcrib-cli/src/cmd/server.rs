//! `toolcrib server`: something is done to one server.

use serde_json::json;
use toolcrib_server::api::shape::{Fault, Operated, ServerShape};

use super::servers::colour;
use crate::Exit;
use crate::api::{Answer, path};
use crate::args::{Server, Target};
use crate::hosted::{self, Hosted, is_down, is_up};
use crate::out::Out;
use crate::settings::Settings;
use crate::shown::{lines, printable};

pub(crate) fn run(settings: &Settings, out: &Out, what: &Server) -> Exit {
    hosted::run(settings, out, async |hosted| {
        let Target { id } = what.target();
        let looked = hosted.waited(hosted.api.get(&path(&["servers", id], &[]))).await?;
        let server = match looked.good::<ServerShape>()? {
            Ok(server) => server,
            Err(fault) => return Ok(hosted.refused(&fault, Some(id))),
        };
        let done = hosted.waited(perform(hosted, what, &server)).await?;
        if settings.json {
            out.json(&json!(done));
        } else if let Some(fault) = &done.error {
            out.error(&lines(&fault.message));
        } else {
            let style = colour(&done.server.state);
            // Whether it comes up is not what was asked for.
            let is_enabled = matches!(what, Server::Enable(_));
            let state = if is_enabled { "enabled" } else { done.server.state.as_str() };
            let id = printable(&done.server.id);
            out.result(&format!("{id} {style}{state}{style:#}\n"));
        }
        Ok(exit(done.error.as_ref()))
    })
}

async fn perform(
    hosted: &Hosted<'_>,
    what: &Server,
    server: &ServerShape,
) -> Result<Operated, String> {
    let key = server.key.as_str();
    match what {
        Server::Connect(_) => connect(hosted, server).await,
        Server::Disconnect(_) => operate(hosted, key, "disconnect").await,
        Server::Restart(_) => operate(hosted, key, "restart").await,
        Server::Refresh(_) => {
            // A host of its own has nobody who would have connected it.
            let connected = match hosted.running {
                Some(_) => None,
                None => connect(hosted, server).await?.error,
            };
            match connected {
                Some(error) => {
                    Ok(Operated { ok: false, server: server.clone(), error: Some(error) })
                }
                None => operate(hosted, key, "refresh").await,
            }
        }
        Server::Enable(_) => operate(hosted, key, "enable").await,
        Server::Disable(_) => operate(hosted, key, "disable").await,
    }
}

/// The host may have begun to connect it already, or may have it: what counts is that it serves.
async fn connect(hosted: &Hosted<'_>, server: &ServerShape) -> Result<Operated, String> {
    let up = |server: ServerShape| Operated { ok: true, server, error: None };
    if serves(server) {
        return Ok(up(server.clone()));
    }
    let done = operate(hosted, &server.key, "connect").await?;
    Ok(if serves(&done.server) { up(done.server) } else { done })
}

/// A server that is up may still offer nothing, because of the names of its tools.
fn serves(server: &ServerShape) -> bool {
    is_up(server) && server.registered != "config_invalid"
}

async fn operate(hosted: &Hosted<'_>, key: &str, what: &str) -> Result<Operated, String> {
    let answer: Answer = hosted.api.post(&path(&["servers", key, what], &[]), &json!({})).await?;
    answer.read()
}

fn exit(fault: Option<&Fault>) -> Exit {
    const OF_SERVERS: [&str; 6] =
        ["config", "connection", "authentication", "timeout", "protocol", "resource"];
    match fault {
        None => Exit::Done,
        Some(fault) if is_down(fault) || OF_SERVERS.contains(&fault.kind.as_str()) => {
            Exit::Unreached
        }
        Some(_) => Exit::Failed,
    }
}

impl Server {
    fn target(&self) -> &Target {
        match self {
            Server::Connect(target)
            | Server::Disconnect(target)
            | Server::Restart(target)
            | Server::Refresh(target)
            | Server::Enable(target)
            | Server::Disable(target) => target,
        }
    }
}
