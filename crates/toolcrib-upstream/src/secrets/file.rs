//! Secrets from files: one per file in a folder, or variables of a `.env` file.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use tokio::task::spawn_blocking;
use toolcrib_config::{SecretString, dotenv};
use zeroize::Zeroizing;

use super::secret_error::{MissingSecret, SecretErrorReason};

/// Maximum size of a file that is read for a secret.
const MAX_SIZE: u64 = 1 << 20;

/// Reads the secret at `path`: a file if the store is a folder, a variable if the store is a file.
pub(super) async fn get(store: PathBuf, path: String) -> Result<SecretString, SecretErrorReason> {
    let read = spawn_blocking(move || {
        if !store.is_file() {
            return Ok(trim_newline(&read_text(&store.join(path))?));
        }
        let content = read_text(&store)?;
        let (variables, _) = dotenv::parse(&content);
        let mut all =
            variables.into_iter().map(|(name, value)| (name, SecretString::new(value))).rev();
        all.find(|(name, _)| *name == path)
            .map(|(_, value)| value)
            .ok_or(SecretErrorReason::Missing(MissingSecret::Name))
    });
    read.await.unwrap_or_else(|error| Err(SecretErrorReason::Unreachable(error.to_string())))
}

/// Removes the trailing newline that editors and `echo` add.
pub(super) fn trim_newline(text: &str) -> SecretString {
    let text = text.strip_suffix('\n').unwrap_or(text);
    SecretString::new(text.strip_suffix('\r').unwrap_or(text))
}

fn read_text(path: &Path) -> Result<Zeroizing<String>, SecretErrorReason> {
    // Rejects pipes and devices: reading them may block forever.
    let file = match fs::metadata(path) {
        Ok(found) if found.is_file() => fs::File::open(path),
        Ok(_) => return Err(SecretErrorReason::Unusable("it is not a regular file".to_owned())),
        Err(error) => Err(error),
    };
    let file = file.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => {
            SecretErrorReason::Missing(MissingSecret::File(path.to_owned()))
        }
        std::io::ErrorKind::PermissionDenied => SecretErrorReason::Denied,
        _ => SecretErrorReason::Unreachable(error.to_string()),
    })?;
    let mut text = Zeroizing::new(String::new());
    match file.take(MAX_SIZE + 1).read_to_string(&mut text) {
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            Err(SecretErrorReason::Unusable("it is not text".to_owned()))
        }
        Err(error) => Err(SecretErrorReason::Unreachable(error.to_string())),
        Ok(_) if text.len() as u64 > MAX_SIZE => {
            Err(SecretErrorReason::Unusable(format!("it is over {MAX_SIZE} bytes")))
        }
        Ok(_) => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn folder_store_reads_files_and_file_store_reads_variables() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path().to_owned();
        fs::create_dir(here.join("db")).unwrap();
        fs::write(here.join("db/password"), "a b\n\n").unwrap();
        fs::write(here.join("all.env"), "A=1\nB=\"two words\"\nA=3\n").unwrap();
        fs::write(here.join("large"), vec![b'x'; 1 + (1 << 20)]).unwrap();
        fs::write(here.join("binary"), [0xff, 0xfe]).unwrap();
        let get = |store: &str, path: &str| get(here.join(store), path.to_owned());
        assert_eq!(get("", "db/password").await.unwrap().reveal(), "a b\n");
        assert_eq!(get("all.env", "A").await.unwrap().reveal(), "3");
        assert_eq!(get("all.env", "B").await.unwrap().reveal(), "two words");
        assert!(matches!(
            get("all.env", "C").await,
            Err(SecretErrorReason::Missing(MissingSecret::Name))
        ));
        assert!(matches!(
            get("", "nothing").await,
            Err(SecretErrorReason::Missing(MissingSecret::File(_)))
        ));
        assert!(matches!(get("", "db").await, Err(SecretErrorReason::Unusable(_))));
        assert!(matches!(get("", "large").await, Err(SecretErrorReason::Unusable(_))));
        assert!(matches!(get("", "binary").await, Err(SecretErrorReason::Unusable(_))));
    }
}
