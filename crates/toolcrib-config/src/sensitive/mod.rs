//! What of a server's configuration must not be shown, if the server says it.

mod display;
mod name;
mod random;
mod text;

pub(crate) use display::{masked_args, masked_in_line, masked_text};
pub(crate) use name::may_be_secret;

use crate::model::ServerSpec;
use crate::model::auth::{Auth, OAuth};
use crate::model::transport::{Env, Plain, Transport};
use crate::value::{Hidden, Part, Reference, Template, Value};

type Find<'a> = dyn Fn(&Reference) -> Option<String> + 'a;

impl ServerSpec {
    /// Every secret that the server is given: by its variables, of which it may inherit some from the host, its headers,
    /// its address, its arguments, its credentials and its free settings. What cannot be resolved is not given either.
    ///
    /// A value is a secret if its key or the variable that it comes from has the name of a secret, or if the value looks
    /// like a credential. Any other value (`true`, a path, `production`) is not, however it is given: to mask it would
    /// make the server's text unreadable. Values of secret sources are added by whoever resolves them.
    pub fn secrets(&self, host: &[(String, String)], find: &Find<'_>) -> Vec<Hidden> {
        let mut found = Vec::new();
        self.transport.env().into_iter().for_each(|env| of_env(env, host, find, &mut found));
        of_args(args(&self.transport), find, &mut found);
        if let Some(remote) = self.transport.remote() {
            for (name, value) in &remote.headers {
                resolved(value, find)
                    .iter()
                    .for_each(|it| text::given(name, it.reveal(), &mut found));
            }
            let url = resolved(&remote.url.0, find);
            url.iter().for_each(|it| text::secrets("", it.reveal(), &mut found));
        }
        let credentials =
            credentials(&self.policy.auth).into_iter().filter_map(|it| resolved(it, find));
        credentials.for_each(|it| text::whole(it.reveal(), &mut found));
        if let Ok(config) = self.policy.init.config.resolve(find) {
            text::in_json("", &config, &mut found);
        }
        self.values().iter().for_each(|value| of_variables(value, find, &mut found));
        found
    }
}

impl Hidden {
    /// The text of a secret in each way in which it must not be shown: `Bearer abc` is also `abc`.
    pub fn parts(&self) -> Vec<Hidden> {
        let mut found = vec![self.clone()];
        text::whole(self.reveal(), &mut found);
        found
    }
}

fn of_env(env: &Env, host: &[(String, String)], find: &Find<'_>, found: &mut Vec<Hidden>) {
    let variables = env.variables(host.iter().cloned(), find).unwrap_or_default();
    variables.iter().for_each(|(name, value)| text::given(name, value.reveal(), found));
}

/// An argument may have its name before it: `--token abc`.
fn of_args(args: &[Plain], find: &Find<'_>, found: &mut Vec<Hidden>) {
    let mut name = String::new();
    for arg in args.iter().filter_map(|arg| resolved(&arg.0, find)) {
        text::secrets(&name, arg.reveal(), found);
        let is_name = text::is_flag(arg.reveal());
        name = if is_name { arg.reveal().to_owned() } else { String::new() };
    }
}

fn args(transport: &Transport) -> &[Plain] {
    match transport {
        Transport::Stdio(stdio) => &stdio.args,
        Transport::DockerExec(docker) => &docker.args,
        Transport::StreamableHttp(_) | Transport::Sse(_) | Transport::WebSocket(_) => &[],
    }
}

/// What is secret because of what it is for.
fn credentials(auth: &Auth) -> Vec<&Value> {
    match auth {
        Auth::OAuth(OAuth { client_secret, private_key, .. }) => {
            client_secret.iter().chain(private_key).collect()
        }
        Auth::None | Auth::Bearer { .. } | Auth::ApiKey { .. } => auth.values(),
    }
}

/// A variable of the host that goes into a value may have the name of a secret where the value has none.
fn of_variables(value: &Value, find: &Find<'_>, found: &mut Vec<Hidden>) {
    let mut seek = |name: &str, default: Option<&Hidden>| {
        let text = find(&Reference::Env(name.to_owned())).map(Hidden::new);
        let text = text.as_ref().or(default);
        text.iter().for_each(|text| text::given(name, text.reveal(), found));
    };
    match value {
        Value::FromEnv { name, .. } => seek(name, None),
        Value::Template(Template(parts)) => parts.iter().for_each(|part| match part {
            Part::Env { name, default } => seek(name, default.as_ref()),
            Part::Text(_) | Part::Input(_) => {}
        }),
        Value::Literal(_) | Value::Secret { .. } => {}
    }
}

fn resolved(value: &Value, find: &Find<'_>) -> Option<Hidden> {
    value.resolve(find).ok()
}

#[cfg(test)]
mod tests;
