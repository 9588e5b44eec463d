//! The Docker platform's servers: `mcpServers`, a list of processes in containers.

use indexmap::IndexMap;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::native::container_command;
use super::{Dialect, Draft, Loaded, given, nonempty, peek, verbatim};
use crate::cx::Cx;
use crate::doc::{At, Doc, Either, NodeId};
use crate::model::policy::{
    ExposeKeys, LifecycleKeys, LivenessKeys, PolicyKeys, ReconnectKeys, RetryKeys, TimeoutsKeys,
    ToolFilterKeys,
};
use crate::model::transport::{EnvKeys, Framing, Plain, TransportKeys, TransportKind};
use crate::model::units::Period;
use crate::value::Verbatim;

/// The namespace of a server that names none.
const NAMESPACE: &str = "mcp";
/// The command of a server that names none.
const COMMAND: &str = "mcp start --stdio";
/// Waits that double are no longer than this, unless the first one is.
const LONGEST_WAIT: Period = Period::secs(300);

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Root {
    mcp_servers: Option<At<Vec<At<IgnoredAny>>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Server {
    namespace: Option<At<String>>,
    image: Option<At<String>>,
    container: Option<At<String>>,
    command: Option<At<Either<String, Vec<String>>>>,
    workdir: Option<At<String>>,
    env: Option<At<IndexMap<String, At<Verbatim>>>>,
    unset: Option<At<Vec<String>>>,
    framing: Option<At<Framing>>,
    request_timeout_ms: Option<At<u64>>,
    startup_timeout_ms: Option<At<u64>>,
    heartbeat_interval_ms: Option<At<u64>>,
    stale_timeout_ms: Option<At<u64>>,
    restart: Option<At<Restart>>,
    #[serde(alias = "allow")]
    enabled_tools: Option<At<Vec<String>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Restart {
    max_attempts: Option<At<u32>>,
    backoff_ms: Option<At<u64>>,
    backoff: Option<At<Backoff>>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Backoff {
    Fixed,
    Exponential,
}

pub(crate) fn read(cx: &mut Cx<'_>) -> Loaded {
    let entry = cx.server_entry::<Root>(Doc::ROOT);
    let mut loaded = Loaded::new();
    for At { node, .. } in given(entry.value.mcp_servers) {
        loaded.servers.push(server(cx, node));
    }
    loaded.tell_duplicates(cx);
    if entry.sound { loaded } else { loaded.failed() }
}

fn server(cx: &mut Cx<'_>, node: NodeId) -> Draft {
    let namespace = peek(cx, node, &["namespace"]).unwrap_or_else(|| NAMESPACE.to_string());
    cx.enter(&namespace);
    let mut entry = cx.server_entry::<Server>(node);
    cx.leave();
    let mut draft = Draft::new(&namespace, node, Dialect::Docker);
    draft.sound = entry.sound;
    draft.extras = entry.extras;
    draft.policy = policy(&namespace, node, &mut entry.value);
    draft.transport = transport(node, entry.value);
    draft
}

fn policy(namespace: &str, node: NodeId, server: &mut Server) -> PolicyKeys {
    let timeouts = TimeoutsKeys {
        // One time covers everything up to the list of tools, opening the connection too.
        connect: millis(server.startup_timeout_ms.clone()),
        startup: millis(server.startup_timeout_ms.take()),
        request: millis(server.request_timeout_ms.take()),
        ..TimeoutsKeys::default()
    };
    let liveness = LivenessKeys {
        ping_every: millis(server.heartbeat_interval_ms.take()),
        stale_after: millis(server.stale_timeout_ms.take()),
    };
    let lifecycle = lifecycle(node, given(server.restart.take()), liveness);
    let expose = server
        .enabled_tools
        .take()
        .map(|at| ExposeKeys { tools: Some(tools(namespace, at)), ..ExposeKeys::default() });
    PolicyKeys {
        timeouts: Some(At::new(node, timeouts)),
        lifecycle: Some(At::new(node, lifecycle)),
        expose: expose.map(|expose| At::new(node, expose)),
        ..PolicyKeys::default()
    }
}

fn transport(node: NodeId, server: Server) -> TransportKeys {
    let mut transport = TransportKeys {
        kind: Some(At::new(node, TransportKind::DockerExec)),
        image: plain(server.image),
        container: plain(server.container),
        workdir: plain(server.workdir),
        framing: server.framing,
        env: Some(At::new(
            node,
            EnvKeys {
                set: server.env.map(|at| at.map(verbatim)),
                unset: server.unset,
                ..EnvKeys::default()
            },
        )),
        ..TransportKeys::default()
    };
    let command =
        server.command.unwrap_or_else(|| At::new(node, Either::Scalar(COMMAND.to_string())));
    container_command(
        &mut transport,
        command.map(|command| match command {
            Either::Scalar(text) => Either::Scalar(Plain::literal(text)),
            Either::Nested(argv) => Either::Nested(argv.into_iter().map(Plain::literal).collect()),
        }),
    );
    transport
}

fn plain(text: Option<At<String>>) -> Option<At<Plain>> {
    nonempty(text).map(|at| at.map(Plain::literal))
}

fn millis(given: Option<At<u64>>) -> Option<At<Period>> {
    given.map(|at| at.map(Period::millis))
}

/// A restart is a start that is tried again as well as a connection that is made anew. The attempts are all that
/// are made: retries come after a first one, reconnecting has none before.
fn lifecycle(node: NodeId, restart: Restart, liveness: LivenessKeys) -> LifecycleKeys {
    let (max, initial) = (restart.max_attempts, millis(restart.backoff_ms));
    let backoff = restart.backoff.and_then(|at| Some((at.node, at.value?)));
    let factor = backoff.map(|(node, backoff)| {
        At::new(
            node,
            match backoff {
                Backoff::Fixed => 1.0,
                Backoff::Exponential => 2.0,
            },
        )
    });
    let max_delay = match backoff {
        Some((node, Backoff::Exponential)) => {
            let first = initial.as_ref().and_then(|at| at.value);
            Some(At::new(node, first.map_or(LONGEST_WAIT, |first| first.max(LONGEST_WAIT))))
        }
        _ => initial.clone(),
    };
    let retries = max.clone().map(|at| at.map(|attempts| attempts.saturating_sub(1)));
    let retry = RetryKeys { max: retries, initial, max_delay, factor, jitter: None };
    let reconnect = ReconnectKeys {
        max,
        initial: retry.initial.clone(),
        max_delay: retry.max_delay.clone(),
        factor: retry.factor.clone(),
        ..ReconnectKeys::default()
    };
    LifecycleKeys {
        retry: Some(At::new(node, retry)),
        reconnect: Some(At::new(node, reconnect)),
        liveness: Some(At::new(node, liveness)),
        ..LifecycleKeys::default()
    }
}

/// The enabled tools by the server's own names; the file may also write them with the namespace.
fn tools(namespace: &str, enabled: At<Vec<String>>) -> At<ToolFilterKeys> {
    let raw = |name: String| match name.split_once(':') {
        Some((space, tool)) if space == namespace => tool.to_string(),
        _ => name,
    };
    let node = enabled.node;
    let allow = enabled.map(|names| names.into_iter().map(raw).collect::<Vec<_>>());
    let keys = ToolFilterKeys { allow: Some(allow), ..ToolFilterKeys::default() };
    At::new(node, keys)
}

#[cfg(test)]
#[path = "docker_tests.rs"]
mod tests;
