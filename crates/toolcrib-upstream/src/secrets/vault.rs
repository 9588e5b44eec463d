//! Secrets from HashiCorp Vault and compatible servers: the key-value engine, version 2, over HTTP.

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderValue};
use serde::Deserialize;
use serde_json::Value as Json;
use toolcrib_config::SecretString;
use toolcrib_config::model::host::SecretStore;
use url::Url;
use zeroize::Zeroizing;

use super::secret_error::{MissingSecret, SecretErrorReason};
use crate::signals::chain;
use crate::transport::{FetchError, Tls, fetch_document_with_headers};

/// Maximum size of a response.
const MAX_RESPONSE: usize = 1 << 20;

/// Reads the field `FIELD` of the secret at `PATH#FIELD`. Without a field, the secret must have exactly one.
pub(super) async fn get(
    store: &SecretStore,
    token: &SecretString,
    tls: &Tls,
    path: &str,
    limit: Duration,
) -> Result<SecretString, SecretErrorReason> {
    let (path, field) = match path.rsplit_once('#') {
        Some((path, field)) => (path, Some(field)),
        None => (path, None),
    };
    let url = secret_url(store, path)?;
    let mut token = HeaderValue::from_str(token.reveal()).map_err(|_| {
        SecretErrorReason::BadDeclaration("its `token` is not a valid header value".to_owned())
    })?;
    token.set_sensitive(true);
    let headers = HeaderMap::from_iter([
        (TOKEN_HEADER, token),
        (REQUEST_HEADER, HeaderValue::from_static("true")),
    ]);
    let response = fetch_document_with_headers(&url, headers, tls, MAX_RESPONSE, limit).await;
    let response = Zeroizing::new(response.map_err(|error| fetch_failure(&error, limit))?);
    let Ok(ReadResponse { data: ResponseData { data } }) = serde_json::from_slice(&response) else {
        return Err(SecretErrorReason::Unusable(
            "the response is not from a key-value engine, version 2".to_owned(),
        ));
    };
    select_field(data, field)
}

const TOKEN_HEADER: reqwest::header::HeaderName =
    reqwest::header::HeaderName::from_static("x-vault-token");
const REQUEST_HEADER: reqwest::header::HeaderName =
    reqwest::header::HeaderName::from_static("x-vault-request");

#[derive(Deserialize)]
struct ReadResponse {
    data: ResponseData,
}

#[derive(Deserialize)]
struct ResponseData {
    data: BTreeMap<String, Json>,
}

fn secret_url(store: &SecretStore, path: &str) -> Result<Url, SecretErrorReason> {
    let declared = |text: &str| SecretErrorReason::BadDeclaration(text.to_owned());
    let url = store.url.as_deref().ok_or_else(|| declared("it needs a `url`"))?;
    let mut url = Url::parse(url).map_err(|_| declared("its `url` is not a URL"))?;
    let (mount, path) = match &store.mount {
        Some(mount) => (mount.as_str(), path),
        None => path.split_once('/').ok_or(SecretErrorReason::Missing(MissingSecret::Name))?,
    };
    let parts = |text: &str| -> Vec<String> {
        text.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect()
    };
    let all = [vec!["v1".to_owned()], parts(mount), vec!["data".to_owned()], parts(path)].concat();
    // Rejects paths that lead out of the mount.
    if all.iter().any(|part| part == "." || part == "..") {
        return Err(SecretErrorReason::Missing(MissingSecret::Name));
    }
    let is_http = matches!(url.scheme(), "http" | "https");
    match url.path_segments_mut() {
        Ok(mut segments) if is_http => drop(segments.pop_if_empty().extend(all)),
        _ => return Err(declared("its `url` is not an HTTP URL")),
    }
    Ok(url)
}

fn select_field(
    mut data: BTreeMap<String, Json>,
    field: Option<&str>,
) -> Result<SecretString, SecretErrorReason> {
    let value = match field {
        Some(field) => data.remove(field).ok_or(SecretErrorReason::Missing(MissingSecret::Name))?,
        None if data.len() > 1 => {
            let text = "it has several fields: name one, as `PATH#FIELD`".to_owned();
            return Err(SecretErrorReason::Unusable(text));
        }
        None => data.into_values().next().ok_or(SecretErrorReason::Missing(MissingSecret::Name))?,
    };
    match value {
        Json::String(text) => Ok(SecretString::new(text)),
        Json::Number(_) | Json::Bool(_) => Ok(SecretString::new(value.to_string())),
        _ => Err(SecretErrorReason::Unusable("the field is not text".to_owned())),
    }
}

fn fetch_failure(error: &FetchError, limit: Duration) -> SecretErrorReason {
    match error {
        FetchError::Status { status, .. } => match status.as_u16() {
            401 | 403 => SecretErrorReason::Denied,
            404 => SecretErrorReason::Missing(MissingSecret::Name),
            503 => SecretErrorReason::Unreachable("it is sealed, or not ready".to_owned()),
            other => SecretErrorReason::Unreachable(format!("it responds with status {other}")),
        },
        FetchError::Timeout(_) => SecretErrorReason::Timeout(limit),
        FetchError::TooLarge { limit, .. } => {
            SecretErrorReason::Unusable(format!("the response is over {limit} bytes"))
        }
        other => SecretErrorReason::Unreachable(chain(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_urls_stay_below_the_mount() {
        let url_of = |url: &str, mount: Option<&str>, path: &str| {
            let (url, mount) = (Some(url.to_owned()), mount.map(str::to_owned));
            let store = SecretStore { url, mount, ..SecretStore::default() };
            secret_url(&store, path).map(String::from).ok()
        };
        let check_url = |url: &str, mount, path: &str, whole: &str| {
            assert_eq!(url_of(url, mount, path).as_deref(), Some(whole));
        };
        check_url("http://v:8200", None, "secret/app/db", "http://v:8200/v1/secret/data/app/db");
        check_url("http://v:8200/", Some("team/kv"), "app", "http://v:8200/v1/team/kv/data/app");
        check_url(
            "https://v/behind/",
            Some("kv"),
            "a b?c",
            "https://v/behind/v1/kv/data/a%20b%3Fc",
        );
        for (url, path) in
            [("http://v", "../sys"), ("http://v", "x/../../sys"), ("no", "x"), ("file:///v", "x")]
        {
            assert_eq!(url_of(url, Some("kv"), path), None, "{url} {path}");
        }
        assert_eq!(url_of("http://v", None, "secret"), None);
    }
}
