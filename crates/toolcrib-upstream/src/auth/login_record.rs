//! Stored logins at one server: one account per issuer, in one record that is replaced atomically.

use serde::{Deserialize, Serialize};
use toolcrib_config::SecretString;
use url::Url;

use super::challenge::BearerChallenge;
use super::oauth_client::OAuthClient;
use super::scopes::union;
use super::token_endpoint::TokenResponse;

/// Number of seconds before expiry at which a token is renewed. For short lifetimes, the last fifth of the
/// lifetime.
const RENEWAL_LEAD: u64 = 60;

/// Everything that is stored for one server (and one agent).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LoginRecord {
    /// At most one account per issuer, so that one issuer's data is never sent to another.
    #[serde(default)]
    pub(super) accounts: Vec<Account>,
    /// The issuer of the newest login.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) current: Option<String>,
    /// A challenge that only a login can satisfy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) wanted: Option<PendingChallenge>,
}

/// A challenge that waits for a login.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PendingChallenge {
    pub(super) resource_metadata: Option<Url>,
    pub(super) scopes: Option<Vec<String>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Account {
    pub(super) issuer: String,
    pub(super) token_endpoint: Url,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) revocation_endpoint: Option<Url>,
    pub(super) client: OAuthClient,
    pub(super) resource: String,
    /// The requested scopes, which may exceed the granted ones.
    #[serde(default)]
    pub(super) scopes: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) tokens: Option<StoredTokens>,
}

/// Stored tokens. Times are seconds since 1970 of the local clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredTokens {
    #[serde(with = "secret")]
    pub(super) access: SecretString,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "optional_secret")]
    pub(super) refresh: Option<SecretString>,
    pub(super) received_at: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) expires_at: Option<u64>,
}

impl LoginRecord {
    /// Returns the account of `issuer`, or of the newest login if `issuer` is `None`.
    pub(super) fn account(&self, issuer: Option<&str>) -> Option<&Account> {
        let wanted = issuer.or(self.current.as_deref())?;
        self.accounts.iter().find(|account| account.issuer == wanted)
    }

    pub(super) fn account_mut(&mut self, issuer: Option<&str>) -> Option<&mut Account> {
        let wanted = issuer.map(str::to_owned).or_else(|| self.current.clone())?;
        self.accounts.iter_mut().find(|account| account.issuer == wanted)
    }

    /// Stores the account of a login. Replaces the account at the same issuer and clears the pending
    /// challenge.
    pub(super) fn add_account(&mut self, account: Account) {
        self.current = Some(account.issuer.clone());
        self.wanted = None;
        self.accounts.retain(|known| known.issuer != account.issuer);
        self.accounts.push(account);
    }

    /// Merges a challenge into the pending one; returns whether that changed it.
    pub(super) fn add_challenge(&mut self, challenge: &BearerChallenge) -> bool {
        let mut wanted = self.wanted.clone().unwrap_or_default();
        if let Some(scopes) = &challenge.scopes {
            wanted.scopes = Some(union(wanted.scopes.as_deref().unwrap_or_default(), scopes));
        }
        wanted.resource_metadata = challenge.resource_metadata.clone().or(wanted.resource_metadata);
        let wanted = Some(wanted);
        let is_news = self.wanted != wanted;
        self.wanted = wanted;
        is_news
    }
}

impl StoredTokens {
    /// Builds stored tokens from a token response. Keeps the previous refresh token if the response has none.
    pub(super) fn from_response(
        response: TokenResponse,
        before: Option<SecretString>,
        now: u64,
    ) -> Self {
        Self {
            access: response.access,
            refresh: response.refresh.or(before),
            received_at: now,
            expires_at: response.expires_in.map(|seconds| now.saturating_add(seconds)),
        }
    }

    /// The time from which the token should be renewed.
    pub(super) fn renew_at(&self) -> Option<u64> {
        let end = self.expires_at?;
        let life = end.saturating_sub(self.received_at);
        Some(end.saturating_sub(RENEWAL_LEAD.min(life / 5)))
    }

