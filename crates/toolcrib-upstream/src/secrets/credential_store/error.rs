//! Errors of the credential store.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::secrets::keyring::KeyringError;

/// Error of the credential store. It holds names and paths, never values.
#[derive(Debug, thiserror::Error)]
pub enum CredentialStoreError {
    #[error("cannot {operation} `{}`", path.display())]
    File {
        operation: &'static str,
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("`{}` was changed or damaged", path.display())]
    Content { path: PathBuf },
    /// A newer program wrote the file.
    #[error("`{}` has version {found}, but this program supports version 1", path.display())]
    Newer { path: PathBuf, found: u64 },
    #[error("another process has held the credentials `{name}` for {} ms", waited.as_millis())]
    Held { name: String, waited: Duration },
    #[error("`{}` is sealed with a key in the keyring", path.display())]
    Sealed {
        path: PathBuf,
        #[source]
        cause: KeyringError,
    },
    #[error("`{}` is sealed with a key that is no longer in the keyring", path.display())]
    KeyLost { path: PathBuf },
    #[error("credentials may be stored only with a keyring (`host.credentials: keyring`)")]
    NoKeyring(#[source] KeyringError),
    #[error("the system provides no random numbers")]
    Random,
}

impl CredentialStoreError {
    /// Suggested fix for the user.
    pub fn fix(&self) -> String {
        match self {
            Self::File { path, .. } => {
                format!("check that `{}` is writable and that the disk is not full", path.display())
            }
            Self::Content { path } | Self::KeyLost { path } => {
                format!("delete `{}` and log in, or answer, again", path.display())
            }
            Self::Newer { .. } => "use the newer program".to_owned(),
            Self::Held { .. } => "try again, or end the process that holds them".to_owned(),
            Self::Sealed { .. } => "unlock the keyring of this session and try again".to_owned(),
            Self::NoKeyring(_) => {
                "unlock the keyring, or set `host.credentials` to `auto` or `file`".to_owned()
            }
            Self::Random => "try again".to_owned(),
        }
    }
}
