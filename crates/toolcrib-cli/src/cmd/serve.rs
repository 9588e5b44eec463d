//! `toolcrib serve --stdio`: one MCP server in front of all that are configured.

use toolcrib::access::DEFAULT_AGENT;
use toolcrib_server::gateway::{Gateway, Who};

use crate::Exit;
use crate::hosted;
use crate::out::Out;
use crate::settings::Settings;

pub(crate) fn run(settings: &Settings, out: &Out) -> Exit {
    let ended = hosted::run_as(
        settings,
        out,
        |builder| builder.reload_on_hangup(),
        async |hosted| {
            let gateway = Gateway::new(hosted.host.clone());
            let served = gateway
                .serve(Who::agent(DEFAULT_AGENT), tokio::io::stdin(), tokio::io::stdout())
                .await;
            served.map_err(|error| format!("cannot read standard input: {error}"))?;
            Ok(Exit::Done)
        },
    );
    // Being told to end is how it ends.
    if ended == Exit::Interrupted { Exit::Done } else { ended }
}
