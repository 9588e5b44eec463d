//! What is kept, who can read it, and who waits for whom.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::*;
use crate::secrets::keyring::tests::{absent, hanging, in_memory};

const NAME: &str = "oauth:https://id.example/realm git";

fn keep(folder: &Path) -> Keep {
    Keep::open(folder.join("deep/keep"), Storage::File)
}

fn value(text: &str) -> Hidden {
    Hidden::new(text)
}

#[tokio::test]
async fn what_is_written_is_read_by_everybody_with_the_folder_until_it_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (keep(folder.path()), keep(folder.path()));
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
async fn nobody_else_can_read_it() {
    let folder = tempfile::tempdir().unwrap();
    let keep = keep(folder.path());
    keep.write(NAME, &value("v")).await.unwrap();
    let _lock = keep.lock(NAME, Duration::ZERO).await.unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(keep.folder()), 0o700);
    for file in fs::read_dir(keep.folder()).unwrap() {
        assert_eq!(mode(&file.unwrap().path()), 0o600);
    }
}

#[tokio::test]
async fn a_file_that_is_not_what_was_written_is_an_error_and_no_absence() {
    let folder = tempfile::tempdir().unwrap();
    let keep = keep(folder.path());
    keep.write(NAME, &value("v")).await.unwrap();
    keep.write("other", &value("w")).await.unwrap();
    fs::copy(keep.path(&digits("other"), "json"), keep.path(&digits(NAME), "json")).unwrap();
    assert!(matches!(keep.read(NAME).await, Err(KeepError::Content { .. })));
    fs::write(keep.path(&digits(NAME), "json"), "{").unwrap();
    assert!(matches!(keep.read(NAME).await, Err(KeepError::Content { .. })));
    keep.write(NAME, &value("again")).await.unwrap();
    assert_eq!(keep.read(NAME).await.unwrap(), Some(value("again")));
}

#[tokio::test]
async fn a_lock_is_for_one_at_a_time_and_writing_under_it_is_right() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (keep(folder.path()), keep(folder.path()));
    let held = one.lock(NAME, Duration::ZERO).await.unwrap();
    one.write(NAME, &value("v")).await.unwrap();
    let wait = Duration::from_millis(30);
    let refused = other.lock(NAME, wait).await;
    assert!(matches!(refused, Err(KeepError::Held { waited, .. }) if waited == wait));
    let _free = other.lock("other", Duration::ZERO).await.unwrap();
    let long = Duration::from_secs(20);
    let (next, ()) = tokio::join!(other.lock(NAME, long), async { drop(held) });
    next.unwrap();
}

#[tokio::test]
async fn many_changes_at_once_leave_one_whole_value() {
    let folder = tempfile::tempdir().unwrap();
    let mut all = tokio::task::JoinSet::new();
    for i in 0..20_usize {
        let keep = keep(folder.path());
        all.spawn(async move {
            keep.write(NAME, &value(&i.to_string().repeat(2000))).await.unwrap();
            keep.read(NAME).await.unwrap().unwrap()
        });
    }
    while let Some(read) = all.join_next().await {
        let read = read.unwrap();
        assert!((0..20).any(|i: usize| read.reveal() == i.to_string().repeat(2000)));
    }
}

fn keep_with(folder: &Path, storage: Storage, keyring: &Keyring) -> Keep {
    Keep::with(folder.join("keep"), storage, Arc::new(RealDisk), keyring.clone())
}

/// Everything that stands in the folder.
fn texts(keep: &Keep) -> String {
    let files = fs::read_dir(keep.folder()).unwrap();
    files.map(|file| fs::read_to_string(file.unwrap().path()).unwrap()).collect()
}

#[tokio::test]
async fn with_a_keyring_the_files_are_sealed_and_only_with_it_they_can_be_read() {
    let (folder, keyring) = (tempfile::tempdir().unwrap(), in_memory());
    let keep = keep_with(folder.path(), Storage::Auto, &keyring);
    keep.write(NAME, &value("c4nary")).await.unwrap();
    assert_eq!(keep.standing().await.unwrap(), Standing::Sealed);
    assert!(!texts(&keep).contains("c4nary"));
    let other = keep_with(folder.path(), Storage::Auto, &keyring);
    assert_eq!(other.read(NAME).await.unwrap(), Some(value("c4nary")));
    let without = keep_with(folder.path(), Storage::Auto, &absent());
    assert!(matches!(without.read(NAME).await, Err(KeepError::Sealed { .. })));
    let emptied = keep_with(folder.path(), Storage::Auto, &in_memory());
    assert!(matches!(emptied.read(NAME).await, Err(KeepError::KeyLost { .. })));
    // A key that is gone is replaced, and what is written then can be read.
    emptied.write(NAME, &value("new")).await.unwrap();
    assert_eq!(emptied.read(NAME).await.unwrap(), Some(value("new")));
}

#[tokio::test]
async fn two_that_make_a_key_at_once_can_read_each_other() {
    let (folder, keyring) = (tempfile::tempdir().unwrap(), in_memory());
    let (one, other) = (
        keep_with(folder.path(), Storage::Auto, &keyring),
        keep_with(folder.path(), Storage::Auto, &keyring),
    );
    let (a, b) = (value("a"), value("b"));
    let (first, second) = tokio::join!(one.write("a", &a), other.write("b", &b));
    first.unwrap();
    second.unwrap();
    assert_eq!((one.read("b").await.unwrap(), other.read("a").await.unwrap()), (Some(b), Some(a)));
}

#[tokio::test]
async fn without_a_keyring_the_files_are_the_owners_alone_or_nothing_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let keep = keep_with(folder.path(), Storage::Auto, &absent());
    keep.write(NAME, &value("v")).await.unwrap();
    assert_eq!(keep.read(NAME).await.unwrap(), Some(value("v")));
    assert!(matches!(keep.standing().await, Ok(Standing::PlainWithout(KeyringError::Absent(_)))));
    // That there is none is how this machine is, and no problem.
    assert_eq!(keep.problem(), None);
    keep.choose(Storage::Keyring);
    assert!(matches!(keep.write(NAME, &value("w")).await, Err(KeepError::NoKeyring(_))));
    assert!(matches!(keep.standing().await, Ok(Standing::Refused(_))));
    assert_eq!(keep.read(NAME).await.unwrap(), Some(value("v")));
    keep.choose(Storage::File);
    assert_eq!(keep.standing().await.unwrap(), Standing::Plain);
}

#[tokio::test]
async fn a_keyring_that_hangs_costs_one_wait_and_a_problem_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let keep = keep_with(folder.path(), Storage::Auto, &hanging());
    for text in ["one", "two"] {
        keep.write(NAME, &value(text)).await.unwrap();
        assert_eq!(keep.read(NAME).await.unwrap(), Some(value(text)));
    }
    let problem = keep.problem().unwrap();
    assert_eq!(problem.code, "credentials.unsealed");
    assert!(problem.text.contains("did not answer") && problem.fix.is_some(), "{problem:?}");
}