    pub(super) fn needs_renewal(&self, now: u64) -> bool {
        self.renew_at().is_some_and(|due| now >= due)
    }
}

/// Serializes an optional secret. Only the credential store receives the output.
pub(super) mod optional_secret {
    use serde::{Deserialize, Deserializer, Serializer};
    use toolcrib_config::SecretString;

    pub(in crate::auth) fn serialize<S: Serializer>(
        secret: &Option<SecretString>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match secret {
            Some(secret) => to.serialize_some(secret.reveal()),
            None => to.serialize_none(),
        }
    }

    pub(in crate::auth) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<SecretString>, D::Error> {
        Ok(Option::<String>::deserialize(from)?.map(SecretString::new))
    }
}

mod secret {
    use serde::{Deserialize, Deserializer, Serializer};
    use toolcrib_config::SecretString;

    pub(super) fn serialize<S: Serializer>(
        secret: &SecretString,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.serialize_str(secret.reveal())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<SecretString, D::Error> {
        String::deserialize(from).map(SecretString::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::oauth_client::ClientAuthMethod;

    fn account(issuer: &str) -> Account {
        let url = Url::parse("https://i.example/token").unwrap();
        let secret = Some(SecretString::new("s3cret"));
        let id = "me".to_owned();
        Account {
            issuer: issuer.to_owned(),
            token_endpoint: url,
            revocation_endpoint: None,
            client: OAuthClient { id, secret, method: ClientAuthMethod::None, redirect: None },
            resource: "https://a.example/mcp".to_owned(),
            scopes: vec!["a".to_owned()],
            tokens: Some(StoredTokens {
                access: SecretString::new("acc3ss"),
                refresh: Some(SecretString::new("r3fresh")),
                received_at: 100,
                expires_at: Some(3700),
            }),
        }
    }

    #[test]
    fn login_record_round_trips_and_debug_hides_secrets() {
        let mut record = LoginRecord::default();
        record.add_account(account("https://i.example"));
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<LoginRecord>(&text).unwrap(), record);
        let shown = format!("{record:?}");
        for secret in ["s3cret", "acc3ss", "r3fresh"] {
            assert!(text.contains(secret) && !shown.contains(secret), "{secret}");
        }
    }

    #[test]
    fn accounts_are_separate_per_issuer() {
        let mut record = LoginRecord::default();
        record.add_account(account("https://one.example"));
        record.add_account(account("https://two.example"));
        let issuer = |wanted| record.account(wanted).map(|account| account.issuer.as_str());
        assert_eq!(issuer(None), Some("https://two.example"));
        assert_eq!(issuer(Some("https://one.example")), Some("https://one.example"));
        assert_eq!(issuer(Some("https://three.example")), None);
    }

    #[test]
    fn challenges_accumulate_until_a_login() {
        let mut record = LoginRecord::default();
        let want = |scope: &str| BearerChallenge {
            scopes: Some(vec![scope.to_owned()]),
            ..BearerChallenge::default()
        };
        assert!(record.add_challenge(&want("a")));
        assert!(record.add_challenge(&want("b")));
        assert!(!record.add_challenge(&want("a")));
        assert_eq!(record.wanted.clone().unwrap().scopes.unwrap(), ["a", "b"]);
        record.add_account(account("https://i.example"));
        assert_eq!(record.wanted, None);
    }

    #[test]
    fn tokens_are_renewed_shortly_before_expiry() {
        let tokens = |life: Option<u64>| StoredTokens {
            access: SecretString::new("a"),
            refresh: None,
            received_at: 1000,
            expires_at: life.map(|life| 1000 + life),
        };
        for (life, due) in [(Some(3600), Some(4540)), (Some(50), Some(1040)), (None, None)] {
            assert_eq!(tokens(life).renew_at(), due);
        }
        // A clock that was set back makes no token due; the server's refusal triggers the renewal.
        assert!(!tokens(Some(3600)).needs_renewal(0));
        assert!(tokens(Some(3600)).needs_renewal(9000));
    }
}
