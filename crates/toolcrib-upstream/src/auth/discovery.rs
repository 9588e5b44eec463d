//! Discovery of the issuer of a server's tokens.

use url::Url;

use super::challenge::BearerChallenge;
use super::error::AuthError;
use super::issuer_client::IssuerClient;
use super::metadata::{
    IssuerMetadata, ResourceMetadata, issuer_metadata_urls, resource_indicator,
    resource_metadata_urls,
};

/// The discovered issuer of a server, with resource and scopes.
#[derive(Clone, Debug)]
pub(super) struct Discovery {
    pub(super) issuer: IssuerMetadata,
    /// Resource indicator (RFC 8707).
    pub(super) resource: String,
    /// Scopes that the server's metadata lists.
    pub(super) scopes: Option<Vec<String>>,
}

/// Fetches the metadata of the server, then of the issuer. `allowed` is the only permitted issuer, `known`
/// the preferred one.
pub(super) async fn discover(
    issuer_client: &IssuerClient,
    server: &Url,
    challenge: Option<&BearerChallenge>,
    allowed: Option<&str>,
    known: Option<&str>,
) -> Result<Discovery, AuthError> {
    let metadata = fetch_resource_metadata(issuer_client, server, challenge).await?;
    let resource = resource_indicator(server, metadata.as_ref())?;
    let scopes = metadata.as_ref().and_then(|metadata| metadata.scopes_supported.clone());
    let offered = metadata.map(|metadata| metadata.authorization_servers).unwrap_or_default();
    let issuer = match choose_issuer(&offered, allowed, known)? {
        Some(name) => fetch_issuer_metadata(issuer_client, name)
            .await?
            .ok_or(AuthError::MetadataNotFound(name.to_owned()))?,
        // Servers of the 2025-03-26 specification are their own issuers.
        None => {
            let own = server.origin().ascii_serialization();
            fetch_issuer_metadata(issuer_client, &own)
                .await?
                .unwrap_or_else(|| IssuerMetadata::default_for(server))
        }
    };
    issuer.endpoints().try_for_each(|endpoint| issuer_client.check_url(endpoint))?;
    Ok(Discovery { issuer, resource, scopes })
}

/// Fetches the server's protected resource metadata, if it publishes any.
pub(super) async fn fetch_resource_metadata(
    issuer_client: &IssuerClient,
    server: &Url,
    challenge: Option<&BearerChallenge>,
) -> Result<Option<ResourceMetadata>, AuthError> {
    let named = challenge.and_then(|challenge| challenge.resource_metadata.as_ref());
    for address in resource_metadata_urls(server, named) {
        match issuer_client.get_document(&address).await {
            Ok(Some(metadata)) => return Ok(Some(metadata)),
            Ok(None) => {}
            // An address that no challenge named may serve an unrelated page.
            Err(AuthError::Malformed { .. }) if named != Some(&address) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Chooses the issuer: the allowed one, else the known one, else the first.
fn choose_issuer<'a>(
    offered: &'a [String],
    allowed: Option<&'a str>,
    known: Option<&str>,
) -> Result<Option<&'a str>, AuthError> {
    let has = |name: &str| offered.iter().find(|offered| *offered == name).map(String::as_str);
    match allowed {
        Some(allowed) if offered.is_empty() || has(allowed).is_some() => Ok(Some(allowed)),
        Some(allowed) => Err(AuthError::IssuerNotAllowed {
            wanted: allowed.to_owned(),
            offered: offered.to_vec(),
        }),
        None => Ok(known.and_then(has).or(offered.first().map(String::as_str))),
    }
}

async fn fetch_issuer_metadata(
    issuer_client: &IssuerClient,
    name: &str,
) -> Result<Option<IssuerMetadata>, AuthError> {
    let url = Url::parse(name).map_err(|_| AuthError::MetadataNotFound(name.to_owned()))?;
    for address in issuer_metadata_urls(&url) {
        match issuer_client.get_document::<IssuerMetadata>(&address).await {
            Ok(Some(found)) => return found.verify_issuer(name, &address).map(Some),
            Ok(None) => {}
            Err(AuthError::Malformed { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issuer_choice_prefers_required_then_known_then_first() {
        let offered = ["one".to_owned(), "two".to_owned()];
        let chosen = |allowed, known| choose_issuer(&offered, allowed, known).ok().flatten();
        assert_eq!(chosen(None, None), Some("one"));
        assert_eq!(chosen(None, Some("two")), Some("two"));
        assert_eq!(chosen(None, Some("three")), Some("one"));
        assert_eq!(chosen(Some("two"), Some("one")), Some("two"));
        assert!(matches!(
            choose_issuer(&offered, Some("three"), None),
            Err(AuthError::IssuerNotAllowed { .. })
        ));
        assert_eq!(choose_issuer(&[], Some("three"), None).unwrap(), Some("three"));
        assert_eq!(choose_issuer(&[], None, Some("three")).unwrap(), None);
    }
}
