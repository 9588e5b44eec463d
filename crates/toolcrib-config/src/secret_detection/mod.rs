//! Secrets in a server's configuration that must be masked in the server's output.

mod generated_values;
mod masking;
mod secret_names;
mod secret_search;

pub(crate) use masking::{mask_args, mask_text, secret_ranges_in_line};
pub(crate) use secret_names::may_be_secret;

use crate::model::ServerSpec;
use crate::model::auth::{Auth, OAuth};
use crate::model::transport::{DisplayValue, ProcessEnv, Transport};
use crate::value::{Reference, SecretString, TemplatePart, TextTemplate, Value};

type ReferenceLookup<'a> = dyn Fn(&Reference) -> Option<String> + 'a;

impl ServerSpec {
    /// Returns every secret that the server receives: in variables, including inherited ones, headers, URL, arguments,
    /// credentials and free-form settings. Values that cannot be resolved are not sent and therefore not returned.
    ///
    /// A value is a secret if its key or its variable has the name of a secret, or if it looks like a credential. Other
    /// values (`true`, a path, `production`) are not, because masking them would make the server's text unreadable. The
    /// caller that resolves secret stores adds their values.
    pub fn secrets(
        &self,
        host: &[(String, String)],
        find: &ReferenceLookup<'_>,
    ) -> Vec<SecretString> {
        let mut found = Vec::new();
        self.transport
            .env()
            .into_iter()
            .for_each(|env| collect_env_secrets(env, host, find, &mut found));
        collect_arg_secrets(transport_args(&self.transport), find, &mut found);
        if let Some(remote) = self.transport.remote() {
            for (name, value) in &remote.headers {
                resolve_value(value, find).iter().for_each(|it| {
                    secret_search::find_value_secrets(name, it.reveal(), &mut found)
                });
            }
            let url = resolve_value(&remote.url.0, find);
            url.iter().for_each(|it| secret_search::find_secrets("", it.reveal(), &mut found));
        }
        let credentials = auth_credentials(&self.policy.auth)
            .into_iter()
            .filter_map(|it| resolve_value(it, find));
        credentials.for_each(|it| secret_search::push_credential(it.reveal(), &mut found));
        if let Ok(config) = self.policy.init.config.resolve(find) {
            secret_search::find_json_secrets("", &config, &mut found);
        }
        self.values().iter().for_each(|value| collect_variable_secrets(value, find, &mut found));
        found
    }
}

impl SecretString {
    /// Returns the forms of a secret that must be masked: for `Bearer abc` also `abc`.
    pub fn parts(&self) -> Vec<SecretString> {
        let mut found = vec![self.clone()];
        secret_search::push_credential(self.reveal(), &mut found);
        found
    }
}

fn collect_env_secrets(
    env: &ProcessEnv,
    host: &[(String, String)],
    find: &ReferenceLookup<'_>,
    found: &mut Vec<SecretString>,
) {
    let variables = env.variables(host.iter().cloned(), find).unwrap_or_default();
    variables
        .iter()
        .for_each(|(name, value)| secret_search::find_value_secrets(name, value.reveal(), found));
}

/// Collects secrets in arguments. A flag may precede its value: `--token abc`.
fn collect_arg_secrets(
    args: &[DisplayValue],
    find: &ReferenceLookup<'_>,
    found: &mut Vec<SecretString>,
) {
    let mut name = String::new();
    for arg in args.iter().filter_map(|arg| resolve_value(&arg.0, find)) {
        secret_search::find_secrets(&name, arg.reveal(), found);
        let is_name = secret_search::is_flag(arg.reveal());
        name = if is_name { arg.reveal().to_owned() } else { String::new() };
    }
}

fn transport_args(transport: &Transport) -> &[DisplayValue] {
    match transport {
        Transport::Stdio(stdio) => &stdio.args,
        Transport::DockerExec(docker) => &docker.args,
        Transport::StreamableHttp(_) | Transport::Sse(_) | Transport::WebSocket(_) => &[],
    }
}

/// Returns the values that are secret by their purpose.
fn auth_credentials(auth: &Auth) -> Vec<&Value> {
    match auth {
        Auth::OAuth(OAuth { client_secret, private_key, .. }) => {
            client_secret.iter().chain(private_key).collect()
        }
        Auth::None | Auth::Bearer { .. } | Auth::ApiKey { .. } => auth.values(),
    }
}

/// Collects variables with the name of a secret, whose value's own key may be harmless.
fn collect_variable_secrets(
    value: &Value,
    find: &ReferenceLookup<'_>,
    found: &mut Vec<SecretString>,
) {
    let mut collect = |name: &str, default: Option<&SecretString>| {
        let text = find(&Reference::Env(name.to_owned())).map(SecretString::new);
        let text = text.as_ref().or(default);
        text.iter().for_each(|text| secret_search::find_value_secrets(name, text.reveal(), found));
    };
    match value {
        Value::FromEnv { name, .. } => collect(name, None),
        Value::Template(TextTemplate(parts)) => parts.iter().for_each(|part| match part {
            TemplatePart::Env { name, default } => collect(name, default.as_ref()),
            TemplatePart::Text(_) | TemplatePart::Input(_) => {}
        }),
        Value::Literal(_) | Value::Secret { .. } => {}
    }
}

fn resolve_value(value: &Value, find: &ReferenceLookup<'_>) -> Option<SecretString> {
    value.resolve(find).ok()
}

#[cfg(test)]
mod tests;
