//! Token provider that masks each token in server output from its first use.

use std::sync::Arc;

use reqwest::header::HeaderMap;
use toolcrib_config::SecretString;
use url::Url;

use crate::signals::SecretMask;
use crate::transport::{BoxFuture, Denial, HttpFault, TokenError, TokenProvider};

/// Adds each fetched token to the secret mask.
#[derive(Debug)]
pub(super) struct MaskedTokens {
    pub(super) tokens: Arc<dyn TokenProvider>,
    pub(super) mask: SecretMask,
}

impl MaskedTokens {
    fn mask_token(&self, token: Option<SecretString>) -> Option<SecretString> {
        token.iter().for_each(|token| self.mask.add_secret(token));
        token
    }
}

impl TokenProvider for MaskedTokens {
    /// Cached tokens came from one of the other two methods, so the mask already has them.
    fn cached_token(&self) -> Option<Option<SecretString>> {
        self.tokens.cached_token()
    }

    fn fetch_token(&self) -> BoxFuture<'_, Result<Option<SecretString>, TokenError>> {
        Box::pin(async { self.tokens.fetch_token().await.map(|token| self.mask_token(token)) })
    }

    fn replacement_token<'a>(
        &'a self,
        used: Option<&'a SecretString>,
        denial: &'a Denial,
    ) -> BoxFuture<'a, Result<Option<SecretString>, TokenError>> {
        Box::pin(async move {
            self.tokens.replacement_token(used, denial).await.map(|token| self.mask_token(token))
        })
    }

    fn insert_header(
        &self,
        headers: &mut HeaderMap,
        token: &SecretString,
    ) -> Result<(), HttpFault> {
        self.tokens.insert_header(headers, token)
    }

    fn current_url(&self) -> Option<Url> {
        self.tokens.current_url()
    }
}
