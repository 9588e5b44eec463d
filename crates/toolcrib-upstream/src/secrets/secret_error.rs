//! Errors of resolving a reference to an input or a secret.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use toolcrib_config::Reference;

/// Error of resolving a reference. It holds names only: no value and no output of a store, which may contain
/// one.
#[derive(Debug, thiserror::Error)]
#[error("cannot get {reference}")]
pub struct SecretError {
    /// The reference that failed.
    pub reference: Reference,
    /// The cause of the failure.
    #[source]
    pub reason: SecretErrorReason,
}

/// Cause of a failed lookup.
#[derive(Debug, thiserror::Error)]
pub enum SecretErrorReason {
    #[error("the input was never entered")]
    Unanswered,
    #[error("there is {0}")]
    Missing(MissingSecret),
    #[error("`host.secrets` declares no `{0}`")]
    Undeclared(String),
    #[error("`host.secrets` is invalid, so no store is asked")]
    SectionInvalid,
    #[error("its store is declared incorrectly: {0}")]
    BadDeclaration(String),
    #[error("the store denies access to it")]
    Denied,
    #[error("the store cannot be reached: {0}")]
    Unreachable(String),
    #[error("the store did not answer within {} s", .0.as_secs_f64())]
    Timeout(Duration),
    #[error("the command failed: {0}")]
    CommandFailed(String),
    #[error("the stored value cannot be used: {0}")]
    Unusable(String),
    #[error("this host may not start processes")]
    SpawnForbidden,
    #[error("this host may not use the network")]
    NetworkForbidden,
}

/// Location of a missing secret.
#[derive(Debug, PartialEq, Eq)]
pub enum MissingSecret {
    File(PathBuf),
    Keyring {
        service: String,
        user: String,
    },
    /// An entry of a store that names its entries itself.
    Name,
}

impl MissingSecret {
    /// Instruction for adding the missing secret.
    fn fill_instruction(&self, reference: &Reference) -> String {
        match self {
            MissingSecret::File(path) => format!("put it into `{}`", path.display()),
            MissingSecret::Keyring { service, user } if cfg!(target_os = "macos") => {
                format!("run `security add-generic-password -s {service} -a {user} -w`")
            }
            MissingSecret::Keyring { service, user } => {
                format!("run `secret-tool store --label={user} service {service} username {user}`")
            }
            MissingSecret::Name => format!("put {reference} there"),
        }
    }
}

impl fmt::Display for MissingSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MissingSecret::File(path) => write!(f, "no file `{}`", path.display()),
            MissingSecret::Keyring { .. } | MissingSecret::Name => {
                f.write_str("no entry of that name")
            }
        }
    }
}

impl SecretError {
    /// Stable problem code.
    pub fn code(&self) -> &'static str {
        match self.reason {
            SecretErrorReason::Unanswered => "input.missing",
            SecretErrorReason::Missing(_) => "secret.missing",
            SecretErrorReason::Undeclared(_) => "secret.undeclared",
            SecretErrorReason::SectionInvalid => "secret.section_invalid",
            SecretErrorReason::BadDeclaration(_) => "secret.invalid",
            SecretErrorReason::Denied => "secret.denied",
            SecretErrorReason::Unreachable(_) | SecretErrorReason::Timeout(_) => {
                "secret.unreachable"
            }
            SecretErrorReason::CommandFailed(_) => "secret.failed",
            SecretErrorReason::Unusable(_) => "secret.unusable",
            SecretErrorReason::SpawnForbidden => "spawn.forbidden",
            SecretErrorReason::NetworkForbidden => "network.forbidden",
        }
    }

    /// Returns whether a retry may succeed.
    pub fn is_transient(&self) -> bool {
        matches!(self.reason, SecretErrorReason::Unreachable(_) | SecretErrorReason::Timeout(_))
    }

    /// Suggested fix for the user of this server.
    pub fn fix(&self, server: &str) -> String {
        let reference = &self.reference;
        match &self.reason {
            SecretErrorReason::Unanswered => {
                format!("run `toolcrib login {server}` in a terminal and enter it once")
            }
            SecretErrorReason::Missing(missing) => {
                format!("{}, or correct its path", missing.fill_instruction(reference))
            }
            SecretErrorReason::Undeclared(name) => {
                format!("declare `{name}` under `host.secrets`, or correct the name")
            }
            SecretErrorReason::SectionInvalid => "correct `host.secrets`".to_owned(),
            SecretErrorReason::BadDeclaration(_) => {
                "correct the store under `host.secrets`, or set what it refers to".to_owned()
            }
            SecretErrorReason::Denied => "grant the store's token read access".to_owned(),
            SecretErrorReason::Unreachable(_) => {
                "check that the store runs and is unlocked".to_owned()
            }
            SecretErrorReason::Timeout(_) => {
                "check that the store answers, or raise its `timeout` under `host.secrets`"
                    .to_owned()
            }
            SecretErrorReason::CommandFailed(_) => {
                "run the command of `host.secrets` by hand to see why".to_owned()
            }
            SecretErrorReason::Unusable(_) => {
                "correct the stored value, or the secret's path".to_owned()
            }
            SecretErrorReason::SpawnForbidden => {
                "allow `host.permissions.spawn`, or use another store".to_owned()
            }
            SecretErrorReason::NetworkForbidden => {
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
    fn missing_secret_error_names_its_location() {
        let missing = |missing| {
            let reference = Reference::Secret { provider: "s".into(), path: "p".into() };
            let error = SecretError { reference, reason: SecretErrorReason::Missing(missing) };
            (chain(&error), error.fix("it"))
        };
        let (text, fix) = missing(MissingSecret::File("/ws/p".into()));
        assert_eq!(text, "cannot get the secret `p` of `s`: there is no file `/ws/p`");
        assert_eq!(fix, "put it into `/ws/p`, or correct its path");
        let keyring = MissingSecret::Keyring { service: "toolcrib".into(), user: "p".into() };
        let (text, fix) = missing(keyring);
        assert!(text.ends_with("there is no entry of that name"), "{text}");
        assert!(fix.contains("toolcrib") && fix.ends_with("or correct its path"), "{fix}");
    }
}
