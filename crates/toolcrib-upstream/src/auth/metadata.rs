//! Metadata of servers and issuers: their well-known URLs and their verification.

use serde::Deserialize;
use url::Url;

use super::error::AuthError;

const RESOURCE: &str = "oauth-protected-resource";
const ISSUER: &str = "oauth-authorization-server";
const OPENID: &str = "openid-configuration";

/// Protected resource metadata of a server (RFC 9728).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct ResourceMetadata {
    pub(super) resource: Option<String>,
    pub(super) authorization_servers: Vec<String>,
    pub(super) scopes_supported: Option<Vec<String>>,
}

/// Metadata of an issuer (RFC 8414, or OpenID Connect Discovery).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct IssuerMetadata {
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

/// Candidate URLs of a server's metadata in order: the named one, the one for its path, the one for its host.
pub(super) fn resource_metadata_urls(server: &Url, named: Option<&Url>) -> Vec<Url> {
    let own = well_known_url(server, RESOURCE, server.path());
    let root = well_known_url(server, RESOURCE, "");
    let mut addresses: Vec<Url> = named.cloned().into_iter().chain([own, root]).collect();
    addresses.dedup();
    addresses
}

/// Candidate URLs of an issuer's metadata, in order.
pub(super) fn issuer_metadata_urls(issuer: &Url) -> Vec<Url> {
    let path = issuer.path().trim_end_matches('/');
    let mut addresses =
        vec![well_known_url(issuer, ISSUER, path), well_known_url(issuer, OPENID, path)];
    if !path.is_empty() {
        let mut appended = well_known_url(issuer, OPENID, "");
        appended.set_path(&format!("{path}/.well-known/{OPENID}"));
        addresses.push(appended);
    }
    addresses
}

/// Returns the resource indicator: the one in the metadata if it contains the server's URL, else the server's
/// URL.
pub(super) fn resource_indicator(
    server: &Url,
    metadata: Option<&ResourceMetadata>,
) -> Result<String, AuthError> {
    match metadata.and_then(|metadata| metadata.resource.as_deref()) {
        None => Ok(canonical_url(server)),
        Some(named) => match Url::parse(named) {
            Ok(resource) if contains_server(&resource, server) => Ok(named.to_owned()),
            _ => Err(AuthError::ResourceMismatch {
                named: named.to_owned(),
                server: canonical_url(server),
            }),
        },
    }
}

/// Returns the canonical resource URL, without credentials, query and fragment.
pub(super) fn canonical_url(server: &Url) -> String {
    let mut plain = server.clone();
    plain.set_fragment(None);
    plain.set_query(None);
    // Both calls succeed for every URL with a host.
    let _ = plain.set_username("");
    let _ = plain.set_password(None);
    let text = plain.as_str();
    text.strip_suffix('/').filter(|_| plain.path() == "/").unwrap_or(text).to_owned()
}

impl IssuerMetadata {
    /// Accepts the metadata only if they name exactly the expected issuer.
    pub(super) fn verify_issuer(self, expected: &str, address: &Url) -> Result<Self, AuthError> {
        if self.issuer == expected {
            return Ok(self);
        }
        Err(AuthError::IssuerMismatch {
            address: address.to_string(),
            expected: expected.to_owned(),
            found: self.issuer,
        })
    }

    /// Default endpoints of the 2025-03-26 specification, for servers without metadata.
    pub(super) fn default_for(server: &Url) -> Self {
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

    /// All endpoints that the host may use.
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

fn well_known_url(at: &Url, what: &str, path: &str) -> Url {
    let mut address = at.clone();
    address.set_query(None);
    address.set_fragment(None);
    address.set_path(&format!("/.well-known/{what}{}", path.trim_end_matches('/')));
    address
}

/// Returns whether the server's URL is the resource or below it.
fn contains_server(resource: &Url, server: &Url) -> bool {
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
    fn resource_metadata_urls_start_with_the_named_one_then_path_then_root() {
        let own = "https://a.example/.well-known/oauth-protected-resource/public/mcp";
        let root = "https://a.example/.well-known/oauth-protected-resource";
        let server = url("https://a.example/public/mcp?key=1");
        assert_eq!(texts(&resource_metadata_urls(&server, None)), [own, root]);
        let named = url("https://b.example/x");
        let all = [named.as_str(), own, root];
        assert_eq!(texts(&resource_metadata_urls(&server, Some(&named))), all);
        assert_eq!(texts(&resource_metadata_urls(&url("https://a.example"), None)), [root]);
        assert_eq!(texts(&resource_metadata_urls(&server, Some(&url(own)))), [own, root]);
    }

    #[test]
    fn issuer_metadata_urls_cover_both_standards() {
        assert_eq!(
            texts(&issuer_metadata_urls(&url("https://i.example/tenant1"))),
            [
                "https://i.example/.well-known/oauth-authorization-server/tenant1",
                "https://i.example/.well-known/openid-configuration/tenant1",
                "https://i.example/tenant1/.well-known/openid-configuration",
            ]
        );
        assert_eq!(
            texts(&issuer_metadata_urls(&url("https://i.example/"))),
            [
                "https://i.example/.well-known/oauth-authorization-server",
                "https://i.example/.well-known/openid-configuration",
            ]
        );
    }

    #[test]
    fn resource_must_contain_the_server() {
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
            let metadata = ResourceMetadata {
                resource: Some(named.to_owned()),
                ..ResourceMetadata::default()
            };
            let found = resource_indicator(&server, Some(&metadata));
            assert_eq!(found.ok().as_deref(), good.then_some(named), "{named}");
        }
        assert_eq!(resource_indicator(&server, None).unwrap(), "https://a.example/team/mcp");
    }

    #[test]
    fn canonical_url_drops_secrets_and_a_bare_slash() {
        for (address, name) in [
            ("https://A.example/", "https://a.example"),
            ("https://me:pw@a.example/mcp?key=1#x", "https://a.example/mcp"),
            ("https://a.example:443/mcp/", "https://a.example/mcp/"),
        ] {
            assert_eq!(canonical_url(&url(address)), name);
        }
    }

    #[test]
    fn issuer_names_are_compared_exactly() {
        let address = url("https://i.example/.well-known/oauth-authorization-server");
        let issuer = |name: &str| IssuerMetadata {
            issuer: name.to_owned(),
            ..IssuerMetadata::default_for(&address)
        };
        assert!(issuer("https://i.example").verify_issuer("https://i.example", &address).is_ok());
        for other in ["https://i.example/", "https://I.example", "https://evil.example"] {
            let refused = issuer(other).verify_issuer("https://i.example", &address);
            assert!(matches!(refused, Err(AuthError::IssuerMismatch { .. })), "{other}");
        }
    }
}
