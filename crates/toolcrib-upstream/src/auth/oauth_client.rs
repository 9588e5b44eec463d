//! The host's OAuth client at an issuer: configured, published as a metadata document, or dynamically
//! registered.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolcrib_config::Reference;
use toolcrib_config::SecretString;
use toolcrib_config::model::auth::{Auth, OAuth, OAuthGrant};
use url::Url;

use super::error::AuthError;
use super::metadata::IssuerMetadata;

/// Client name on the issuer's consent page.
const NAME: &str = "Toolcrib";

/// OAuth client settings of a server, with references resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientSettings {
    /// True if OAuth is configured. If not, the host uses tokens only after a login by the user.
    pub is_configured: bool,
    /// Id of a pre-registered client.
    pub client_id: Option<SecretString>,
    /// Secret of a pre-registered client.
    pub client_secret: Option<SecretString>,
    /// Private key in PEM for client assertions.
    pub private_key: Option<SecretString>,
    /// URL of the published client metadata document.
    pub client_metadata_url: Option<String>,
    /// Scopes to request.
    pub scopes: Vec<String>,
    /// The only permitted issuer.
    pub issuer: Option<String>,
    /// Grant by which tokens are obtained.
    pub grant: OAuthGrant,
}

/// The host's client at one issuer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OAuthClient {
    pub(super) id: String,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "super::login_record::optional_secret"
    )]
    pub(super) secret: Option<SecretString>,
    pub(super) method: ClientAuthMethod,
    /// The redirect URI, if the client was registered for it alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) redirect: Option<String>,
}

/// Client authentication method at the token endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ClientAuthMethod {
    None,
    ClientSecretBasic,
    ClientSecretPost,
    PrivateKeyJwt,
}

/// Source of the host's client.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ClientSource {
    Known(OAuthClient),
    Register(Url),
}

/// An issuer's response to a registration.
#[derive(Deserialize)]
pub(super) struct RegistrationResponse {
    client_id: String,
    client_secret: Option<String>,
    token_endpoint_auth_method: Option<String>,
}

impl ClientSettings {
    /// Resolves the settings. Returns `None` if the server uses another kind of authentication.
    pub fn from_auth(
        auth: &Auth,
        find: &dyn Fn(&Reference) -> Option<String>,
    ) -> Result<Option<Self>, Reference> {
        let oauth = match auth {
            Auth::Bearer { .. } | Auth::ApiKey { .. } => return Ok(None),
            Auth::None => return Ok(Some(Self::unconfigured())),
            Auth::OAuth(oauth) => oauth,
        };
        let OAuth { client_id, client_secret, private_key, .. } = oauth;
        let text = |value: &Option<toolcrib_config::Value>| {
            value.as_ref().map(|value| value.resolve(find)).transpose()
        };
        Ok(Some(Self {
            is_configured: true,
            client_id: text(client_id)?,
            client_secret: text(client_secret)?,
            private_key: text(private_key)?,
            client_metadata_url: oauth.client_metadata_url.clone(),
            scopes: oauth.scopes.clone(),
            issuer: oauth.issuer.clone(),
            grant: oauth.grant,
        }))
    }

    /// Settings of a server without an `auth` entry. The server may still require a login.
    pub fn unconfigured() -> Self {
        Self {
            is_configured: false,
            client_id: None,
            client_secret: None,
            private_key: None,
            client_metadata_url: None,
            scopes: Vec::new(),
            issuer: None,
            grant: OAuthGrant::Code,
        }
    }

    /// Returns the configured client.
    pub(super) fn configured_client(&self, issuer: &IssuerMetadata) -> Option<OAuthClient> {
        let id = self.client_id.as_ref()?.reveal().to_owned();
        let secret = self.client_secret.clone();
        let method = match &self.private_key {
            Some(_) => ClientAuthMethod::PrivateKeyJwt,
            None => choose_auth_method(secret.is_some(), None, issuer),
        };
        Some(OAuthClient { id, secret, method, redirect: None })
    }

    /// Chooses the client in the order of the MCP specification. A stored registration counts like a new one.
    pub(super) fn choose_client(
        &self,
        issuer: &IssuerMetadata,
        known: Option<&OAuthClient>,
        redirect: &str,
    ) -> Result<ClientSource, AuthError> {
        if let Some(client) = self.configured_client(issuer) {
            return Ok(ClientSource::Known(client));
        }
        if let Some(document) = &self.client_metadata_url
            && issuer.client_id_metadata_document_supported
        {
            let method = match &self.private_key {
                Some(_) => ClientAuthMethod::PrivateKeyJwt,
                None => ClientAuthMethod::None,
            };
            let id = document.clone();
            return Ok(ClientSource::Known(OAuthClient {
                id,
                secret: None,
                method,
                redirect: None,
            }));
        }
        if let Some(known) = known.filter(|known| known.redirect.as_deref() == Some(redirect)) {
            return Ok(ClientSource::Known(known.clone()));
        }
        let register = issuer.registration_endpoint.clone().map(ClientSource::Register);
        register.ok_or_else(|| AuthError::NoRegistration(issuer.issuer.clone()))
    }
}

/// Builds a registration request. It names no scopes, because they would limit later requests.
pub(super) fn registration_request(issuer: &IssuerMetadata, redirect: &str) -> Value {
    json!({
        "client_name": NAME,
        "redirect_uris": [redirect],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": choose_auth_method(true, Some("none"), issuer),
        "application_type": "native",
    })
}

