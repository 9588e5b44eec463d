//! Credentials that the host sends to a server.

use serde::{Deserialize, Serialize};

use super::setting::{Layer, SecretVisibility, Setting, words};
use crate::value::Value;

/// Credentials for a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "AuthKeys", into = "AuthKeys")]
#[schemars(with = "AuthKeys")]
pub enum Auth {
    #[default]
    None,
    Bearer {
        token: Value,
    },
    ApiKey {
        key: Value,
        header: String,
    },
    OAuth(OAuth),
}

/// OAuth settings of a server.
#[derive(Clone, Debug, PartialEq)]
pub struct OAuth {
    /// The id of the registered client.
    pub client_id: Option<Value>,
    /// The client secret.
    pub client_secret: Option<Value>,
    /// The private key for client assertions.
    pub private_key: Option<Value>,
    /// The URL of the client's metadata document.
    pub client_metadata_url: Option<String>,
    /// The requested scopes.
    pub scopes: Vec<String>,
    /// The only accepted issuer.
    pub issuer: Option<String>,
    /// The grant type.
    pub grant: OAuthGrant,
}

words! {
    /// The OAuth grant type.
    OAuthGrant { Code = "code", ClientCredentials = "client_credentials", }
}

words! {
    /// Kinds of credentials.
    AuthKind { None = "none", Bearer = "bearer", ApiKey = "api_key", OAuth = "oauth", }
}

/// Default header of an API key.
pub const API_KEY_HEADER: &str = "X-API-Key";

/// Credentials as they are written in a file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields, rename = "Auth")]
struct AuthKeys {
    /// The kind of credentials. It decides which keys apply.
    kind: Option<AuthKind>,
    /// bearer: the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<Value>,
    /// api_key: the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<Value>,
    /// api_key: the header that carries the key. Default: `X-API-Key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    header: Option<String>,
    /// oauth: the id of the registered client.
    #[serde(skip_serializing_if = "Option::is_none")]
    client_id: Option<Value>,
    /// oauth: the client secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    client_secret: Option<Value>,
    /// oauth: the client's private key (PKCS #8 in PEM), for client assertions instead of a secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    private_key: Option<Value>,
    /// oauth: the URL of the client's metadata document.
    #[serde(skip_serializing_if = "Option::is_none")]
    client_metadata_url: Option<String>,
    /// oauth: the requested scopes.
    #[serde(skip_serializing_if = "Option::is_none")]
    scopes: Option<Vec<String>>,
    /// oauth: the only accepted issuer.
    #[serde(skip_serializing_if = "Option::is_none")]
    issuer: Option<String>,
    /// oauth: the grant type.
    #[serde(skip_serializing_if = "Option::is_none")]
    grant: Option<OAuthGrant>,
}

impl TryFrom<AuthKeys> for Auth {
    type Error = String;

    fn try_from(keys: AuthKeys) -> Result<Self, String> {
        let none = || AuthKeys { kind: keys.kind, ..AuthKeys::default() };
        let only = |rest: AuthKeys, kind: &str| match rest == none() {
            true => Ok(()),
            false => Err(format!("`auth` of kind `{kind}` does not support one of these keys")),
        };
        match keys.kind {
            None => Err("`auth` needs a `kind`: none, bearer, api_key or oauth".to_string()),
            Some(AuthKind::None) => only(keys.clone(), "none").map(|()| Self::None),
            Some(AuthKind::Bearer) => {
                only(AuthKeys { token: None, ..keys.clone() }, "bearer")?;
                let token = keys.token.ok_or("`auth` of kind `bearer` needs a `token`")?;
                Ok(Self::Bearer { token })
            }
            Some(AuthKind::ApiKey) => {
                only(AuthKeys { key: None, header: None, ..keys.clone() }, "api_key")?;
                let key = keys.key.ok_or("`auth` of kind `api_key` needs a `key`")?;
                Ok(Self::ApiKey {
                    key,
                    header: keys.header.unwrap_or_else(|| API_KEY_HEADER.into()),
                })
            }
            Some(AuthKind::OAuth) => {
                let rest = AuthKeys {
                    token: keys.token.clone(),
                    key: keys.key.clone(),
                    header: keys.header.clone(),
                    ..none()
                };
                only(rest, "oauth")?;
                Ok(Self::OAuth(OAuth {
                    client_id: keys.client_id,
                    client_secret: keys.client_secret,
                    private_key: keys.private_key,
                    client_metadata_url: keys.client_metadata_url,
                    scopes: keys.scopes.unwrap_or_default(),
                    issuer: keys.issuer,
                    grant: keys.grant.unwrap_or(OAuthGrant::Code),
                }))
            }
        }
    }
}

impl From<Auth> for AuthKeys {
    fn from(auth: Auth) -> Self {
        let of = |kind| Self { kind: Some(kind), ..Self::default() };
        match auth {
            Auth::None => of(AuthKind::None),
            Auth::Bearer { token } => Self { token: Some(token), ..of(AuthKind::Bearer) },
            Auth::ApiKey { key, header } => {
                Self { key: Some(key), header: Some(header), ..of(AuthKind::ApiKey) }
            }
            Auth::OAuth(oauth) => Self {
                client_id: oauth.client_id,
                client_secret: oauth.client_secret,
                private_key: oauth.private_key,
                client_metadata_url: oauth.client_metadata_url,
                scopes: Some(oauth.scopes).filter(|scopes| !scopes.is_empty()),
                issuer: oauth.issuer,
                grant: Some(oauth.grant),
                ..of(AuthKind::OAuth)
            },
        }
    }
}

impl Auth {
    /// Returns every value that may contain a secret.
    pub fn values(&self) -> Vec<&Value> {
        match self {
            Self::None => Vec::new(),
            Self::Bearer { token } => vec![token],
            Self::ApiKey { key, .. } => vec![key],
            Self::OAuth(OAuth { client_id, client_secret, private_key, .. }) => {
                client_id.iter().chain(client_secret).chain(private_key).collect()
            }
        }
    }

    fn masked(&self) -> Self {
        let mut masked = self.clone();
        match &mut masked {
            Self::None => {}
            Self::Bearer { token: value } | Self::ApiKey { key: value, .. } => {
                *value = value.masked()
            }
            Self::OAuth(oauth) => {
                oauth.client_secret = oauth.client_secret.as_ref().map(Value::masked);
                oauth.private_key = oauth.private_key.as_ref().map(Value::masked);
            }
        }
        masked
    }
}

impl Setting for Auth {
    type Keys = Self;

    fn overlay(&mut self, keys: Self, layer: &mut Layer<'_>) {
        *self = keys;
        layer.record_leaf();
    }

    fn keys(&self, show: SecretVisibility) -> Option<Self> {
        Some(if show == SecretVisibility::Masked { self.masked() } else { self.clone() })
    }
}
