//! The tokens for one connection: the one at hand, another when it is due or refused, or why there is none.

use std::sync::{Arc, Mutex, PoisonError};

use toolcrib_config::Hidden;
use toolcrib_config::model::auth::OAuthGrant;

use super::account::Kept;
use super::accounts::{Accounts, Protected, now};
use super::challenge::Challenge;
use super::error::AuthError;
use super::scope::union;
use crate::transport::{Coming, Denial, NoToken, Tokens};

/// After a renewal that failed the next is tried this much later, in seconds, while the old token may do.
const AGAIN: u64 = 5;

#[derive(Debug)]
pub(super) struct Source {
    accounts: Accounts,
    server: Arc<Protected>,
    at_hand: Mutex<AtHand>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum AtHand {
    /// Nobody has looked yet.
    Unread,
    /// There is none: requests go without one, and the server says whether it minds.
    Nothing,
    Token {
        access: Hidden,
        due_at: Option<u64>,
    },
}

impl Source {
    pub(super) fn new(accounts: Accounts, server: Protected) -> Self {
        Self { accounts, server: Arc::new(server), at_hand: Mutex::new(AtHand::Unread) }
    }

    async fn look(&self) -> Result<Option<Hidden>, AuthError> {
        let record = self.accounts.record(&self.server).await?;
        let kept = record.account(self.server.issuer()).and_then(|account| account.tokens.clone());
        match kept {
            Some(kept) if !kept.is_due(now()) => Ok(Some(self.hold(kept))),
            None if self.server.client.grant == OAuthGrant::Code => {
                self.put(AtHand::Nothing);
                Ok(None)
            }
            kept => match self.accounts.renew(&self.server, None, None).await {
                Ok(kept) => Ok(Some(self.hold(kept))),
                Err(error) => kept.and_then(|kept| self.hold_on(kept)).map(Some).ok_or(error),
            },
        }
    }

    /// What cannot be renewed now may do a little longer: whether it is over is for the server to say, whose clock
    /// may be another one.
    fn hold_on(&self, kept: Kept) -> Option<Hidden> {
        let due_at = Some(now() + AGAIN);
        self.put(AtHand::Token { access: kept.access.clone(), due_at });
        Some(kept.access)
    }

    async fn instead(
        &self,
        used: Option<&Hidden>,
        denial: &Denial,
    ) -> Result<Option<Hidden>, AuthError> {
        let challenge = Challenge::of(&denial.challenges);
        let lacks_scope = challenge.as_ref().is_some_and(Challenge::lacks_scope);
        let record = self.accounts.record(&self.server).await?;
        let account = record.account(self.server.issuer());
        let kept = account.and_then(|account| account.tokens.clone());
        let is_ours = match denial.status {
            401 => self.server.client.is_configured || challenge.is_some() || kept.is_some(),
            _ => lacks_scope,
        };
        if !is_ours {
            return Ok(None);
        }
        // Somebody may have logged in or renewed it meanwhile.
        let is_other = |kept: &Kept| used != Some(&kept.access) && !kept.is_due(now());
        if let Some(kept) = kept.filter(is_other) {
            return Ok(Some(self.hold(kept)));
        }
        let challenge = challenge.unwrap_or_default();
        let before = account.map(|account| account.scopes.clone()).unwrap_or_default();
        if lacks_scope && self.server.client.grant == OAuthGrant::Code {
            return Err(self.login(&before, challenge).await);
        }
        let renewed =
            self.accounts.renew(&self.server, used.cloned(), Some(challenge.clone())).await;
        match renewed {
            Ok(kept) => Ok(Some(self.hold(kept))),
            Err(AuthError::LoginRequired { .. }) => Err(self.login(&before, challenge).await),
            Err(error) => Err(error),
        }
    }

    /// Only a person can give what is asked for; the next login asks him for it.
    async fn login(&self, before: &[String], challenge: Challenge) -> AuthError {
        let scopes = union(before, challenge.scopes.as_deref().unwrap_or_default());
        match self.accounts.want(&self.server, challenge).await {
            Ok(()) => AuthError::LoginRequired { scopes },
            Err(error) => error,
        }
    }

    fn hold(&self, kept: Kept) -> Hidden {
        let due_at = kept.due_at();
        self.put(AtHand::Token { access: kept.access.clone(), due_at });
        kept.access
    }

    fn put(&self, at_hand: AtHand) {
        *self.at_hand.lock().unwrap_or_else(PoisonError::into_inner) = at_hand;
    }

    fn told(&self, error: &AuthError) -> NoToken {
        error.told(&self.server.words())
    }
}

impl Tokens for Source {
    fn at_hand(&self) -> Option<Option<Hidden>> {
        match &*self.at_hand.lock().unwrap_or_else(PoisonError::into_inner) {
            // What nobody configured is not looked for until the server asks for it.
            AtHand::Unread => (!self.server.client.is_configured).then_some(None),
            AtHand::Nothing => Some(None),
            AtHand::Token { due_at: Some(due), .. } if now() >= *due => None,
            AtHand::Token { access, .. } => Some(Some(access.clone())),
        }
    }

    fn token(&self) -> Coming<'_, Result<Option<Hidden>, NoToken>> {
        Box::pin(async move { self.look().await.map_err(|error| self.told(&error)) })
    }

    fn instead<'a>(
        &'a self,
        used: Option<&'a Hidden>,
        denial: &'a Denial,
    ) -> Coming<'a, Result<Option<Hidden>, NoToken>> {
        Box::pin(async move { self.instead(used, denial).await.map_err(|error| self.told(&error)) })
    }
}