impl RegistrationResponse {
    pub(super) fn into_client(self, issuer: &IssuerMetadata, redirect: &str) -> OAuthClient {
        let secret = self.client_secret.filter(|secret| !secret.is_empty()).map(SecretString::new);
        let method = choose_auth_method(
            secret.is_some(),
            self.token_endpoint_auth_method.as_deref(),
            issuer,
        );
        OAuthClient { id: self.client_id, secret, method, redirect: Some(redirect.to_owned()) }
    }
}

/// Chooses the authentication method: the agreed one, or one that the issuer supports. The default is Basic
/// (RFC 8414).
fn choose_auth_method(
    has_secret: bool,
    agreed: Option<&str>,
    issuer: &IssuerMetadata,
) -> ClientAuthMethod {
    if !has_secret {
        return ClientAuthMethod::None;
    }
    let parse = |word: &str| match word {
        "client_secret_basic" => Some(ClientAuthMethod::ClientSecretBasic),
        "client_secret_post" => Some(ClientAuthMethod::ClientSecretPost),
        "none" => Some(ClientAuthMethod::None),
        _ => None,
    };
    let Some(offered) = &issuer.token_endpoint_auth_methods_supported else {
        return agreed.and_then(parse).unwrap_or(ClientAuthMethod::ClientSecretBasic);
    };
    let has = |word: &&str| offered.iter().any(|offered| offered == word);
    let preferred = ["client_secret_basic", "client_secret_post", "none"];
    let chosen = agreed.filter(|agreed| has(agreed)).or(preferred.iter().copied().find(has));
    chosen.and_then(parse).unwrap_or(ClientAuthMethod::ClientSecretBasic)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn issuer(offers: Option<&[&str]>) -> IssuerMetadata {
        let offers = offers.map(|words| words.iter().map(|&word| word.to_owned()).collect());
        IssuerMetadata {
            token_endpoint_auth_methods_supported: offers,
            ..IssuerMetadata::default_for(&Url::parse("https://i.example").unwrap())
        }
    }

    #[test]
    fn auth_method_follows_registration_then_issuer_metadata() {
        use ClientAuthMethod::{ClientSecretBasic, ClientSecretPost, None as Nothing};
        let (basic, post, none) = ("client_secret_basic", "client_secret_post", "none");
        for (has_secret, agreed, offers, expected) in [
            (false, Some(basic), Some(&[basic][..]), Nothing),
            (true, None, None, ClientSecretBasic),
            (true, Some(post), None, ClientSecretPost),
            (true, None, Some(&[post][..]), ClientSecretPost),
            (true, None, Some(&[post, basic][..]), ClientSecretBasic),
            (true, Some(post), Some(&[post, basic][..]), ClientSecretPost),
            (true, Some(basic), Some(&[post][..]), ClientSecretPost),
            (true, None, Some(&[none][..]), Nothing),
            (true, Some("private_key_jwt"), Some(&["private_key_jwt"][..]), ClientSecretBasic),
        ] {
            assert_eq!(
                choose_auth_method(has_secret, agreed, &issuer(offers)),
                expected,
                "{agreed:?}"
            );
        }
    }

    #[test]
    fn client_choice_prefers_configured_then_published_then_known_then_registration() {
        let redirect = "http://127.0.0.1:1/callback";
        let known = OAuthClient {
            id: "known".to_owned(),
            secret: None,
            method: ClientAuthMethod::None,
            redirect: Some(redirect.to_owned()),
        };
        let id = |settings: &ClientSettings, issuer: &IssuerMetadata, redirect: &str| match settings
            .choose_client(issuer, Some(&known), redirect)
        {
            Ok(ClientSource::Known(client)) => client.id,
            Ok(ClientSource::Register(at)) => at.to_string(),
            Err(error) => error.to_string(),
        };
        let mut settings = ClientSettings::unconfigured();
        let mut issuer = issuer(None);
        assert_eq!(id(&settings, &issuer, redirect), "known");
        assert_eq!(id(&settings, &issuer, "elsewhere"), "https://i.example/register");
        settings.client_metadata_url = Some("https://me.example/me.json".to_owned());
        assert_eq!(id(&settings, &issuer, redirect), "known");
        issuer.client_id_metadata_document_supported = true;
        assert_eq!(id(&settings, &issuer, redirect), "https://me.example/me.json");
        settings.client_id = Some(SecretString::new("mine"));
        assert_eq!(id(&settings, &issuer, redirect), "mine");
        issuer.registration_endpoint = None;
        let settings = ClientSettings::unconfigured();
        let refused = "the issuer `https://i.example` registers no clients";
        assert_eq!(id(&settings, &issuer, "elsewhere"), refused);
    }

    #[test]
    fn registration_requests_the_grants_in_use() {
        let request = registration_request(&issuer(Some(&["none"])), "http://127.0.0.1:1/c");
        assert_eq!(request["token_endpoint_auth_method"], "none");
        assert_eq!(request["application_type"], "native");
        assert!(request["grant_types"].as_array().unwrap().contains(&json!("refresh_token")));
        assert!(request.get("scope").is_none());
        let request = registration_request(&issuer(Some(&["client_secret_post"])), "r");
        assert_eq!(request["token_endpoint_auth_method"], "client_secret_post");
    }
}
