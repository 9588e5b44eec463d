//! Secrets: the stores that configuration refers to, remembered inputs, and the credential store.

mod command;
mod credential_store;
mod file;
mod keyring;
mod secret_cache;
mod secret_error;
mod sources;
mod vault;

pub use credential_store::{
    CredentialLock, CredentialStore, CredentialStoreError, StorageMode, StorageStatus,
};
pub use keyring::KeyringError;
pub use secret_error::{MissingSecret, SecretError, SecretErrorReason};
pub use sources::{ResolvedSecrets, SecretSources, StoreContext, input_credential_name};
