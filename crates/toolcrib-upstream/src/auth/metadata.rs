//! What servers and issuers publish of themselves: where it is looked for, and whether it may be believed.

use serde::Deserialize;
use url::Url;

use super::error::AuthError;

const RESOURCE: &str = "oauth-protected-resource";
const ISSUER: &str = "oauth-authorization-server";
const OPENID: &str = "openid-configuration";

/// What a server says of its protection (RFC 9728).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Resource {
    pub(super) resource: Option<String>,
    pub(super) authorization_servers: Vec<String>,
    pub(super) scopes_supported: Option<Vec<String>>,
}

/// What an issuer of tokens says of itself (RFC 8414, or OpenID Connect Discovery).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Issuer {
    pub(super) issuer: String,
    pub(super) authorization_endpoint: Option<Url>,
    pub(super) token_endpoint: Option<Url>,
    pub(super) registration_endpoint: Option<Url>,
    pub(super) revocation_endpoint: Option<Url>,
    #[serde(default)]
    pub(super) scopes_supported: Vec<String>,
    pub(super) code_challenge_methods_supported: Option<Vec<String>>,
    pub(super) token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    pub(super) authorization_response_iss_parameter_supported: bool,
    #[serde(default)]
    pub(super) client_id_metadata_document_supported: bool,
}

/// Where the metadata of a server may be, in this order: where it says, for its path, for its whole host.
pub(super) fn resource_addresses(server: &Url, named: Option<&Url>) -> Vec<Url> {
    let own = well_known(server, RESOURCE, server.path());
    let root = well_known(server, RESOURCE, "");
    let mut addresses: Vec<Url> = named.cloned().into_iter().chain([own, root]).collect();
    addresses.dedup();
    addresses
}

/// Where the metadata of an issuer may be, in this order.
pub(super) fn issuer_addresses(issuer: &Url) -> Vec<Url> {
    let path = issuer.path().trim_end_matches('/');
    let mut addresses = vec![well_known(issuer, ISSUER, path), well_known(issuer, OPENID, path)];
    if !path.is_empty() {
        let mut appended = well_known(issuer, OPENID, "");
        appended.set_path(&format!("{path}/.well-known/{OPENID}"));
        addresses.push(appended);
    }
    addresses
}

/// What an issuer is asked for tokens for: the address of the server, unless its metadata name what holds it.
pub(super) fn resource_of(server: &Url, metadata: Option<&Resource>) -> Result<String, AuthError> {
    match metadata.and_then(|metadata| metadata.resource.as_deref()) {
        None => Ok(canonical(server)),
        Some(named) => match Url::parse(named) {
            Ok(resource) if holds(&resource, server) => Ok(named.to_owned()),
            _ => {
                Err(AuthError::OtherResource { named: named.to_owned(), server: canonical(server) })
            }
        },
    }
}

/// The address of a server as a resource: without what is not part of its name.
pub(super) fn canonical(server: &Url) -> String {
    let mut plain = server.clone();
    plain.set_fragment(None);
    plain.set_query(None);
    // An address that has a host takes both.
    let _ = plain.set_username("");
    let _ = plain.set_password(None);
    let text = plain.as_str();
    text.strip_suffix('/').filter(|_| plain.path() == "/").unwrap_or(text).to_owned()
}

impl Issuer {
    /// Metadata count only if they name the issuer that they were looked up for, to the letter.
    pub(super) fn believed(self, expected: &str, address: &Url) -> Result<Self, AuthError> {
        if self.issuer == expected {
            return Ok(self);
        }
        Err(AuthError::WrongIssuer {
            address: address.to_string(),
            expected: expected.to_owned(),
            found: self.issuer,
        })
    }

    /// What servers of 2025-03-26 have where they publish nothing.
    pub(super) fn assumed(server: &Url) -> Self {
        let at = |path: &str| server.join(path).ok();
        Self {
            issuer: server.origin().ascii_serialization(),
            authorization_endpoint: at("/authorize"),
            token_endpoint: at("/token"),
            registration_endpoint: at("/register"),
            revocation_endpoint: None,
            scopes_supported: Vec::new(),
            code_challenge_methods_supported: Some(vec!["S256".to_owned()]),
            token_endpoint_auth_methods_supported: None,
            authorization_response_iss_parameter_supported: false,
            client_id_metadata_document_supported: false,
        }
    }

