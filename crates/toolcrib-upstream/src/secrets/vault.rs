//! Secrets in HashiCorp Vault, or what speaks like it: its key-value engine, version 2, over HTTP.

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderValue};
use serde::Deserialize;
use serde_json::Value as Json;
use toolcrib_config::Hidden;
use toolcrib_config::model::host::SecretStore;
use url::Url;
use zeroize::Zeroizing;

use super::unresolved::{Gap, Why};
use crate::signals::chain;
use crate::transport::{FetchError, Tls, fetch_with};

/// The largest answer that is read.
const LARGEST: usize = 1 << 20;

/// The field `FIELD` of the secret at `PATH#FIELD`; without a field the only one there is.
pub(super) async fn get(
    store: &SecretStore,
    token: &Hidden,
    tls: &Tls,
    path: &str,
    limit: Duration,
) -> Result<Hidden, Why> {
    let (path, field) = match path.rsplit_once('#') {
        Some((path, field)) => (path, Some(field)),
        None => (path, None),
    };
    let url = address(store, path)?;
    let mut token = HeaderValue::from_str(token.reveal())
        .map_err(|_| Why::Declared("its `token` cannot be sent".to_owned()))?;
    token.set_sensitive(true);
    let headers =
        HeaderMap::from_iter([(TOKEN, token), (REQUEST, HeaderValue::from_static("true"))]);
    let answer = fetch_with(&url, headers, tls, LARGEST, limit).await;
    let answer = Zeroizing::new(answer.map_err(|error| refused(&error, limit))?);
    let Ok(Answer { data: Data { data } }) = serde_json::from_slice(&answer) else {
        return Err(Why::Unusable("it is no answer of a key-value engine, version 2".to_owned()));
    };
    chosen(data, field)
}

const TOKEN: reqwest::header::HeaderName =
    reqwest::header::HeaderName::from_static("x-vault-token");
const REQUEST: reqwest::header::HeaderName =
    reqwest::header::HeaderName::from_static("x-vault-request");

#[derive(Deserialize)]
struct Answer {
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    data: BTreeMap<String, Json>,
}

fn address(store: &SecretStore, path: &str) -> Result<Url, Why> {
    let declared = |text: &str| Why::Declared(text.to_owned());
    let url = store.url.as_deref().ok_or_else(|| declared("it needs a `url`"))?;
    let mut url = Url::parse(url).map_err(|_| declared("its `url` is no address"))?;
    let (mount, path) = match &store.mount {
        Some(mount) => (mount.as_str(), path),
        None => path.split_once('/').ok_or(Why::Missing(Gap::Name))?,
    };
    let parts = |text: &str| -> Vec<String> {
        text.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect()
    };
    let all = [vec!["v1".to_owned()], parts(mount), vec!["data".to_owned()], parts(path)].concat();
    // A path that leads elsewhere is none.
    if all.iter().any(|part| part == "." || part == "..") {
        return Err(Why::Missing(Gap::Name));
    }
    let is_http = matches!(url.scheme(), "http" | "https");
    match url.path_segments_mut() {
        Ok(mut segments) if is_http => drop(segments.pop_if_empty().extend(all)),
        _ => return Err(declared("its `url` is no address of a server")),
    }
    Ok(url)
}

fn chosen(mut data: BTreeMap<String, Json>, field: Option<&str>) -> Result<Hidden, Why> {
    let value = match field {
        Some(field) => data.remove(field).ok_or(Why::Missing(Gap::Name))?,
        None if data.len() > 1 => {
            let text = "it has several fields: name one, as `PATH#FIELD`".to_owned();
            return Err(Why::Unusable(text));
        }
        None => data.into_values().next().ok_or(Why::Missing(Gap::Name))?,
    };
    match value {
        Json::String(text) => Ok(Hidden::new(text)),
        Json::Number(_) | Json::Bool(_) => Ok(Hidden::new(value.to_string())),
        _ => Err(Why::Unusable("the field is no text".to_owned())),
    }
}

fn refused(error: &FetchError, limit: Duration) -> Why {
    match error {
        FetchError::Status { status, .. } => match status.as_u16() {
            401 | 403 => Why::Denied,
            404 => Why::Missing(Gap::Name),
            503 => Why::Unreachable("it is sealed, or not ready".to_owned()),
            other => Why::Unreachable(format!("it answers with {other}")),
        },
        FetchError::Late(_) => Why::Late(limit),
        FetchError::TooLarge { limit, .. } => {
            Why::Unusable(format!("the answer is over {limit} bytes"))
        }
        other => Why::Unreachable(chain(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_below_its_mount_and_nowhere_else() {
        let at = |url: &str, mount: Option<&str>, path: &str| {
            let (url, mount) = (Some(url.to_owned()), mount.map(str::to_owned));
            let store = SecretStore { url, mount, ..SecretStore::default() };
            address(&store, path).map(String::from).ok()
        };
        let good = |url: &str, mount, path: &str, whole: &str| {
            assert_eq!(at(url, mount, path).as_deref(), Some(whole));
        };
        good("http://v:8200", None, "secret/app/db", "http://v:8200/v1/secret/data/app/db");
        good("http://v:8200/", Some("team/kv"), "app", "http://v:8200/v1/team/kv/data/app");
        good("https://v/behind/", Some("kv"), "a b?c", "https://v/behind/v1/kv/data/a%20b%3Fc");
        for (url, path) in
            [("http://v", "../sys"), ("http://v", "x/../../sys"), ("no", "x"), ("file:///v", "x")]
        {
            assert_eq!(at(url, Some("kv"), path), None, "{url} {path}");
        }
        assert_eq!(at("http://v", None, "secret"), None);
    }
}
