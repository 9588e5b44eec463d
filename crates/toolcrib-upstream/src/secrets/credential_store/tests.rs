//! Tests of storing, access rights, sealing and locking.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::*;
use crate::secrets::keyring::tests::{absent, hanging, in_memory};

const NAME: &str = "oauth:https://id.example/realm git";

fn store(folder: &Path) -> CredentialStore {
    CredentialStore::open(folder.join("deep/keep"), StorageMode::File)
}

fn value(text: &str) -> SecretString {
    SecretString::new(text)
}

#[tokio::test]
async fn written_credentials_are_visible_to_every_store_of_the_folder_until_removed() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (store(folder.path()), store(folder.path()));
    assert_eq!(one.read(NAME).await.unwrap(), None);
    one.remove(NAME).await.unwrap();
    one.write(NAME, &value("old")).await.unwrap();
    one.write(NAME, &value("n\u{e9}w \"\n")).await.unwrap();
    one.write("other", &value("")).await.unwrap();
    assert_eq!(other.read(NAME).await.unwrap(), Some(value("n\u{e9}w \"\n")));
    assert_eq!(other.read("other").await.unwrap(), Some(value("")));
    other.remove(NAME).await.unwrap();
    assert_eq!(one.read(NAME).await.unwrap(), None);
    assert_eq!(one.read("other").await.unwrap(), Some(value("")));
}

#[tokio::test]
async fn files_are_private_to_their_owner() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    store.write(NAME, &value("v")).await.unwrap();
    let _lock = store.lock(NAME, Duration::ZERO).await.unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(store.folder()), 0o700);
    for file in fs::read_dir(store.folder()).unwrap() {
        assert_eq!(mode(&file.unwrap().path()), 0o600);
    }
}

#[tokio::test]
async fn newer_credential_is_refused_and_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    store.write(NAME, &value("v")).await.unwrap();
    let path = store.path(&file_stem(NAME), "json");
    // The rest of a newer file may look like this version.
    let newer = serde_json::json!({"version": 2, "name": NAME, "value": "w"}).to_string();
    fs::write(&path, &newer).unwrap();
    let error = store.read(NAME).await.unwrap_err();
    assert!(error.to_string().contains("has version 2, but this program supports version 1"));
    assert_eq!(error.fix(), "use the newer program");
    let is_newer = |error| matches!(error, Err(CredentialStoreError::Newer { found: 2, .. }));
    assert!(is_newer(store.write(NAME, &value("x")).await));
    assert!(is_newer(store.remove(NAME).await));
    assert_eq!(fs::read_to_string(&path).unwrap(), newer);
}

#[tokio::test]
async fn credential_of_the_first_version_is_read_and_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    fs::create_dir_all(store.folder()).unwrap();
    let first = serde_json::json!({"name": NAME, "value": "v"}).to_string();
    fs::write(store.path(&file_stem(NAME), "json"), first).unwrap();
    assert_eq!(store.read(NAME).await.unwrap(), Some(value("v")));
    store.write(NAME, &value("w")).await.unwrap();
    assert_eq!(store.read(NAME).await.unwrap(), Some(value("w")));
}

#[tokio::test]
async fn altered_file_is_an_error_and_not_absence() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    store.write(NAME, &value("v")).await.unwrap();
    store.write("other", &value("w")).await.unwrap();
    fs::copy(store.path(&file_stem("other"), "json"), store.path(&file_stem(NAME), "json"))
        .unwrap();
    assert!(matches!(store.read(NAME).await, Err(CredentialStoreError::Content { .. })));
    fs::write(store.path(&file_stem(NAME), "json"), "{").unwrap();
    assert!(matches!(store.read(NAME).await, Err(CredentialStoreError::Content { .. })));
    store.write(NAME, &value("again")).await.unwrap();
    assert_eq!(store.read(NAME).await.unwrap(), Some(value("again")));
}

#[tokio::test]
async fn credential_lock_is_exclusive_and_permits_writes() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (store(folder.path()), store(folder.path()));
    let held = one.lock(NAME, Duration::ZERO).await.unwrap();
    one.write(NAME, &value("v")).await.unwrap();
    let wait = Duration::from_millis(30);
    let refused = other.lock(NAME, wait).await;
    assert!(matches!(refused, Err(CredentialStoreError::Held { waited, .. }) if waited == wait));
    let _free = other.lock("other", Duration::ZERO).await.unwrap();
    let long = Duration::from_secs(20);
    let (next, ()) = tokio::join!(other.lock(NAME, long), async { drop(held) });
    next.unwrap();
}

