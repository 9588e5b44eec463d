//! Tests that a store of every earlier version is migrated without losing data.

use std::path::Path;
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};

use super::*;
use crate::store::{PinnedServer, Store, StoreLimits};

/// Rows of the first version.
const FIRST_ROWS: &str = "
    INSERT INTO switches VALUES ('d', 's', 0);
    INSERT INTO overrides VALUES ('s', 0, 'alice', 1000);
    INSERT INTO catalogs VALUES ('s', 'h', 'legacy', NULL, '{}', 2, 1000);
";

/// Rows of the second version: the first one with pins.
const PIN_ROW: &str = "
    INSERT INTO pins VALUES ('/ws', 's', 't', zeroblob(32), zeroblob(32), NULL, 1000);
";

/// Creates a store as the program of `version` left it.
fn create_store(folder: &Path, version: usize) {
    let db = Connection::open(folder.join("store.db")).unwrap();
    for migration in &MIGRATIONS[..version] {
        db.execute_batch(migration).unwrap();
    }
    db.execute_batch(FIRST_ROWS).unwrap();
    let call =
        "INSERT INTO calls (agent, tool, started, micros, ended) VALUES ('a', 't', ?1, 5, 'ok')";
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    db.execute(call, [i64::try_from(now.as_millis()).unwrap()]).unwrap();
    if version >= 2 {
        db.execute_batch(PIN_ROW).unwrap();
    }
    db.pragma_update(None, "application_id", APPLICATION).unwrap();
    db.pragma_update(None, "user_version", i32::try_from(version).unwrap()).unwrap();
}

#[tokio::test]
async fn stores_of_all_earlier_versions_keep_their_data() {
    for version in 1..=VERSION {
        let folder = tempfile::tempdir().unwrap();
        create_store(folder.path(), version);
        let store = Store::open(folder.path(), StoreLimits::default()).await.unwrap();
        assert!(store.problems().is_empty(), "version {version}");
        assert_eq!(store.switches("d").await.unwrap(), [("s".to_owned(), false)], "{version}");
        assert_eq!(store.overrides().await.unwrap()["s"].set_by, "alice", "version {version}");
        let catalog = store.catalog("s", "h").await.unwrap().unwrap();
        assert_eq!(catalog.lists.as_deref(), Some("{}"), "version {version}");
        let calls = store.calls(None, 10).await.unwrap();
        assert_eq!((calls.len(), &*calls[0].call.tool), (1, "t"), "version {version}");
        let server = PinnedServer { root: "/ws".to_owned(), key: "s".to_owned() };
        let pins = store.pins(vec![server]).await.unwrap();
        assert_eq!(pins[0].len(), usize::from(version >= 2), "version {version}");
        assert!(store.server_traits().await.unwrap().is_empty(), "version {version}");
        assert!(store.close(Duration::from_secs(20)).await);
        let db = Connection::open(folder.path().join("store.db")).unwrap();
        assert_eq!(inspect(&db).unwrap(), SchemaState::Ours(VERSION), "version {version}");
    }
}

#[test]
fn released_migrations_do_not_change() {
    let digests: Vec<String> = MIGRATIONS
        .iter()
        .map(|migration| {
            let digest = Sha256::digest(migration.as_bytes());
            digest[..4].iter().map(|byte| format!("{byte:02x}")).collect()
        })
        .collect();
    // A changed migration would leave different tables under one version. Add a migration instead.
    assert_eq!(digests, ["9e124285", "23d9e81c", "cfe82e29", "bd7320d6", "cee4b040"]);
}
