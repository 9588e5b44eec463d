//! Variables that a server's values refer to, and whether they are set.

use super::Assembly;
use crate::cx::Cx;
use crate::doc::NodeId;
use crate::model::ServerSpec;
use crate::model::policy::Resolve;
use crate::model::transport::Transport;
use crate::value::{Reference, Value};

impl Assembly {
    /// Tells of variables that are not set. Whether that rejects the server is its own policy.
    pub(super) fn references(&self, cx: &mut Cx<'_>, spec: &ServerSpec) -> bool {
        let mut sound = true;
        for (path, value) in named_values(spec) {
            for reference in value.references() {
                let Reference::Env(name) = reference else {
                    continue;
                };
                if variable(cx, spec, &name).is_none() {
                    let resolve = spec.policy.secrets.resolve;
                    sound &= resolve != Resolve::Load;
                    let node = spec.origins.own.get(&path).copied();
                    missing_variable(cx, node.unwrap_or(self.node), &name, resolve);
                }
            }
        }
        sound
    }
}

fn missing_variable(cx: &mut Cx<'_>, node: NodeId, name: &str, resolve: Resolve) {
    let text = match resolve {
        // HoloDeck's own words, which people search for.
        Resolve::Load => format!("ConfigError: Environment variable '{name}' not found"),
        Resolve::Start => {
            format!("environment variable `{name}` is not set; the server needs it to start")
        }
    };
    let fix = format!("set it: `export {name}=…`");
    cx.error(node, "env.missing", text, &fix);
    // One value may refer to two variables: each is a problem of its own.
    if let Some(problem) = cx.problems.last_mut() {
        problem.id = format!("{}:{name}", problem.id);
    }
}

/// A variable of the process environment, or else of the server's own environment file.
fn variable(cx: &Cx<'_>, spec: &ServerSpec, name: &str) -> Option<String> {
    cx.lookup.env(name).or_else(|| {
        let file = spec.transport.env()?.file.as_ref()?;
        file.values.iter().rev().find(|(k, _)| k == name).map(|(_, v)| v.reveal().to_string())
    })
}

/// Every value that may refer to something, with its native path.
fn named_values(spec: &ServerSpec) -> Vec<(String, &Value)> {
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
