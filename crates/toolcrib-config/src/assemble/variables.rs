//! Check of the variables that a server's values refer to.

use super::ServerAssembly;
use crate::compile_context::CompileContext;
use crate::doc::NodeId;
use crate::model::ServerSpec;
use crate::model::policy::Resolve;
use crate::model::transport::Transport;
use crate::value::{Reference, Value};

impl ServerAssembly {
    /// Reports variables that are not set. The server's policy decides whether that rejects the server.
    pub(super) fn check_references(&self, cx: &mut CompileContext<'_>, spec: &ServerSpec) -> bool {
        let mut is_valid = true;
        for (path, value) in values_by_path(spec) {
            for reference in value.references() {
                let Reference::Env(name) = reference else {
                    continue;
                };
                if find_variable(cx, spec, &name).is_none() {
                    let resolve = spec.policy.secrets.resolve;
                    is_valid &= resolve != Resolve::Load;
                    let node = spec.origins.nodes.get(&path).copied();
                    report_missing_variable(cx, node.unwrap_or(self.node), &name, resolve);
                }
            }
        }
        is_valid
    }
}

fn report_missing_variable(
    cx: &mut CompileContext<'_>,
    node: NodeId,
    name: &str,
    resolve: Resolve,
) {
    let text = match resolve {
        // This is HoloDeck's own message, which users search for.
        Resolve::Load => format!("ConfigError: Environment variable '{name}' not found"),
        Resolve::Start => {
            format!("environment variable `{name}` is not set; the server needs it to start")
        }
    };
    let fix = format!("set it: `export {name}=…`");
    cx.error(node, "env.missing", text, &fix);
    // One value may refer to two variables, and each is a separate problem.
    if let Some(problem) = cx.problems.last_mut() {
        problem.id = format!("{}:{name}", problem.id);
    }
}

/// Finds a variable in the process environment or else in the server's environment file.
fn find_variable(cx: &CompileContext<'_>, spec: &ServerSpec, name: &str) -> Option<String> {
    cx.lookup.env(name).or_else(|| {
        let file = spec.transport.env()?.file.as_ref()?;
        file.values.iter().rev().find(|(k, _)| k == name).map(|(_, v)| v.reveal().to_string())
    })
}

/// Returns every value that may contain references, with its native path.
fn values_by_path(spec: &ServerSpec) -> Vec<(String, &Value)> {
    let mut found: Vec<(String, &Value)> = Vec::new();
    if let Some(env) = spec.transport.env() {
        found.extend(
            env.set.iter().map(|(name, value)| (format!("transport.env.set.{name}"), value)),
        );
    }
    if let Some(remote) = spec.transport.remote() {
        found.push(("transport.url".to_string(), &remote.url.0));
        found.extend(
            remote.headers.iter().map(|(name, value)| (format!("transport.headers.{name}"), value)),
        );
    }
    match &spec.transport {
        Transport::Stdio(stdio) => {
            found.push(("transport.command".to_string(), &stdio.command.0));
            found.extend(stdio.args.iter().map(|arg| ("transport.args".to_string(), &arg.0)));
            found.extend(stdio.cwd.iter().map(|cwd| ("transport.cwd".to_string(), &cwd.0)));
        }
        Transport::DockerExec(docker) => {
            found.push(("transport.command".to_string(), &docker.command.0));
            found.extend(docker.args.iter().map(|arg| ("transport.args".to_string(), &arg.0)));
        }
        Transport::StreamableHttp(http) => {
            found.extend(http.session_id.iter().map(|id| ("transport.session_id".to_string(), id)));
        }
        Transport::Sse(_) | Transport::WebSocket(_) => {}
    }
    found.extend(spec.policy.auth.values().into_iter().map(|value| ("auth".to_string(), value)));
    for (agent, auth) in &*spec.policy.auth_per_agent {
        let path = format!("auth_per_agent.{agent}");
        found.extend(auth.values().into_iter().map(|value| (path.clone(), value)));
    }
    found.extend(
        spec.policy
            .init
            .config
            .values()
            .into_iter()
            .map(|value| ("init.config".to_string(), value)),
    );
    found
}
