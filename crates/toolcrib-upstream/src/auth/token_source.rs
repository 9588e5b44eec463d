//! Token provider of one connection: caches the token and renews it when it is due or refused.

use std::sync::{Arc, Mutex, PoisonError};

use toolcrib_config::SecretString;
use toolcrib_config::model::auth::OAuthGrant;

use super::accounts::{Accounts, ProtectedServer, unix_now};
use super::challenge::BearerChallenge;
use super::error::AuthError;
use super::login_record::StoredTokens;
use super::scopes::union;
use crate::transport::{BoxFuture, Denial, TokenError, TokenProvider};

/// Delay in seconds before another renewal attempt. Meanwhile the old token is used.
const RETRY_DELAY: u64 = 5;

#[derive(Debug)]
pub(super) struct TokenSource {
    accounts: Accounts,
    server: Arc<ProtectedServer>,
    cached: Mutex<CachedToken>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum CachedToken {
    /// The record has not been loaded yet.
    NotLoaded,
    /// There is no token. Requests go without one until the server refuses them.
    Absent,
    Token {
        access: SecretString,
        renew_at: Option<u64>,
    },
}

impl TokenSource {
    pub(super) fn new(accounts: Accounts, server: ProtectedServer) -> Self {
        Self { accounts, server: Arc::new(server), cached: Mutex::new(CachedToken::NotLoaded) }
    }

    async fn load_token(&self) -> Result<Option<SecretString>, AuthError> {
        let record = self.accounts.load_record(&self.server).await?;
        let tokens =
            record.account(self.server.issuer()).and_then(|account| account.tokens.clone());
        match tokens {
            Some(tokens) if !tokens.needs_renewal(unix_now()) => Ok(Some(self.cache_token(tokens))),
            None if self.server.client.grant == OAuthGrant::Code => {
                self.set_cached(CachedToken::Absent);
                Ok(None)
            }
            tokens => match self.accounts.renew(&self.server, None, None).await {
                Ok(tokens) => Ok(Some(self.cache_token(tokens))),
                Err(error) => {
                    tokens.and_then(|tokens| self.reuse_expired(tokens)).map(Some).ok_or(error)
                }
            },
        }
    }

    /// Keeps using an expired token after a failed renewal. The server decides whether it is expired, because
    /// clocks differ.
    fn reuse_expired(&self, tokens: StoredTokens) -> Option<SecretString> {
        let renew_at = Some(unix_now() + RETRY_DELAY);
        self.set_cached(CachedToken::Token { access: tokens.access.clone(), renew_at });
        Some(tokens.access)
    }

    async fn find_replacement(
        &self,
        used: Option<&SecretString>,
        denial: &Denial,
    ) -> Result<Option<SecretString>, AuthError> {
        let challenge = BearerChallenge::from_headers(&denial.challenges);
        let is_insufficient_scope =
            challenge.as_ref().is_some_and(BearerChallenge::is_insufficient_scope);
        let record = self.accounts.load_record(&self.server).await?;
        let account = record.account(self.server.issuer());
        let tokens = account.and_then(|account| account.tokens.clone());
        let is_ours = match denial.status {
            401 => self.server.client.is_configured || challenge.is_some() || tokens.is_some(),
            _ => is_insufficient_scope,
        };
        if !is_ours {
            return Ok(None);
        }
        // Another process may have logged in or renewed the token meanwhile.
        let is_other = |tokens: &StoredTokens| {
            used != Some(&tokens.access) && !tokens.needs_renewal(unix_now())
        };
        if let Some(tokens) = tokens.filter(is_other) {
            return Ok(Some(self.cache_token(tokens)));
        }
        let challenge = challenge.unwrap_or_default();
        let before = account.map(|account| account.scopes.clone()).unwrap_or_default();
        if is_insufficient_scope && self.server.client.grant == OAuthGrant::Code {
            return Err(self.login_required(&before, challenge).await);
        }
        let renewed =
            self.accounts.renew(&self.server, used.cloned(), Some(challenge.clone())).await;
        match renewed {
            Ok(tokens) => Ok(Some(self.cache_token(tokens))),
            Err(AuthError::LoginRequired { .. }) => {
                Err(self.login_required(&before, challenge).await)
            }
            Err(error) => Err(error),
        }
    }

    /// Stores the challenge for the next login and returns the error for the user.
    async fn login_required(&self, before: &[String], challenge: BearerChallenge) -> AuthError {
        let scopes = union(before, challenge.scopes.as_deref().unwrap_or_default());
        match self.accounts.record_challenge(&self.server, challenge).await {
            Ok(()) => AuthError::LoginRequired { scopes },
            Err(error) => error,
        }
    }

    fn cache_token(&self, tokens: StoredTokens) -> SecretString {
        let renew_at = tokens.renew_at();
        self.set_cached(CachedToken::Token { access: tokens.access.clone(), renew_at });
        tokens.access
    }

    fn set_cached(&self, token: CachedToken) {
        *self.cached.lock().unwrap_or_else(PoisonError::into_inner) = token;
    }

    fn to_token_error(&self, error: &AuthError) -> TokenError {
        error.to_token_error(&self.server.login_args())
    }
}

impl TokenProvider for TokenSource {
    fn cached_token(&self) -> Option<Option<SecretString>> {
        match &*self.cached.lock().unwrap_or_else(PoisonError::into_inner) {
            // Without an `auth` entry the record is loaded only after a refusal.
            CachedToken::NotLoaded => (!self.server.client.is_configured).then_some(None),
            CachedToken::Absent => Some(None),
            CachedToken::Token { renew_at: Some(due), .. } if unix_now() >= *due => None,
            CachedToken::Token { access, .. } => Some(Some(access.clone())),
        }
    }

    fn fetch_token(&self) -> BoxFuture<'_, Result<Option<SecretString>, TokenError>> {
        Box::pin(
            async move { self.load_token().await.map_err(|error| self.to_token_error(&error)) },
        )
    }

    fn replacement_token<'a>(
        &'a self,
        used: Option<&'a SecretString>,
        denial: &'a Denial,
    ) -> BoxFuture<'a, Result<Option<SecretString>, TokenError>> {
        Box::pin(async move {
            self.find_replacement(used, denial).await.map_err(|error| self.to_token_error(&error))
        })
    }
}
