//! Secrets in files: one in each, or all in one `.env` file.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use tokio::task::spawn_blocking;
use toolcrib_config::{Hidden, dotenv};
use zeroize::Zeroizing;

use super::unresolved::{Gap, Why};

/// The largest file that is read for a secret.
const LARGEST: u64 = 1 << 20;

/// The secret at `path`: a file in the folder, or a variable where the store is itself a file.
pub(super) async fn get(store: PathBuf, path: String) -> Result<Hidden, Why> {
    let read = spawn_blocking(move || {
        if !store.is_file() {
            return Ok(trimmed(&text(&store.join(path))?));
        }
        let content = text(&store)?;
        let (variables, _) = dotenv::parse(&content);
        let mut all = variables.into_iter().map(|(name, value)| (name, Hidden::new(value))).rev();
        all.find(|(name, _)| *name == path).map(|(_, value)| value).ok_or(Why::Missing(Gap::Name))
    });
    read.await.unwrap_or_else(|error| Err(Why::Unreachable(error.to_string())))
}

/// Without the newline that editors and `echo` end a file with.
pub(super) fn trimmed(text: &str) -> Hidden {
    let text = text.strip_suffix('\n').unwrap_or(text);
    Hidden::new(text.strip_suffix('\r').unwrap_or(text))
}

fn text(path: &Path) -> Result<Zeroizing<String>, Why> {
    // A pipe or a device may never end, nor begin.
    let file = match fs::metadata(path) {
        Ok(found) if found.is_file() => fs::File::open(path),
        Ok(_) => return Err(Why::Unusable("it is no file".to_owned())),
        Err(error) => Err(error),
    };
    let file = file.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => {
            Why::Missing(Gap::File(path.to_owned()))
        }
        std::io::ErrorKind::PermissionDenied => Why::Denied,
        _ => Why::Unreachable(error.to_string()),
    })?;
    let mut text = Zeroizing::new(String::new());
    match file.take(LARGEST + 1).read_to_string(&mut text) {
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            Err(Why::Unusable("it is no text".to_owned()))
        }
        Err(error) => Err(Why::Unreachable(error.to_string())),
        Ok(_) if text.len() as u64 > LARGEST => {
            Err(Why::Unusable(format!("it is over {LARGEST} bytes")))
        }
        Ok(_) => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_folder_has_a_secret_in_each_file_and_a_file_one_in_each_line() {
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
        assert!(matches!(get("all.env", "C").await, Err(Why::Missing(Gap::Name))));
        assert!(matches!(get("", "nothing").await, Err(Why::Missing(Gap::File(_)))));
        assert!(matches!(get("", "db").await, Err(Why::Unusable(_))));
        assert!(matches!(get("", "large").await, Err(Why::Unusable(_))));
        assert!(matches!(get("", "binary").await, Err(Why::Unusable(_))));
    }
}