#[tokio::test]
async fn concurrent_writes_leave_one_complete_value() {
    let folder = tempfile::tempdir().unwrap();
    let mut all = tokio::task::JoinSet::new();
    for i in 0..20_usize {
        let store = store(folder.path());
        all.spawn(async move {
            store.write(NAME, &value(&i.to_string().repeat(2000))).await.unwrap();
            store.read(NAME).await.unwrap().unwrap()
        });
    }
    while let Some(read) = all.join_next().await {
        let read = read.unwrap();
        assert!((0..20).any(|i: usize| read.reveal() == i.to_string().repeat(2000)));
    }
}

fn store_with(folder: &Path, storage: StorageMode, keyring: &Keyring) -> CredentialStore {
    CredentialStore::with_parts(
        folder.join("keep"),
        storage,
        Arc::new(OsFileSystem),
        keyring.clone(),
    )
}

/// The content of all files of the folder.
fn all_text(store: &CredentialStore) -> String {
    let files = fs::read_dir(store.folder()).unwrap();
    files.map(|file| fs::read_to_string(file.unwrap().path()).unwrap()).collect()
}

#[tokio::test]
async fn sealed_files_need_their_keyring() {
    let (folder, keyring) = (tempfile::tempdir().unwrap(), in_memory());
    let store = store_with(folder.path(), StorageMode::Auto, &keyring);
    store.write(NAME, &value("c4nary")).await.unwrap();
    assert_eq!(store.storage_status().await.unwrap(), StorageStatus::Sealed);
    assert!(!all_text(&store).contains("c4nary"));
    let other = store_with(folder.path(), StorageMode::Auto, &keyring);
    assert_eq!(other.read(NAME).await.unwrap(), Some(value("c4nary")));
    let without = store_with(folder.path(), StorageMode::Auto, &absent());
    assert!(matches!(without.read(NAME).await, Err(CredentialStoreError::Sealed { .. })));
    let emptied = store_with(folder.path(), StorageMode::Auto, &in_memory());
    assert!(matches!(emptied.read(NAME).await, Err(CredentialStoreError::KeyLost { .. })));
    // A lost key is replaced, and later writes are readable.
    emptied.write(NAME, &value("new")).await.unwrap();
    assert_eq!(emptied.read(NAME).await.unwrap(), Some(value("new")));
}

#[tokio::test]
async fn concurrently_created_keys_read_each_others_files() {
    let (folder, keyring) = (tempfile::tempdir().unwrap(), in_memory());
    let (one, other) = (
        store_with(folder.path(), StorageMode::Auto, &keyring),
        store_with(folder.path(), StorageMode::Auto, &keyring),
    );
    let (a, b) = (value("a"), value("b"));
    let (first, second) = tokio::join!(one.write("a", &a), other.write("b", &b));
    first.unwrap();
    second.unwrap();
    assert_eq!((one.read("b").await.unwrap(), other.read("a").await.unwrap()), (Some(b), Some(a)));
}

#[tokio::test]
async fn missing_keyring_falls_back_to_private_files_unless_required() {
    let folder = tempfile::tempdir().unwrap();
    let store = store_with(folder.path(), StorageMode::Auto, &absent());
    store.write(NAME, &value("v")).await.unwrap();
    assert_eq!(store.read(NAME).await.unwrap(), Some(value("v")));
    assert!(matches!(
        store.storage_status().await,
        Ok(StorageStatus::PlainWithout(KeyringError::Absent(_)))
    ));
    // A machine without a keyring is not a problem.
    assert_eq!(store.problem(), None);
    store.set_storage(StorageMode::Keyring);
    assert!(matches!(
        store.write(NAME, &value("w")).await,
        Err(CredentialStoreError::NoKeyring(_))
    ));
    assert!(matches!(store.storage_status().await, Ok(StorageStatus::Refused(_))));
    assert_eq!(store.read(NAME).await.unwrap(), Some(value("v")));
    store.set_storage(StorageMode::File);
    assert_eq!(store.storage_status().await.unwrap(), StorageStatus::Plain);
}

#[tokio::test]
async fn hanging_keyring_costs_one_timeout_and_reports_a_problem() {
    let folder = tempfile::tempdir().unwrap();
    let store = store_with(folder.path(), StorageMode::Auto, &hanging());
    for text in ["one", "two"] {
        store.write(NAME, &value(text)).await.unwrap();
        assert_eq!(store.read(NAME).await.unwrap(), Some(value(text)));
    }
    let problem = store.problem().unwrap();
    assert_eq!(problem.code, "credentials.unsealed");
    assert!(problem.text.contains("did not answer") && problem.fix.is_some(), "{problem:?}");
}
