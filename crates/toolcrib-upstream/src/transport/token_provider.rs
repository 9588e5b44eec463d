//! Bearer tokens that are renewed while a connection lives.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use toolcrib_config::SecretString;
use url::Url;

use super::http_fault::HttpFault;

/// Boxed future that may borrow.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Provides the tokens of one server.
pub trait TokenProvider: fmt::Debug + Send + Sync {
    /// The token of the next request, or `Some(None)` for none, if that is known without waiting.
    fn cached_token(&self) -> Option<Option<SecretString>>;

    /// The token of the next request, if there is one.
    fn fetch_token(&self) -> BoxFuture<'_, Result<Option<SecretString>, TokenError>>;

    /// The token for another attempt after a denial, or `None` if the denial is not about tokens.
    fn replacement_token<'a>(
        &'a self,
        used: Option<&'a SecretString>,
        denial: &'a Denial,
    ) -> BoxFuture<'a, Result<Option<SecretString>, TokenError>>;

    /// Adds a token to the headers of a request.
    fn insert_header(
        &self,
        headers: &mut HeaderMap,
        token: &SecretString,
    ) -> Result<(), HttpFault> {
        let value = HeaderValue::from_str(&format!("Bearer {}", token.reveal()));
        let mut value = value.map_err(|_| HttpFault::BadHeader(AUTHORIZATION.to_string()))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
        Ok(())
    }

    /// The new URL of the server, if it has moved since the connection was opened.
    fn current_url(&self) -> Option<Url> {
        None
    }
}

/// A response that denied a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// HTTP status of the denial.
    pub status: u16,
    /// All values of `WWW-Authenticate`.
    pub challenges: Vec<String>,
}

/// Reason why there is no valid token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TokenError {
    /// Kind of the failure.
    pub kind: TokenErrorKind,
    /// Stable code for programs.
    pub code: &'static str,
    /// Message for people, without secrets.
    pub message: String,
    /// Suggested fix for people.
    pub fix: String,
}

/// Kind of a token failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenErrorKind {
    /// A person has to act, or the server rejects the client.
    Denied,
    /// The request may work a little later.
    Transient,
    /// An error on this machine.
    Local,
}

impl Denial {
    pub(crate) fn from_response(status: u16, headers: &HeaderMap) -> Self {
        let challenges = headers.get_all(WWW_AUTHENTICATE).iter();
        let challenges = challenges.filter_map(|value| value.to_str().ok()).map(str::to_owned);
        Self { status, challenges: challenges.collect() }
    }
}
