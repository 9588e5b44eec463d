//! Why something could not be kept, or had from what is kept.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::secrets::keyring::KeyringError;

/// Names and files only: never what is kept.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    #[error("cannot {what} `{}`", path.display())]
    File {
        what: &'static str,
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("`{}` is not what was kept there: it was changed or damaged", path.display())]
    Content { path: PathBuf },
    #[error("another process has held the credentials `{name}` for {} ms", waited.as_millis())]
    Held { name: String, waited: Duration },
    #[error("`{}` is sealed with a key in the keyring", path.display())]
    Sealed {
        path: PathBuf,
        #[source]
        cause: KeyringError,
    },
    #[error("`{}` is sealed with a key that the keyring has no more", path.display())]
    KeyLost { path: PathBuf },
    #[error("credentials are to be kept with the keyring alone (`host.credentials: keyring`)")]
    NoKeyring(#[source] KeyringError),
    #[error("there is no randomness")]
    Random,
}

impl KeepError {
    /// What a person can do.
    pub fn fix(&self) -> String {
        match self {
            Self::File { path, .. } => {
                format!(
                    "see that you may write to `{}`, and that the disk is not full",
                    path.display()
                )
            }
            Self::Content { path } | Self::KeyLost { path } => {
                format!("delete `{}` and log in, or answer, again", path.display())
            }
            Self::Held { .. } => "try again, or end the process that holds them".to_owned(),
            Self::Sealed { .. } => "unlock the keyring of this session and try again".to_owned(),
            Self::NoKeyring(_) => {
                "unlock the keyring, or set `host.credentials` to `auto` or `file`".to_owned()
            }
            Self::Random => "try again".to_owned(),
        }
    }
}
