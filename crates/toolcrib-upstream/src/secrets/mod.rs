//! Secrets: the stores that configuration refers to, remembered inputs, and the credential store.

mod secret_cache;
mod command;
mod file;
mod credential_store;
mod keyring;
mod sources;
mod secret_error;
mod vault;

pub use credential_store::{CredentialStore, CredentialStoreError, CredentialLock, StorageStatus, StorageMode};
pub use keyring::KeyringError;
pub use sources::{ResolvedSecrets, StoreContext, SecretSources, input_credential_name};
pub use secret_error::{MissingSecret, SecretError, SecretErrorReason};
