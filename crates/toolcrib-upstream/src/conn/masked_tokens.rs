//! Tokens that are masked in what the server says from the moment in which they are used.

use std::sync::Arc;

use reqwest::header::HeaderMap;
use toolcrib_config::Hidden;
use url::Url;

use crate::signals::SecretMask;
use crate::transport::{Coming, Denial, HttpFault, NoToken, Tokens};

/// Tells the mask of each token that is obtained.
#[derive(Debug)]
pub(super) struct MaskedTokens {
    pub(super) tokens: Arc<dyn Tokens>,
    pub(super) mask: SecretMask,
}

impl MaskedTokens {
    fn learn(&self, token: Option<Hidden>) -> Option<Hidden> {
        token.iter().for_each(|token| self.mask.learn(token));
        token
    }
}

impl Tokens for MaskedTokens {
    /// Every token that is at hand was obtained in one of the two other ways.
    fn at_hand(&self) -> Option<Option<Hidden>> {
        self.tokens.at_hand()
    }

    fn token(&self) -> Coming<'_, Result<Option<Hidden>, NoToken>> {
        Box::pin(async { self.tokens.token().await.map(|token| self.learn(token)) })
    }

    fn instead<'a>(
        &'a self,
        used: Option<&'a Hidden>,
        denial: &'a Denial,
    ) -> Coming<'a, Result<Option<Hidden>, NoToken>> {
        Box::pin(
            async move { self.tokens.instead(used, denial).await.map(|token| self.learn(token)) },
        )
    }

    fn put(&self, headers: &mut HeaderMap, token: &Hidden) -> Result<(), HttpFault> {
        self.tokens.put(headers, token)
    }

    fn address(&self) -> Option<Url> {
        self.tokens.address()
    }
}
