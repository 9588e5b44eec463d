//! Fixture for tests of resolving secrets.

use serde_json::{Value, json};
use toolcrib_config::{Reference, ServerSpec};
use toolcrib_testkit::scripted::Script;
use toolcrib_upstream::secrets::SecretError;
use toolcrib_upstream::transport::Permissions;

use crate::test_host::{TestHost, with_time_limit};

pub(crate) const ALL: Permissions = Permissions { spawn: true, network: true, docker: true };

/// Spec of a server whose variable `V` is a secret from one of the stores.
pub(crate) fn server_with_secret(host: &TestHost, stores: &Value, secret: &str) -> ServerSpec {
    let mut entry = host.scripted(Script::default(), "log");
    entry["env"] = json!({"V": {"secret": secret}});
    let text = json!({"version": 1, "host": {"secrets": stores}, "servers": {"it": entry}});
    let mut config = host.config("toolcrib.yaml", &text.to_string());
    host.context.sources.set_stores(&config.host.secrets);
    config.servers.remove(0)
}

/// Resolves a secret.
pub(crate) async fn lookup(
    host: &TestHost,
    stores: &Value,
    secret: &str,
) -> Result<String, SecretError> {
    let spec = server_with_secret(host, stores, secret);
    let found = with_time_limit(host.context.sources.resolve(&spec, ALL)).await?;
    let (provider, path) = secret.split_once(':').unwrap();
    let reference = Reference::Secret { provider: provider.to_owned(), path: path.to_owned() };
    Ok(found.find(&[], None, &reference).unwrap())
}

/// Returns the problem code of a failed lookup, and its message with the fix.
pub(crate) async fn lookup_error(
    host: &TestHost,
    stores: &Value,
    secret: &str,
) -> (&'static str, String) {
    let error = lookup(host, stores, secret).await.unwrap_err();
    let output = format!("{}; fix: {}", toolcrib_upstream::signals::chain(&error), error.fix("it"));
    (error.code(), output)
}
