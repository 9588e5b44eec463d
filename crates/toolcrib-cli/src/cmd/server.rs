//! `toolcrib server`: something is done to one server.

use serde_json::json;
use toolcrib::host::OpError;
use toolcrib::signals::chain;

use super::servers::{colour, to_json};
use crate::Exit;
use crate::args::{Server, Target};
use crate::hosted::{self, Hosted, is_up};
use crate::out::Out;
use crate::settings::Settings;
use crate::shown::lines;

/// Who enables and disables servers here, as others are told.
const WHO: &str = "the command line";

pub(crate) fn run(settings: &Settings, out: &Out, what: &Server) -> Exit {
    hosted::run(settings, out, async |hosted| {
        hosted.host.ready().await;
        let Target { id } = what.target();
        let Some(server) = hosted.server(id) else { return Ok(hosted.no_server(id)) };
        let done = perform(hosted, what, &server.key).await;
        out.progress("");
        let now = hosted.server(&server.key).unwrap_or(server);
        if settings.json {
            let error = done.as_ref().err().map(|error| chain(error));
            out.json(&json!({"ok": done.is_ok(), "server": to_json(&now), "error": error}));
        } else if let Err(error) = &done {
            out.error(&lines(&chain(error)));
        } else {
            let (style, state) = (colour(now.state), now.state.as_str());
            // Whether it comes up is not what was asked for.
            let state = if matches!(what, Server::Enable(_)) { "enabled" } else { state };
            out.result(&format!("{} {style}{state}{style:#}\n", now.spec.id));
        }
        Ok(match done {
            Ok(()) => Exit::Done,
            Err(OpError::Failed { .. } | OpError::NotConnected(_)) => Exit::Unreached,
            Err(_) => Exit::Failed,
        })
    })
}

async fn perform(hosted: &Hosted<'_>, what: &Server, key: &str) -> Result<(), OpError> {
    let host = &hosted.host;
    match what {
        Server::Connect(_) => connect(hosted, key).await,
        Server::Disconnect(_) => host.disconnect(key).await,
        Server::Restart(_) => {
            hosted.out.progress("restarting");
            host.restart(key).await
        }
        Server::Refresh(_) => {
            connect(hosted, key).await?;
            host.refresh(key).await
        }
        Server::Enable(_) => host.enable(key, WHO).await,
        Server::Disable(_) => host.disable(key, WHO).await,
    }
}

/// This host has begun to connect it already, or would when it is first wanted: what counts is that it is up.
async fn connect(hosted: &Hosted<'_>, key: &str) -> Result<(), OpError> {
    hosted.out.progress("connecting");
    let connected = hosted.host.connect(key).await;
    match hosted.server(key) {
        Some(server) if is_up(&server) => Ok(()),
        _ => connected,
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
