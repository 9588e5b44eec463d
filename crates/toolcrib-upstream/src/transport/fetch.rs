//! Fetches small documents that belong to no MCP server, such as the metadata of an issuer.

use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::redirect::Policy;
use reqwest::{Client, StatusCode};
use rustls::Error as TlsError;
use tokio::time::timeout;
use url::Url;

use super::tls::Tls;

/// A failed fetch.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("cannot configure TLS")]
    Tls(#[source] TlsError),
    #[error("cannot fetch `{url}`")]
    Request {
        url: Url,
        #[source]
        cause: reqwest::Error,
    },
    #[error("`{url}` answered with status {status}")]
    Status { url: Url, status: StatusCode },
    #[error("the document at `{url}` is over the limit of {limit} bytes")]
    TooLarge { url: Url, limit: usize },
    #[error("`{0}` did not answer in time")]
    Timeout(Url),
}

/// Fetches a document without following redirects.
pub async fn fetch_document(
    url: &Url,
    tls: &Tls,
    most: usize,
    limit: Duration,
) -> Result<Vec<u8>, FetchError> {
    fetch_document_with_headers(url, HeaderMap::new(), tls, most, limit).await
}

/// Fetches a document with additional headers.
pub(crate) async fn fetch_document_with_headers(
    url: &Url,
    headers: HeaderMap,
    tls: &Tls,
    most: usize,
    limit: Duration,
) -> Result<Vec<u8>, FetchError> {
    let failed = |cause| FetchError::Request { url: url.clone(), cause: without_url(cause) };
    let client = build_client(url, tls)?;
    let fetched = async {
        let mut answer = client.get(url.clone()).headers(headers).send().await.map_err(failed)?;
        if !answer.status().is_success() {
            return Err(FetchError::Status { url: url.clone(), status: answer.status() });
        }
        let mut document = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(failed)? {
            if document.len() + chunk.len() > most {
                return Err(FetchError::TooLarge { url: url.clone(), limit: most });
            }
            document.extend_from_slice(&chunk);
        }
        Ok(document)
    };
    timeout(limit, fetched).await.map_err(|_| FetchError::Timeout(url.clone()))?
}

/// Builds a client for one address. It does not follow redirects.
pub fn build_client(url: &Url, tls: &Tls) -> Result<Client, FetchError> {
    let config = match url.scheme() {
        "https" => tls.config().map(|config| (*config).clone()),
        _ => Tls::without_authorities(),
    };
    Client::builder()
        .tls_backend_preconfigured(config.map_err(FetchError::Tls)?)
        .redirect(Policy::none())
        .no_proxy()
        .build()
        .map_err(|cause| FetchError::Request { url: url.clone(), cause: without_url(cause) })
}

/// The error variant names the URL already.
fn without_url(error: reqwest::Error) -> reqwest::Error {
    error.without_url()
}
