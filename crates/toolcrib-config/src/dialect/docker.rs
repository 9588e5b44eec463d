//! Reads the Docker platform's `mcpServers`: a list of server processes in containers.

use indexmap::IndexMap;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::native::set_container_command;
use super::{Dialect, DialectFile, ServerDraft, non_empty, peek_text, to_values, value_or_default};
use crate::compile_context::CompileContext;
use crate::doc::{At, Doc, Either, NodeId};
use crate::model::policy::{
    ExposeKeys, LifecycleKeys, LivenessKeys, PolicyKeys, ReconnectKeys, RetryKeys, TimeoutsKeys,
    ToolFilterKeys,
};
use crate::model::transport::{DisplayValue, EnvKeys, FramingMode, TransportKeys, TransportKind};
use crate::model::units::Period;
use crate::value::Verbatim;

/// Namespace of a server that sets none.
const DEFAULT_NAMESPACE: &str = "mcp";
/// Command of a server that sets none.
const DEFAULT_COMMAND: &str = "mcp start --stdio";
/// Maximum exponential backoff, unless the initial backoff is longer.
const MAX_BACKOFF: Period = Period::secs(300);

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct DockerPlatformFile {
    mcp_servers: Option<At<Vec<At<IgnoredAny>>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct DockerServer {
    namespace: Option<At<String>>,
    image: Option<At<String>>,
    container: Option<At<String>>,
    command: Option<At<Either<String, Vec<String>>>>,
    workdir: Option<At<String>>,
    env: Option<At<IndexMap<String, At<Verbatim>>>>,
    unset: Option<At<Vec<String>>>,
    framing: Option<At<FramingMode>>,
    request_timeout_ms: Option<At<u64>>,
    startup_timeout_ms: Option<At<u64>>,
    heartbeat_interval_ms: Option<At<u64>>,
    stale_timeout_ms: Option<At<u64>>,
    restart: Option<At<RestartPolicy>>,
    #[serde(alias = "allow")]
    enabled_tools: Option<At<Vec<String>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RestartPolicy {
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

pub(crate) fn read(cx: &mut CompileContext<'_>) -> DialectFile {
    let entry = cx.read_server_entry::<DockerPlatformFile>(Doc::ROOT);
    let mut file = DialectFile::new();
    for At { node, .. } in value_or_default(entry.value.mcp_servers) {
        file.servers.push(read_server(cx, node));
    }
    file.reject_duplicate_names(cx);
    if entry.is_valid { file } else { file.into_failed() }
}

fn read_server(cx: &mut CompileContext<'_>, node: NodeId) -> ServerDraft {
    let namespace =
        peek_text(cx, node, &["namespace"]).unwrap_or_else(|| DEFAULT_NAMESPACE.to_string());
    cx.enter_server(&namespace);
    let mut entry = cx.read_server_entry::<DockerServer>(node);
    cx.leave_server();
    let mut draft = ServerDraft::new(&namespace, node, Dialect::Docker);
    draft.is_valid = entry.is_valid;
    draft.extras = entry.extras;
    draft.policy = policy_keys(&namespace, node, &mut entry.value);
    draft.transport = transport_keys(node, entry.value);
    draft
}

fn policy_keys(namespace: &str, node: NodeId, server: &mut DockerServer) -> PolicyKeys {
    let timeouts = TimeoutsKeys {
        // One timeout covers the connection and everything up to the tool list.
        connect: period_from_millis(server.startup_timeout_ms.clone()),
        startup: period_from_millis(server.startup_timeout_ms.take()),
        request: period_from_millis(server.request_timeout_ms.take()),
        ..TimeoutsKeys::default()
    };
    let liveness = LivenessKeys {
        ping_every: period_from_millis(server.heartbeat_interval_ms.take()),
        stale_after: period_from_millis(server.stale_timeout_ms.take()),
    };
    let lifecycle = lifecycle_keys(node, value_or_default(server.restart.take()), liveness);
    let expose = server
        .enabled_tools
        .take()
        .map(|at| ExposeKeys { tools: Some(tool_filter(namespace, at)), ..ExposeKeys::default() });
    PolicyKeys {
        timeouts: Some(At::new(node, timeouts)),
        lifecycle: Some(At::new(node, lifecycle)),
        expose: expose.map(|expose| At::new(node, expose)),
        ..PolicyKeys::default()
    }
}

fn transport_keys(node: NodeId, server: DockerServer) -> TransportKeys {
    let mut transport = TransportKeys {
        kind: Some(At::new(node, TransportKind::DockerExec)),
        image: plain_text(server.image),
        container: plain_text(server.container),
        workdir: plain_text(server.workdir),
        framing: server.framing,
        env: Some(At::new(
            node,
            EnvKeys {
                set: server.env.map(|at| at.map(to_values)),
                unset: server.unset,
                ..EnvKeys::default()
            },
        )),
        ..TransportKeys::default()
    };
    let command = server
        .command
        .unwrap_or_else(|| At::new(node, Either::Scalar(DEFAULT_COMMAND.to_string())));
    set_container_command(
        &mut transport,
        command.map(|command| match command {
            Either::Scalar(text) => Either::Scalar(DisplayValue::literal(text)),
            Either::Nested(argv) => {
                Either::Nested(argv.into_iter().map(DisplayValue::literal).collect())
            }
        }),
    );
    transport
}

fn plain_text(text: Option<At<String>>) -> Option<At<DisplayValue>> {
    non_empty(text).map(|at| at.map(DisplayValue::literal))
}

fn period_from_millis(given: Option<At<u64>>) -> Option<At<Period>> {
    given.map(|at| at.map(Period::millis))
}

/// Applies `restart` to both retries of the start and reconnects. `maxAttempts` counts all attempts: retries
/// follow a first attempt, reconnects do not.
fn lifecycle_keys(node: NodeId, restart: RestartPolicy, liveness: LivenessKeys) -> LifecycleKeys {
    let (max, initial) = (restart.max_attempts, period_from_millis(restart.backoff_ms));
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
            Some(At::new(node, first.map_or(MAX_BACKOFF, |first| first.max(MAX_BACKOFF))))
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

/// Filter of the enabled tools by their original names. The file may write them with the namespace as prefix.
fn tool_filter(namespace: &str, enabled: At<Vec<String>>) -> At<ToolFilterKeys> {
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
