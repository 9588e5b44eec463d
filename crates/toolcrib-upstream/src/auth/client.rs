//! Who the host is to an issuer: a client that was registered, that registers itself, or that publishes what it is.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolcrib_config::Hidden;
use toolcrib_config::Reference;
use toolcrib_config::model::auth::{Auth, OAuth, OAuthGrant};
use url::Url;

use super::error::AuthError;
use super::metadata::Issuer;

/// What people see when they are asked.
const NAME: &str = "Toolcrib";

/// What the configuration says of the host as a client, with values instead of references.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientSettings {
    /// Whether it says anything: else a server is only logged in to because a person does so.
    pub is_configured: bool,
    pub client_id: Option<Hidden>,
    pub client_secret: Option<Hidden>,
    pub private_key: Option<Hidden>,
    pub client_metadata_url: Option<String>,
    pub scopes: Vec<String>,
    pub issuer: Option<String>,
    pub grant: OAuthGrant,
}

/// The host at one issuer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Client {
    pub(super) id: String,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "super::account::kept")]
    pub(super) secret: Option<Hidden>,
    pub(super) method: Method,
    /// Where answers go, if it was registered for that alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) redirect: Option<String>,
}

/// How a client shows at the token endpoint that it is the one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Method {
    None,
    ClientSecretBasic,
    ClientSecretPost,
    PrivateKeyJwt,
}

/// How the host becomes a client.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Way {
    Known(Client),
    Register(Url),
}

/// What an issuer answers to a registration.
#[derive(Deserialize)]
pub(super) struct Registered {
    client_id: String,
    client_secret: Option<String>,
    token_endpoint_auth_method: Option<String>,
}

impl ClientSettings {
    /// None where the host shows itself to the server in another way.
    pub fn of(
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

    /// A server of which nothing is said. It may still want a login.
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

    /// The client that the configuration names.
    pub(super) fn configured(&self, issuer: &Issuer) -> Option<Client> {
        let id = self.client_id.as_ref()?.reveal().to_owned();
        let secret = self.client_secret.clone();
        let method = match &self.private_key {
            Some(_) => Method::PrivateKeyJwt,
            None => method(secret.is_some(), None, issuer),
        };
        Some(Client { id, secret, method, redirect: None })
    }

    /// In the order that the specification asks for; a registration that was made before counts like a new one.
    pub(super) fn way(
        &self,
        issuer: &Issuer,
        known: Option<&Client>,
        redirect: &str,
    ) -> Result<Way, AuthError> {
        if let Some(client) = self.configured(issuer) {
            return Ok(Way::Known(client));
        }
        if let Some(document) = &self.client_metadata_url
            && issuer.client_id_metadata_document_supported
        {
            let method = match &self.private_key {
                Some(_) => Method::PrivateKeyJwt,
                None => Method::None,
            };
            let id = document.clone();
            return Ok(Way::Known(Client { id, secret: None, method, redirect: None }));
        }
        if let Some(known) = known.filter(|known| known.redirect.as_deref() == Some(redirect)) {
            return Ok(Way::Known(known.clone()));
        }
        let register = issuer.registration_endpoint.clone().map(Way::Register);
        register.ok_or_else(|| AuthError::NoRegistration(issuer.issuer.clone()))
    }
}

/// What the host says of itself where it registers. It names no scopes: it could never ask for others later.
pub(super) fn registration(issuer: &Issuer, redirect: &str) -> Value {
    json!({
        "client_name": NAME,
        "redirect_uris": [redirect],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": method(true, Some("none"), issuer),
        "application_type": "native",
    })
}

impl Registered {
    pub(super) fn client(self, issuer: &Issuer, redirect: &str) -> Client {
        let secret = self.client_secret.filter(|secret| !secret.is_empty()).map(Hidden::new);
        let method = method(secret.is_some(), self.token_endpoint_auth_method.as_deref(), issuer);
        Client { id: self.client_id, secret, method, redirect: Some(redirect.to_owned()) }
    }
}

/// How to show who one is: as agreed, or as the issuer has it. Where it says nothing that is Basic (RFC 8414).
fn method(has_secret: bool, agreed: Option<&str>, issuer: &Issuer) -> Method {
    if !has_secret {
        return Method::None;
    }
    let of = |word: &str| match word {
        "client_secret_basic" => Some(Method::ClientSecretBasic),
        "client_secret_post" => Some(Method::ClientSecretPost),
        "none" => Some(Method::None),
        _ => None,
    };
    let Some(offered) = &issuer.token_endpoint_auth_methods_supported else {
        return agreed.and_then(of).unwrap_or(Method::ClientSecretBasic);
    };
    let has = |word: &&str| offered.iter().any(|offered| offered == word);
    let preferred = ["client_secret_basic", "client_secret_post", "none"];
    let chosen = agreed.filter(|agreed| has(agreed)).or(preferred.iter().copied().find(has));
    chosen.and_then(of).unwrap_or(Method::ClientSecretBasic)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn issuer(offers: Option<&[&str]>) -> Issuer {
        let offers = offers.map(|words| words.iter().map(|&word| word.to_owned()).collect());
        Issuer {
            token_endpoint_auth_methods_supported: offers,
            ..Issuer::assumed(&Url::parse("https://i.example").unwrap())
        }
    }

    #[test]
    fn a_client_shows_itself_as_agreed_or_as_the_issuer_has_it() {
        use Method::{ClientSecretBasic, ClientSecretPost, None as Nothing};
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
            assert_eq!(method(has_secret, agreed, &issuer(offers)), expected, "{agreed:?}");
        }
    }

    #[test]
    fn a_client_is_configured_or_published_or_known_or_registers() {
        let redirect = "http://127.0.0.1:1/callback";
        let known = Client {
            id: "known".to_owned(),
            secret: None,
            method: Method::None,
            redirect: Some(redirect.to_owned()),
        };
        let id = |settings: &ClientSettings, issuer: &Issuer, redirect: &str| match settings.way(
            issuer,
            Some(&known),
            redirect,
        ) {
            Ok(Way::Known(client)) => client.id,
            Ok(Way::Register(at)) => at.to_string(),
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
        settings.client_id = Some(Hidden::new("mine"));
        assert_eq!(id(&settings, &issuer, redirect), "mine");
        issuer.registration_endpoint = None;
        let settings = ClientSettings::unconfigured();
        let refused = "the issuer `https://i.example` registers no clients";
        assert_eq!(id(&settings, &issuer, "elsewhere"), refused);
    }

    #[test]
    fn a_registration_asks_for_what_is_used() {
        let said = registration(&issuer(Some(&["none"])), "http://127.0.0.1:1/c");
        assert_eq!(said["token_endpoint_auth_method"], "none");
        assert_eq!(said["application_type"], "native");
        assert!(said["grant_types"].as_array().unwrap().contains(&json!("refresh_token")));
        assert!(said.get("scope").is_none());
        let said = registration(&issuer(Some(&["client_secret_post"])), "r");
        assert_eq!(said["token_endpoint_auth_method"], "client_secret_post");
    }
}
