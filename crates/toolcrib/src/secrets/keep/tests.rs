//! What is kept, who can read it, and who waits for whom.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::*;

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
    assert_eq!(mode(&keep.folder), 0o700);
    for file in fs::read_dir(&keep.folder).unwrap() {
        assert_eq!(mode(&file.unwrap().path()), 0o600);
    }
}

#[tokio::test]
async fn a_file_that_is_not_what_was_written_is_an_error_and_no_absence() {
    let folder = tempfile::tempdir().unwrap();
    let keep = keep(folder.path());
    keep.write(NAME, &value("v")).await.unwrap();
    keep.write("other", &value("w")).await.unwrap();
    fs::copy(keep.path("other", "json"), keep.path(NAME, "json")).unwrap();
    assert!(matches!(keep.read(NAME).await, Err(KeepError::Content { .. })));
    fs::write(keep.path(NAME, "json"), "{").unwrap();
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
