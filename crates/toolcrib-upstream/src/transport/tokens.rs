//! Tokens that change while a connection lives: where a transport gets them, and what it asks when one is refused.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use toolcrib_config::Hidden;
use url::Url;

use super::http_fault::HttpFault;

/// Something that takes its time.
pub type Coming<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Gives the tokens for one server.
pub trait Tokens: fmt::Debug + Send + Sync {
    /// What the next request carries (or that it carries nothing), if that is known without waiting.
    fn at_hand(&self) -> Option<Option<Hidden>>;

    /// What the next request carries, if anything.
    fn token(&self) -> Coming<'_, Result<Option<Hidden>, NoToken>>;

    /// What a request that was refused may be sent with instead; none if the refusal is not about tokens.
    fn instead<'a>(
        &'a self,
        used: Option<&'a Hidden>,
        denial: &'a Denial,
    ) -> Coming<'a, Result<Option<Hidden>, NoToken>>;

    /// Shows a token in the headers of a request.
    fn put(&self, headers: &mut HeaderMap, token: &Hidden) -> Result<(), HttpFault> {
        let value = HeaderValue::from_str(&format!("Bearer {}", token.reveal()));
        let mut value = value.map_err(|_| HttpFault::BadHeader(AUTHORIZATION.to_string()))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
        Ok(())
    }

    /// Where requests go from now on, if that is not where the connection was opened to.
    fn address(&self) -> Option<Url> {
        None
    }
}

/// How a server refused a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    pub status: u16,
    /// What `WWW-Authenticate` says, each time it does.
    pub challenges: Vec<String>,
}

/// Why there is no token that the server takes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct NoToken {
    pub trouble: Trouble,
    /// Stable, for machines.
    pub code: &'static str,
    /// For people; without secrets.
    pub message: String,
    /// What a person can do.
    pub fix: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// A person has to do something, or the server will not have us.
    Denied,
    /// It may work a little later.
    Passing,
    /// Something on this machine is wrong.
    Here,
}

impl Denial {
    pub(crate) fn of(status: u16, headers: &HeaderMap) -> Self {
        let challenges = headers.get_all(WWW_AUTHENTICATE).iter();
        let challenges = challenges.filter_map(|value| value.to_str().ok()).map(str::to_owned);
        Self { status, challenges: challenges.collect() }
    }
}