    pub(super) fn has_s256(&self) -> bool {
        let methods = self.code_challenge_methods_supported.as_ref();
        methods.is_some_and(|methods| methods.iter().any(|method| method == "S256"))
    }

    /// The addresses that are going to be used.
    pub(super) fn endpoints(&self) -> impl Iterator<Item = &Url> {
        [
            &self.authorization_endpoint,
            &self.token_endpoint,
            &self.registration_endpoint,
            &self.revocation_endpoint,
        ]
        .into_iter()
        .flatten()
    }
}

fn well_known(at: &Url, what: &str, path: &str) -> Url {
    let mut address = at.clone();
    address.set_query(None);
    address.set_fragment(None);
    address.set_path(&format!("/.well-known/{what}{}", path.trim_end_matches('/')));
    address
}

/// Whether a server is the resource, or below it.
fn holds(resource: &Url, server: &Url) -> bool {
    let path = resource.path().trim_end_matches('/');
    let below = server.path().strip_prefix(path);
    resource.origin() == server.origin()
        && below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    fn texts(urls: &[Url]) -> Vec<&str> {
        urls.iter().map(Url::as_str).collect()
    }

    #[test]
    fn metadata_of_a_server_are_where_it_says_then_at_its_path_then_at_its_root() {
        let own = "https://a.example/.well-known/oauth-protected-resource/public/mcp";
        let root = "https://a.example/.well-known/oauth-protected-resource";
        let server = url("https://a.example/public/mcp?key=1");
        assert_eq!(texts(&resource_addresses(&server, None)), [own, root]);
        let named = url("https://b.example/x");
        let all = [named.as_str(), own, root];
        assert_eq!(texts(&resource_addresses(&server, Some(&named))), all);
        assert_eq!(texts(&resource_addresses(&url("https://a.example"), None)), [root]);
        assert_eq!(texts(&resource_addresses(&server, Some(&url(own)))), [own, root]);
    }

    #[test]
    fn metadata_of_an_issuer_are_at_the_places_of_both_standards() {
        assert_eq!(
            texts(&issuer_addresses(&url("https://i.example/tenant1"))),
            [
                "https://i.example/.well-known/oauth-authorization-server/tenant1",
                "https://i.example/.well-known/openid-configuration/tenant1",
                "https://i.example/tenant1/.well-known/openid-configuration",
            ]
        );
        assert_eq!(
            texts(&issuer_addresses(&url("https://i.example/"))),
            [
                "https://i.example/.well-known/oauth-authorization-server",
                "https://i.example/.well-known/openid-configuration",
            ]
        );
    }

    #[test]
    fn a_resource_is_the_server_or_what_holds_it() {
        let server = url("https://a.example/team/mcp");
        for (named, good) in [
            ("https://a.example/team/mcp", true),
            ("https://a.example/team", true),
            ("https://a.example/", true),
            ("https://a.example", true),
            ("https://a.example/te", false),
            ("https://a.example/team/mcp/more", false),
            ("http://a.example/team/mcp", false),
            ("https://evil.example/team/mcp", false),
            ("no address", false),
        ] {
            let metadata = Resource { resource: Some(named.to_owned()), ..Resource::default() };
            let found = resource_of(&server, Some(&metadata));
            assert_eq!(found.ok().as_deref(), good.then_some(named), "{named}");
        }
        assert_eq!(resource_of(&server, None).unwrap(), "https://a.example/team/mcp");
    }

    #[test]
    fn the_name_of_a_resource_has_no_secrets_and_no_slash_for_nothing() {
        for (address, name) in [
            ("https://A.example/", "https://a.example"),
            ("https://me:pw@a.example/mcp?key=1#x", "https://a.example/mcp"),
            ("https://a.example:443/mcp/", "https://a.example/mcp/"),
        ] {
            assert_eq!(canonical(&url(address)), name);
        }
    }

    #[test]
    fn an_issuer_is_compared_to_the_letter() {
        let address = url("https://i.example/.well-known/oauth-authorization-server");
        let issuer = |name: &str| Issuer { issuer: name.to_owned(), ..Issuer::assumed(&address) };
        assert!(issuer("https://i.example").believed("https://i.example", &address).is_ok());
        for other in ["https://i.example/", "https://I.example", "https://evil.example"] {
            let refused = issuer(other).believed("https://i.example", &address);
            assert!(matches!(refused, Err(AuthError::WrongIssuer { .. })), "{other}");
        }
    }
}
