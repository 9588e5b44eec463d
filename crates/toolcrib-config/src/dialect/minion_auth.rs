//! Reads Minion's `AuthType` and `AuthConfig`, whose keys depend on the type.

use serde::Deserialize;

use super::{non_empty, value_or_default};
use crate::compile_context::CompileContext;
use crate::doc::{At, NodeId};
use crate::model::auth::{API_KEY_HEADER, Auth, OAuth, OAuthGrant};
use crate::model::policy::PolicyKeys;
use crate::text;
use crate::value::{Value, Verbatim};

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(super) struct AuthConfig {
    #[serde(alias = "token")]
    token: Option<At<Verbatim>>,
    #[serde(alias = "key")]
    key: Option<At<Verbatim>>,
    #[serde(alias = "header")]
    header: Option<At<String>>,
    #[serde(rename = "ClientID", alias = "client_id")]
    client_id: Option<At<Verbatim>>,
    #[serde(alias = "client_secret")]
    client_secret: Option<At<Verbatim>>,
    #[serde(alias = "scopes")]
    scopes: Option<At<Vec<String>>>,
    #[serde(alias = "issuer")]
    issuer: Option<At<String>>,
    #[serde(alias = "grant")]
    grant: Option<At<OAuthGrant>>,
}

/// Code, text and fix of a problem.
type AuthProblem = (&'static str, String, &'static str);

/// Sets a server's credentials. Returns false after reporting a mistake in them.
pub(super) fn set_auth(
    cx: &mut CompileContext<'_>,
    policy: &mut PolicyKeys,
    kind: Option<At<String>>,
    config: AuthConfig,
) -> bool {
    let Some(At { node, value: Some(kind) }) = kind else {
        config.report_unused_keys(cx, "none");
        return true;
    };
    config.report_unused_keys(cx, &kind);
    let credentials = config.credentials(&kind);
    if let Err((code, problem, fix)) = &credentials {
        cx.error(node, code, problem, fix);
    }
    let is_valid = credentials.is_ok();
    policy.auth = credentials.ok().map(|auth| At::new(node, auth));
    is_valid
}

impl AuthConfig {
    fn credentials(self, kind: &str) -> Result<Auth, AuthProblem> {
        let missing = |what: &str, fix| {
            let problem = format!("`AuthType` {kind} needs a {what} in `AuthConfig`");
            ("auth.missing", problem, fix)
        };
        match kind {
            "none" => Ok(Auth::None),
            "bearer" => {
                let token = non_empty_value(self.token);
                let token = token.ok_or_else(|| missing("token", "add `Token: …`"))?;
                Ok(Auth::Bearer { token })
            }
            "apikey" => {
                let key =
                    non_empty_value(self.key).ok_or_else(|| missing("key", "add `Key: …`"))?;
                let header = non_empty(self.header).and_then(|at| at.value);
                let header = header.unwrap_or_else(|| API_KEY_HEADER.to_string());
                Ok(Auth::ApiKey { key, header })
            }
            "oauth" => Ok(self.oauth()),
            other => {
                let problem = format!("unsupported auth type: {}", text::clip(other));
                let fix = "use `none`, `bearer`, `apikey` or `oauth`";
                Err(("auth.unsupported", problem, fix))
            }
        }
    }

    fn oauth(self) -> Auth {
        match (non_empty_value(self.client_id), non_empty_value(self.token)) {
            // A token without a client was obtained elsewhere and is sent unchanged.
            (None, Some(token)) => Auth::Bearer { token },
            (client_id, _) => Auth::OAuth(OAuth {
                client_id,
                client_secret: non_empty_value(self.client_secret),
                private_key: None,
                client_metadata_url: None,
                scopes: value_or_default(self.scopes),
                issuer: non_empty(self.issuer).and_then(|at| at.value),
                grant: self.grant.and_then(|at| at.value).unwrap_or(OAuthGrant::Code),
            }),
        }
    }

    /// Warns about keys that only other types of credentials use; they have no effect.
    fn report_unused_keys(&self, cx: &mut CompileContext<'_>, kind: &str) {
        let used: &[&str] = match kind {
            "none" => &[],
            "bearer" => &["Token"],
            "apikey" => &["Key", "Header"],
            "oauth" if self.client_id.is_none() && self.token.is_some() => &["Token"],
            "oauth" => &["ClientID", "ClientSecret", "Scopes", "Issuer", "Grant"],
            _ => return,
        };
        for (key, node) in self.key_nodes() {
            if !used.contains(&key) {
                let problem = format!("`{key}` has no effect with `AuthType` {kind}");
                cx.warning(node, "auth.stray_key", problem, "remove it");
            }
        }
    }

    fn key_nodes(&self) -> impl Iterator<Item = (&'static str, NodeId)> {
        let nodes = [
            ("Token", self.token.as_ref().map(|at| at.node)),
            ("Key", self.key.as_ref().map(|at| at.node)),
            ("Header", self.header.as_ref().map(|at| at.node)),
            ("ClientID", self.client_id.as_ref().map(|at| at.node)),
            ("ClientSecret", self.client_secret.as_ref().map(|at| at.node)),
            ("Scopes", self.scopes.as_ref().map(|at| at.node)),
            ("Issuer", self.issuer.as_ref().map(|at| at.node)),
            ("Grant", self.grant.as_ref().map(|at| at.node)),
        ];
        nodes.into_iter().filter_map(|(key, node)| Some((key, node?)))
    }
}

/// Returns the value unless it is empty. Go cannot distinguish an empty text from an unset one.
fn non_empty_value(given: Option<At<Verbatim>>) -> Option<Value> {
    let Verbatim(value) = given?.value?;
    Some(value).filter(|value| value.as_literal() != Some(""))
}
