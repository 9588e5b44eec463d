//! What is kept of the logins at one server: an account for each issuer, in one record that changes as a whole.

use serde::{Deserialize, Serialize};
use toolcrib_config::Hidden;
use url::Url;

use super::challenge::Challenge;
use super::client::Client;
use super::grant::Granted;
use super::scope::union;

/// A token is renewed this long before its end, or in the last fifth of its life where that is shorter.
const AHEAD: u64 = 60;

/// All that is kept of one server (and one agent).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// At most one for each issuer: nothing of one is ever shown to another.
    #[serde(default)]
    pub(super) accounts: Vec<Account>,
    /// The issuer of the newest login.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) current: Option<String>,
    /// What the server asked for that only a person can give.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) wanted: Option<Wanted>,
}

/// A challenge that waits for a login.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Wanted {
    pub(super) resource_metadata: Option<Url>,
    pub(super) scopes: Option<Vec<String>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Account {
    pub(super) issuer: String,
    pub(super) token_endpoint: Url,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) revocation_endpoint: Option<Url>,
    pub(super) client: Client,
    pub(super) resource: String,
    /// What was asked for, which may be more than what was given.
    #[serde(default)]
    pub(super) scopes: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) tokens: Option<Kept>,
}

/// Tokens as they were given. Times are seconds since 1970 by this machine's clock, whatever the issuer's says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Kept {
    #[serde(with = "kept_always")]
    pub(super) access: Hidden,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "kept")]
    pub(super) refresh: Option<Hidden>,
    pub(super) received_at: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) expires_at: Option<u64>,
}

impl Record {
    /// The account to be used, where an issuer is prescribed or not.
    pub(super) fn account(&self, issuer: Option<&str>) -> Option<&Account> {
        let wanted = issuer.or(self.current.as_deref())?;
        self.accounts.iter().find(|account| account.issuer == wanted)
    }

    pub(super) fn account_mut(&mut self, issuer: Option<&str>) -> Option<&mut Account> {
        let wanted = issuer.map(str::to_owned).or_else(|| self.current.clone())?;
        self.accounts.iter_mut().find(|account| account.issuer == wanted)
    }

    /// A login replaces what there was at its issuer, and settles what was wanted.
    pub(super) fn take(&mut self, account: Account) {
        self.current = Some(account.issuer.clone());
        self.wanted = None;
        self.accounts.retain(|known| known.issuer != account.issuer);
        self.accounts.push(account);
    }

    /// Notes what a login has to ask for. True if that is news.
    pub(super) fn want(&mut self, challenge: &Challenge) -> bool {
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

impl Kept {
    /// What was given now, with what it leaves as it was.
    pub(super) fn of(granted: Granted, before: Option<Hidden>, now: u64) -> Self {
        Self {
            access: granted.access,
            refresh: granted.refresh.or(before),
            received_at: now,
            expires_at: granted.expires_in.map(|seconds| now.saturating_add(seconds)),
        }
    }

    /// From when on it is better renewed.
    pub(super) fn due_at(&self) -> Option<u64> {
        let end = self.expires_at?;
        let life = end.saturating_sub(self.received_at);
        Some(end.saturating_sub(AHEAD.min(life / 5)))
    }

    pub(super) fn is_due(&self, now: u64) -> bool {
        self.due_at().is_some_and(|due| now >= due)
    }
}

/// The only place where a secret is written: what is written goes to the keep.
pub(super) mod kept {
    use serde::{Deserialize, Deserializer, Serializer};
    use toolcrib_config::Hidden;

    pub(in crate::auth) fn serialize<S: Serializer>(
        secret: &Option<Hidden>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match secret {
            Some(secret) => to.serialize_some(secret.reveal()),
            None => to.serialize_none(),
        }
    }

    pub(in crate::auth) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Hidden>, D::Error> {
        Ok(Option::<String>::deserialize(from)?.map(Hidden::new))
    }
}

mod kept_always {
    use serde::{Deserialize, Deserializer, Serializer};
    use toolcrib_config::Hidden;

    pub(super) fn serialize<S: Serializer>(secret: &Hidden, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(secret.reveal())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Hidden, D::Error> {
        String::deserialize(from).map(Hidden::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::client::Method;

    fn account(issuer: &str) -> Account {
        let url = Url::parse("https://i.example/token").unwrap();
        let secret = Some(Hidden::new("s3cret"));
        let id = "me".to_owned();
        Account {
            issuer: issuer.to_owned(),
            token_endpoint: url,
            revocation_endpoint: None,
            client: Client { id, secret, method: Method::None, redirect: None },
            resource: "https://a.example/mcp".to_owned(),
            scopes: vec!["a".to_owned()],
            tokens: Some(Kept {
                access: Hidden::new("acc3ss"),
                refresh: Some(Hidden::new("r3fresh")),
                received_at: 100,
                expires_at: Some(3700),
            }),
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written_and_shows_nothing() {
        let mut record = Record::default();
        record.take(account("https://i.example"));
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record);
        let shown = format!("{record:?}");
        for secret in ["s3cret", "acc3ss", "r3fresh"] {
            assert!(text.contains(secret) && !shown.contains(secret), "{secret}");
        }
    }

    #[test]
    fn nothing_of_one_issuer_is_anothers() {
        let mut record = Record::default();
        record.take(account("https://one.example"));
        record.take(account("https://two.example"));
        let issuer = |wanted| record.account(wanted).map(|account| account.issuer.as_str());
        assert_eq!(issuer(None), Some("https://two.example"));
        assert_eq!(issuer(Some("https://one.example")), Some("https://one.example"));
        assert_eq!(issuer(Some("https://three.example")), None);
    }

    #[test]
    fn what_is_wanted_is_gathered_until_a_login() {
        let mut record = Record::default();
        let want = |scope: &str| Challenge {
            scopes: Some(vec![scope.to_owned()]),
            ..Challenge::default()
        };
        assert!(record.want(&want("a")));
        assert!(record.want(&want("b")));
        assert!(!record.want(&want("a")));
        assert_eq!(record.wanted.clone().unwrap().scopes.unwrap(), ["a", "b"]);
        record.take(account("https://i.example"));
        assert_eq!(record.wanted, None);
    }

    #[test]
    fn a_token_is_renewed_a_little_before_its_end() {
        let kept = |life: Option<u64>| Kept {
            access: Hidden::new("a"),
            refresh: None,
            received_at: 1000,
            expires_at: life.map(|life| 1000 + life),
        };
        for (life, due) in [(Some(3600), Some(4540)), (Some(50), Some(1040)), (None, None)] {
            assert_eq!(kept(life).due_at(), due);
        }
        // A clock that was set back makes nothing due; the server's refusal does.
        assert!(!kept(Some(3600)).is_due(0));
        assert!(kept(Some(3600)).is_due(9000));
    }
}
