//! Finding out who gives tokens for a server.

use url::Url;

use super::challenge::Challenge;
use super::error::AuthError;
use super::metadata::{Issuer, Resource, issuer_addresses, resource_addresses, resource_of};
use super::web::Web;

/// Who gives tokens for a server, and for what they are asked.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) issuer: Issuer,
    /// What the tokens are for (RFC 8707).
    pub(super) resource: String,
    /// What the server says can be asked for.
    pub(super) scopes: Option<Vec<String>>,
}

/// Asks the server, then the issuer. `allowed` is the only issuer that may be used, `known` one that is preferred.
pub(super) async fn discover(
    web: &Web,
    server: &Url,
    challenge: Option<&Challenge>,
    allowed: Option<&str>,
    known: Option<&str>,
) -> Result<Found, AuthError> {
    let metadata = resource(web, server, challenge).await?;
    let resource = resource_of(server, metadata.as_ref())?;
    let scopes = metadata.as_ref().and_then(|metadata| metadata.scopes_supported.clone());
    let offered = metadata.map(|metadata| metadata.authorization_servers).unwrap_or_default();
    let issuer = match choose(&offered, allowed, known)? {
        Some(name) => issuer(web, name).await?.ok_or(AuthError::NoMetadata(name.to_owned()))?,
        // Servers of 2025-03-26 are their own issuers.
        None => {
            let own = server.origin().ascii_serialization();
            issuer(web, &own).await?.unwrap_or_else(|| Issuer::assumed(server))
        }
    };
    issuer.endpoints().try_for_each(|endpoint| web.permits(endpoint))?;
    Ok(Found { issuer, resource, scopes })
}

/// What the server publishes of its protection, if it does.
pub(super) async fn resource(
    web: &Web,
    server: &Url,
    challenge: Option<&Challenge>,
) -> Result<Option<Resource>, AuthError> {
    let named = challenge.and_then(|challenge| challenge.resource_metadata.as_ref());
    for address in resource_addresses(server, named) {
        match web.document(&address).await {
            Ok(Some(metadata)) => return Ok(Some(metadata)),
            Ok(None) => {}
            // Where nobody pointed to there may be a page about something else.
            Err(AuthError::Malformed { .. }) if named != Some(&address) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Which issuer: the prescribed one, the one that is known already, or the first.
fn choose<'a>(
    offered: &'a [String],
    allowed: Option<&'a str>,
    known: Option<&str>,
) -> Result<Option<&'a str>, AuthError> {
    let has = |name: &str| offered.iter().find(|offered| *offered == name).map(String::as_str);
    match allowed {
        Some(allowed) if offered.is_empty() || has(allowed).is_some() => Ok(Some(allowed)),
        Some(allowed) => {
            Err(AuthError::OtherIssuer { wanted: allowed.to_owned(), offered: offered.to_vec() })
        }
        None => Ok(known.and_then(has).or(offered.first().map(String::as_str))),
    }
}

async fn issuer(web: &Web, name: &str) -> Result<Option<Issuer>, AuthError> {
    let url = Url::parse(name).map_err(|_| AuthError::NoMetadata(name.to_owned()))?;
    for address in issuer_addresses(&url) {
        match web.document::<Issuer>(&address).await {
            Ok(Some(found)) => return found.believed(name, &address).map(Some),
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
    fn the_issuer_is_the_prescribed_or_the_known_or_the_first() {
        let offered = ["one".to_owned(), "two".to_owned()];
        let chosen = |allowed, known| choose(&offered, allowed, known).ok().flatten();
        assert_eq!(chosen(None, None), Some("one"));
        assert_eq!(chosen(None, Some("two")), Some("two"));
        assert_eq!(chosen(None, Some("three")), Some("one"));
        assert_eq!(chosen(Some("two"), Some("one")), Some("two"));
        assert!(matches!(
            choose(&offered, Some("three"), None),
            Err(AuthError::OtherIssuer { .. })
        ));
        assert_eq!(choose(&[], Some("three"), None).unwrap(), Some("three"));
        assert_eq!(choose(&[], None, Some("three")).unwrap(), None);
    }
}
