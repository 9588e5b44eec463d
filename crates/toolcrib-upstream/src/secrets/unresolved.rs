//! Why the value that something refers to could not be had.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use toolcrib_config::Reference;

/// Names only: never a value, nor what a store said, which may hold one.
#[derive(Debug, thiserror::Error)]
#[error("cannot get {reference}")]
pub struct Unresolved {
    pub reference: Reference,
    #[source]
    pub why: Why,
}

#[derive(Debug, thiserror::Error)]
pub enum Why {
    #[error("it was never answered")]
    Unanswered,
    #[error("there is {0}")]
    Missing(Gap),
    #[error("`host.secrets` declares no `{0}`")]
    Undeclared(String),
    #[error("`host.secrets` is invalid, so no store is asked")]
    Invalid,
    #[error("its store is not declared as it must be: {0}")]
    Declared(String),
    #[error("the store denies access to it")]
    Denied,
    #[error("the store cannot be reached: {0}")]
    Unreachable(String),
    #[error("the store did not answer within {} s", .0.as_secs_f64())]
    Late(Duration),
    #[error("the command failed: {0}")]
    Failed(String),
    #[error("what is there cannot be used: {0}")]
    Unusable(String),
    #[error("this host may not start processes")]
    SpawnForbidden,
    #[error("this host may not use the network")]
    NetworkForbidden,
}

/// Where something should be.
#[derive(Debug, PartialEq, Eq)]
pub enum Gap {
    File(PathBuf),
    Keyring {
        service: String,
        user: String,
    },
    /// In a store that has names of its own.
    Name,
}

impl Gap {
    /// How it is filled.
    fn filled(&self, reference: &Reference) -> String {
        match self {
            Gap::File(path) => format!("put it into `{}`", path.display()),
            Gap::Keyring { service, user } if cfg!(target_os = "macos") => {
                format!("run `security add-generic-password -s {service} -a {user} -w`")
            }
            Gap::Keyring { service, user } => {
                format!("run `secret-tool store --label={user} service {service} username {user}`")
            }
            Gap::Name => format!("put {reference} there"),
        }
    }
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Gap::File(path) => write!(f, "no file `{}`", path.display()),
            Gap::Keyring { .. } | Gap::Name => f.write_str("nothing of that name"),
        }
    }
}

impl Unresolved {
    /// Stable, for machines.
    pub fn code(&self) -> &'static str {
        match self.why {
            Why::Unanswered => "input.missing",
            Why::Missing(_) => "secret.missing",
            Why::Undeclared(_) => "secret.undeclared",
            Why::Invalid => "secret.section_invalid",
            Why::Declared(_) => "secret.invalid",
            Why::Denied => "secret.denied",
            Why::Unreachable(_) | Why::Late(_) => "secret.unreachable",
            Why::Failed(_) => "secret.failed",
            Why::Unusable(_) => "secret.unusable",
            Why::SpawnForbidden => "spawn.forbidden",
            Why::NetworkForbidden => "network.forbidden",
        }
    }

    /// Whether the same again may end otherwise.
    pub fn is_passing(&self) -> bool {
        matches!(self.why, Why::Unreachable(_) | Why::Late(_))
    }

    /// What a person can do about it, for this server.
    pub fn fix(&self, server: &str) -> String {
        let reference = &self.reference;
        match &self.why {
            Why::Unanswered => {
                format!("run `toolcrib login {server}` in a terminal: it asks for it once")
            }
            Why::Missing(gap) => format!("{}, or correct its path", gap.filled(reference)),
            Why::Undeclared(name) => {
                format!("declare `{name}` under `host.secrets`, or correct the name")
            }
            Why::Invalid => "correct `host.secrets`".to_owned(),
            Why::Declared(_) => {
                "correct the store under `host.secrets`, or set what it refers to".to_owned()
            }
            Why::Denied => "give the store's token the right to read it".to_owned(),
            Why::Unreachable(_) => "see that the store runs and is unlocked".to_owned(),
            Why::Late(_) => {
                "see that the store answers, or raise its `timeout` under `host.secrets`".to_owned()
            }
            Why::Failed(_) => "run the command of `host.secrets` by hand to see why".to_owned(),
            Why::Unusable(_) => "correct what is there, or the secret's path".to_owned(),
            Why::SpawnForbidden => {
                "allow `host.permissions.spawn`, or use another store".to_owned()
            }
            Why::NetworkForbidden => {
                "allow `host.permissions.network`, or use another store".to_owned()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signals::chain;

    #[test]
    fn what_is_missing_is_told_with_where_it_belongs() {
        let missing = |gap| {
            let reference = Reference::Secret { provider: "s".into(), path: "p".into() };
            let error = Unresolved { reference, why: Why::Missing(gap) };
            (chain(&error), error.fix("it"))
        };
        let (text, fix) = missing(Gap::File("/ws/p".into()));
        assert_eq!(text, "cannot get the secret `p` of `s`: there is no file `/ws/p`");
        assert_eq!(fix, "put it into `/ws/p`, or correct its path");
        let keyring = Gap::Keyring { service: "toolcrib".into(), user: "p".into() };
        let (text, fix) = missing(keyring);
        assert!(text.ends_with("there is nothing of that name"), "{text}");
        assert!(fix.contains("toolcrib") && fix.ends_with("or correct its path"), "{fix}");
    }
}
