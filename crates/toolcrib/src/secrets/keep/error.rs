//! Why something could not be kept, or had from what is kept.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

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
    #[error("another process has held the credentials `{name}` for {}ms", waited.as_millis())]
    Held { name: String, waited: Duration },
}
