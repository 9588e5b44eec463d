//! One small document from an address that is no server: what an issuer of tokens says of itself.

use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::redirect::Policy;
use reqwest::{Client, StatusCode};
use rustls::Error as TlsError;
use tokio::time::timeout;
use url::Url;

use super::tls::Tls;

/// Why there is no document.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("cannot prepare TLS")]
    Tls(#[source] TlsError),
    #[error("cannot fetch `{url}`")]
    Request {
        url: Url,
        #[source]
        cause: reqwest::Error,
    },
    #[error("`{url}` answers with {status}")]
    Status { url: Url, status: StatusCode },
    #[error("`{url}` is over the limit of {limit} bytes")]
    TooLarge { url: Url, limit: usize },
    #[error("`{0}` does not answer in time")]
    Late(Url),
}

/// Fetches a document. Nobody is followed elsewhere.
pub async fn fetch(
    url: &Url,
    tls: &Tls,
    most: usize,
    limit: Duration,
) -> Result<Vec<u8>, FetchError> {
    fetch_with(url, HeaderMap::new(), tls, most, limit).await
}

/// The same with headers of one's own.
pub(crate) async fn fetch_with(
    url: &Url,
    headers: HeaderMap,
    tls: &Tls,
    most: usize,
    limit: Duration,
) -> Result<Vec<u8>, FetchError> {
    let failed = |cause| FetchError::Request { url: url.clone(), cause: without_url(cause) };
    let client = client(url, tls)?;
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
    timeout(limit, fetched).await.map_err(|_| FetchError::Late(url.clone()))?
}

/// A client for one address. Nobody is followed elsewhere.
pub fn client(url: &Url, tls: &Tls) -> Result<Client, FetchError> {
    let config = match url.scheme() {
        "https" => tls.config().map(|config| (*config).clone()),
        _ => Tls::unused(),
    };
    Client::builder()
        .tls_backend_preconfigured(config.map_err(FetchError::Tls)?)
        .redirect(Policy::none())
        .no_proxy()
        .build()
        .map_err(|cause| FetchError::Request { url: url.clone(), cause: without_url(cause) })
}

/// It is named already.
fn without_url(error: reqwest::Error) -> reqwest::Error {
    error.without_url()
}
